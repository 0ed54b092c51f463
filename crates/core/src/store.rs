//! The only part that knows where bytes live.
//!
//! A store says what it can do ([`Geometry`]), where bytes are, and where they may go; it never reads or
//! writes. Each answer is a closed enum, so that a caller has to handle every case. A new store is a folder
//! beside the others, a variant of [`Kind`] and one of [`StoreStatus`], and a line in [`open`].

mod allocated;
mod batch;
mod in_place;
pub mod overlay;
pub mod versions;

pub use batch::Batch;
pub use in_place::InPlace;
pub use overlay::Overlay;
pub use versions::Versions;

use crate::blocks::BlockSet;
use crate::media::{Media, MediumId};
use crate::medium::{Medium, MediumError};
use crate::owed::Owed;
use crate::place::Place;
use crate::places::Places;
use crate::policy::Policy;
use crate::request::{AsOf, Question, Refusal};
use crate::sealing::Sealing;
use crate::units::{Addr, Epoch, Extent, Pos, Scope};
use allocated::{edges, outward};
use overlay::{MapError, OverlayStatus, Setup, Unsaid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use versions::VersionsStatus;

/// The place of each byte of a disk, and which bytes are data.
pub trait Store: Debug + Send {
    /// The abilities of the store, and its units. Never changes.
    fn geometry(&self) -> Geometry;

    /// The state of the store, for the owner of the disk.
    fn status(&self) -> StoreStatus;

    /// The number of bytes in blocks that have data, or may have some.
    fn allocated_bytes(&self) -> u64;

    /// The bytes that the store gets back after a clean stop ([`Opening::kept`]).
    fn view(&self) -> Vec<u8>;

    /// The first run within `extent` that has such `content`, or may have it.
    fn first(&self, content: Content, extent: Extent<Addr>) -> Option<Extent<Addr>>;

    /// The first part of the store's own metadata that has to be read before any other question about
    /// `extent`. A caller that needs several extents asks for all of them first, and changes nothing before
    /// no metadata is missing.
    fn missing(&self, extent: Extent<Addr>) -> Option<Place>;

    /// Takes metadata that was missing.
    ///
    /// # Errors
    /// Why the bytes cannot be that metadata.
    fn loaded(&mut self, place: Place, bytes: &[u8]) -> Result<(), String>;

    /// The places of `extent`.
    ///
    /// # Panics
    /// If something is [missing](Store::missing); likewise the other methods that take addresses.
    fn locate(&self, extent: Extent<Addr>) -> Places;

    /// Begins a write of `extent` that belongs to `epoch`, and says where the bytes go. The present content
    /// stays in its place, and is found there, until [`Store::end_write`].
    fn begin_write(&mut self, extent: Extent<Addr>, epoch: Epoch) -> WritePlan;

    /// Ends a write of `extent` that got its [places](WritePlan::To).
    fn end_write(&mut self, extent: Extent<Addr>, written: Written);

    /// Unmaps `extent`: it reads as zeros, and has no data any more.
    fn unmap(&mut self, extent: Extent<Addr>);

    /// Unmaps `block`, which died in `epoch` and is about to be written. Returns the places of its content,
    /// which are used again after [`Store::reclaim`]; no place if the new content goes to the same one.
    fn leave(&mut self, block: Extent<Addr>, epoch: Epoch) -> Vec<Place>;

    /// Whether `blocks` can leave their places before the next checkpoint.
    fn can_leave(&self, blocks: Extent<Addr>) -> bool;

    /// The bytes to destroy for content that is owed at `place`, part by part; what is not known yet is left out.
    fn residue(&self, place: Place) -> Vec<Residue>;

    /// Notes that the journal says durably what is owed at these places of the data medium, which were [left](Store::leave).
    fn owed_durably(&mut self, places: &[Extent<Pos>]);

    /// Frees these places of the data medium: their content is destroyed, and nothing durable names it.
    fn reclaim(&mut self, places: &[Extent<Pos>]);

    /// The first part of the map that has no space on the host yet, and that a write of `extent` (or, with
    /// `dies`, its death) changes. The change may begin once that part has [its space](Store::reserved).
    fn lacks_space(&self, extent: Extent<Addr>, dies: bool) -> Option<Place>;

    /// Notes that this part of the map has space on the host, and keeps it.
    fn reserved(&mut self, place: Place);

    /// How far the durable map is behind the one in memory.
    fn map_state(&self) -> MapState;

    /// Whether the durable map says where `extent` is.
    fn is_durable(&self, extent: Extent<Addr>) -> bool;

    /// Begins a checkpoint, whose writes make the map durable as it is now, once the content is: whether it has
    /// [writes](Store::next_batch). One checkpoint at a time. A `short` one leaves out what nobody waits for: the host lacked
    /// space for that just now.
    fn begin_checkpoint(&mut self, short: bool) -> bool;

    /// The next writes of the checkpoint; `None` after the last ones. What changes meanwhile is no part of them.
    fn next_batch(&mut self) -> Option<Batch>;

    /// Ends a checkpoint: its writes are durable.
    fn end_checkpoint(&mut self);

    /// Aborts a checkpoint: the host had no space for some of its writes. Whether a short one may have its space.
    fn abort_checkpoint(&mut self) -> bool;

    /// How urgent the background jobs are; with `all`, including those that gain little.
    fn backlog(&self, all: bool) -> Backlog;

    /// Whether unallocated space may have copies of content.
    fn has_residue(&self) -> bool;

    /// The next background job. One at a time, until [`Store::background_done`].
    fn background(&mut self, all: bool) -> Option<Job>;

    /// Notes that a job has moved `content` to the place `to`.
    fn rebind(&mut self, content: Extent<Addr>, to: Extent<Pos>);

    /// Ends `job`.
    fn background_done(&mut self, job: &Job, end: JobEnd<'_>);

    /// The unallocated space of the data medium that was erased; none if the store knows that only by
    /// address.
    fn unallocated(&self) -> Option<BlockSet<Pos>>;

    /// The epochs of the disk, if the store [keeps](Geometry::keeps_versions) them.
    fn epochs(&self) -> Option<&dyn Epochs>;

    /// The same, to change them.
    fn epochs_mut(&mut self) -> Option<&mut dyn Epochs>;
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

/// The epochs of a disk whose store keeps them.
pub trait Epochs {
    /// The epoch that takes the changes that arrive.
    fn open(&self) -> Epoch;

    /// Whether the open epoch has a change, as far as the store knows: what is dead by address has not left its place.
    fn has_changed(&self) -> bool;

    /// How often slots became free that were given up, where their content would not say that it is not what a slow reader
    /// looks for; none where it does.
    fn reuses(&self) -> Option<u64>;

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
    fn answer(&self, question: &Question) -> Result<Vec<u8>, Place>;

    /// Begins to forget epochs that are kept, or blocks in all epochs up to one: they are not shown any more. The ends of
    /// the epochs are durable, and so is what the epoch after them shows instead of the blocks' content.
    fn forget(&mut self, scope: Scope);

    /// Takes the next step of what was begun to be forgotten.
    fn forget_step(&mut self) -> ForgetStep;

    /// Where the content lies that `extent` had at the end of `epoch`.
    ///
    /// # Errors
    /// [`Gone`].
    fn locate(&self, extent: Extent<Addr>, epoch: Epoch) -> Result<Places, Gone>;

    /// The first bytes of `extent` that are forgotten in `epoch`.
    fn gap(&self, extent: Extent<Addr>, epoch: Epoch) -> Option<Extent<Addr>>;

    /// The first block of `extent` whose content in the open epoch is from epoch `to` or before, after a look at `looks_max`
    /// blocks or fewer. Or the part of the store's metadata that has to be read first.
    ///
    /// # Errors
    /// That part.
    fn find_shared(&self, extent: Extent<Addr>, to: Epoch, looks_max: usize) -> Result<Shared, Place>;
}

/// Why an epoch does not show some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// The epoch is not kept.
    Epoch,
    /// These were forgotten, in that epoch and all before it.
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

/// An answer about content that later states share with an epoch and those before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shared {
    /// There is none.
    Nowhere,
    /// There is none before this address. Where to go on.
    NotBefore(u64),
    /// This block has some.
    At(Extent<Addr>),
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

/// How a write ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Written {
    /// All bytes are in their places. How each block was sealed, in order; nothing if the store seals none.
    There(Vec<Sealing>),
    /// Some bytes may be in their places.
    NotThere,
}

/// The abilities of a store, and its units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// The size of the disk that the guest sees, in bytes.
    pub size: u64,
    /// Bytes in a block, which has one place as a whole. One if each byte has its own place.
    pub block_bytes: u64,
    /// Whether new content goes where the old content of its address lies. Such a write waits until dead
    /// content there is destroyed, and destruction leaves zeros. Otherwise new content gets another place,
    /// and destroyed content is unmapped.
    pub overwrites_in_place: bool,
    /// Whether each write makes a new version of whole blocks, and the versions before it may be kept. Parts of
    /// blocks are merged with the rest before they are written, and what dies leaves its place at once.
    pub keeps_versions: bool,
    /// Whether zeros can keep their space (NBD's NO_HOLE): a write gets its places at once, or none is left.
    pub keeps_space_of_zeros: bool,
}

impl Geometry {
    /// The bytes that change their place together with those of `extent`.
    #[must_use]
    pub fn together(&self, extent: Extent<Addr>) -> Extent<Addr> {
        let whole = outward(extent, self.block_bytes);
        Extent::between(whole.start.0, whole.end().min(self.size).max(extent.end()))
    }

    /// The blocks that `extent` covers in part only: none, one or two. The last block ends with the disk.
    pub fn edges(&self, extent: Extent<Addr>) -> impl Iterator<Item = Extent<Addr>> + use<> {
        let (size, end) = (self.size, extent.end());
        let end = if end == size { size.next_multiple_of(self.block_bytes) } else { end };
        let parts = edges(Extent::between(extent.start.0, end), self.block_bytes);
        parts.map(move |edge| Extent::between(edge.start.0, edge.end().min(size)))
    }
}

/// Kinds of content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Content with a place of its own, where it could be destroyed.
    Own,
    /// Content that the guest can read, other than zeros.
    Visible,
    /// Content that the guest can read, and that can be made to read as zeros.
    Discardable,
}

