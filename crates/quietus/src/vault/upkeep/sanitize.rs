//! Sanitizing a vault: how, at which share, and the signed receipt in the end. The owner's thread does it (`owner/sanitizing.rs`).

use crate::base::hex::sha256;
use crate::base::rfc3339::now_ms;
use crate::base::signed::{AsSigned, Signed};
use crate::front::control::Verdict;
use crate::host::guarantees::{self, DiskGuarantees, Roots};
use crate::vault::place::record::{Entry, OwedLine, ReceiptLine};
use crate::vault::{Error, Session};
use quietus_vault::sanitize::{Figures, Findings, Left, Progress};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Damaged containers that a receipt names one by one.
const RESIDUE_MAX: usize = 100;

/// How a vault is sanitized.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sanitize {
    /// New snapshots are refused meanwhile.
    pub is_read_only: bool,
    /// Stop before anything is destroyed, and say what would be.
    pub is_dry_run: bool,
    /// Its share, in percent, 1 to 90, of the bytes that the pool moves and of the time, while others have work.
    pub share: u32,
}

/// The report of a sanitization, or of its dry run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Sanitized {
    /// `quietus-sanitization-1`.
    pub format: String,
    /// Identity of the vault.
    pub vault: String,
    /// Path of the pool.
    pub medium: String,
    /// The sanitization's number.
    pub run: u64,
    /// Nothing was destroyed: the statement says what would be.
    #[serde(rename = "dry_run")]
    pub is_dry_run: bool,
    /// When it began.
    #[serde(rename = "from", with = "crate::base::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub from_ms: u64,
    /// When it ended.
    #[serde(rename = "to", with = "crate::base::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub to_ms: u64,
    /// Program and version.
    pub program: String,
    /// Policy of the vault.
    pub policy: String,
    /// Passes over each byte.
    pub passes: u64,
    /// The forgets whose content is destroyed.
    pub receipts: Vec<ReceiptLine>,
    /// Content still to be destroyed: it was forgotten after this began, or it may lie in damaged containers that were left.
    pub owed: Vec<OwedLine>,
    /// Damaged containers that were left, because something in them is live and cannot be copied.
    #[serde(default)]
    pub left: u64,
    /// Places of forgotten content that could not be destroyed.
    #[serde(default)]
    pub residue: Vec<Residue>,
    /// The phases, in order, and how long each was at work, without pauses and the requests of others.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// Containers that were judged.
    pub judged: u64,
    /// Containers that were copied out of, overwritten and freed.
    pub destroyed_containers: u64,
    /// Dead chunks in them.
    pub dead_chunks: u64,
    /// Bytes of the dead chunks, as stored.
    pub dead_bytes: u64,
    /// Live chunks that were copied out of them.
    pub copied_chunks: u64,
    /// Bytes of these, as stored.
    pub copied_bytes: u64,
    /// Lines of the audit log, and the hash of the last one.
    pub record: crate::evidence::audit_log::Head,
    /// The host's guarantee for the pool.
    pub guarantees: AsSigned<DiskGuarantees>,
}

impl Sanitized {
    /// Whether everything that the sanitization had to destroy is gone.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self.left {
            0 if !self.is_dry_run => Verdict::allowed_by_signed(&self.guarantees),
            _ => Verdict::Waits { bytes: self.dead_bytes, at_least: true, oldest_ms: None },
        }
    }
}

/// A phase of a sanitization.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Phase {
    /// Name of the phase.
    pub phase: String,
    /// Time at work, in microseconds.
    pub us: u64,
}

/// A place where forgotten content may lie.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Residue {
    /// The place.
    pub at: String,
    /// Why nothing was destroyed there, and what to do.
    pub why: String,
}

/// A sanitization, signed.
pub type SanitizeReceipt = Signed<Sanitized>;

/// The receipt of the sanitization of the number and the beginning `run`, which has ended, or of its dry run. It is on record then.
pub(in super::super) fn receipt(
    session: &mut Session<'_>,
    how: Sanitize,
    (run, from_ms): (u64, u64),
    meter: &Meter,
) -> Result<SanitizeReceipt, Error> {
    let key = session.dir.directory().key()?;
    let receipts = match how.is_dry_run {
        true => Vec::new(),
        false => session.vault.receipts().map(ReceiptLine::from).filter(|it| it.run == run).collect(),
    };
    session.record_receipts()?;
    let Figures { found, done, .. } = meter.figures;
    let done = if how.is_dry_run { found } else { done };
    let statement = statement(session, how, (run, from_ms), (done, meter), receipts);
    let signed = Signed::sign(statement, &key);
    if !how.is_dry_run {
        let digest = sha256(signed.covered().as_bytes());
        session.note(&[Entry::Sanitized { run, digest }])?;
    }
    Ok(signed)
}

