//! Content that was deleted and is not destroyed yet, and the reason why it waits.

use crate::engine::Engine;
use quietus_core::base::units::Millis;
use quietus_core::volume::{Status, WaitingBytes};
use quietus_core::watch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Content that waits.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Waiting {
    /// Reason for the wait.
    #[serde(rename = "for")]
    pub cause: WaitsFor,
    /// Bytes of it that hold data.
    pub bytes: u64,
    /// More may wait: not all of it was counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// Age of the oldest of it, milliseconds. None if that is not known, as after a start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_ms: Option<u64>,
}

/// Reasons why dead content waits, or content that may be dead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WaitsFor {
    /// Dead: waits for idle time, or the deadline.
    Idle,
    /// Dead below content that lives: waits for the same.
    IdleBelow,
    /// Left behind on the medium of an overlay: waits for the same.
    IdleResidue,
    /// Inferred to be dead, with evidence that is not durable yet.
    Evidence,
    /// Free by a map, and named by an inode, or not all inodes are known.
    Inode,
    /// Free by a map that may be older than the last write.
    Map,
    /// Free by a committed map, and written within two commits.
    Commits,
    /// Below an extent of a file that has not written it, or whose write may still be on its way.
    Content,
    /// Behind the end of a file system that was made smaller.
    Mount,
    /// Behind the end of a file system, or in a partition that went or shrank.
    Owner,
}

impl From<watch::WaitsFor> for WaitsFor {
    fn from(cause: watch::WaitsFor) -> Self {
        match cause {
            watch::WaitsFor::Proof => Self::Evidence,
            watch::WaitsFor::Names => Self::Inode,
            watch::WaitsFor::Settling => Self::Map,
            watch::WaitsFor::Commits => Self::Commits,
            watch::WaitsFor::Content => Self::Content,
            watch::WaitsFor::Mount => Self::Mount,
            watch::WaitsFor::Owner => Self::Owner,
        }
    }
}

impl WaitsFor {
    /// The reason why the content is not destroyed yet.
    #[must_use]
    pub fn why(self) -> &'static str {
        match self {
            Self::Idle => "queued",
            Self::IdleBelow => "queued, below present content",
            Self::IdleResidue => "queued, left behind on the medium",
            Self::Evidence => "deleted, and the proof of it is not on the medium yet",
            Self::Inode => "free in the allocation map, but an inode names it, or may",
            Self::Map => "free in an allocation map that may be older than the last write there",
            Self::Commits => "free, but written within the last two commits of the guest's journal",
            Self::Content => "below space that a file reserved and has not written",
            Self::Mount => "given up by a file system that was made smaller",
            Self::Owner => {
                "outside of every file system: behind the end of one, or in a partition that is no more"
            }
        }
    }

    /// The event that ends the wait, besides [`WaitsFor::Idle`]'s idle time and deadline.
    #[must_use]
    pub fn ends_with(self) -> &'static str {
        match self {
            Self::Idle | Self::IdleBelow | Self::IdleResidue => "`quietus shred --now`",
            Self::Evidence => "idle time, or `quietus shred --now`",
            Self::Inode => "`sync` or an unmount in the guest, or `quietus serve --eager`",
            Self::Map => "`sync` and more activity, or an unmount, in the guest",
            Self::Commits => "two more commits: activity or `sync`, or an unmount, in the guest",
            Self::Content => "an unmount, or a minute of activity, in the guest",
            Self::Mount => "a mount, or a minute of activity, in the guest",
            Self::Owner => "`quietus purge`, or a discard, of that range",
        }
    }
}

/// The status of the disk that `engine` runs, and what waits there at the same moment.
pub(super) fn standing(engine: &Engine) -> (Status, Vec<Waiting>) {
    let (status, inferred, since) = engine.ask(|volume| {
        let dead = volume.obligations().filter(|(_, it)| it.is_dead());
        (volume.status(), volume.waiting_bytes(), dead.map(|(_, it)| it.since).min())
    });
    // How long content has been dead that was so at the start is not known.
    let since = since.filter(|since| *since > Millis(0));
    let waiting = of(&status, &inferred, since.map(|since| engine.now().since(since)));
    (status, waiting)
}

fn of(status: &Status, inferred: &WaitingBytes, oldest_ms: Option<u64>) -> Vec<Waiting> {
    let exactly = |cause, bytes| Waiting { cause, bytes, at_least: false, oldest_ms: None };
    let mut all = vec![
        Waiting { oldest_ms, ..exactly(WaitsFor::Idle, status.owed.queued_bytes) },
        exactly(WaitsFor::IdleBelow, status.owed.conservative_bytes),
        exactly(WaitsFor::IdleResidue, status.store.residue_bytes()),
    ];
    let at_least = inferred.at_least;
    let inferred = inferred.by_cause.iter();
    all.extend(inferred.map(|(cause, bytes)| Waiting { at_least, ..exactly((*cause).into(), *bytes) }));
    all.retain(|it| it.bytes > 0 || it.at_least);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{CreateOptions, DiskDir};
    use std::collections::BTreeMap;

    #[test]
    fn what_is_inferred_and_holds_data_is_listed_by_what_it_waits_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("disk");
        let options =
            CreateOptions { size: Some(1 << 20), policy: "clear".into(), ..CreateOptions::default() };
        DiskDir::create(&path, &options).expect("a disk");
        let disk = DiskDir::open(&path).expect("no other process has it open");
        let engine = Engine::start("disk", &disk, disk.config().expect("a policy"), None, &mut |_, _| true)
            .expect("it starts");
        let (mut status, nothing) = standing(&engine);
        assert_eq!(nothing, []);
        status.owed.queued_bytes = 512;
        let by_cause = [(watch::WaitsFor::Names, 8192), (watch::WaitsFor::Settling, 0)];
        let mut inferred = WaitingBytes { by_cause: BTreeMap::from(by_cause), at_least: false };
        let listed = |inferred: &WaitingBytes| {
            let all = of(&status, inferred, Some(7));
            all.iter().map(|it| (it.cause, it.bytes, it.at_least, it.oldest_ms)).collect::<Vec<_>>()
        };
        let queued = (WaitsFor::Idle, 512, false, Some(7));
        assert_eq!(listed(&inferred), [queued, (WaitsFor::Inode, 8192, false, None)]);
        inferred.at_least = true;
        let unsure = [(WaitsFor::Inode, 8192, true, None), (WaitsFor::Map, 0, true, None)];
        assert_eq!(listed(&inferred), [&[queued][..], &unsure].concat());
    }
}
