//! Numbers over time: a file of a disk's directory with a line of JSON for each time, the newest last.

use super::DiskDir;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Longest file; beyond it the older half is dropped.
const FILE_BYTES_MAX: usize = 1 << 20;

impl DiskDir {
    /// Appends `now` to the file `name`, unless it `is_like` the last line.
    pub(super) fn append<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        now: &T,
        is_like: impl Fn(&T) -> bool,
    ) -> io::Result<()> {
        let lines = read(self.path(), name);
        if lines.lines().next_back().and_then(parse).is_some_and(|last| is_like(&last)) {
            return Ok(());
        }
        if lines.len() > FILE_BYTES_MAX {
            let half = lines.split_at(lines.floor_char_boundary(lines.len() / 2)).1;
            self.directory.replace(name, half.split_once('\n').map_or("", |(_, rest)| rest).as_bytes())?;
        }
        let text = serde_json::to_string(now)?;
        let mut options = OpenOptions::new();
        let mut file = options.append(true).create(true).mode(0o600).open(self.path().join(name))?;
        // The first line feed ends a line that a crash cut off.
        let end = if lines.is_empty() || lines.ends_with('\n') { "" } else { "\n" };
        file.write_all(format!("{end}{text}\n").as_bytes())
    }

    /// The lines of the file `name`, the oldest first. Lines that are damaged are left out: nothing else depends on them.
    pub(super) fn series<T: DeserializeOwned>(&self, name: &str) -> Vec<T> {
        read(self.path(), name).lines().filter_map(parse).collect()
    }
}

fn read(dir: &Path, name: &str) -> String {
    let bytes = std::fs::read(dir.join(name)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn parse<T: DeserializeOwned>(line: &str) -> Option<T> {
    serde_json::from_str(line).ok()
}
