//! The sanitization under way: a step at a time, between requests.

use crate::base::rfc3339::now_ms;
use crate::vault::access::job::Waiting;
use crate::vault::access::owner::share::{Share, Side, Turn};
use crate::vault::access::request::{Control, Refusal, Reply};
use crate::vault::upkeep::sanitize::{Meter, Sanitize, SanitizeReceipt, receipt};
use crate::vault::{Error, Session};
use quietus_vault::VaultError;
use quietus_vault::sanitize::Progress;
use std::time::{Duration, Instant};

/// How often a paused sanitization checks whether a client still waits for it.
const PAUSED_FOR: Duration = Duration::from_millis(250);

/// See the module's documentation.
pub(super) struct Sanitizing {
    how: Sanitize,
    run: u64,
    from_ms: u64,
    meter: Meter,
    phase: &'static str,
    is_paused: bool,
    pub(super) share: Share,
    /// When the next step is due.
    pub(super) due: Instant,
    /// The client that asked for it: once that is gone, it is cancelled.
    asker: Waiting,
    /// More clients that are told of progress and of the end.
    pub(super) watchers: Vec<Waiting>,
}

impl Sanitizing {
    /// Begins a sanitization for `asker`; None if that cannot be.
    pub(super) fn begin(session: &mut Session<'_>, how: Sanitize, asker: Waiting) -> Option<Self> {
        let from_ms = now_ms();
        let run = begin(session, how).map_err(|error| asker.answer(Err(error))).ok()?;
        Some(Self {
            how,
            run,
            from_ms,
            meter: Meter::default(),
            phase: phase(Progress::Settle),
            is_paused: false,
            share: Share::new(how.share),
            due: Instant::now(),
            asker,
            watchers: Vec::new(),
        })
    }

    /// Does a part of it, unless it pauses; None if it has ended.
    pub(super) fn step(mut self, session: &mut Session<'_>) -> Option<Self> {
        if self.is_paused {
            self.due = Instant::now() + PAUSED_FOR;
            return self.tell(session, "paused", (0, 0));
        }
        let turn = Turn::begin(session);
        let progress = match session.vault.step_sanitization() {
            Ok(progress) => progress,
            Err(error) => return self.end(Err(error.into())),
        };
        self.meter.note(std::mem::replace(&mut self.phase, phase(progress)), turn.elapsed());
        self.share.charge(Side::Sanitization, &turn, session);
        self.meter.figures = session.vault.sanitization_figures().unwrap_or(self.meter.figures);
        if let Some(left) = session.vault.sanitization_left().filter(|left| **left != self.meter.left) {
            self.meter.left.clone_from(left);
        }
        if self.how.is_dry_run && matches!(progress, Progress::Copy(_)) {
            let cancelled = session.vault.cancel_sanitization().map_err(Error::from);
            let receipt = cancelled.and_then(|()| self.receipt(session));
            return self.end(receipt);
        }
        if progress == Progress::Done {
            let receipt = self.receipt(session);
            return self.end(receipt);
        }
        let measured = self.meter.measure(progress);
        let phase = self.phase;
        self.tell(session, phase, measured)
    }

    /// Does what another command asks of the sanitization; `None` if that has ended.
    pub(super) fn control(
        mut self,
        session: &mut Session<'_>,
        control: Control,
        asker: Waiting,
    ) -> Option<Self> {
        match control {
            Control::Pause => self.is_paused = true,
            Control::Resume => self.is_paused = false,
            Control::Cancel => {
                self.cancel(session, VaultError::Cancelled.into());
                asker.answer(Ok::<_, Error>(Reply::Done));
                return None;
            }
        }
        self.due = Instant::now();
        asker.answer(Ok::<_, Error>(Reply::Done));
        Some(self)
    }

    /// Ends it without its receipts.
    pub(super) fn cancel(self, session: &mut Session<'_>, why: Error) {
        if let Err(error) = session.vault.cancel_sanitization() {
            tracing::warn!(%error, "cannot note that the sanitization was cancelled; the next one takes its number");
        }
        self.end(Err(why));
    }

    /// Tells all clients that wait; `None`, and the sanitization is cancelled, if the client that asked for it has gone.
    fn tell(mut self, session: &mut Session<'_>, what: &str, (done, of): (u64, u64)) -> Option<Self> {
        if !self.asker.tell(what, done, of) {
            self.cancel(session, Error::Interrupted);
            return None;
        }
        self.watchers.retain_mut(|it| it.tell(what, done, of));
        Some(self)
    }

    fn receipt(&self, session: &mut Session<'_>) -> Result<SanitizeReceipt, Error> {
        receipt(session, self.how, (self.run, self.from_ms), &self.meter)
    }

    /// Answers all clients that wait.
    fn end(self, receipt: Result<SanitizeReceipt, Error>) -> Option<Self> {
        let receipt = receipt.map(Box::new).map_err(Refusal::from);
        let answer = |waiting: &Waiting| waiting.answer(receipt.clone().map(Reply::Receipt));
        [&self.asker].into_iter().chain(&self.watchers).for_each(answer);
        None
    }
}

/// Begins a sanitization: its number.
fn begin(session: &mut Session<'_>, how: Sanitize) -> Result<u64, Error> {
    let run = session.vault.begin_sanitization()?.0;
    if how.is_read_only
        && let Err(error) = session.vault.refuse_puts()
    {
        session.vault.cancel_sanitization()?;
        return Err(error.into());
    }
    Ok(run)
}

/// The present phase, in words.
fn phase(progress: Progress) -> &'static str {
    match progress {
        Progress::Settle | Progress::Merge => "merging the index",
        Progress::Analysis => "analysing",
        Progress::Enumeration => "marking what is live",
        Progress::Audit => "judging containers",
        Progress::Copy(_) => "copying what is live",
        Progress::Compaction => "merging the index again",
        Progress::Zero(_) | Progress::Done => "overwriting",
    }
}
