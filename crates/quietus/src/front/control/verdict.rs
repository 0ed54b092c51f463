//! Whether everything that was deleted is gone: what waits and what the medium allows, in one answer.

use super::waiting::Waiting;
use crate::base::signed::AsSigned;
use crate::host::guarantees::DiskGuarantees;
use crate::proof::Proof;
use clap::ValueEnum;
use quietus_core::erase::policy::Policy;
use quietus_core::volume::Status;
use quietus_core::watch::WatchStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether everything that is known to be deleted is gone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Verdict {
    /// All of it, as far as this host can tell.
    Gone,
    /// All of it was overwritten, and old copies may be out of reach.
    Limited {
        /// What keeps them, as a noun.
        by: String,
    },
    /// Some of it is still to be destroyed.
    Waits {
        /// Bytes that hold data.
        bytes: u64,
        /// More may wait.
        at_least: bool,
        /// Age of the oldest, milliseconds; `None` if it was not measured.
        oldest_ms: Option<u64>,
    },
    /// Some of it cannot be destroyed: the disk has failed.
    Stuck {
        /// Bytes that hold data.
        bytes: u64,
        /// More may wait.
        at_least: bool,
    },
    /// A proof found some of it on the medium.
    Found {
        /// Places with dead content, or with keys to it.
        places: u64,
    },
    /// It is not known yet.
    Unknown {
        /// Why.
        why: String,
    },
}

/// How far everything that is known to be deleted has to be gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Require {
    /// Overwritten by any policy, on media where overwriting reaches the bytes.
    Clear,
    /// Overwritten by a policy of two passes or more, on such media.
    Purge,
}

impl Verdict {
    /// The verdict on a disk that is open.
    pub(crate) fn of_status(status: &Status, waiting: &[Waiting], medium: &DiskGuarantees) -> Self {
        let bytes: u64 = waiting.iter().map(|it| it.bytes).sum();
        let at_least = waiting.iter().any(|it| it.at_least) || !status.owed.forgets.is_empty();
        let oldest_ms = waiting.iter().filter_map(|it| it.oldest_ms).max();
        let unknown = |why: &str| Self::Unknown { why: why.into() };
        match () {
            () if status.latched.is_some() && bytes > 0 => Self::Stuck { bytes, at_least },
            () if status.latched.is_some() => unknown("the disk has failed, see `health`"),
            () if bytes > 0 || !status.owed.forgets.is_empty() => Self::Waits { bytes, at_least, oldest_ms },
            () if at_least => unknown("too many ranges to check all of them"),
            () if status.watch.as_ref().is_some_and(is_searching) => {
                unknown("a file system is being searched")
            }
            () => Self::allowed_by(medium),
        }
    }

    /// The verdict of a proof.
    #[must_use]
    pub fn of_proof(proof: &Proof) -> Self {
        let queued = proof.bytes.get("queued").copied().unwrap_or(0);
        match () {
            () if proof.has_dead_content() => Self::Found { places: proof.places_found() },
            () if !proof.is_clean() => Self::Waits { bytes: queued, at_least: queued == 0, oldest_ms: None },
            () => Self::allowed_by_signed(&proof.guarantees),
        }
    }

    /// The verdict where nothing is left, by the guarantees that were signed.
    pub(crate) fn allowed_by_signed(medium: &AsSigned<DiskGuarantees>) -> Self {
        match medium.read() {
            Some(medium) => Self::allowed_by(&medium),
            None => Self::Unknown { why: "another version of Quietus graded the medium".into() },
        }
    }

    fn allowed_by(medium: &DiskGuarantees) -> Self {
        medium.limit().map_or(Self::Gone, |by| Self::Limited { by: by.into() })
    }
}

impl Require {
    /// Whether `verdict` on a disk whose policy is `policy` meets this.
    #[must_use]
    pub fn is_met(self, verdict: &Verdict, policy: &str) -> bool {
        let passes = policy.parse::<Policy>().map_or(0, |policy| policy.passes().len());
        let least = match self {
            Self::Clear => 1,
            Self::Purge => 2,
        };
        *verdict == Verdict::Gone && passes >= least
    }
}

fn is_searching(watch: &WatchStatus) -> bool {
    let parts = watch.parts.iter().map(|part| &part.watch);
    std::iter::once(watch).chain(parts).any(|it| it.progress.is_some())
}
