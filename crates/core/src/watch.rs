//! The seam between the volume and whoever infers deaths from what is written.
//!
//! A [`Watcher`] does no input or output: what it must read is asked for, and
//! handed in. The volume owns the order: it tells of every change of content
//! when it *arrives*, before anything is carried out, and shows the content
//! that is about to be replaced where the watcher needs it.
//!
//! Evidence first: a death is handed out only after the writes that prove it
//! are durable. [`Watcher::cut`] begins a batch, [`Watcher::proven`] ends it,
//! and between the two every write that had arrived before has been completed
//! and the medium synced.

use crate::units::{Addr, Extent, Millis};
use serde::{Deserialize, Serialize};

/// New content, on its way to the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// Zeros: the guest freed the extent, or asked for zeros.
    Zeros,
}

/// What is between a guest's file system and the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attached {
    /// Nothing that holds a write back for longer than the rules allow for.
    #[default]
    Direct,
    /// A cache, which writes in any order, and each write within this time.
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

    /// Whether there is a cache between.
    #[must_use]
    pub const fn is_cached(self) -> bool {
        matches!(self, Self::Cached { .. })
    }
}

/// What was inferred of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Their present content is dead.
    Dead,
    /// What lies below their present content is dead; that may be too.
    Scour,
}

/// What content that was inferred to be dead, or that may be, waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum WaitsFor {
    /// Durable evidence, and then for its turn.
    Proof,
    /// Whatever names it to go, or all that may name it to be known.
    Names,
    /// A newer map, or activity: the map that shows it free may be older than the last write.
    Settling,
    /// Further commits: it was written within the last two.
    Commits,
}

/// Runs that wait, each for one thing; of each thing disjoint.
pub type Waits<'a> = Box<dyn Iterator<Item = (WaitsFor, Extent<Addr>)> + 'a>;

/// Which verdicts are asked for.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// Also where only what lies below the content may be dead.
    pub layers: bool,
    /// Also what may settle itself if it is given time.
    pub all: bool,
    /// Where a change is under way: those bytes are not handed out yet.
    pub is_busy: &'a dyn Fn(Extent<Addr>) -> bool,
}

/// Watches one disk's content change, and infers what has died.
pub trait Watcher: Send + std::fmt::Debug {
    /// `extent` is about to get new content; told in order of arrival.
    fn arrived(&mut self, now: Millis, extent: Extent<Addr>, content: Content<'_>);

    /// So many clients are connected from now on. One that comes may send again what
    /// another had under way, and while there are two it may arrive from both.
    fn connected(&mut self, now: Millis, clients: usize);

    /// The guest is attached so from now on. Told before anything else if it is not
    /// [`Attached::Direct`] from the start.
    fn attached(&mut self, _now: Millis, _attached: Attached) {}

    /// The guest reads `extent`; told in order of arrival with what changes.
    fn read(&mut self, _extent: Extent<Addr>) {}

    /// Whose present content must be seen before `extent` gets a new one; in
    /// order, disjoint, each within the disk. They may go beyond `extent`.
    fn needs(&self, extent: Extent<Addr>) -> Vec<Extent<Addr>>;

    /// The content of `seen`, one of [`Watcher::needs`], is `old`, and `extent`
    /// gets `content` next.
    fn overwriting(
        &mut self,
        now: Millis,
        extent: Extent<Addr>,
        content: Content<'_>,
        seen: Extent<Addr>,
        old: &[u8],
    );

    /// Something that it wants to read, in order with the changes that arrive.
    fn wants(&mut self) -> Option<Extent<Addr>>;

    /// What it wanted to read; `None` if that failed.
    fn given(&mut self, now: Millis, extent: Extent<Addr>, content: Option<&[u8]>);

    /// Time has passed.
    fn tick(&mut self, now: Millis);

    /// Since when deaths wait for their evidence to be made durable.
    fn unproven_since(&self) -> Option<Millis>;

    /// The evidence that has arrived up to now is being made durable.
    fn cut(&mut self);

    /// It is durable.
    fn proven(&mut self);

    /// The next thing to be done, if any, that `scope` allows.
    fn verdict(&mut self, scope: Scope<'_>) -> Option<(Extent<Addr>, Verdict)>;

    /// The runs that wait for a verdict, whether they hold data or not.
    fn waiting(&self) -> Waits<'_>;

    /// The parts of `extent` whose present content may be dead, so that it is
    /// to be destroyed before `extent` is written. They count as destroyed.
    /// Asked before the write is told of with [`Watcher::arrived`].
    fn take_suspicious(&mut self, extent: Extent<Addr>) -> Vec<Extent<Addr>>;

    /// Whether nothing more follows from what has arrived, but with time.
    fn is_idle(&self) -> bool;

    /// When it wants to be told that time has passed, whatever else happens.
    fn wakes_at(&self) -> Option<Millis>;

    /// What it knew at the last stop; nothing was written since. Told before
    /// anything else.
    fn restore(&mut self, view: Vec<u8>);

    /// What it wants to know again after a clean stop.
    fn view(&self) -> Option<Vec<u8>>;

    /// Whether it knows whom to watch at `extent`, or at a part of it.
    fn watches(&self, extent: Extent<Addr>) -> bool;

    /// The disk is being stopped: a search that is not over is given up.
    fn stop_searching(&mut self);

    /// What it knows.
    fn status(&self) -> WatchStatus;
}

/// What a [`Watcher`] knows of the disk.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WatchStatus {
    /// The file system, if one is known: `ext2`.
    pub file_system: Option<String>,
    /// What is going on, in words; why nothing is inferred, if that is so.
    pub state: String,
    /// Its properties ("Life or Death at Block-Level", table 2), by name.
    pub properties: Vec<(String, bool)>,
    /// What can be inferred (table 5), by name.
    pub inferred: Vec<(String, bool)>,
    /// Figures, by name: blocks, unless the name says otherwise.
    pub figures: Vec<(String, u64)>,
    /// How much of the search through an existing file system is done and to
    /// be done, in bytes, while it goes on.
    pub progress: Option<(u64, u64)>,
    /// What it knows of each partition, if the disk has some; the fields above
    /// are then about the disk as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartStatus>,
}

/// What a [`Watcher`] knows of one partition.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PartStatus {
    /// Its number, as Linux counts.
    pub number: u32,
    /// Its first byte on the disk.
    pub start_bytes: u64,
    /// How many bytes it has.
    pub len_bytes: u64,
    /// What is known of it.
    #[serde(flatten)]
    pub watch: WatchStatus,
}
