//! What was deleted and is not destroyed yet, and what it waits for.

use crate::engine::Engine;
use quietus_core::units::{BLOCK_BYTES, Millis};
use quietus_core::volume::Status;
use quietus_core::watch::WatchStatus;
use serde::{Deserialize, Serialize};

/// Content that waits.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Waiting {
    /// What for.
    #[serde(rename = "for")]
    pub cause: WaitsFor,
    /// How much.
    pub bytes: u64,
    /// Since when the oldest does: milliseconds before now. None if that is not known, as
    /// after a start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_ms: Option<u64>,
}

/// What dead content waits for, or content that may be dead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitsFor {
    /// Dead: idle time, or the deadline.
    Idle,
    /// Dead below content that lives: the same.
    IdleBelow,
    /// Left behind on the medium of an overlay: the same.
    IdleResidue,
    /// Inferred to be dead, with evidence that is not durable yet.
    Evidence,
    /// Free by a map, and named by an inode.
    Inode,
    /// Free by a map that may be older than the last write.
    Map,
    /// Free by a committed map, and written within two commits.
    Commits,
}

/// Figures of a watcher that tell of content that waits, in blocks.
pub const FIGURES: [(&str, WaitsFor); 4] = [
    ("dead, evidence not durable yet", WaitsFor::Evidence),
    ("dead, still named", WaitsFor::Inode),
    ("doubted", WaitsFor::Map),
    ("free, and written within two commits", WaitsFor::Commits),
];

/// The figure that says how large a block is.
pub const BLOCK_FIGURE: &str = "bytes in a block";

impl WaitsFor {
    /// Why it is not destroyed yet.
    #[must_use]
    pub fn why(self) -> &'static str {
        match self {
            Self::Idle => "queued",
            Self::IdleBelow => "queued, below present content",
            Self::IdleResidue => "queued, left behind in the overlay's file",
            Self::Evidence => "deleted, and the proof of it is not on the medium yet",
            Self::Inode => "free in the allocation map, but an inode still names it",
            Self::Map => "free in an allocation map that may be older than the last write there",
            Self::Commits => "free, but written within the last two commits of the guest's journal",
        }
    }

    /// What ends the wait, besides [`WaitsFor::Idle`]'s idle time and deadline.
    #[must_use]
    pub fn ends_with(self) -> &'static str {
        match self {
            Self::Idle | Self::IdleBelow | Self::IdleResidue => "`quietus shred --now`",
            Self::Evidence => "idle time, or `quietus shred --now`",
            Self::Inode => "`sync` or an unmount in the guest, or `quietus serve --eager`",
            Self::Map => "`sync` and more activity, or an unmount, in the guest",
            Self::Commits => "two more commits: activity or `sync`, or an unmount, in the guest",
        }
    }
}

/// What waits on the disk that `engine` runs.
pub(super) fn waiting(engine: &Engine, status: &Status) -> Vec<Waiting> {
    // What was dead at the start has been for longer than anybody knows.
    let since = engine.dead_since().filter(|since| *since > Millis(0));
    of(status, since.map(|since| engine.now().since(since)))
}

fn of(status: &Status, oldest_ms: Option<u64>) -> Vec<Waiting> {
    let residue = status.overlay.as_ref().map_or(0, |it| it.residue_bytes);
    let mut all = vec![
        Waiting { cause: WaitsFor::Idle, bytes: status.queued_bytes, oldest_ms },
        Waiting { cause: WaitsFor::IdleBelow, bytes: status.scour_bytes, oldest_ms: None },
        Waiting { cause: WaitsFor::IdleResidue, bytes: residue, oldest_ms: None },
    ];
    let watches: Vec<&WatchStatus> = status.watch.iter().flat_map(file_systems).collect();
    all.extend(FIGURES.map(|(name, cause)| {
        let bytes = watches.iter().map(|it| figure(it, name) * block_bytes(it)).sum();
        Waiting { cause, bytes, oldest_ms: None }
    }));
    all.retain(|it| it.bytes > 0);
    all
}

/// Of the whole disk, and of each partition.
fn file_systems(watch: &WatchStatus) -> impl Iterator<Item = &WatchStatus> {
    std::iter::once(watch).chain(watch.parts.iter().map(|part| &part.watch))
}

fn figure(watch: &WatchStatus, name: &str) -> u64 {
    watch.figures.iter().find(|(it, _)| it == name).map_or(0, |(_, figure)| *figure)
}

fn block_bytes(watch: &WatchStatus) -> u64 {
    match figure(watch, BLOCK_FIGURE) {
        0 => BLOCK_BYTES,
        told => told,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{CreateOptions, DiskDir};
    use quietus_core::watch::PartStatus;

    #[test]
    fn what_is_inferred_and_cannot_be_destroyed_yet_is_counted_in_all_partitions() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("disk");
        let options =
            CreateOptions { size: Some(1 << 20), policy: "clear".into(), ..CreateOptions::default() };
        DiskDir::create(&path, &options).expect("a disk");
        let disk = DiskDir::open(&path).expect("nobody has it");
        let engine = Engine::start("disk", &disk, disk.config().expect("a policy"), None).expect("it starts");
        let mut status = engine.status();
        assert_eq!(waiting(&engine, &status), []);
        let part = |figures: &[(&str, u64)]| {
            let figures = figures.iter().map(|(name, figure)| ((*name).to_string(), *figure)).collect();
            PartStatus { watch: WatchStatus { figures, ..WatchStatus::default() }, ..PartStatus::default() }
        };
        let parts = vec![
            part(&[("bytes in a block", 1024), ("doubted", 3), ("live", 9)]),
            part(&[("doubted", 1), ("dead, still named", 2)]),
        ];
        status.watch = Some(WatchStatus { parts, ..WatchStatus::default() });
        status.queued_bytes = 512;
        let found: Vec<_> =
            of(&status, Some(7)).iter().map(|it| (it.cause, it.bytes, it.oldest_ms)).collect();
        let wanted = [
            (WaitsFor::Idle, 512, Some(7)),
            (WaitsFor::Inode, 8192, None),
            (WaitsFor::Map, 3 * 1024 + 4096, None),
        ];
        assert_eq!(found, wanted);
    }
}
