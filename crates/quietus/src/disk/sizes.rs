//! Sizes of an overlay over time: the file `sizes`, a line of JSON each.

use super::DiskDir;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Longest file; beyond it the older half is dropped.
const FILE_BYTES_MAX: usize = 1 << 20;

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
        let lines = read(self.path());
        let last = lines.lines().next_back().and_then(parse);
        if last.is_some_and(|last| Size { time_ms: size.time_ms, ..last } == size) {
            return Ok(());
        }
        if lines.len() > FILE_BYTES_MAX {
            let half = lines.split_at(lines.floor_char_boundary(lines.len() / 2)).1;
            self.directory.replace("sizes", half.split_once('\n').map_or("", |(_, rest)| rest).as_bytes())?;
        }
        let text = serde_json::to_string(&size)?;
        let mut options = OpenOptions::new();
        let mut file = options.append(true).create(true).mode(0o600).open(self.path().join("sizes"))?;
        // The first line feed ends a line that a crash cut off.
        let end = if lines.is_empty() || lines.ends_with('\n') { "" } else { "\n" };
        file.write_all(format!("{end}{text}\n").as_bytes())
    }

    /// Sizes of the overlay over time, at most `most`, evenly among those that are known.
    #[must_use]
    pub fn sizes(&self, most: usize) -> Vec<Size> {
        let all: Vec<_> = read(self.path()).lines().filter_map(parse).collect();
        let every = all.len().div_ceil(most.max(1)).max(1);
        // The newest is always among them.
        let skip = all.len().saturating_sub(1) % every;
        all.into_iter().skip(skip).step_by(every).collect()
    }
}

/// Bytes that no line has are of no use, and nothing else depends on them.
fn read(dir: &Path) -> String {
    let bytes = std::fs::read(dir.join("sizes")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn parse(line: &str) -> Option<Size> {
    serde_json::from_str(line).ok()
}
