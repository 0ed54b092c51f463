//! Sanitizing a vault: in steps, at a share of the time, with a signed receipt in the end.

use super::record::{Entry, OwedLine, ReceiptLine};
use super::{Error, Session, now_ms};
use crate::hex::sha256;
use crate::signed::Signed;
use quietus_vault::sanitize::{Figures, Findings, Live, Progress};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Longest pause between two steps, so that Ctrl-C is heard.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// How a vault is sanitized.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

/// Sanitizes the vault. `tell` is told what is about to be done, how much of it is done and of how much, and says whether
/// to go on.
///
/// # Errors
/// [`Error`]. After Ctrl-C, what is condemned is destroyed by the next sanitization.
pub fn sanitize(
    session: &mut Session<'_>,
    how: Sanitize,
    tell: &mut dyn FnMut(Progress, u64, u64) -> bool,
) -> Result<SanitizeReceipt, Error> {
    let key = session.dir.directory().key()?;
    let from_ms = now_ms();
    let run = session.vault.begin_sanitization(Live::Ordinals)?.0;
    let figures = Begun(session).carry_out(how, tell)?;
    let receipts = match how.is_dry_run {
        true => Vec::new(),
        false => session.vault.receipts().map(ReceiptLine::from).filter(|it| it.run == run).collect(),
    };
    session.record_receipts()?;
    let statement = statement(session, run, from_ms, &figures, receipts);
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
    let toml = session.dir.toml();
    let Findings { containers, dead, dead_bytes, live, live_bytes } = figures.found;
    Sanitized {
        format: "quietus-sanitization-1".into(),
        vault: toml.uuid.to_string(),
        medium: session.dir.pool_path().display().to_string(),
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
        guarantees: serde_json::to_value(session.dir.guarantees()).unwrap_or_default(),
    }
}

/// A sanitization that has begun. Dropped before its end, the sanitization is cancelled: otherwise no other could begin.
struct Begun<'s, 'd>(&'s mut Session<'d>);

impl Drop for Begun<'_, '_> {
    fn drop(&mut self) {
        if self.0.vault.is_sanitizing()
            && let Err(error) = self.0.vault.cancel_sanitization()
        {
            tracing::warn!(%error, "cannot note that the sanitization was cancelled; the next one takes its number");
        }
    }
}

impl Begun<'_, '_> {
    /// Steps to the end, or to the end of the audit in a dry run; the figures.
    fn carry_out(
        self,
        how: Sanitize,
        tell: &mut dyn FnMut(Progress, u64, u64) -> bool,
    ) -> Result<Figures, Error> {
        let vault = &mut self.0.vault;
        if how.is_read_only || how.is_dry_run {
            vault.refuse_puts()?;
        }
        let mut meter = Meter::default();
        loop {
            let begun = Instant::now();
            let progress = vault.step_sanitization()?;
            meter.figures = vault.sanitization_figures().unwrap_or(meter.figures);
            if progress == Progress::Done {
                return Ok(meter.figures);
            }
            let (done, of) = meter.measure(progress);
            let goes_on = tell(progress, done, of);
            if how.is_dry_run && matches!(progress, Progress::Copy(_)) {
                vault.cancel_sanitization()?;
                return Ok(meter.figures);
            }
            if !goes_on {
                vault.cancel_sanitization()?;
                return Err(Error::Interrupted);
            }
            std::thread::sleep(pause(begun.elapsed(), how.share));
        }
    }
}

/// How long others have the machine after a step that took `step`.
fn pause(step: Duration, share: u32) -> Duration {
    (step * (100 - share.clamp(1, 100)) / share.clamp(1, 100)).min(PAUSE_MAX)
}

/// How far a phase has come.
#[derive(Default)]
struct Meter {
    figures: Figures,
    copies: u64,
    slots: u64,
}

impl Meter {
    fn measure(&mut self, progress: Progress) -> (u64, u64) {
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
mod tests;
