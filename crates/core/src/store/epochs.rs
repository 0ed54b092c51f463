//! What a store can do that keeps the epochs of its disk.

use crate::base::blocks::BlockSet;
use crate::base::parts::Forget;
use crate::base::units::{Addr, Epoch, Extent, Scope};
use crate::media::place::Place;
use crate::media::places::Places;
use crate::request::{AsOf, Question, Refusal, Reply};

/// The epochs of a disk whose store keeps them.
pub trait Epochs {
    /// The epoch that takes the changes that arrive.
    fn open(&self) -> Epoch;

    /// Whether the open epoch has a change, as far as the store knows: what is dead by address has not left its place.
    fn has_changed(&self) -> bool;

    /// Notes that content of `extent` which is not plain dies in `epoch`: epochs before go on to show it
    /// ([`Question::ShowingDead`]).
    fn note_death(&mut self, extent: Extent<Addr>, epoch: Epoch);

    /// Whether there is room for the end of the open epoch. If not, the next complete checkpoint makes some.
    fn can_close(&self) -> bool;

    /// Closes the open epoch, whose changes have all ended, at the wall clock's time `when` in milliseconds since 1970,
    /// and opens the next one. Durable with the next checkpoint.
    fn close(&mut self, when: u64);

    /// The first part of the store's metadata that has to be read before [`Epochs::locate`] at `epoch`.
    fn missing(&self, extent: Extent<Addr>, epoch: Epoch) -> Option<Place>;

    /// The blocks of `extent` that the two states show in different versions, and up to which address that is known:
    /// after a look at `looks_max` blocks, or where metadata is missing.
    ///
    /// # Errors
    /// [`Incomparable`], at the first look.
    fn compare(
        &self,
        extent: Extent<Addr>,
        states: [AsOf; 2],
        looks_max: usize,
    ) -> Result<(BlockSet, u64), Incomparable>;

    /// The answer to a question about epochs, stubs or versions; or the part of the store's metadata that has to be read first.
    ///
    /// # Errors
    /// That part.
    fn answer(&self, question: &Question) -> Result<Reply, Place>;

    /// Begins to forget epochs that are kept, or blocks in all epochs up to one, or in some, or a set of such parts: they are not shown any
    /// more. The ends of the epochs are durable, and so is what the epoch after them shows instead of the blocks' content.
    fn forget(&mut self, forget: Forget);

    /// Takes the next step of what was begun to be forgotten.
    fn forget_step(&mut self) -> ForgetStep;

    /// Where the content lies that `extent` had at the end of `epoch`.
    ///
    /// # Errors
    /// [`Gone`].
    fn locate(&self, extent: Extent<Addr>, epoch: Epoch) -> Result<Places, Gone>;

    /// The first block of `extent` whose content dies with `scope`, and is shown by the open epoch, or by one that is not among those of
    /// the scope, which [is of single extents](Forget::nth); after a look at `looks_max` blocks or fewer. Or the part of the store's metadata
    /// that has to be read first.
    ///
    /// # Errors
    /// That part.
    fn find_shared(&self, extent: Extent<Addr>, scope: Scope, looks_max: usize) -> Result<Shared, Place>;
}

/// Why an epoch does not show some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// The epoch is not kept.
    Epoch,
    /// These were forgotten: in that epoch and all before it, or in some.
    Blocks(Extent<Addr>),
}

impl Gone {
    /// The refusal of a read of `epoch`.
    #[must_use]
    pub fn refusal(self, epoch: Epoch) -> Refusal {
        match self {
            Self::Epoch => Refusal::Forgotten(epoch),
            Self::Blocks(blocks) => Refusal::ForgottenBlocks(epoch, blocks),
        }
    }
}

/// An answer about content that is to be forgotten, and that other states share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shared {
    /// No block does.
    Nowhere,
    /// No block before this address does. Where to go on.
    NotBefore(u64),
    /// This block does, in the open epoch.
    At(Extent<Addr>),
    /// This block does, in this kept epoch.
    By(Epoch, Extent<Addr>),
    /// The epoch is not the last that is kept, or one is closing.
    Later,
}

/// Why two states of the disk cannot be compared now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Incomparable {
    /// This metadata has to be read first.
    Missing(Place),
    /// The epoch is not kept.
    NotKept(Epoch),
}

/// The outcome of one step of a forget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ForgetStep {
    /// Nothing is being forgotten.
    Idle,
    /// There is more to do at once.
    More,
    /// This metadata has to be read first.
    Missing(Place),
    /// A checkpoint or a job has to end first.
    Waits,
    /// This is forgotten: the stubs of so many blocks of content are destroyed.
    Done(Scope, u64),
}
