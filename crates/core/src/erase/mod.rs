//! How content is destroyed, step by step, whatever the content is and wherever its destruction is
//! owed.
//!
//! A [`Task`] is a state machine without input or output. Its driver takes [`Work`] from
//! [`Task::next`], carries the work out, and reports its end with [`Task::done`]. A task knows
//! neither media nor maps: a *site* `S` names whatever the driver can find again, such as a
//! place on a medium, an address, a container, or a key.
//!
//! To give a task up, the driver drops it while it is at rest. What the task did not finish is still
//! owed; a new task over the same sites begins with the first pass, and more passes than
//! due do no harm.
//!
//! Invariants:
//! 1. A step begins when the one before it has ended at all of its sites.
//! 2. Each pass is followed by a sync before the next pass over the same sites begins.
//! 3. [`Record::Erased`] comes last, after the last sync, and after the checkpoint if the task
//!    has one.
//! 4. Content that a task puts back is saved, and recorded as saved, before the first pass over
//!    it. The saved copy is destroyed by the same policy before [`Record::Erased`]. Before all that the
//!    content has its space: a task that lacks space then is given up, and a later step that does begins again.
//! 5. Where a medium [erases](crate::media::medium::Capabilities::erases), one erase stands for all passes and their syncs, and
//!    content that is kept needs no staging.
//! 6. At most [`FILLS_MAX`] writes of a pass are under way at once, and one while the foreground
//!    is at work, unless a request waits for the task. No other step has more than one part under way.

mod batch;
mod method;
pub mod policy;
mod step;
mod task;
#[cfg(test)]
mod tests;

pub use batch::{Limits, RUNS_MAX, holes, windows};
pub use method::{CopyLive, Destroy, Means, Method, Put, Restage, Rewrite, Zeros};
pub use task::{Foreground, Priority, Task};

use crate::base::buf::Buf;
use crate::erase::policy::{Pattern, Seed};
use crate::media::medium::Keep;

/// Most writes of a pass that are under way at once: a medium that is given one write after
/// the other rests in between.
pub const FILLS_MAX: usize = 4;
/// The same while the foreground is at work, which shares the medium and the processors with the
/// task.
pub const FILLS_AT_WORK_MAX: usize = 1;

/// The next work for the driver of a [`Task`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Work<S> {
    /// Input or output.
    Io(StepIo<S>),
    /// A point: the driver does the work.
    Point(Point<S>),
}

/// Input or output of one step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepIo<S> {
    /// The sites, side by side in the buffer.
    pub at: Vec<S>,
    /// The operation.
    pub verb: Verb,
}

/// An operation on a medium.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Take the space that a pass needs where there is none.
    Reserve,
    /// Read the content. [`Task::done`] takes it.
    Read,
    /// Write this content. Durable at the next sync.
    Write(Buf),
    /// Write all of [`Task::contents`] to the staging area, as the driver lays it out there. Durable
    /// when it ends.
    Save,
    /// Write to the log of keys which the content has, or is about to have. Durable at the next sync.
    Log(Logged),
    /// Overwrite with a pass.
    Fill(Pattern),
    /// Have the medium destroy what lies there, or only what lay there before.
    Erase(Keep),
    /// Give the space back.
    Punch,
    /// Make all earlier writes to this medium durable.
    Sync,
    /// Truncate the medium where the site begins.
    Shrink,
}

/// What the log of keys says of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Logged {
    /// Content is about to be put under it.
    Prepared,
    /// Content lies under it.
    Active,
}

/// Work between steps that each driver does differently.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Point<S> {
    /// Forget in memory that content lay here.
    Forget(S),
    /// Note in memory that content has moved.
    Rebind {
        /// The old site.
        from: S,
        /// The new site. The content there is durable.
        to: S,
    },
    /// Make the map durable. The point ends when it is.
    Checkpoint,
    /// Write to the journal. The point ends when the record is durable.
    Record(Record),
}

/// An entry for the driver's journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// The content of all sites is in the staging area: after a crash it is put back from there.
    Saved,
    /// The content is back at its sites, durably: the saved copy is not needed any more.
    Restored,
    /// The task is done: obligations end, and receipts may be given.
    Erased,
}

/// Seeds for random passes, a new one each time.
#[derive(Debug)]
pub struct Seeds {
    entropy: [u8; 32],
    last: u64,
}

impl Seeds {
    /// Seeds from `entropy`: secret random bytes, drawn once each time a store is opened.
    #[must_use]
    pub fn new(entropy: [u8; 32]) -> Self {
        Self { entropy, last: 1 }
    }

    /// The next seed.
    pub fn draw(&mut self) -> Seed {
        assert!(self.last < u64::MAX, "no seed comes twice");
        self.last += 1;
        Seed { entropy: self.entropy, nonce: self.last }
    }
}
