//! The only part that knows where bytes live.
//!
//! A store is asked what it can do ([`Geometry`]), where bytes are, and where they may go; it never reads
//! or writes. Each answer is closed: who asks has to say what follows from each. A new store is a folder
//! beside the others, a variant of [`Kind`] and one of [`StoreStatus`], and a line in [`open`].

mod allocated;
mod in_place;
pub mod overlay;

pub use in_place::InPlace;
pub use overlay::Overlay;

use crate::blocks::BlockSet;
use crate::media::{Media, MediumId};
use crate::medium::{Medium, MediumError};
use crate::owed::Owed;
use crate::place::{Place, Places};
use crate::units::{Addr, Extent, Pos};
use allocated::{edges, outward};
use overlay::{MapError, OverlayStatus, Setup, Unsaid};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// Where the content of a disk lives, and which of it is data.
pub trait Store: Debug + Send {
    /// What the store can do, and in which units. Never changes.
    fn geometry(&self) -> Geometry;

    /// What an owner wants to know of the store.
    fn status(&self) -> StoreStatus;

    /// Bytes in blocks that hold data, or may hold some.
    fn allocated_bytes(&self) -> u64;

    /// What the store wants to know again after a clean stop ([`Opening::kept`]).
    fn view(&self) -> Vec<u8>;

    /// The first run within `extent` of such `content`, or of what may be such.
    fn first(&self, content: Content, extent: Extent<Addr>) -> Option<Extent<Addr>>;

    /// The first part of the store's own metadata that has to be read before the store is asked anything
    /// else of `extent`. Whoever needs several extents asks for all of them first, and changes nothing
    /// before none is missing.
    fn missing(&self, extent: Extent<Addr>) -> Option<Place>;

    /// Metadata that was missing.
    fn loaded(&mut self, place: Place, bytes: &[u8]);

    /// Where `extent` is read.
    ///
    /// # Panics
    /// If something is [missing](Store::missing); likewise the other methods that take addresses.
    fn locate(&self, extent: Extent<Addr>) -> Places;

    /// `extent` is about to be written; where to. What is there now stays where it is, and is found
    /// there, until [`Store::end_write`].
    fn begin_write(&mut self, extent: Extent<Addr>) -> WritePlan;

    /// A write of `extent` that got its [places](WritePlan::To) has ended: all of it `is_there`, or some
    /// of it may be.
    fn end_write(&mut self, extent: Extent<Addr>, is_there: bool);

    /// `extent` reads as zeros, and holds no data any more.
    fn unmap(&mut self, extent: Extent<Addr>);

    /// `block`, which is dead, is about to be written, and reads as zeros from now on. Returns where its
    /// content lies, which is used again after [`Store::reclaim`]; nothing if the new content goes there too.
    fn leave(&mut self, block: Extent<Addr>) -> Vec<Place>;

    /// What lay in these places of the data medium is destroyed, and nothing that is durable names it.
    fn reclaim(&mut self, places: &[Extent<Pos>]);

    /// The first part of the map that has no space on the host yet and that a write of `extent` changes, or,
    /// if it `dies`, its death. Nothing of the kind is begun before that part has
    /// [its space](Store::reserved).
    fn lacks_space(&self, extent: Extent<Addr>, dies: bool) -> Option<Place>;

    /// This part of the map has space on the host, and keeps it.
    fn reserved(&mut self, place: Place);

    /// How far the map that is durable is behind the one in memory.
    fn map_state(&self) -> MapState;

    /// Whether the durable map says where `extent` is.
    fn is_durable(&self, extent: Extent<Addr>) -> bool;

    /// Begins a checkpoint: what has to be written to make the map durable as it is now, once the content
    /// is. One at a time.
    fn begin_checkpoint(&mut self) -> Vec<(Place, Vec<u8>)>;

    /// What [`Store::begin_checkpoint`] said is durable.
    fn end_checkpoint(&mut self);

    /// What [`Store::begin_checkpoint`] said is not durable: the host had no space for some of it.
    fn abort_checkpoint(&mut self);

    /// What there is to do in the background: with `all`, even what is hardly worth it.
    fn backlog(&self, all: bool) -> Backlog;

    /// Whether there may be copies of content in space that nobody has.
    fn has_residue(&self) -> bool;

    /// The next job of the backlog. One at a time, until [`Store::background_done`].
    fn background(&mut self, all: bool) -> Option<Job>;

    /// `content`, which a job moves, is at its new place.
    fn rebind(&mut self, content: Extent<Addr>, to: Extent<Pos>);

    /// `job` has ended.
    fn background_done(&mut self, job: &Job, end: JobEnd<'_>);

    /// The space of the data medium that nobody has and that was destroyed; none if that can only be said by
    /// address.
    fn vacant(&self) -> Option<BlockSet<Pos>>;
}

/// What a store can do, and in which units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Bytes of the disk that the guest sees.
    pub size: u64,
    /// Bytes that have one place, and change it together. One if each byte has its own.
    pub block_bytes: u64,
    /// New content of an address goes where the old content lies. So it waits until what died there is
    /// destroyed, and zeros are left there after that. Else new content gets another place, and what is
    /// destroyed is unmapped.
    pub overwrites_in_place: bool,
    /// Zeros can keep their space (NBD's NO_HOLE): a write gets its places at once, or there are none left.
    pub keeps_space_of_zeros: bool,
}

