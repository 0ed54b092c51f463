//! The seam between the volume and the watcher, which infers deaths from what is written.
//!
//! A [`Watcher`] does no input or output: it asks for reads, and gets the
//! content. The volume owns the order: an [`Observation`] of every change of
//! content is made when the change *arrives*, before anything is carried out, and
//! another one shows the content that is about to be replaced where the watcher
//! needs it. Only the volume knows how many clients are connected and how the guest is
//! attached; each observation says so.
//!
//! Evidence first: a death is handed out only after the writes that prove it
//! are durable. [`Observation::Cut`] begins a batch, [`Observation::Proven`] ends it,
//! and between the two every write that had arrived before has been completed
//! and the medium synced.

use crate::base::named::{Named, Progress, pairs, progress};
use crate::base::units::{Addr, Extent, Millis};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// New content, on its way to the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// Zeros: the guest freed the extent, or asked for zeros.
    Zeros,
}

impl<'a> Content<'a> {
    /// The part of the content that goes to `place`, if all of it goes to `extent`.
    #[must_use]
    pub fn part(self, extent: Extent<Addr>, place: Extent<Addr>) -> Self {
        match (self, place.overlap(extent)) {
            (Self::Bytes(bytes), Some(both)) => {
                assert!(bytes.len() as u64 == extent.len, "content has as many bytes as its extent");
                let from = (both.start.0 - extent.start.0) as usize;
                Self::Bytes(bytes.get(from..from + both.len as usize).unwrap_or_default())
            }
            (content, _) => content,
        }
    }
}

/// Caching between a guest's file system and the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attached {
    /// No cache holds a write back for longer than the rules allow.
    #[default]
    Direct,
    /// A cache, which sends writes in any order, each within this time.
    Cached {
        /// Longest time that a write is held back, in milliseconds of activity.
        hold_ms: u64,
    },
}

impl Attached {
    /// Longest time that a cache holds a write back, in milliseconds; 0 without a cache.
    #[must_use]
    pub const fn hold_ms(self) -> u64 {
        match self {
            Self::Direct => 0,
            Self::Cached { hold_ms } => hold_ms,
        }
    }

    /// Whether a cache lies between guest and disk.
    #[must_use]
    pub const fn is_cached(self) -> bool {
        matches!(self, Self::Cached { .. })
    }
}

/// An inference about some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The present content of the bytes is dead.
    Dead,
    /// The content below the present one is dead; the present one may be dead too.
    ConservativeOverwrite,
}

/// The reason why content that is dead, or may be, has no verdict yet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum WaitsFor {
    /// Durable evidence, and then its turn.
    Proof,
    /// The end of all references to it, or knowledge of all blocks that may refer to it.
    Names,
    /// A newer map, or activity: the map that shows it free may be older than the last write.
    Settling,
    /// Further commits: it was written within the last two.
    Commits,
    /// Activity, or an unmount: its owner has no content there, unless that is still on its way.
    Content,
    /// A mount of the file system that gave it up, or activity.
    Mount,
    /// A file system that owns it: it lies behind the end of one, or where a partition was.
    Owner,
}

/// Runs that wait, each with what it waits for; disjoint for each such reason.
pub type Waits<'a> = Box<dyn Iterator<Item = (WaitsFor, Extent<Addr>)> + 'a>;

/// Class of some content: what the marks of a file system say of its owner (`chattr +s`, ext's
/// `EXT2_SECRM_FL`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// No marked file owns the content, nor ever did while the content lay there.
    Plain,
    /// No metadata has told yet whose content it is. Its death is one of sensitive content.
    Unsettled,
    /// A marked file owns the content, or nothing can tell: only destruction ends this.
    Sensitive,
}

/// The verdicts that are asked for.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// Also verdicts on bytes where only content below the present one may be dead.
    pub layers: bool,
    /// Also verdicts on bytes that time may settle.
    pub all: bool,
    /// Whether a change of an extent is under way, on which no verdict is handed out yet.
    pub is_busy: &'a dyn Fn(Extent<Addr>) -> bool,
}

/// The circumstances of an observation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// The time.
    pub now: Millis,
    /// How many clients are connected. A client may repeat requests that another one had under way; while
    /// there are two, a request may arrive from both.
    pub clients: usize,
    /// Caching between the guest and the disk.
    pub attached: Attached,
}

