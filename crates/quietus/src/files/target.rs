//! How people say which file they mean: `DISK[:PARTITION][@EPOCH]:/PATH`, or `:#900` for the inode of that number.

use std::fmt;
use std::path::{Path, PathBuf};

/// Files of a disk, as a command line names them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// The disk's directory.
    pub disk: PathBuf,
    /// The partition, as Linux numbers it; `None` if the disk has none, or only one that can be read.
    pub partition: Option<u32>,
    /// The epoch, in words; `None` for the current state.
    pub at: Option<String>,
    /// The path, from its slash on, or `#` and the number of an inode; empty if the target is a disk.
    pub path: String,
}

impl Target {
    /// What `text` means. The path begins at the first `:/` or `:#`.
    #[must_use]
    pub fn of(text: &Path) -> Self {
        let text = text.to_string_lossy();
        let begins = [":/", ":#"].iter().filter_map(|mark| text.find(mark)).min();
        let (state, path) = begins.map_or((&*text, ""), |at| (&text[..at], &text[at + 1..]));
        let (disk, at) = match state.rsplit_once('@') {
            Some((disk, at)) if !Path::new(state).exists() => (disk, Some(at.to_string())),
            _ => (state, None),
        };
        let (disk, partition) = match disk.rsplit_once(':') {
            Some((name, number)) if !Path::new(disk).exists() => match number.parse() {
                Ok(number) => (name, Some(number)),
                Err(_) => (disk, None),
            },
            _ => (disk, None),
        };
        Self { disk: disk.into(), partition, at, path: path.into() }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.disk.display())?;
        self.partition.map_or(Ok(()), |number| write!(f, ":{number}"))?;
        self.at.as_ref().map_or(Ok(()), |at| write!(f, "@{at}"))?;
        if self.path.is_empty() { Ok(()) } else { write!(f, ":{}", self.path) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, Option<u32>, Option<String>, String) {
        let it = Target::of(Path::new(text));
        assert_eq!(it.to_string(), text);
        (it.disk.to_string_lossy().into_owned(), it.partition, it.at, it.path)
    }

    #[test]
    fn a_path_begins_at_the_first_colon_and_slash_and_a_partition_stands_before_the_epoch() {
        let is = |text: &str, disk: &str, partition: Option<u32>, at: Option<&str>, path: &str| {
            assert_eq!(parts(text), (disk.into(), partition, at.map(Into::into), path.into()));
        };
        is("vm1", "vm1", None, None, "");
        is("vm1:/home/ann", "vm1", None, None, "/home/ann");
        is("vm1@14:/", "vm1", None, Some("14"), "/");
        is("vm1:2@2026-11-18T10:00:/a:/b@c", "vm1", Some(2), Some("2026-11-18T10:00"), "/a:/b@c");
        is("/srv/vm1:2:#900", "/srv/vm1", Some(2), None, "#900");
        is("vm1:x:/y", "vm1:x", None, None, "/y");
    }
}