/// How a write goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WritePlan {
    /// Write the bytes to these places, then call [`Store::end_write`].
    To(Places),
    /// First write this block as a whole, with what it shows now: the write covers a part of it, and the
    /// rest lies where new content cannot go.
    CopyUp(Extent<Addr>),
    /// Try again after the job under way: until then nothing gets a new place.
    AwaitJob,
    /// Refuse this request, and no other: no place is left.
    NoSpace,
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
    /// Jobs for an idle disk.
    WhenIdle,
    /// Jobs to begin now.
    AtOnce,
}

/// A background job: work on unallocated space, or on where content lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Job {
    /// Destroy the residue here.
    Destroy(Vec<Place>),
    /// Destroy the keys here, and write these fresh ones in their places, in order.
    Renew(Vec<Place>, Vec<u8>),
    /// Read these places.
    Read(Vec<Place>),
    /// Write content under other keys, then destroy those that it had.
    Rekey(Rekey),
    /// Give this space back.
    Punch(Vec<Extent<Pos>>),
    /// Truncate the medium here.
    Shrink(Pos),
    /// Read this part of the map.
    Search(Extent<Pos>),
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
}

/// The state of a store, for the owner of the disk.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum StoreStatus {
    /// See [`InPlace`].
    InPlace,
    /// See [`Overlay`].
    Overlay(OverlayStatus),
    /// See [`Versions`].
    Versions(VersionsStatus),
}