fn statement(
    session: &Session<'_>,
    how: Sanitize,
    (run, from_ms): (u64, u64),
    (done, meter): (Findings, &Meter),
    receipts: Vec<ReceiptLine>,
) -> Sanitized {
    let toml = session.dir.home().toml();
    let Findings { containers, dead, dead_bytes, live, live_bytes } = done;
    Sanitized {
        format: "quietus-sanitization-1".into(),
        vault: toml.uuid.to_string(),
        medium: session.dir.home().pool_path().display().to_string(),
        run,
        is_dry_run: how.is_dry_run,
        from_ms,
        to_ms: now_ms(),
        program: concat!("quietus ", env!("CARGO_PKG_VERSION")).into(),
        policy: toml.policy.clone(),
        passes: session.vault.passes() as u64,
        receipts,
        owed: session.vault.owed().map(|(_, owed)| owed.into()).collect(),
        left: meter.left.len() as u64,
        residue: residue(&meter.left),
        phases: meter.phases.clone(),
        judged: meter.figures.judged,
        destroyed_containers: containers,
        dead_chunks: dead,
        dead_bytes,
        copied_chunks: live,
        copied_bytes: live_bytes,
        record: session.log_head(),
        guarantees: AsSigned::new(&session.dir.home().guarantees()),
    }
}

/// The places that no sanitization reaches: damaged containers, and the host's swap.
fn residue(left: &Left) -> Vec<Residue> {
    let containers = left.iter().take(RESIDUE_MAX).map(|(container, why)| Residue {
        at: format!("pool, container {}", container.0),
        why: format!("damaged, and live in part: {why}; put the files of its snapshots again, or forget them, and sanitize again"),
    });
    let swap = guarantees::gather::has_swap(&Roots::default()).then(|| Residue {
        at: "swap space of this host".into(),
        why: "content that passed through memory may have been swapped out; turn swap off, or encrypt it with a key that is new at each start".into(),
    });
    containers.chain(swap).collect()
}

/// How far a phase has come.
#[derive(Default)]
pub(in super::super) struct Meter {
    pub(in super::super) figures: Figures,
    pub(in super::super) left: Left,
    phases: Vec<Phase>,
    copies: u64,
    slots: u64,
}

impl Meter {
    /// Notes that a step of that phase took so long.
    pub(in super::super) fn note(&mut self, phase: &str, took: Duration) {
        let us = took.as_micros() as u64;
        match self.phases.last_mut().filter(|last| last.phase == phase) {
            Some(last) => last.us += us,
            None => self.phases.push(Phase { phase: phase.into(), us }),
        }
    }

    /// How much of the phase is done, and of how much; 0 if that is not known.
    pub(in super::super) fn measure(&mut self, progress: Progress) -> (u64, u64) {
        match progress {
            Progress::Copy(left) => {
                self.copies = self.copies.max(left as u64);
                (self.copies - left as u64, self.copies)
            }
            Progress::Zero(left) => {
                self.slots = self.slots.max(left as u64);
                (self.slots - left as u64, self.slots)
            }
            Progress::Audit => (self.figures.judged, 0),
            _ => (0, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::vault::upkeep::sanitize::*;
    use quietus_vault::{ContainerSequence, VaultError};

    #[test]
    fn residue_names_the_damaged_containers_and_not_without_end() {
        let why = VaultError::Entries { container: ContainerSequence(7), entries: 2 };
        let left = |count| (0..count).map(|it| (ContainerSequence(it), why.clone())).collect::<Left>();
        let containers = |left: &Left| {
            let lines = residue(left).into_iter().filter(|line| line.at.starts_with("pool, container"));
            lines.collect::<Vec<Residue>>()
        };
        assert_eq!(containers(&left(0)), []);
        let one = &containers(&left(1))[0];
        assert!(one.at.ends_with(" 0") && one.why.contains("2 entries"), "{one:?}");
        assert_eq!(containers(&left(1000)).len(), RESIDUE_MAX);
    }
}
