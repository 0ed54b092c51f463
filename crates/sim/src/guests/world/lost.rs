//! Blocks that were forgotten: in all epochs up to one, or in some.
//!
//! The promises:
//!
//! 1. From the reply on, no epoch up to that one shows a byte of these blocks: a read of one is refused, by name. Where single epochs
//!    were named, a read of what was zeros there may go on. All other blocks of these epochs, all other epochs, and the current state stay
//!    what they were.
//! 2. A forget that was not replied to may have been noted or not; after a crash the first answer decides that for good.
//! 3. At the receipt nothing of what these epochs had there can be opened ([`crate::guests::world::forgotten`]).

use crate::guests::model::Model;
use crate::machine::content::Tag;
use crate::verdict::{Judged, broken};
use quietus_core::base::units::{Addr, BLOCK_BYTES, Epoch, EpochRange, Extent, Part, Scope};

/// The outcome of a forget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Kept,
    /// A forget was sent in this life, and has not been replied to.
    Asked,
    /// In an earlier life a forget, or the close itself, was not replied to.
    Perhaps,
    Forgotten,
}

/// Blocks that are forgotten, or may be.
#[derive(Clone, Copy, Debug)]
struct Lost {
    by: Tag,
    gap: Gap,
    /// The epochs that do not show the blocks.
    epochs: EpochRange,
    fate: Fate,
}

/// Blocks that an epoch does not show, or of which it shows zeros only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gap {
    blocks: Extent<Addr>,
    has_zeros: bool,
}

impl Gap {
    /// Whether the bytes at `extent` show what the gap hides.
    fn shows(self, extent: Extent<Addr>, bytes: &[u8]) -> bool {
        self.blocks.overlap(extent).is_some_and(|part| {
            let from = (part.start.0 - extent.start.0) as usize;
            !self.has_zeros || bytes[from..][..part.len as usize].iter().any(|byte| *byte != 0)
        })
    }
}

impl Lost {
    fn is_of(&self, epoch: u64, extent: Extent<Addr>) -> bool {
        self.epochs.contains(Epoch(epoch)) && self.gap.blocks.overlap(extent).is_some()
    }
}

#[derive(Default)]
pub(super) struct AllLost(Vec<Lost>);

/// A state of the disk, as it is shown.
pub(super) struct Shown<'a> {
    pub(super) model: &'a Model,
    /// The state does not show these blocks.
    pub(super) lost: Vec<Gap>,
}

impl Shown<'_> {
    pub(super) fn allows(&self, extent: Extent<Addr>, bytes: &[u8]) -> bool {
        !self.lost.iter().any(|lost| lost.blocks.overlap(extent).is_some())
            && self.model.allows(extent, bytes)
    }
}

impl AllLost {
    /// Notes that this was asked for; of a set, [what it means](crate::guests::world::sets::meaning).
    pub(super) fn asked(&mut self, by: Tag, scope: Scope) {
        let (blocks, epochs, has_zeros) = match scope {
            Scope::Epochs(_) | Scope::Set(_) => return,
            Scope::Chain { epochs, blocks } => (blocks, EpochRange { from: Epoch(0), to: epochs.to }, false),
            Scope::Shown(Part { epochs, blocks }) => (blocks, epochs, true),
        };
        self.0.push(Lost { by, gap: Gap { blocks, has_zeros }, epochs, fate: Fate::Asked });
    }

    pub(super) fn refused(&mut self, by: Tag) {
        self.0.retain(|it| it.by != by);
    }

    pub(super) fn forgotten(&mut self, by: Tag) {
        self.0.iter_mut().filter(|it| it.by == by).for_each(|it| it.fate = Fate::Forgotten);
    }

    pub(super) fn restarted(&mut self) {
        self.0.iter_mut().filter(|it| it.fate == Fate::Asked).for_each(|it| it.fate = Fate::Perhaps);
    }

    /// Whether no request has asked to forget blocks of `epoch`.
    pub(super) fn may_be_whole(&self, epoch: u64) -> bool {
        !self.0.iter().any(|it| it.epochs.contains(Epoch(epoch)))
    }

    /// The blocks that `epoch` shows no more for sure.
    pub(super) fn surely_of(&self, epoch: u64) -> Vec<Gap> {
        let is_it = |it: &&Lost| it.epochs.contains(Epoch(epoch)) && it.fate == Fate::Forgotten;
        self.0.iter().filter(is_it).map(|it| it.gap).collect()
    }

    /// `whole`, cut where `epoch` may show no more: each part is lost as a whole, or not at all.
    pub(super) fn cut(&self, epoch: u64, whole: Extent<Addr>) -> Vec<Extent<Addr>> {
        let of = self.0.iter().filter(|it| it.is_of(epoch, whole));
        let cuts = of.flat_map(|it| {
            let step = if it.gap.has_zeros { BLOCK_BYTES } else { it.gap.blocks.len };
            it.gap.blocks.pieces(step).filter_map(|piece| piece.overlap(whole))
        });
        let mut cuts: Vec<u64> = cuts.flat_map(|it| [it.start.0, it.end()]).collect();
        cuts.extend([whole.start.0, whole.end()]);
        cuts.sort_unstable();
        cuts.dedup();
        cuts.windows(2).map(|pair| Extent::between(pair[0], pair[1])).collect()
    }

    /// Notes that these bytes of `epoch` were read at `extent`; `surely` were lost when that was asked.
    pub(super) fn read(
        &mut self,
        epoch: u64,
        (extent, bytes): (Extent<Addr>, &[u8]),
        surely: &[Gap],
    ) -> Judged {
        if let Some(lost) = surely.iter().find(|lost| lost.shows(extent, bytes)) {
            let what = format!("{lost:?} of epoch {epoch} was forgotten, but {extent:?} can be read");
            return Err(broken(what));
        }
        let is_there =
            |it: &Lost| it.fate == Fate::Perhaps && it.is_of(epoch, extent) && it.gap.shows(extent, bytes);
        self.0.retain(|it| !is_there(it));
        Ok(())
    }

    /// Whether a read of `extent` in `epoch` may be refused because `gap` was forgotten.
    pub(super) fn may_refuse(&mut self, epoch: u64, extent: Extent<Addr>, gap: Extent<Addr>) -> bool {
        let Some(part) = gap.overlap(extent) else { return false };
        let mut found: Vec<&mut Lost> = self.0.iter_mut().filter(|it| it.is_of(epoch, part)).collect();
        if let [only] = &mut found[..]
            && only.fate == Fate::Perhaps
        {
            only.fate = Fate::Forgotten;
        }
        !found.is_empty()
    }
}
