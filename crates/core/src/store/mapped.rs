//! What a store can do whose content changes its places.

use super::{Batch, Store, Written};
use crate::base::blocks::BlockSet;
use crate::base::units::{Addr, Epoch, Extent, Pos};
use crate::media::place::Place;

/// What a store can do whose content changes its places: a map says where content lies, is read and written part by part, and
/// is durable with a checkpoint.
pub trait Mapped {
    /// The first part of the store's own metadata that has to be read before any other question about
    /// `extent`. A caller that needs several extents asks for all of them first, and changes nothing before
    /// no metadata is missing.
    fn missing(&self, extent: Extent<Addr>) -> Option<Place>;

    /// Takes metadata that was missing.
    ///
    /// # Errors
    /// Why the bytes cannot be that metadata.
    fn loaded(&mut self, place: Place, bytes: &[u8]) -> Result<(), String>;

    /// Ends a write of `extent` that got its [places](super::WritePlan::To).
    fn end_write(&mut self, extent: Extent<Addr>, written: Written);

    /// Whether the durable map says where `extent` is.
    fn is_durable(&self, extent: Extent<Addr>) -> bool;

    /// How far the durable map is behind the one in memory.
    fn map_state(&self) -> MapState;

    /// Begins a checkpoint, whose writes make the map durable as it is now, once the content is: whether it has
    /// [writes](Mapped::next_batch). One checkpoint at a time. A `short` one leaves out what no request waits for: the host lacked
    /// space for that just now.
    fn begin_checkpoint(&mut self, short: bool) -> bool;

    /// The next writes of the checkpoint; `None` after the last ones. What changes meanwhile is no part of them.
    fn next_batch(&mut self) -> Option<Batch>;

    /// Ends a checkpoint: its writes are durable.
    fn end_checkpoint(&mut self);

    /// Aborts a checkpoint: the host had no space for some of its writes. Whether a short one may have its space.
    fn abort_checkpoint(&mut self) -> bool;

    /// The first part of the map that has no space on the host yet, and that a write of `extent` (or, with
    /// `dies`, its death) changes. The change may begin once that part has [its space](Mapped::reserved).
    fn lacks_space(&self, extent: Extent<Addr>, dies: bool) -> Option<Place>;

    /// Notes that this part of the map has space on the host, and keeps it.
    fn reserved(&mut self, place: Place);

    /// Unmaps `block`, which died in `epoch` and is about to be written. Returns the places of its content,
    /// which are used again after [`Mapped::reclaim`]; no place if the new content goes to the same one.
    fn leave(&mut self, block: Extent<Addr>, epoch: Epoch) -> Vec<Place>;

    /// Whether `blocks` can leave their places before the next checkpoint.
    fn can_leave(&self, blocks: Extent<Addr>) -> bool;

    /// The bytes to destroy for content that is owed at `place`, part by part; what is not known yet is left out.
    fn residue(&self, place: Place) -> Vec<Residue>;

    /// Notes that the journal says durably what is owed at these places of the data medium, which were [left](Mapped::leave).
    fn owed_durably(&mut self, places: &[Extent<Pos>]);

    /// Frees these places of the data medium: their content is destroyed, and nothing durable names it.
    fn reclaim(&mut self, places: &[Extent<Pos>]);

    /// How often places became free that were given up, where a slow reader could take what comes there for what it looks for; `None`
    /// where content says what it is, or is not given up while it is read.
    fn reuses(&self) -> Option<u64>;

    /// How urgent the background jobs are; with `all`, including those that gain little.
    fn backlog(&self, all: bool) -> Backlog;

    /// Whether unallocated space may have copies of content.
    fn has_residue(&self) -> bool;

    /// The next background job. One at a time, until [`Mapped::background_done`].
    fn background(&mut self, all: bool) -> Option<Job>;

    /// Notes that a job has moved `content` to the place `to`.
    fn rebind(&mut self, content: Extent<Addr>, to: Extent<Pos>);

    /// Ends the job under way.
    fn background_done(&mut self, end: JobEnd<'_>);

    /// The unallocated space of the data medium that was erased; `None` if the store knows that only by
    /// address.
    fn unallocated(&self) -> Option<BlockSet<Pos>>;
}

/// The answers of a store whose content never changes its place: nothing is missing, behind, or in want of space.
impl dyn Store + '_ {
    /// Whether content stays in its place: new content goes where the old content of its address lies.
    #[must_use]
    pub fn same_place(&self) -> bool {
        self.mapped().is_none()
    }

