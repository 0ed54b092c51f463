//! Blocks that were forgotten in all epochs up to one.
//!
//! The promises:
//!
//! 1. From the reply on, no epoch up to that one shows a byte of these blocks: a read of one is refused, by name. All other
//!    blocks of these epochs, and the current state, stay what they were.
//! 2. A forget that was not replied to may have been noted or not; after a crash the first answer decides that for good.
//! 3. At the receipt nothing of what these epochs had there can be opened ([`crate::guests::world::forgotten`]).

use crate::guests::model::Model;
use crate::machine::content::Tag;
use crate::verdict::{Judged, broken};
use quietus_core::base::units::{Addr, Extent};

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
    blocks: Extent<Addr>,
    /// The last epoch that does not show the blocks.
    to: u64,
    fate: Fate,
}

#[derive(Default)]
pub(super) struct AllLost(Vec<Lost>);

/// A state of the disk, as it is shown.
pub(super) struct Shown<'a> {
    pub(super) model: &'a Model,
    /// The state does not show these blocks.
    pub(super) lost: Vec<Extent<Addr>>,
}

impl Shown<'_> {
    pub(super) fn allows(&self, extent: Extent<Addr>, bytes: &[u8]) -> bool {
        !self.lost.iter().any(|lost| lost.overlap(extent).is_some()) && self.model.allows(extent, bytes)
    }
}

impl AllLost {
    pub(super) fn asked(&mut self, by: Tag, blocks: Extent<Addr>, to: u64) {
        self.0.push(Lost { by, blocks, to, fate: Fate::Asked });
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
        self.0.iter().all(|it| it.to < epoch)
    }

    /// The blocks that `epoch` shows no more for sure.
    pub(super) fn surely_of(&self, epoch: u64) -> Vec<Extent<Addr>> {
        let of = self.0.iter().filter(|it| epoch <= it.to && it.fate == Fate::Forgotten);
        of.map(|it| it.blocks).collect()
    }

    /// `whole`, cut where `epoch` may show no more: each part is lost as a whole, or not at all.
    pub(super) fn cut(&self, epoch: u64, whole: Extent<Addr>) -> Vec<Extent<Addr>> {
        let of = self.0.iter().filter(|it| epoch <= it.to).filter_map(|it| it.blocks.overlap(whole));
        let mut cuts: Vec<u64> = of.flat_map(|it| [it.start.0, it.end()]).collect();
        cuts.extend([whole.start.0, whole.end()]);
        cuts.sort_unstable();
        cuts.dedup();
        cuts.windows(2).map(|pair| Extent::between(pair[0], pair[1])).collect()
    }

    /// Notes that `extent` of `epoch` was read; `surely` were lost when that was asked.
    pub(super) fn read(&mut self, epoch: u64, extent: Extent<Addr>, surely: &[Extent<Addr>]) -> Judged {
        if let Some(lost) = surely.iter().find(|lost| lost.overlap(extent).is_some()) {
            let what = format!("{lost:?} of epoch {epoch} was forgotten, but {extent:?} can be read");
            return Err(broken(what));
        }
        let is_there =
            |it: &Lost| epoch <= it.to && it.fate == Fate::Perhaps && it.blocks.overlap(extent).is_some();
        self.0.retain(|it| !is_there(it));
        Ok(())
    }

    /// Whether a read of `extent` in `epoch` may be refused because `gap` was forgotten.
    pub(super) fn may_refuse(&mut self, epoch: u64, extent: Extent<Addr>, gap: Extent<Addr>) -> bool {
        let Some(part) = gap.overlap(extent) else { return false };
        let is_it = |it: &&mut Lost| epoch <= it.to && it.blocks.overlap(part).is_some();
        let mut found: Vec<&mut Lost> = self.0.iter_mut().filter(is_it).collect();
        if let [only] = &mut found[..]
            && only.fate == Fate::Perhaps
        {
            only.fate = Fate::Forgotten;
        }
        !found.is_empty()
    }
}
