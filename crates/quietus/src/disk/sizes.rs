//! Sizes of an overlay over time: the file `sizes`, a line of JSON each.

use super::DiskDir;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

const FILE: &str = "sizes";

/// Size of an overlay at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Size {
    /// Milliseconds since 1970.
    #[serde(rename = "time", with = "crate::base::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub time_ms: u64,
    /// Bytes that the overlay took up on the host.
    pub host_bytes: u64,
    /// Bytes in blocks of its own that held live data.
    pub live_bytes: u64,
}

impl DiskDir {
    /// Bytes that the media whose size counts take up on the host; `None` if no medium counts.
    #[must_use]
    pub fn host_bytes(&self) -> Option<u64> {
        let bytes = |path: PathBuf| std::fs::metadata(path).map_or(0, |it| it.blocks() * 512);
        self.counted().map(bytes).reduce(|all, more| all + more)
    }

    /// Appends `size`, if it differs from the last.
    ///
    /// # Errors
    /// Errors of the host.
    pub fn note_size(&self, size: Size) -> io::Result<()> {
        self.append(FILE, &size, |last: &Size| Size { time_ms: size.time_ms, ..*last } == size)
    }

    /// Sizes of the overlay over time, at most `most`, evenly among those that are known.
    #[must_use]
    pub fn sizes(&self, most: usize) -> Vec<Size> {
        let all: Vec<Size> = self.series(FILE);
        let every = all.len().div_ceil(most.max(1)).max(1);
        // The newest is always among them.
        let skip = all.len().saturating_sub(1) % every;
        all.into_iter().skip(skip).step_by(every).collect()
    }
}
