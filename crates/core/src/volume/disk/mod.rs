//! The disk as it is: where its content lies, what is owed, how far that is durable, and what time it is.
//!
//! Every owner reads it, and changes it through its methods. It knows of no request, erase task or watcher; who waits for
//! it is told by the [volume](super), which routes what has ended.
//!
//! [`commit`] writes the journal, [`checkpoints`] the map, and [`recording`] hands out receipts. [`overwriting`] knows
//! which writes over dead bytes a sync has yet to cover, [`purging`] what dies with its keys, [`paging`] which part of the map is in memory, [`outstanding`]
//! which I/O operations are under way. [`schedule`] says what is due by now, [`shortage`] what lacked space, and [`remaining`]
//! what the medium would not erase. What dies, leaves its place, or is left elsewhere by a write, is
//! noted by [`dying`], [`leaving`] and [`older`].

pub(super) mod checkpoints;
pub(super) mod commit;
pub(super) mod dying;
pub(super) mod leaving;
pub(super) mod older;
pub(super) mod outstanding;
pub(super) mod overwriting;
pub(super) mod paging;
pub(super) mod purging;
pub(super) mod recording;
pub(super) mod remaining;
pub(super) mod schedule;
pub(super) mod shortage;
pub(super) mod site;

use crate::media::MediaTable;
use crate::media::medium::Capabilities;
use crate::owed::journal::State;
use crate::store::Store;
use crate::volume::disk::checkpoints::Checkpoints;
use crate::volume::disk::commit::Commits;
use crate::volume::disk::outstanding::Outstanding;
use crate::volume::disk::overwriting::Overwriting;
use crate::volume::disk::purging::Purging;
use crate::volume::disk::remaining::Remaining;
use crate::volume::disk::schedule::Schedule;
use crate::volume::{Command, Config};

/// What to do about a disk that is latched.
pub const LATCH_REMEDY: &str = "restore the file or device that failed, then stop and start the server; the stop loses nothing \
    that was flushed";

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) config: Config,
    pub(super) store: Box<dyn Store>,
    /// What the journal says, with what its next commit will say.
    pub(super) state: State,
    /// The part of what is owed that the medium would not erase.
    pub(super) remaining: Remaining,
    pub(super) commits: Commits,
    /// The writes over dead bytes that no sync covers yet.
    pub(super) overwriting: Overwriting,
    /// What a purge pays for.
    pub(super) purging: Purging,
    /// The checkpoint under way.
    pub(super) checkpoints: Checkpoints,
    /// The I/O operations under way.
    pub(super) outstanding: Outstanding,
    pub(super) schedule: Schedule,
    /// Why nothing more is written, and the remedy, if the medium has failed.
    pub(super) latched: Option<String>,
    /// The abilities of the media.
    pub(super) capabilities: MediaTable<Capabilities>,
}

impl Disk {
    /// The medium failed: nothing more is written (invariant 8 of the [volume](super)).
    pub(super) fn latch(&mut self, reason: &str, out: &mut Vec<Command>) {
        if self.latched.is_some() {
            return;
        }
        self.latched = Some(format!("{reason}; {LATCH_REMEDY}"));
        out.push(Command::Latched(reason.to_string()));
        self.invalidate_notes(out);
    }
}