impl StoreStatus {
    /// Bytes of residue: unallocated, and still to be destroyed.
    #[must_use]
    pub fn residue_bytes(&self) -> u64 {
        match self {
            Self::InPlace => 0,
            Self::Overlay(it) => it.residue_bytes,
            Self::Versions(it) => it.owed_bytes,
        }
    }

    /// Bytes of the medium that background jobs could still give back: free, or still to be destroyed.
    #[must_use]
    pub fn backlog_bytes(&self) -> u64 {
        match self {
            Self::InPlace => 0,
            Self::Overlay(it) => it.free_bytes + it.residue_bytes,
            Self::Versions(it) => it.owed_bytes,
        }
    }

    /// Why the store destroys nothing and may show less than it has: damage, or doubt about its media.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        match self {
            Self::InPlace | Self::Overlay(_) => None,
            Self::Versions(it) => it.stopped.clone(),
        }
    }

    /// The length of the data medium in bytes, if packing can make it shorter.
    #[must_use]
    pub fn packed_bytes(&self) -> Option<u64> {
        match self {
            Self::InPlace | Self::Versions(_) => None,
            Self::Overlay(it) => Some(it.medium_bytes),
        }
    }
}

/// The kind of store that the owner of a disk chose.
#[derive(Clone, Debug)]
pub enum Kind {
    /// See [`InPlace`].
    InPlace,
    /// See [`Overlay`].
    Overlay(Setup),
    /// See [`Versions`].
    Versions(versions::Setup),
}