/// An event on a disk. Observations come in the order of the events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Observation<'a> {
    /// `extent` is about to get `content`.
    Arrived {
        /// Where the content goes.
        extent: Extent<Addr>,
        /// The new content.
        content: Content<'a>,
    },
    /// `seen`, one of [`Observer::needs`], holds `old`, and `extent` gets
    /// `content` next.
    Overwriting {
        /// Where the content goes.
        extent: Extent<Addr>,
        /// The new content.
        content: Content<'a>,
        /// Where the old content lies; maybe beyond `extent`.
        old_extent: Extent<Addr>,
        /// The old content.
        old: &'a [u8],
    },
    /// A change of this extent that had arrived was refused. Each byte there holds what it held before, or
    /// the new content.
    Refused {
        /// Where the content would have gone.
        extent: Extent<Addr>,
        /// Whether old content was shown for the change ([`Observation::Overwriting`]), all or some of it.
        was_shown: bool,
    },
    /// A read that [`Observer::wants`] asked for is done. Without content, whatever is known
    /// of `extent` may be wrong.
    Given {
        /// Where the content lies.
        extent: Extent<Addr>,
        /// The content; `None` if the read failed.
        content: Option<&'a [u8]>,
    },
    /// The guest reads this extent.
    Read(Extent<Addr>),
    /// A client has connected or disconnected.
    Clients,
    /// The guest is attached in another way than before.
    Attached,
    /// Time has passed.
    Tick,
    /// The evidence that has arrived up to now is being made durable.
    Cut,
    /// The evidence that had arrived before the cut is durable.
    Proven,
    /// The disk is being stopped: a search that is not over is given up.
    Stopping,
}

impl Observation<'_> {
    /// The extent of the event; `None` if the event concerns no place of the disk.
    #[must_use]
    pub fn place(&self) -> Option<Extent<Addr>> {
        match self {
            Self::Arrived { extent, .. }
            | Self::Refused { extent, .. }
            | Self::Given { extent, .. }
            | Self::Read(extent) => Some(*extent),
            Self::Overwriting { old_extent, .. } => Some(*old_extent),
            Self::Clients | Self::Attached | Self::Tick | Self::Cut | Self::Proven | Self::Stopping => None,
        }
    }

    /// The part of the observation within `region`, by addresses from the first byte of `region`;
    /// all of it, if it has no extent. Old content is shown whole or not at all.
    #[must_use]
    pub fn within(self, region: Extent<Addr>) -> Option<Self> {
        let inner = |extent: Extent<Addr>| extent.inside(region);
        if let Self::Overwriting { old_extent: extent, old: content, .. }
        | Self::Given { extent, content: Some(content) } = self
        {
            assert!(content.len() as u64 == extent.len, "content that is shown is that of its extent");
        }
        Some(match self {
            Self::Arrived { extent, content } => {
                Self::Arrived { extent: inner(extent)?, content: content.part(extent, region) }
            }
            Self::Overwriting { extent, content, old_extent, old } => Self::Overwriting {
                extent: inner(extent)?,
                content: content.part(extent, region),
                old_extent: inner(old_extent).filter(|it| it.len == old_extent.len)?,
                old,
            },
            Self::Refused { extent, was_shown } => Self::Refused { extent: inner(extent)?, was_shown },
            Self::Given { extent, content: None } => Self::Given { extent: inner(extent)?, content: None },
            Self::Given { extent, content } => {
                Self::Given { extent: inner(extent).filter(|it| it.len == extent.len)?, content }
            }
            Self::Read(extent) => Self::Read(inner(extent)?),
            Self::Clients | Self::Attached | Self::Tick | Self::Cut | Self::Proven | Self::Stopping => self,
        })
    }
}

/// The work that is left for a watcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Agenda {
    /// Since when deaths wait for their evidence to be made durable.
    pub unproven_since: Option<Millis>,
    /// When to observe that time has passed, if nothing else happens.
    pub wakes_at: Option<Millis>,
    /// Whether more follows from what has arrived, even if no time passes.
    pub is_working: bool,
}

impl Agenda {
    /// The remaining work of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let earlier = |a: Option<Millis>, b: Option<Millis>| a.into_iter().chain(b).min();
        Self {
            unproven_since: earlier(self.unproven_since, other.unproven_since),
            wakes_at: earlier(self.wakes_at, other.wakes_at),
            is_working: self.is_working || other.is_working,
        }
    }
}

