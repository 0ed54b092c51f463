//! The only part that knows where bytes live.
//!
//! A store says what it can do ([`Geometry`]), where bytes are, and where they may go; it never reads or
//! writes. Each answer is a closed enum, so that a caller has to handle every case. A new store is a folder
//! beside the others, a variant of [`Kind`] and one of [`StoreStatus`], and a line in [`open`]; one of another crate is an
//! [`Opener`].

mod allocated;
mod batch;
mod epochs;
mod in_place;
mod keyed;
mod label;
mod mapped;
pub mod overlay;
pub mod sealed;
pub mod versions;

pub use batch::Batch;
pub use epochs::{Epochs, ForgetStep, Gone, Incomparable, Shared};
pub use in_place::InPlace;
pub use keyed::Keyed;
pub use mapped::{Backlog, Job, JobEnd, MapState, Mapped, Rekey, Residue};
pub use overlay::Overlay;
pub use sealed::Sealed;
pub use versions::Versions;

use crate::base::units::{Addr, Epoch, Extent};
use crate::erase::policy::Policy;
use crate::media::medium::{Medium, MediumError};
use crate::media::places::Places;
use crate::media::sealing::Sealing;
use crate::media::{Media, MediumId};
use crate::owed::{KeysPosition, Owed};
use allocated::{edges, outward};
use overlay::{MapError, OverlayStatus, Setup, Unsaid};
use schemars::JsonSchema;
use sealed::{RootError, SealedError, SealedStatus};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::sync::Arc;
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

    /// The places of `extent`.
    ///
    /// # Panics
    /// If something is [missing](Mapped::missing); likewise the other methods that take addresses.
    fn locate(&self, extent: Extent<Addr>) -> Places;

    /// Begins a write of `extent` that belongs to `epoch`, and says where the bytes go. The present content
    /// stays in its place, and is found there, until [`Mapped::end_write`].
    fn begin_write(&mut self, extent: Extent<Addr>, epoch: Epoch) -> WritePlan;

    /// Unmaps `extent`: it reads as zeros, and has no data any more.
    fn unmap(&mut self, extent: Extent<Addr>);

    /// How dead content is destroyed. Never changes.
    fn destruction(&self) -> Destruction;

    /// The capabilities of a store whose content changes its places; `None` if byte n always lies at n.
    fn mapped(&self) -> Option<&dyn Mapped> {
        None
    }

    /// [`Store::mapped`], to change the store.
    fn mapped_mut(&mut self) -> Option<&mut dyn Mapped> {
        None
    }

    /// What the store can do if content dies with its keys; `None` if it does not.
    fn keyed(&self) -> Option<&dyn Keyed> {
        None
    }

    /// [`Store::keyed`], to change the store.
    fn keyed_mut(&mut self) -> Option<&mut dyn Keyed> {
        None
    }

    /// The epochs of the disk; `None` if the store keeps no epochs.
    fn epochs(&self) -> Option<&dyn Epochs> {
        None
    }

    /// [`Store::epochs`], to change them.
    fn epochs_mut(&mut self) -> Option<&mut dyn Epochs> {
        None
    }
}

/// How a write ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Written {
    /// All bytes are in their places. How each block was sealed, in order; empty if the store seals no blocks.
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
    /// Bytes that can be written alone: one, a sector, or a block. A part of such a unit is merged with the rest of it before it is
    /// written.
    pub write_bytes: u64,
    /// Bytes that can die alone: one, or a block.
    pub death_bytes: u64,
}

impl Geometry {
    /// The bytes that change their place together with those of `extent`.
    #[must_use]
    pub fn together(&self, extent: Extent<Addr>) -> Extent<Addr> {
        self.outward(extent, self.block_bytes)
    }

    /// The blocks that `extent` covers in part only, at most two. The last block ends with the disk.
    pub fn edges(&self, extent: Extent<Addr>) -> impl Iterator<Item = Extent<Addr>> + use<> {
        self.edges_of(extent, self.block_bytes)
    }

    /// The units that a write of `extent`, or with `dies` its death, changes in part only, at most two.
    pub fn merged(&self, extent: Extent<Addr>, dies: bool) -> impl Iterator<Item = Extent<Addr>> + use<> {
        self.edges_of(extent, self.unit_bytes(dies))
    }

    /// The units that a write of `extent`, or with `dies` its death, changes.
    #[must_use]
    pub fn units(&self, extent: Extent<Addr>, dies: bool) -> Extent<Addr> {
        self.outward(extent, self.unit_bytes(dies))
    }

    /// The bytes that change when those of `extent` do.
    #[must_use]
    pub fn changed(&self, extent: Extent<Addr>) -> Extent<Addr> {
        if self.death_bytes < self.block_bytes { extent } else { self.together(extent) }
    }

    fn unit_bytes(&self, dies: bool) -> u64 {
        if dies { self.death_bytes } else { self.write_bytes }
    }

