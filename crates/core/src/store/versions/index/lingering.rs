//! The epochs that still show content which has died since: `status` names them, where only content of marked files is
//! destroyed.
//!
//! Invariants:
//! 1. A death is noted when it arrives ([`Lingering::note`]). Since when epochs show what dies is known once the index takes
//!    the death ([`Lingering::taken`]).
//! 2. The epochs are known in memory, and the view of a clean stop keeps them. After a crash every epoch that has closed counts.
//! 3. An epoch counts until it is forgotten, though its blocks may have been forgotten in all epochs before.

use crate::base::blocks::BlockSet;
use crate::base::units::{Addr, Epoch, Extent};
use roaring::RoaringTreemap;
use std::collections::BTreeMap;

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Lingering {
    /// Blocks with content that dies, by the epoch that shows it no more; the index has yet to take that. At most the open epoch and
    /// the next one have some, and no entry costs more than a bit for each block, whatever a guest frees.
    dying: BTreeMap<Epoch, BlockSet<Addr>>,
    /// The numbers of the epochs.
    epochs: RoaringTreemap,
}

impl Lingering {
    /// The state after a crash, with this open epoch.
    pub(in super::super) fn unknown(open: Epoch) -> Self {
        let mut epochs = RoaringTreemap::new();
        epochs.insert_range(1..open.0);
        Self { epochs, ..Self::default() }
    }

    /// Notes that the content of `extent` dies in `epoch`.
    pub(in super::super) fn note(&mut self, extent: Extent<Addr>, epoch: Epoch) {
        self.dying.entry(epoch).or_default().insert(extent);
    }

    /// Whether content of `block` dies with a change that belongs to `epoch`.
    pub(in super::super) fn awaits(&self, block: Extent<Addr>, epoch: Epoch) -> bool {
        self.dying.range(epoch..).any(|(_, blocks)| blocks.first_run(block).is_some())
    }

    /// Takes a change of `block` in `epoch`, which ends what epochs have shown since `born`, if anything.
    pub(in super::super) fn taken(&mut self, block: Extent<Addr>, epoch: Epoch, born: Option<Epoch>) {
        if let Some(born) = born {
            assert!(born <= epoch, "what dies was born before");
            self.epochs.insert_range(born.0..epoch.0);
        }
        self.dying.range_mut(..=epoch).for_each(|(_, blocks)| blocks.remove(block));
    }

    /// Drops the notes of deaths in `epoch` and before: the index has taken all of them, or they were refused.
    pub(in super::super) fn closed(&mut self, epoch: Epoch) {
        self.dying = self.dying.split_off(&Epoch(epoch.0 + 1));
    }

    /// The first of the epochs from `from` on.
    pub(in super::super) fn first(&self, from: Epoch) -> Option<Epoch> {
        let mut epochs = self.epochs.iter();
        epochs.advance_to(from.0);
        epochs.next().map(Epoch)
    }

    /// The bytes of the set: a portable Roaring treemap.
    pub(in super::super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.epochs.serialized_size());
        self.epochs.serialize_into(&mut bytes).expect("writing to memory does not fail");
        bytes
    }

    /// The set that [`Lingering::to_bytes`] wrote; `None` if these bytes are of no such set.
    pub(in super::super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let epochs = RoaringTreemap::deserialize_from(bytes).ok()?;
        Some(Self { epochs, ..Self::default() })
    }
}
