//! The slots of a folder: 32 bytes each, in both formats.

use crate::clusters::walk::{Stream, Walk};
use crate::clusters::{Clusters, read};
use crate::{Error, Source};
use quietus_core::base::units::{Addr, Extent};

/// Bytes of a slot.
pub(crate) const SLOT_BYTES: u64 = 32;
/// Bytes of a folder that are read at once: whole slots.
const PIECE_BYTES: u64 = 16 << 10;

/// A slot, and the byte of the source at which it lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub at: u64,
    pub bytes: [u8; SLOT_BYTES as usize],
}

/// A walk along the slots of a folder.
#[derive(Debug)]
pub(crate) struct Slots {
    walk: Walk,
    /// The bytes that come next, and are not read yet.
    rest: Extent<Addr>,
    /// What was read last, where it lies, and how much of it was given.
    piece: Vec<u8>,
    piece_at: u64,
    given: usize,
    /// Slots that may still come.
    left: u64,
}

impl Slots {
    /// The slots of `folder` from byte `from` of it on, of which there may be `slots_max`.
    pub(crate) fn new(clusters: &Clusters, folder: Stream, from: u64, slots_max: u64) -> Result<Self, Error> {
        let walk = Walk::new(clusters, folder, from..folder.bytes)?;
        let rest = Extent::new(0, 0);
        Ok(Self { walk, rest, piece: Vec::new(), piece_at: 0, given: 0, left: slots_max })
    }

    /// The next slot; `None` at the end of the folder's clusters.
    pub(crate) fn next(
        &mut self,
        clusters: &mut Clusters,
        source: &mut dyn Source,
    ) -> Result<Option<Slot>, Error> {
        if self.given == self.piece.len() && !self.read(clusters, source)? {
            return Ok(None);
        }
        let Some(left) = self.left.checked_sub(1) else {
            return Err(Error::Damaged("a folder has more entries than its format allows".into()));
        };
        self.left = left;
        let bytes = self.piece[self.given..].first_chunk().expect("pieces are of whole slots");
        let slot = Slot { at: self.piece_at + self.given as u64, bytes: *bytes };
        self.given += SLOT_BYTES as usize;
        Ok(Some(slot))
    }

    /// Reads the next piece; `false` at the end.
    fn read(&mut self, clusters: &mut Clusters, source: &mut dyn Source) -> Result<bool, Error> {
        if self.rest.is_empty() {
            let Some(part) = self.walk.next(clusters, source)? else { return Ok(false) };
            self.rest = Extent::new(part.place.start.0, part.place.len / SLOT_BYTES * SLOT_BYTES);
        }
        let at = Extent::new(self.rest.start.0, self.rest.len.min(PIECE_BYTES));
        self.piece = read(source, at)?;
        (self.piece_at, self.given) = (at.start.0, 0);
        self.rest = Extent::between(at.end(), self.rest.end());
        Ok(!self.piece.is_empty())
    }
}