    /// See [`Mapped::missing`].
    #[must_use]
    pub fn missing(&self, extent: Extent<Addr>) -> Option<Place> {
        let place = self.mapped()?.missing(extent)?;
        assert!(!place.extent.is_empty(), "metadata that is missing has bytes");
        Some(place)
    }

    /// See [`Mapped::lacks_space`].
    #[must_use]
    pub fn lacks_space(&self, extent: Extent<Addr>, dies: bool) -> Option<Place> {
        let place = self.mapped()?.lacks_space(extent, dies)?;
        assert!(!place.extent.is_empty(), "a part that lacks space has bytes");
        Some(place)
    }

    /// See [`Mapped::is_durable`].
    #[must_use]
    pub fn is_durable(&self, extent: Extent<Addr>) -> bool {
        self.mapped().is_none_or(|it| it.is_durable(extent))
    }

    /// See [`Mapped::map_state`].
    #[must_use]
    pub fn map_state(&self) -> MapState {
        self.mapped().map_or(MapState::Durable, |it| it.map_state())
    }

    /// See [`Mapped::backlog`].
    #[must_use]
    pub fn backlog(&self, all: bool) -> Backlog {
        self.mapped().map_or(Backlog::Nothing, |it| it.backlog(all))
    }

    /// See [`Mapped::has_residue`].
    #[must_use]
    pub fn has_residue(&self) -> bool {
        self.mapped().is_some_and(|it| it.has_residue())
    }

    /// See [`Mapped::end_write`].
    pub fn end_write(&mut self, extent: Extent<Addr>, written: Written) {
        if let Some(mapped) = self.mapped_mut() {
            mapped.end_write(extent, written);
        }
    }

    /// See [`Mapped::background_done`].
    pub fn background_done(&mut self, end: JobEnd<'_>) {
        if let Some(mapped) = self.mapped_mut() {
            mapped.background_done(end);
        }
    }
}

/// The bytes to destroy for content that is owed at a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Residue {
    /// The place of the content.
    pub part: Place,
    /// The places whose destruction destroys it.
    pub at: Vec<Place>,
    /// Whether it is kept, for an epoch that shows it: nothing is destroyed now.
    pub is_kept: bool,
}

/// How far the durable map is behind the one in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapState {
    /// Nothing has changed since the last checkpoint.
    Durable,
    /// Something has changed.
    Behind,
    /// So much has changed that a checkpoint is due.
    Due,
    /// Something has changed, and a checkpoint helps only once a background job has ended.
    Waits,
}

/// How urgent the background jobs are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backlog {
    /// No job.
    Nothing,
    /// No job but those that a medium would not do just now ([`JobEnd::Remains`]): they are tried again after a while.
    Remains,
    /// Jobs for an idle disk.
    WhenIdle,
    /// Jobs to begin now.
    AtOnce,
}

/// A background job: work on unallocated space, or on where content lies. What it is for only the store knows, which remembers it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Job {
    /// Destroy the residue here.
    Destroy(Vec<Place>),
    /// Destroy the keys here, and write these fresh ones in their places, in order.
    Renew(Vec<Place>, Vec<u8>),
    /// Read these places.
    Read(Vec<Place>),
    /// Write these bytes to the places, in order. They are durable with the next job that syncs their medium.
    Put(Vec<Place>, Vec<u8>),
    /// Write content under other keys, then destroy those that it had.
    Rekey(Rekey),
    /// The same, and it is never given up between two steps once the content may have been written: the keys are those of the whole disk.
    Turn(Rekey),
    /// Give this space back.
    Punch(Vec<Extent<Pos>>),
    /// Truncate the medium here.
    Shrink(Pos),
    /// Copy content to another place.
    Move {
        /// The content, by address.
        contents: Vec<Extent<Addr>>,
        /// The new place of each.
        to: Vec<Extent<Pos>>,
    },
}

/// See [`Job::Rekey`]. Each of these steps is durable before the next begins.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rekey {
    /// Fresh keys, and their places.
    pub keys: (Vec<Place>, Vec<u8>),
    /// The content hidden under them, and its places.
    pub content: (Vec<Place>, Vec<u8>),
    /// Where the keys lie that are destroyed.
    pub old: Vec<Place>,
}

/// How a job ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobEnd<'a> {
    /// The job is done; the bytes are what it read, if it had to read.
    Done(&'a [u8]),
    /// The job was given up before its end.
    GivenUp,
    /// The same: the medium would not erase these of its places. No other job waits for those.
    Remains(&'a [Place]),
}