/// The parameters for opening a store.
#[derive(Debug)]
pub struct Opening<'a> {
    /// The kind of store.
    pub kind: &'a Kind,
    /// The disk's identity.
    pub disk: [u8; 16],
    /// The size of the disk, in bytes.
    pub size: u64,
    /// The [view](Store::view) that the last stop kept, if that was a clean one.
    pub kept: Option<&'a [u8]>,
    /// The passes that destroy residue in free space.
    pub policy: &'a Policy,
    /// Whether nothing may be written.
    pub read_only: bool,
    /// Memory for what the store knows of its content, in bytes.
    pub memory_bytes: u64,
    /// Secret random bytes. A store that draws keys leaves others there.
    pub entropy: &'a mut [u8; 32],
    /// The dead content that is owed by place. Entries beyond the end of the medium, which a crash took
    /// away, are removed.
    pub owed: &'a mut Owed,
}

/// Why a store cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreError {
    /// The medium is shorter than the disk.
    #[error("the medium has {medium} bytes, and the disk has {disk}; restore the medium from a backup")]
    Short {
        /// Bytes of the medium.
        medium: u64,
        /// Bytes of the disk.
        disk: u64,
    },
    /// The map cannot be used.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The index of versions, or the log of their stubs, cannot be used.
    #[error(transparent)]
    Versions(#[from] versions::VersionsError),
    /// Metadata is damaged.
    #[error("{0}; restore the disk from a backup")]
    Damaged(String),
    /// A medium that the disk needs was not given.
    #[error("the disk cannot be opened without its medium `{0:?}`")]
    NoMedium(MediumId),
    /// The journal is another disk's, or damaged.
    #[error(
        "the journal names {0} places of dead content, which a disk in place never has; restore this disk's journal from a backup"
    )]
    OwesByPlace(usize),
    /// A medium cannot be used.
    #[error("the medium cannot be used: {0}")]
    Medium(#[from] MediumError),
}

/// An open store, and further facts for the volume.
#[derive(Debug)]
pub struct Opened {
    /// The store.
    pub store: Box<dyn Store>,
    /// Whether the store knows which blocks have no data. If not, every block counts as data.
    pub knows_holes: bool,
    /// Dead blocks that the map could not forget, because the host had no space for it, and why each died.
    /// These blocks are owed by address again.
    pub unsaid: Unsaid,
}

/// Opens a disk's store.
///
/// # Errors
/// [`StoreError`].
pub fn open(mut opening: Opening<'_>, media: &Media<'_>) -> Result<Opened, StoreError> {
    match opening.kind {
        Kind::InPlace => {
            let (store, knows_holes) = InPlace::open(&opening, *media.data())?;
            Ok(Opened { store: Box::new(store), knows_holes, unsaid: Unsaid::new() })
        }
        Kind::Overlay(setup) => {
            let all = (*media.data(), needed(media, MediumId::Map)?, needed(media, MediumId::Base)?);
            let (store, unsaid) = Overlay::open(setup, opening, all)?;
            Ok(Opened { store: Box::new(store), knows_holes: true, unsaid })
        }
        Kind::Versions(setup) => {
            let [map, stubs, root] =
                [MediumId::Map, MediumId::Stubs, MediumId::Root].map(|id| needed(media, id));
            let store = Versions::open(setup, &mut opening, [*media.data(), map?, stubs?, root?])?;
            Ok(Opened { store: Box::new(store), knows_holes: true, unsaid: Unsaid::new() })
        }
    }
}

fn needed<'a>(media: &Media<'a>, id: MediumId) -> Result<&'a dyn Medium, StoreError> {
    media.get(id).copied().ok_or(StoreError::NoMedium(id))
}

/// Reads all metadata that is missing for `extent`.
///
/// # Errors
/// The medium's, or the disk does not have it.
pub fn load(store: &mut dyn Store, extent: Extent<Addr>, media: &Media<'_>) -> Result<(), StoreError> {
    while let Some(place) = store.missing(extent) {
        let mut bytes = vec![0; place.extent.len as usize];
        needed(media, place.on)?.read(place.extent.start, &mut bytes)?;
        store.loaded(place, &bytes).map_err(StoreError::Damaged)?;
    }
    Ok(())
}