/// Infers from observations of some bytes which of them have died.
pub trait Observer: Send + std::fmt::Debug {
    /// Takes one observation.
    fn observe(&mut self, at: Moment, observation: Observation<'_>);

    /// The extents whose present content must be seen ([`Observation::Overwriting`]) before `extent` gets
    /// new content; in order, disjoint, each within the disk. Some may go beyond `extent`.
    fn needs(&self, extent: Extent<Addr>) -> Vec<Extent<Addr>>;

    /// The next extent to be read ([`Observation::Given`]), in order with the changes that arrive.
    fn wants(&mut self) -> Option<Extent<Addr>>;

    /// The work that is left.
    fn agenda(&self) -> Agenda;

    /// The next verdict that `scope` allows, if any.
    fn verdict(&mut self, scope: Scope<'_>) -> Option<(Extent<Addr>, Verdict)>;

    /// The runs that wait for a verdict, whether they have data or not.
    fn waiting(&self) -> Waits<'_>;

    /// Runs of `extent` with the class of their present content; in order, disjoint, all of `extent`.
    /// Where no marks are followed, everything is sensitive.
    fn classes(&self, extent: Extent<Addr>) -> Vec<(Extent<Addr>, Class)> {
        vec![(extent, Class::Sensitive)]
    }

    /// The parts of `extent` whose present content may be dead, and has to be destroyed before `extent` is
    /// written. From now on these parts count as destroyed. Called before the write is observed
    /// ([`Observation::Arrived`]).
    fn take_suspicious(&mut self, extent: Extent<Addr>) -> Vec<Extent<Addr>>;

    /// The bytes that [`Watcher::restore`] gets after a clean stop; `None` if a start without them knows
    /// as much.
    fn view(&self) -> Option<Vec<u8>>;
}

/// Observes one disk, whatever is or will be on it.
pub trait Watcher: Observer {
    /// Takes the view of the last stop. Nothing was written since, and nothing has been observed yet.
    fn restore(&mut self, view: Vec<u8>);

    /// Whether a file system is watched at `extent`, or at a part of it.
    fn watches(&self, extent: Extent<Addr>) -> bool;

    /// The state of the watcher.
    fn status(&self) -> WatchStatus;

    /// A watcher of the same disk that has observed nothing, as after a start without a view.
    fn anew(&self) -> Box<dyn Watcher>;
}

/// The state of a [`Watcher`].
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct WatchStatus {
    /// The file system, if one is known: `ext2`.
    pub file_system: Option<String>,
    /// The current state in words; why nothing is inferred, if that is so.
    pub state: String,
    /// The properties of the file system ("Life or Death at Block-Level", table 2), by name.
    #[serde(with = "pairs")]
    #[schemars(with = "Vec<Named<bool>>")]
    pub properties: Vec<(String, bool)>,
    /// The kinds of death that can be inferred (table 5), by name.
    #[serde(with = "pairs")]
    #[schemars(with = "Vec<Named<bool>>")]
    pub inferred: Vec<(String, bool)>,
    /// Deleted content that cannot be told from that of files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    /// Figures, by name: blocks, unless the name says otherwise.
    #[serde(with = "pairs")]
    #[schemars(with = "Vec<Named<u64>>")]
    pub figures: Vec<(String, u64)>,
    /// Why all content is sensitive, although only content of marked files should be ([`Class`]), if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_sensitive: Option<String>,
    /// How much of the search through an existing file system is done and to
    /// be done, in bytes, while it goes on.
    #[serde(with = "progress")]
    #[schemars(with = "Option<Progress>")]
    pub progress: Option<(u64, u64)>,
    /// The state of each partition, if the disk has some; the fields above are then about the disk as a
    /// whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartStatus>,
}

/// The state of a [`Watcher`] of one partition.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct PartStatus {
    /// The number of the partition, as Linux counts.
    pub number: u32,
    /// Where the partition begins, in bytes from the start of the disk.
    pub start_bytes: u64,
    /// The length of the partition, in bytes.
    pub len_bytes: u64,
    /// The state of its watcher.
    #[serde(flatten)]
    pub watch: WatchStatus,
}

#[cfg(test)]
mod tests;
