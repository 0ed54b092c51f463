//! All that was ever to be written on a medium, whether it came there, was torn or got lost: what an attacker with copies of it may have.

use crate::machine::content::{Mark, marks};
use crate::machine::medium::{Platter, SimMedium};
use crate::machine::remanence::SECTOR_BYTES;
use crate::machine::rng::mix;
use quietus_core::base::units::Pos;
use std::collections::BTreeSet;
use std::rc::Rc;

/// A write, whole: its place and its bytes.
pub type Write = (Pos, Rc<[u8]>);

#[derive(Debug, Default)]
pub struct Record {
    writes: Vec<Write>,
    /// Content that can be read in one of them.
    clear: Option<Mark>,
    /// Hashes of the sectors that came to the medium.
    settled: BTreeSet<u64>,
}

impl SimMedium {
    /// The medium with a record of all its writes.
    pub fn recorded(mut self) -> Self {
        self.inner.get_mut().record = Some(Record::default());
        self
    }

    /// The writes since there were `count` of them.
    pub fn writes_since(&self, count: usize) -> Vec<Write> {
        let inner = self.inner.borrow();
        inner.record.as_ref().map_or_else(Vec::new, |it| it.writes[count..].to_vec())
    }

    /// Whether a sector with this [`hash`] ever came to the medium.
    pub fn had(&self, hash: u64) -> bool {
        let inner = self.inner.borrow();
        inner.record.as_ref().is_some_and(|it| it.settled.contains(&hash))
    }

    /// Content that was ever to be written here in clear.
    pub fn in_clear(&self) -> Option<Mark> {
        self.inner.borrow().record.as_ref()?.clear
    }
}

impl Platter {
    pub(super) fn note_settled(&mut self, sector: usize) {
        let range = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
        if let Some(record) = &mut self.record {
            record.settled.insert(hash(&self.durable[range]));
        }
    }

    pub(super) fn note(&mut self, pos: Pos, from: &[u8]) {
        if let Some(record) = &mut self.record {
            record.clear = record.clear.or_else(|| marks(from).next());
            record.writes.push((pos, from.into()));
        }
    }
}

/// A hash of the bytes of a sector.
pub fn hash(bytes: &[u8]) -> u64 {
    let number = |word: &[u8]| u64::from_le_bytes(word.try_into().expect("a word has eight bytes"));
    bytes.chunks_exact(8).fold(0, |hash, word| mix(hash ^ number(word)))
}
