//! Checking a log from its first line to its last.

use super::chain::{CURRENT, Head, Lines, Link, first_link, kept_from, names};
use super::directory::Directory;
use std::io;

/// Result of a check that found no fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checked {
    /// The first line that is kept.
    pub first: u64,
    /// The end.
    pub head: Head,
    /// How many files there are.
    pub files: usize,
}

/// Fault that a check found.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// A file cannot be read.
    #[error("audit log: cannot read {file}: {source}; check its permissions and the host's disk")]
    Io {
        /// Name of the file.
        file: String,
        /// Error of the host.
        source: io::Error,
    },
    /// Lines are missing.
    #[error("audit log: lines {from} to {to} are missing; restore {file} from a backup")]
    Missing {
        /// Number of the first missing line.
        from: u64,
        /// Number of the last missing line.
        to: u64,
        /// File that held the lines, as far as is known.
        file: String,
    },
    /// A line is not the one that was written.
    #[error("audit log: line {line} of {file} was changed; restore the file from a backup")]
    Changed {
        /// Number of the line.
        line: u64,
        /// File that holds the line.
        file: String,
    },
}

/// The files of a log, opened at one instant: a check can take its time.
pub struct Files<F> {
    /// Name and content, the oldest first.
    files: Vec<(String, F)>,
}

impl<F: super::LogFile> Files<F> {
    /// Opens all files of the log.
    ///
    /// # Errors
    /// [`CheckError::Io`].
    pub fn open<D: Directory<File = F>>(dir: &D) -> Result<Self, CheckError> {
        let failed = |file: &str, source| CheckError::Io { file: file.into(), source };
        let names = names(dir).map_err(|error| failed("the directory", error))?;
        let mut files = Vec::new();
        for name in names {
            match dir.read(&name) {
                Ok(file) => files.push((name, file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(&name, error)),
            }
        }
        Ok(Self { files })
    }

    /// Checks that no line is missing or changed, from the first that is kept up to the
    /// one that `known` names, and that what follows is a chain too. `see` is shown each line.
    pub fn read(&self, known: &Head, see: &mut dyn FnMut(&[u8])) -> Result<Checked, CheckError> {
        let failed = |file: &str, source| CheckError::Io { file: file.into(), source };
        let links = self.files.iter().rev();
        let first =
            kept_from(links.map(|(name, file)| first_link(file).map_err(|error| failed(name, error))))?;
        let mut walk = Walk { known, head: Head { lines: first, hash: String::new() }, first };
        let mut files = 0;
        for (name, file) in &self.files {
            files += usize::from(walk.walk(name, file, see)?);
        }
        if walk.head.lines < known.lines {
            let (from, to) = (walk.head.lines, known.lines - 1);
            return Err(CheckError::Missing { from, to, file: CURRENT.into() });
        }
        Ok(Checked { first, head: walk.head, files })
    }
}

struct Walk<'a> {
    known: &'a Head,
    head: Head,
    first: u64,
}

impl Walk<'_> {
    /// Goes on with the lines of `file`; says whether there were any that count.
    fn walk(
        &mut self,
        name: &str,
        file: &impl super::LogFile,
        see: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, CheckError> {
        let (mut lines, mut any) = (Lines::new(file, 0), false);
        loop {
            let text = lines.next().map_err(|source| CheckError::Io { file: name.into(), source })?;
            let Some(text) = text else { return Ok(any) };
            let changed = |line| CheckError::Changed { line, file: name.into() };
            let link = Link::parse(&text).ok_or_else(|| changed(self.head.lines))?;
            if link.n < self.first && !any {
                // A file that was about to be removed is not kept any more.
                return Ok(false);
            }
            if link.n > self.head.lines {
                let (from, to) = (self.head.lines, link.n - 1);
                return Err(CheckError::Missing { from, to, file: format!("the file before {name}") });
            }
            let is_first_kept = link.n == self.first && self.first > 0;
            if link.n != self.head.lines || !(is_first_kept || link.prev == self.head.hash) {
                return Err(changed(link.n.min(self.head.lines)));
            }
            self.head = Head::after(link.n, &text);
            if self.head.lines == self.known.lines && self.head.hash != self.known.hash {
                return Err(changed(link.n));
            }
            see(&text);
            any = true;
        }
    }
}