impl Geometry {
    /// The bytes that change their place together with those of `extent`.
    #[must_use]
    pub fn together(&self, extent: Extent<Addr>) -> Extent<Addr> {
        let whole = outward(extent, self.block_bytes);
        Extent::between(whole.start.0, whole.end().min(self.size).max(extent.end()))
    }

    /// The blocks of which `extent` covers a part only: none, one or two. The last block of a disk is as
    /// long as the disk has it.
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
    /// What could be destroyed: it has a place of its own.
    Own,
    /// What the guest can read that is data.
    Visible,
    /// What the guest can read, and can be made to read as zeros.
    Discardable,
}

/// What becomes of a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WritePlan {
    /// The bytes go here; [`Store::end_write`] is to tell of their end.
    To(Places),
    /// First this block is to be written as a whole, with what it shows now: the write covers a part of it,
    /// and the rest lies where the new content cannot go.
    CopyUp(Extent<Addr>),
    /// Nothing gets a new place until the job that is under way has ended.
    AwaitJob,
    /// No place is left. That is the end of this request, and of no other.
    NoSpace,
}

/// How far the durable map is behind the one in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapState {
    /// Nothing has changed since.
    Durable,
    /// Something has.
    Behind,
    /// So much has that it should be made durable.
    Due,
}

/// What there is to do in the background.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backlog {
    /// Nothing.
    Nothing,
    /// Something, when the disk is idle.
    WhenIdle,
    /// Something, now.
    AtOnce,
}

/// Work on space that nobody's content lies in, or on where content lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Job {
    /// Destroy what lies here; it is nobody's.
    Destroy(Vec<Extent<Pos>>),
    /// Give this space back.
    Punch(Vec<Extent<Pos>>),
    /// Cut the medium off here.
    Shrink(Pos),
    /// Read this part of the map.
    Search(Extent<Pos>),
    /// Copy content to another place.
    Move {
        /// The content.
        contents: Vec<Extent<Addr>>,
        /// To here: a place for each.
        to: Vec<Extent<Pos>>,
    },
}

/// How a job ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobEnd<'a> {
    /// The job is done; with what was read, if it was to read.
    Done(&'a [u8]),
    /// The job was given up before its end.
    GivenUp,
}

/// What an owner wants to know of a store.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum StoreStatus {
    /// See [`InPlace`].
    InPlace,
    /// See [`Overlay`].
    Overlay(OverlayStatus),
}

impl StoreStatus {
    /// Bytes that nobody has and that are still to be destroyed.
    #[must_use]
    pub fn residue_bytes(&self) -> u64 {
        match self {
            Self::InPlace => 0,
            Self::Overlay(it) => it.residue_bytes,
        }
    }

    /// Bytes of the medium that background jobs could still give back: free, or still to be destroyed.
    #[must_use]
    pub fn backlog_bytes(&self) -> u64 {
        match self {
            Self::InPlace => 0,
            Self::Overlay(it) => it.free_bytes + it.residue_bytes,
        }
    }

    /// Bytes of the data medium, if packing can make it shorter.
    #[must_use]
    pub fn packed_bytes(&self) -> Option<u64> {
        match self {
            Self::InPlace => None,
            Self::Overlay(it) => Some(it.medium_bytes),
        }
    }
}

/// Which store a disk has, as its owner chose.
#[derive(Clone, Debug)]
pub enum Kind {
    /// See [`InPlace`].
    InPlace,
    /// See [`Overlay`].
    Overlay(Setup),
}

/// What a store needs to be opened.
#[derive(Debug)]
pub struct Opening<'a> {
    /// Which store.
    pub kind: &'a Kind,
    /// The disk's identity.
    pub disk: [u8; 16],
    /// Bytes of the disk.
    pub size: u64,
    /// What the store wanted to know again, if the last stop was a clean one.
    pub kept: Option<&'a [u8]>,
    /// Free space may hold what has to be destroyed.
    pub secure: bool,
    /// Nothing is written.
    pub read_only: bool,
    /// What is owed by place. What a crash took away with its medium is removed.
    pub owed: &'a mut Owed,
}

/// Why a store cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreError {
    /// The medium is shorter than the disk.
    #[error("the medium has {medium} bytes, and the disk {disk}: restore the medium")]
    Short {
        /// Bytes of the medium.
        medium: u64,
        /// Bytes of the disk.
        disk: u64,
    },
    /// The map cannot be used.
    #[error(transparent)]
    Map(#[from] MapError),
    /// A medium that the disk needs was not given.
    #[error("the disk cannot be opened without its medium `{0:?}`")]
    NoMedium(MediumId),
    /// The journal is another disk's, or damaged.
    #[error(
        "the journal names {0} places of dead content, and content of this disk never changes its place: restore the journal"
    )]
    OwesByPlace(usize),
    /// A medium cannot be used.
    #[error("the medium cannot be used: {0}")]
    Medium(#[from] MediumError),
}

/// A store that was opened, and what has to be known besides.
#[derive(Debug)]
pub struct Opened {
    /// The store.
    pub store: Box<dyn Store>,
    /// The store knows which blocks hold no data. Else it takes all of them for data.
    pub knows_holes: bool,
    /// Blocks that have died, for which the host had no space to say so, and why each died: they are owed
    /// by address again.
    pub unsaid: Unsaid,
}

/// Opens a disk's store.
///
/// # Errors
/// [`StoreError`].
pub fn open(opening: Opening<'_>, media: &Media<'_>) -> Result<Opened, StoreError> {
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
        store.loaded(place, &bytes);
    }
    Ok(())
}
