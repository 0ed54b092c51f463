//! Files of the system's, such as those below `/proc` and `/sys`.

use std::io::Read;
use std::path::Path;

/// Most bytes that are read of one file.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 20;

/// The content of a file of the system's, if it is text and not too long.
pub(super) fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    let read = std::fs::File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    ((read as u64) < FILE_BYTES_MAX).then_some(text)
}
