//! The answers to calls, by the disk that is open in this process.

use super::call::{Call, Space, StatusAnswer};
use super::refused::Refused;
use super::reply::{Answer, Reply};
use super::reports::{Compacted, DueName, Owed, OwedRange, PurgeWeighed, Purged, Shredded};
use super::verdict::Verdict;
use super::waiting;
use crate::base::rfc3339::now_ms;
use crate::disk::{Size, Step, pace};
use crate::engine::export::{Export, carry_out, liveness_runs};
use crate::open_disk::copy::copy;
use crate::open_disk::{OpenDisk, backlog_bytes};
use crate::proof::{self, ProofError, Receipt};
use quietus_core::base::units::{Addr, Extent};
use quietus_core::media::MediumId;
use quietus_core::owed::ledger::Due;
use quietus_core::request::{Liveness, Op, Request};
use quietus_core::volume::{Config, Status};
use quietus_detect::rules::options::Sensitive;
use std::fs::File;

/// Most obligations that one answer lists; more are counted.
const OBLIGATIONS_MAX: usize = 1000;
/// Most sizes that one answer lists.
const SIZES_MAX: usize = 100;

impl OpenDisk {
    /// Answers `call`, which came with `file`, with the report that the caller expects.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn answer<T: Answer>(&self, call: &Call, file: Option<&File>, step: Step<'_>) -> Result<T, Refused> {
        T::of(self.reply(call, file, step)?)
    }

    /// Answers `call`, which came with `file`. `step` says whether to go on.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn reply(&self, call: &Call, file: Option<&File>, step: Step<'_>) -> Result<Reply, Refused> {
        let sent = |name: &str| {
            let refused =
                || format!("no file came with the call `{name}`; send a descriptor of an empty file");
            file.ok_or_else(refused)
        };
        Ok(match call {
            Call::Status => self.status().into(),
            Call::Deaths => self.deaths().into(),
            Call::Shred => self.shred(step)?.into(),
            Call::WeighPurge { ranges } => self.weigh_purge(ranges)?.into(),
            Call::Purge { ranges, conservative } => self.purge(ranges, *conservative)?.into(),
            Call::Compact => self.compact(step)?.into(),
            Call::Export => copy(&self.engine, sent("export")?, step)?.into(),
            Call::Epoch { name, confirm_clock } => self.close_epoch(name.as_deref(), *confirm_clock)?.into(),
            Call::Versions { from, unique } => self.versions(*from, *unique, step)?.into(),
            Call::Forget { epochs, wait } => self.forget(epochs, *wait, step)?.into(),
            Call::Weigh { epochs } => self.weigh(epochs, step)?.into(),
            Call::ForgetBlocks { ranges, epochs, current, wait } => {
                self.forget_blocks(ranges, epochs.as_ref(), (*current, *wait), step)?.into()
            }
            Call::ForgetParts { parts, wait } => self.forget_parts(parts, *wait, step)?.into(),
            Call::WeighParts { parts } => self.weigh_parts(parts, step)?.into(),
            Call::WeighBlocks { ranges, epochs } => self.weigh_blocks(ranges, epochs.as_ref(), step)?.into(),
            Call::Hold { name, epochs, who, why } => self.hold(name, epochs, who, why)?.into(),
            Call::Release { name } => self.release(name)?.into(),
            Call::ExportPast { at, zeros } => {
                self.export_past(at, *zeros, sent("export-past")?, step)?.into()
            }
            Call::Diff { from, to, start, ranges } => {
                self.diff(from, to.as_deref(), (*start, ranges), step)?.into()
            }
            Call::Lives { from, ranges, start } => self.lives(from, ranges, *start, step)?.into(),
            Call::Read { at, ranges } => self.read_into(at.as_deref(), ranges, file)?.into(),
            Call::Restore { at } => self.restore(at, step)?.into(),
            Call::Verify { read_data } => self.verify(*read_data, step).into(),
            Call::Wear => self.wear()?.into(),
            Call::Prove => self.prove(step)?.into(),
        })
    }

    fn prove(&self, step: Step<'_>) -> Result<Receipt, Refused> {
        let marks = self.sensitivity().filter(|it| it.mode == Sensitive::Marked);
        let receipt = proof::prove(&self.engine, &self.dir, marks.as_ref(), step);
        receipt.map_err(|error| match error {
            ProofError::Interrupted => Refused::Interrupted,
            error => error.to_string().into(),
        })
    }

    fn status(&self) -> StatusAnswer {
        // A fault found here is the reason why the disk latches.
        let _ = self.engine.check_media();
        self.look_at_names();
        let (status, waiting) = waiting::standing(&self.engine);
        let config = self.engine.ask(|volume| volume.config().clone());
        let guarantees = self.dir.guarantees();
        self.engine.look_at_clients();
        StatusAnswer {
            name: self.dir.name(),
            disk: self.dir.toml().uuid.to_string(),
            medium: self.dir.medium_path().display().to_string(),
            served: self.served,
            read_only: config.read_only,
            idle_after_ms: config.idle_after_ms,
            deadline_ms: config.deadline_ms,
            root_life_ms: self.root_life_ms(&config),
            verdict: Verdict::of_status(&status, &waiting, &guarantees),
            waiting,
            status,
            epochs: self.epochs_kept(),
            attached: self.engine.attachment(),
            sensitive: self.sensitivity(),
            record: self.engine.record_status(),
            space: self.space(),
            guarantees,
        }
    }

    /// How long the root of a sealed disk lasts; `None` if writes do not wear it out.
    fn root_life_ms(&self, config: &Config) -> Option<u64> {
        let root = self.engine.medium(MediumId::Root).filter(|_| self.dir.toml().sealed.is_some())?;
        let wear = root.wear(pace::passes(&config.policy.to_string()));
        pace::life_ms(wear, config.idle_after_ms, config.deadline_ms)
    }

    fn space(&self) -> Option<Space> {
        let base = self.dir.base()?.path().display().to_string();
        Some(Space { base, now: self.size()?, before: self.dir.sizes(SIZES_MAX) })
    }

    fn size(&self) -> Option<Size> {
        let live_bytes = self.engine.status().live_bytes;
        Some(Size { time_ms: now_ms(), host_bytes: self.dir.host_bytes()?, live_bytes })
    }

    pub(super) fn note_size(&self) {
        if let Some(size) = self.size()
            && let Err(error) = self.dir.note_size(size)
        {
            tracing::warn!(%error, "cannot note the size of the overlay");
        }
    }

    fn deaths(&self) -> Owed {
        let (obligations, more) = self.engine.obligations(OBLIGATIONS_MAX);
        let list = obligations.iter().map(|(extent, it)| {
            let due = match it.due {
                Due::Shred { .. } => DueName::Shred,
                Due::Free { .. } => DueName::Free,
                Due::ConservativeOverwrite => DueName::Conservative,
                Due::Suspicious => DueName::Suspicious,
            };
            OwedRange { start: extent.start.0, len: extent.len, due, cause: it.cause }
        });
        Owed { owed: list.collect(), more }
    }

    fn shred(&self, step: Step<'_>) -> Result<Shredded, String> {
        let owed = |status: &Status| status.owed.queued_bytes + status.owed.conservative_bytes;
        let before = self.engine.status();
        let total = owed(&before).max(1);
        self.engine.shred_now();
        let drained =
            self.engine.wait_until_destroyed(|status| step(total.saturating_sub(owed(status)), total));
        let (after, waiting) = waiting::standing(&self.engine);
        refuse(&after, drained)?;
        let (before, after) = (before.counters, after.counters);
        Ok(Shredded {
            done: drained,
            destroyed_bytes: after.destroyed_bytes - before.destroyed_bytes,
            rewritten_bytes: after.rewritten_bytes - before.rewritten_bytes,
            plain_bytes: after.plain_bytes - before.plain_bytes,
            waiting,
        })
    }

    fn compact(&self, step: Step<'_>) -> Result<Compacted, String> {
        let medium_bytes = |status: &Status| status.store.packed_bytes();
        let before = self.engine.status();
        let Some(bytes_before) = medium_bytes(&before) else {
            return Err(format!("cannot compact {}: it is not an overlay", self.dir.name()));
        };
        let total = backlog_bytes(&before);
        self.engine.shred_now();
        let done = self.engine.wait_until_compact(|status| {
            let left = backlog_bytes(status);
            step(total.saturating_sub(left), total.max(left))
        });
        let after = self.engine.status();
        let bytes_after = medium_bytes(&after).unwrap_or(bytes_before);
        refuse(&after, done)?;
        Ok(Compacted { done, bytes_before, bytes_after })
    }

    /// Counts what a purge would end.
    fn weigh_purge(&self, ranges: &[(u64, u64)]) -> Result<PurgeWeighed, String> {
        let mut live_bytes = 0;
        for range in ranges {
            let runs = liveness_runs(&*self.engine, self.within(*range)?);
            live_bytes += runs
                .filter(|(_, it)| !matches!(it, Liveness::Dead | Liveness::Queued))
                .map(|(run, _)| run.len)
                .sum::<u64>();
        }
        let bytes = ranges.iter().map(|(_, len)| len).sum();
        Ok(PurgeWeighed { ranges: ranges.len(), bytes, live_bytes, size_bytes: self.engine.size() })
    }

    pub(super) fn within(&self, (start, len): (u64, u64)) -> Result<Extent<Addr>, String> {
        let size = self.engine.size();
        let refused = || format!("range {start}+{len} is not within the disk, which has {size} bytes");
        Extent::within(start, len, size).ok_or_else(refused)
    }

    pub(super) fn purge(&self, ranges: &[(u64, u64)], conservative: bool) -> Result<Purged, String> {
        let before = self.engine.status().counters;
        for range in ranges {
            let extent = self.within(*range)?;
            let op = if conservative { Op::ConservativeOverwrite } else { Op::Purge };
            let outcome = carry_out(&*self.engine, Request { op, extent, fua: true });
            outcome.map_err(|refusal| refusal.to_string())?;
        }
        let after = self.engine.status().counters;
        let died = |it: quietus_core::owed::ledger::Counters| it.dead_bytes.iter().sum::<u64>();
        Ok(Purged { ranges: ranges.len(), newly_dead_bytes: died(after) - died(before) })
    }
}

/// Why nothing more is destroyed, if so: the disk is latched, or it was not `done` because destruction pauses.
fn refuse(after: &Status, done: bool) -> Result<(), String> {
    match (&after.latched, &after.owed.pauses) {
        (Some(reason), _) => Err(format!("the disk is read-only: {reason}")),
        (None, Some(reason)) if !done => Err(format!("destruction pauses: {reason}")),
        _ => Ok(()),
    }
}