    /// The units of so many bytes that `extent` touches, as far as the disk goes.
    fn outward(&self, extent: Extent<Addr>, bytes: u64) -> Extent<Addr> {
        let whole = outward(extent, bytes);
        Extent::between(whole.start.0, whole.end().min(self.size).max(extent.end()))
    }

    fn edges_of(&self, extent: Extent<Addr>, bytes: u64) -> impl Iterator<Item = Extent<Addr>> + use<> {
        let (size, end) = (self.size, extent.end());
        let end = if end == size { size.next_multiple_of(bytes) } else { end };
        let parts = edges(Extent::between(extent.start.0, end), bytes);
        parts.map(move |edge| Extent::between(edge.start.0, edge.end().min(size)))
    }
}

/// How a store destroys dead content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destruction {
    /// An erase task overwrites it in its place, which stays its address's.
    InPlace,
    /// The same; the place is then free. A write before that gets another place ([`Mapped::leave`]).
    ThenFreed,
    /// It leaves its place at once, without a write, and background jobs destroy it there. No request waits for that, and nothing lies
    /// below what is written.
    OnceLeft,
    /// A purge ends its key ([`Keyed`]). A write before that goes under another key.
    Rekeyed,
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
    /// Write the bytes to these places, then call [`Mapped::end_write`].
    To(Places),
    /// First write this block as a whole, with what it shows now: the write covers a part of it, and the
    /// rest lies where new content cannot go.
    CopyUp(Extent<Addr>),
    /// Try again after the job under way: until then nothing gets a new place.
    AwaitJob,
    /// Refuse this request, and no other: no place is left.
    NoSpace,
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
    /// See [`Sealed`].
    Sealed(SealedStatus),
}

impl StoreStatus {
    /// The figures of a store that can shrink, if this is one.
    #[must_use]
    pub fn overlay(&self) -> Option<&OverlayStatus> {
        if let Self::Overlay(it) = self { Some(it) } else { None }
    }

    /// The figures of a store that keeps epochs, if this is one.
    #[must_use]
    pub fn versions(&self) -> Option<&VersionsStatus> {
        if let Self::Versions(it) = self { Some(it) } else { None }
    }

    /// The figures of a store whose content dies with its keys, if this is one.
    #[must_use]
    pub fn sealed(&self) -> Option<&SealedStatus> {
        if let Self::Sealed(it) = self { Some(it) } else { None }
    }

    /// Bytes of residue: unallocated, and still to be destroyed.
    #[must_use]
    pub fn residue_bytes(&self) -> u64 {
        match self {
            Self::InPlace | Self::Sealed(_) => 0,
            Self::Overlay(it) => it.residue_bytes,
            Self::Versions(it) => it.owed_bytes,
        }
    }

    /// Bytes of the medium that background jobs could still give back: free, or still to be destroyed.
    #[must_use]
    pub fn backlog_bytes(&self) -> u64 {
        match self {
            Self::InPlace | Self::Sealed(_) => 0,
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
            Self::Sealed(it) => it.stopped.clone(),
        }
    }

    /// The length of the data medium in bytes, if packing can make it shorter.
    #[must_use]
    pub fn packed_bytes(&self) -> Option<u64> {
        match self {
            Self::InPlace | Self::Versions(_) | Self::Sealed(_) => None,
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
    /// See [`Sealed`].
    Sealed,
    /// A store of another crate.
    Other(Arc<dyn Opener>),
}

/// Opens stores of another crate.
pub trait Opener: Debug + Send + Sync {
    /// Opens a disk's store.
    ///
    /// # Errors
    /// [`StoreError`].
    fn open(&self, opening: Opening<'_>, media: &Media<'_>) -> Result<Opened, StoreError>;
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
    /// How far the keys had come, as the journal knows; of a disk whose content dies with its keys.
    pub keys: Option<KeysPosition>,
    /// What the journal has staged: of a disk whose content dies with its keys, blocks that lie under prepared cells there.
    pub staged: &'a [Extent<Addr>],
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
    /// The keys of the disk cannot be used.
    #[error(transparent)]
    Sealed(#[from] sealed::SealedError),
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

impl StoreError {
    /// The failure of a medium, if that is what is wrong with a store that can meet a busy one.
    #[must_use]
    pub fn medium(&self) -> Option<&MediumError> {
        match self {
            Self::Medium(error)
            | Self::Sealed(SealedError::Medium(error) | SealedError::Root(RootError::Medium(error))) => {
                Some(error)
            }
            _ => None,
        }
    }
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
        Kind::Sealed => {
            let [map, root] = [MediumId::Map, MediumId::Root].map(|id| needed(media, id));
            let (store, knows_holes) = Sealed::open(&mut opening, [*media.data(), map?, root?])?;
            Ok(Opened { store: Box::new(store), knows_holes, unsaid: Unsaid::new() })
        }
        Kind::Other(opener) => opener.open(opening, media),
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
        store.mapped_mut().map_or(Ok(()), |it| it.loaded(place, &bytes)).map_err(StoreError::Damaged)?;
    }
    Ok(())
}
