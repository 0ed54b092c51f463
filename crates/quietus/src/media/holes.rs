//! Where a file holds no data.

use super::{FileMedium, MediumKind};
use quietus_core::medium::{MediumError, MediumErrorKind};
use quietus_core::units::{Extent, Pos};
use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// The holes of a medium, in order; ends after the first error.
#[derive(Debug)]
pub struct Holes<'a> {
    medium: &'a FileMedium,
    at: u64,
}

impl<'a> Holes<'a> {
    pub(super) fn new(medium: &'a FileMedium, from: Pos) -> Self {
        let at = if medium.kind == MediumKind::File { from.0 } else { medium.size };
        Self { medium, at }
    }

    /// The next place of the kind that `seek` looks for, at most the end.
    /// A host that does not know holes takes all for data.
    fn find(&self, seek: SeekFrom, missing: u64) -> Result<u64, Errno> {
        match rustix::fs::seek(&self.medium.file, seek) {
            Ok(at) => Ok(at.min(self.medium.size)),
            Err(Errno::NXIO) => Ok(self.medium.size),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(missing),
            Err(errno) => Err(errno),
        }
    }

    fn find_next(&self) -> Result<Extent<Pos>, Errno> {
        let start = self.find(SeekFrom::Hole(self.at), self.medium.size)?;
        let end = self.find(SeekFrom::Data(start), start)?;
        Ok(Extent::between(start, end.max(start)))
    }
}

impl Iterator for Holes<'_> {
    type Item = Result<Extent<Pos>, MediumError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.medium.size {
            return None;
        }
        let from = self.at;
        self.at = self.medium.size;
        match self.find_next() {
            Ok(hole) => {
                self.at = hole.end();
                (!hole.is_empty()).then_some(Ok(hole))
            }
            Err(errno) => {
                let reason = std::io::Error::from(errno).to_string();
                let len = self.medium.size - from;
                let kind = MediumErrorKind::Io;
                Some(Err(self.medium.error("search for holes", Pos(from), len, kind, &reason)))
            }
        }
    }
}
