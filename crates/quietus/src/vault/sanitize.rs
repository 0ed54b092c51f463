//! Sanitizing a vault: how, at which share of the time, and the signed receipt in the end. The owner's thread does it (`owner/sanitizing.rs`).

use super::record::{Entry, OwedLine, ReceiptLine};
use super::{Error, Session, now_ms};
use crate::hex::sha256;
use crate::signed::Signed;
use quietus_vault::sanitize::{Figures, Findings, Progress};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// Longest pause between two steps, so that Ctrl-C is heard.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// How a vault is sanitized.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sanitize {
    /// Nobody may put anything meanwhile.
    pub is_read_only: bool,
    /// Stop before anything is destroyed, and say what would be.
    pub is_dry_run: bool,
    /// Share of the time that it takes, in percent, 1 to 100.
    pub share: u32,
}

/// The report of a sanitization, or of its dry run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sanitized {
    /// `quietus-sanitization-1`.
    pub format: String,
    /// Identity of the vault.
    pub vault: String,
    /// Path of the pool.
    pub medium: String,
    /// The sanitization's number.
    pub run: u64,
    /// When it began and ended, in milliseconds since 1970.
    pub from_ms: u64,
    /// When it ended.
    pub to_ms: u64,
    /// Program and version.
    pub program: String,
    /// Policy of the vault.
    pub policy: String,
    /// Passes over each byte.
    pub passes: u64,
    /// The forgets whose content is destroyed.
    pub receipts: Vec<ReceiptLine>,
    /// Content still to be destroyed, because it was forgotten after this began.
    pub owed: Vec<OwedLine>,
    /// Containers that were judged.
    pub judged: u64,
    /// Containers that were left, overwritten and freed.
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
    pub record: crate::audit_log::Head,
    /// The host's guarantee for the pool.
    pub guarantees: Value,
}

/// A sanitization, signed.
pub type SanitizeReceipt = Signed<Sanitized>;

/// The receipt of the sanitization of the number and the beginning `run`, which has ended, or of its dry run. It is on record then.
///
/// # Errors
/// [`Error`].
pub(super) fn receipt(
    session: &mut Session<'_>,
    how: Sanitize,
    (run, from_ms): (u64, u64),
    figures: &Figures,
) -> Result<SanitizeReceipt, Error> {
    let key = session.dir.directory().key()?;
    let receipts = match how.is_dry_run {
        true => Vec::new(),
        false => session.vault.receipts().map(ReceiptLine::from).filter(|it| it.run == run).collect(),
    };
    session.record_receipts()?;
    let statement = statement(session, run, from_ms, figures, receipts);
    let signed = Signed::sign(statement, &key);
    if !how.is_dry_run {
        let digest = sha256(signed.covered().as_bytes());
        session.note(&[Entry::Sanitized { run, digest }])?;
    }
    Ok(signed)
}

fn statement(
    session: &Session<'_>,
    run: u64,
    from_ms: u64,
    figures: &Figures,
    receipts: Vec<ReceiptLine>,
) -> Sanitized {
    let toml = session.dir.home().toml();
    let Findings { containers, dead, dead_bytes, live, live_bytes } = figures.found;
    Sanitized {
        format: "quietus-sanitization-1".into(),
        vault: toml.uuid.to_string(),
        medium: session.dir.home().pool_path().display().to_string(),
        run,
        from_ms,
        to_ms: now_ms(),
        program: concat!("quietus ", env!("CARGO_PKG_VERSION")).into(),
        policy: toml.policy.clone(),
        passes: session.vault.passes() as u64,
        receipts,
        owed: session.vault.owed().map(|(_, owed)| owed.into()).collect(),
        judged: figures.judged,
        destroyed_containers: containers,
        dead_chunks: dead,
        dead_bytes,
        copied_chunks: live,
        copied_bytes: live_bytes,
        record: session.log_head().clone(),
        guarantees: serde_json::to_value(session.dir.home().guarantees()).unwrap_or_default(),
    }
}

/// How long others have the machine after a step that took `step`.
pub(super) fn pause(step: Duration, share: u32) -> Duration {
    (step * (100 - share.clamp(1, 100)) / share.clamp(1, 100)).min(PAUSE_MAX)
}

/// How far a phase has come.
#[derive(Default)]
pub(super) struct Meter {
    pub(super) figures: Figures,
    copies: u64,
    slots: u64,
}

impl Meter {
    /// How much of the phase is done, and of how much; 0 if that is not known.
    pub(super) fn measure(&mut self, progress: Progress) -> (u64, u64) {
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

/// Checks the receipt of a sanitization against its own key and, if given, against the one that the vault is known to have.
///
/// # Errors
/// [`Error::Signed`].
pub fn check(text: &str, known_key: Option<&str>) -> Result<SanitizeReceipt, Error> {
    Ok(Signed::parse(text, known_key)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_leaves_the_rest_of_the_time_to_others() {
        let step = Duration::from_millis(60);
        assert_eq!(pause(step, 100), Duration::ZERO);
        assert_eq!(pause(step, 50), step);
        assert_eq!(pause(step, 25), 3 * step);
        assert_eq!(pause(step, 0), PAUSE_MAX);
    }
}
