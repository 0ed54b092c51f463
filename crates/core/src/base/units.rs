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

/// The scope of a forget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(into = "ScopeFields", try_from = "ScopeFields")]
#[schemars(with = "ScopeFields")]
pub enum Scope {
    /// Epochs as a whole: all that only these show.
    Epochs(EpochRange),
    /// Some blocks, in all epochs up to the last of these.
    Chain {
        /// The epochs.
        epochs: EpochRange,
        /// The blocks: whole ones of [`BLOCK_BYTES`], the last one too.
        blocks: Extent<Addr>,
    },
    /// The versions of some blocks that some epochs show.
    Shown(Part),
    /// Parts that lie anywhere, as one.
    Set(Set),
}

/// The versions of some blocks that some epochs show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The epochs.
    pub epochs: EpochRange,
    /// The blocks: whole ones of [`BLOCK_BYTES`], the last one too.
    pub blocks: Extent<Addr>,
}

/// The name of some [`Part`]s that are forgotten as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Set {
    /// The number.
    pub id: SetId,
    /// From the first to the last epoch of any part.
    pub epochs: EpochRange,
}

/// The number of a set, which the one who asks chooses: the beginning of a digest of the parts. In JSON it has 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub struct SetId(pub [u8; 8]);

impl fmt::Display for SetId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl From<SetId> for String {
    fn from(id: SetId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for SetId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(&text, 16).ok().filter(|_| is_hex);
        number.map(|number| Self(number.to_be_bytes())).ok_or("a set has 16 hexadecimal digits")
    }
}

/// A [`Scope`] in JSON.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Scope")]
struct ScopeFields {
    /// The epochs.
    #[serde(flatten)]
    epochs: EpochRange,
    /// The blocks, whose content in all epochs up to the last of these is forgotten: whole ones of 4096 bytes, the last
    /// one too. Absent for all that only these epochs show, and for a set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blocks: Option<Extent<Addr>>,
    /// Of the blocks, only the versions that these epochs show are forgotten. Absent if all up to the last epoch are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    only: bool,
    /// The number of the set of blocks, each with epochs among these, that is forgotten as one: 16 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    set: Option<SetId>,
}

impl From<Scope> for ScopeFields {
    fn from(scope: Scope) -> Self {
        let only = matches!(scope, Scope::Shown(_));
        let set = if let Scope::Set(set) = scope { Some(set.id) } else { None };
        Self { epochs: scope.epochs(), blocks: scope.blocks(), only, set }
    }
}

impl TryFrom<ScopeFields> for Scope {
    type Error = &'static str;

    fn try_from(ScopeFields { epochs, blocks, only, set }: ScopeFields) -> Result<Self, Self::Error> {
        match (blocks, only, set) {
            (None, false, None) => Ok(Self::Epochs(epochs)),
            (Some(blocks), false, None) => Ok(Self::chain(epochs, blocks)),
            (Some(blocks), true, None) => Ok(Self::shown(epochs, blocks)),
            (None, false, Some(id)) => Ok(Self::Set(Set { id, epochs })),
            (None, true, _) => Err("a scope with `only` has blocks"),
            (Some(_), _, Some(_)) => Err("a scope with a set has no blocks"),
        }
    }
}

impl Scope {
    /// Some blocks, in all epochs up to the last of these.
    #[must_use]
    pub fn chain(epochs: EpochRange, blocks: Extent<Addr>) -> Self {
        Self::Chain { epochs, blocks }
    }

    /// The versions of some blocks that these epochs show.
    #[must_use]
    pub fn shown(epochs: EpochRange, blocks: Extent<Addr>) -> Self {
        Self::Shown(Part { epochs, blocks })
    }

    /// The epochs; of a set from the first to the last of any part.
    #[must_use]
    pub fn epochs(self) -> EpochRange {
        match self {
            Self::Epochs(epochs)
            | Self::Chain { epochs, .. }
            | Self::Shown(Part { epochs, .. })
            | Self::Set(Set { epochs, .. }) => epochs,
        }
    }

    /// The blocks, if they are one extent.
    #[must_use]
    pub fn blocks(self) -> Option<Extent<Addr>> {
        match self {
            Self::Chain { blocks, .. } | Self::Shown(Part { blocks, .. }) => Some(blocks),
            Self::Epochs(_) | Self::Set(_) => None,
        }
    }
}

impl From<EpochRange> for Scope {
    fn from(epochs: EpochRange) -> Self {
        Self::Epochs(epochs)
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
