//! Addresses and numbers. Each has its own type, so that mixing two does not compile.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes in the unit in which the disk remembers what holds data.
pub const BLOCK_BYTES: u64 = 4096;

/// A linear space of bytes in which an [`Extent`] can lie.
pub trait Address: Copy + Ord + fmt::Debug {
    /// The address `bytes` from the start of its space.
    fn at(bytes: u64) -> Self;
    /// Bytes from the start of its space.
    fn get(self) -> u64;
}

macro_rules! address_space {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize, JsonSchema)]
        pub struct $name(pub u64);

        impl Address for $name {
            fn at(bytes: u64) -> Self {
                Self(bytes)
            }
            fn get(self) -> u64 {
                self.0
            }
        }
    };
}

address_space! {
    /// A byte address on the disk that the guest sees.
    Addr
}
address_space! {
    /// A byte position on a medium. Where a store keeps the content of an
    /// [`Addr`] is that store's secret.
    Pos
}

/// A block of the disk, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Block(pub u64);

/// A place of the data medium for one block, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Slot(pub u64);

/// The number of an opening of the disk: with the number of a sealing within it, it is never repeated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Session(pub u16);

/// The number of an epoch of a disk that keeps versions, from 1 on.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize, JsonSchema,
)]
pub struct Epoch(pub u64);

/// Epochs: the first and the last one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EpochRange {
    /// The first epoch.
    pub from: Epoch,
    /// The last epoch, which is not before the first.
    pub to: Epoch,
}

impl EpochRange {
    /// Whether `epoch` is one of them.
    #[must_use]
    pub fn contains(self, epoch: Epoch) -> bool {
        (self.from..=self.to).contains(&epoch)
    }
}

/// The scope of a forget: epochs as a whole; some blocks in these epochs and all before; or in these epochs only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Scope {
    /// The epochs.
    #[serde(flatten)]
    pub epochs: EpochRange,
    /// The blocks, whose content in all epochs up to the last of these is forgotten: whole ones of [`BLOCK_BYTES`], the last
    /// one too. None for all that only these epochs show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Extent<Addr>>,
    /// Of the blocks, only the versions that these epochs show are forgotten. Absent if all up to the last epoch are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only: bool,
}

impl Scope {
    /// Some blocks, in all epochs up to the last of these.
    #[must_use]
    pub fn chain(epochs: EpochRange, blocks: Extent<Addr>) -> Self {
        Self { epochs, blocks: Some(blocks), only: false }
    }

    /// The versions of some blocks that these epochs show.
    #[must_use]
    pub fn shown(epochs: EpochRange, blocks: Extent<Addr>) -> Self {
        Self { epochs, blocks: Some(blocks), only: true }
    }
}

impl From<EpochRange> for Scope {
    fn from(epochs: EpochRange) -> Self {
        Self { epochs, blocks: None, only: false }
    }
}

/// Milliseconds on the clock that the caller keeps. Only differences matter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Millis(pub u64);

impl Millis {
    /// Milliseconds since `earlier`; 0 if the clock went back.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// `len` bytes from `start`.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize, JsonSchema,
)]
pub struct Extent<A> {
    /// The first byte.
    pub start: A,
    /// The length in bytes.
    pub len: u64,
}

impl<A: Address> Extent<A> {
    /// `len` bytes from byte `start`.
    ///
    /// # Panics
    /// If the end exceeds a `u64`. Check lengths from outside with
    /// [`Extent::within`] first.
    #[must_use]
    pub fn new(start: u64, len: u64) -> Self {
        assert!(start.checked_add(len).is_some(), "extent {start}+{len} overflows");
        Self { start: A::at(start), len }
    }

    /// From byte `start` up to, and without, byte `end`.
    #[must_use]
    pub fn between(start: u64, end: u64) -> Self {
        assert!(start <= end, "extent {start}..{end} is backwards");
        Self { start: A::at(start), len: end - start }
    }

    /// `len` bytes from byte `start`, if they lie within a space of `size` bytes.
    #[must_use]
    pub fn within(start: u64, len: u64, size: u64) -> Option<Self> {
        (start.checked_add(len)? <= size).then(|| Self::new(start, len))
    }

    /// The first byte after the extent.
    #[must_use]
    pub fn end(self) -> u64 {
        self.start.get() + self.len
    }

    /// Whether the extent is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The bytes in both extents, if any.
    #[must_use]
    pub fn overlap(self, other: Self) -> Option<Self> {
        let start = self.start.get().max(other.start.get());
        let end = self.end().min(other.end());
        (start < end).then(|| Self::between(start, end))
    }

    /// Whether some byte is in both extents.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.overlap(other).is_some()
    }

    /// The part that lies in `region`, with positions relative to the first byte of `region`.
    #[must_use]
    pub fn inside(self, region: Self) -> Option<Self> {
        let both = self.overlap(region)?;
        let part = Self::new(both.start.get() - region.start.get(), both.len);
        assert!(part.end() <= region.len, "a part lies in its region");
        Some(part)
    }

    /// The parts of the extent outside `held`: extents within this one that ascend, and do not overlap.
    #[must_use]
    pub fn without(self, held: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let (mut parts, mut from) = (Vec::new(), self.start.get());
        for held in held {
            parts.push(Self::between(from, held.start.get()));
            from = held.end();
        }
        parts.push(Self::between(from, self.end()));
        parts.retain(|part| !part.is_empty());
        parts
    }

    /// The runs of something within the extent, in order; `first` finds the first run within an extent.
    pub fn runs(self, first: impl Fn(Self) -> Option<Self>) -> impl Iterator<Item = Self> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let run = first(rest)?;
            rest = Self::between(run.end(), rest.end());
            Some(run)
        })
    }

    /// The extent in pieces of at most `bytes_max` bytes, in order.
    pub fn pieces(self, bytes_max: u64) -> impl Iterator<Item = Self> {
        assert!(bytes_max > 0, "pieces of nothing");
        let (start, end) = (self.start.get(), self.end());
        (0..self.len.div_ceil(bytes_max)).map(move |n| {
            let from = start + n * bytes_max;
            Self::between(from, end.min(from + bytes_max))
        })
    }
}
