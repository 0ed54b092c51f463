//! The answers to calls, by the disk that is open in this process.

use super::call::{Call, Space, StatusAnswer};
use super::refused::Refused;
use super::waiting;
use crate::attached::Finding;
use crate::audit_log::Checked;
use crate::copy::copy;
use crate::disk::{Size, Step};
use crate::export::{Export, carry_out};
use crate::open_disk::{OpenDisk, backlog_bytes};
use crate::proof;
use quietus_core::ledger::Due;
use quietus_core::request::{Op, Request};
use quietus_core::units::Extent;
use quietus_core::volume::Status;
use serde_json::{Value, json};
use std::fs::File;
use std::time::SystemTime;

/// Most obligations that one answer lists; more are counted.
const OBLIGATIONS_MAX: usize = 1000;
/// Most sizes that one answer lists.
const SIZES_MAX: usize = 100;
impl OpenDisk {
    /// Answers `call`, which came with `file`. `step` says whether to go on.
    ///
    /// # Errors
    /// The reason for the refusal, in words.
    pub fn answer(&self, call: &Call, file: Option<&File>, step: Step<'_>) -> Result<Value, Refused> {
        let value = |it: Result<Value, serde_json::Error>| it.map_err(|error| error.to_string());
        let answer = match call {
            Call::Status => value(serde_json::to_value(self.status())),
            Call::Deaths => Ok(self.deaths()),
            Call::Shred => self.shred(step),
            Call::Purge { ranges, conservative } => self.purge(ranges, *conservative),
            Call::Compact => self.compact(step),
            Call::Export => {
                let file = file.ok_or_else(|| no_file("export"))?;
                let copied = copy(&self.engine, file, step).map_err(|error| error.to_string())?;
                value(serde_json::to_value(copied))
            }
            Call::Epoch { name } => self.close_epoch(name.as_deref()),
            Call::Versions { from, unique } => self.versions(*from, *unique, step),
            Call::Forget { epochs, wait } => self.forget(epochs, *wait, step),
            Call::Hold { name, epochs, who, why } => self.hold(name, epochs, who, why),
            Call::Release { name } => self.release(name),
            Call::ExportPast { at } => {
                let file = file.ok_or_else(|| no_file("export-past"))?;
                return self.export_past(at, file, step);
            }
            Call::Diff { from, to, start } => {
                return Ok(serde_json::to_value(self.diff(from, to.as_deref(), *start, step)?)?);
            }
            Call::Restore { at } => value(serde_json::to_value(self.restore(at, step)?)),
            Call::Verify => Ok(self.verify()),
            Call::Prove => {
                let guarantees = value(serde_json::to_value(self.dir.guarantees()))?;
                let receipt = proof::prove(&self.engine, &self.dir, guarantees, step);
                value(serde_json::to_value(receipt.map_err(|error| error.to_string())?))
            }
        };
        Ok(answer?)
    }

    fn status(&self) -> StatusAnswer {
        // A fault found here is the reason why the disk latches.
        let _ = self.engine.check_media();
        let ((status, waiting), config) = (waiting::standing(&self.engine), self.engine.config());
        StatusAnswer {
            name: self.dir.name(),
            disk: self.dir.toml().uuid.to_string(),
            medium: self.dir.medium_path().display().to_string(),
            served: self.served,
            read_only: config.read_only,
            idle_after_ms: config.idle_after_ms,
            deadline_ms: config.deadline_ms,
            waiting,
            status,
            attached: self.attached(),
            record: self.engine.record_status(),
            space: self.space(),
            guarantees: self.dir.guarantees(),
        }
    }

    /// How guests are attached now.
    fn attached(&self) -> Option<Finding> {
        self.engine.look_at_clients();
        self.engine.attachment()
    }

    fn space(&self) -> Option<Space> {
        let base = self.dir.base()?.path().display().to_string();
        Some(Space { base, now: self.size()?, before: self.dir.sizes(SIZES_MAX) })
    }

    fn size(&self) -> Option<Size> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let live_bytes = self.engine.status().live_bytes;
        Some(Size { time_ms: since.as_millis() as u64, host_bytes: self.dir.host_bytes()?, live_bytes })
    }

    pub(super) fn note_size(&self) {
        if let Some(size) = self.size()
            && let Err(error) = self.dir.note_size(size)
        {
            tracing::warn!(%error, "cannot note the size of the overlay");
        }
    }

    fn deaths(&self) -> Value {
        let (obligations, more) = self.engine.obligations(OBLIGATIONS_MAX);
        let list = obligations.iter().map(|(extent, it)| {
            let due = match it.due {
                Due::Shred { .. } => "shred",
                Due::ConservativeOverwrite => "conservative",
                Due::Suspicious => "suspicious",
            };
            json!({ "start": extent.start.0, "len": extent.len, "due": due, "cause": it.cause })
        });
        json!({ "owed": list.collect::<Vec<_>>(), "more": more })
    }

    fn shred(&self, step: Step<'_>) -> Result<Value, String> {
        let owed = |status: &Status| status.owed.queued_bytes + status.owed.conservative_bytes;
        let before = self.engine.status();
        let total = owed(&before).max(1);
        self.engine.shred_now();
        let drained =
            self.engine.wait_until_destroyed(|status| step(total.saturating_sub(owed(status)), total));
        let (after, waiting) = waiting::standing(&self.engine);
        refuse(&after, drained)?;
        let destroyed = after.counters.destroyed_bytes - before.counters.destroyed_bytes;
        let rewritten = after.counters.rewritten_bytes - before.counters.rewritten_bytes;
        Ok(json!({
            "done": drained, "destroyed_bytes": destroyed, "rewritten_bytes": rewritten, "waiting": waiting,
        }))
    }

    fn compact(&self, step: Step<'_>) -> Result<Value, String> {
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
        Ok(json!({ "done": done, "bytes_before": bytes_before, "bytes_after": bytes_after }))
    }

    fn purge(&self, ranges: &[(u64, u64)], conservative: bool) -> Result<Value, String> {
        let before = self.engine.status().counters;
        for (start, len) in ranges {
            let size = self.engine.size();
            let extent = Extent::within(*start, *len, size).ok_or_else(|| {
                format!("range {start}+{len} is not within the disk, which has {size} bytes")
            })?;
            let op = if conservative { Op::ConservativeOverwrite } else { Op::Purge };
            let outcome = carry_out(&*self.engine, Request { op, extent, fua: true });
            outcome.map_err(|refusal| refusal.to_string())?;
        }
        let after = self.engine.status().counters;
        let died = |it: quietus_core::ledger::Counters| it.dead_bytes.iter().sum::<u64>();
        Ok(json!({ "ranges": ranges.len(), "newly_dead_bytes": died(after) - died(before) }))
    }

    /// The state of the audit log, in words, or its fault.
    fn verify_record(&self) -> Result<String, String> {
        self.engine.recorder().flush()?;
        let Checked { first, head, files } = self.engine.check_record().map_err(|error| error.to_string())?;
        let from = if first > 0 { format!(" from line {first} on") } else { String::new() };
        Ok(format!("{} lines, chained{from}, in {files} files; ends where the journal says", head.lines))
    }

    /// The journal, the map and the base were checked when the disk was opened,
    /// `disk.toml` before.
    fn verify(&self) -> Value {
        let media = self.engine.check_media().map_err(|error| error.to_string());
        let latched = self.engine.status().latched;
        let whole = || Ok("whole".to_string());
        let mut checks = vec![("disk.toml", whole())];
        let rows = self.dir.media().iter();
        checks.extend(rows.filter_map(|row| Some((row.name, Ok(row.checked?(&self.dir).to_string())))));
        checks.extend([
            ("key", self.dir.key().map(|_| "whole".to_string()).map_err(|error| error.to_string())),
            ("audit.jsonl", self.verify_record()),
            ("medium", latched.map_or_else(|| media.map(|()| "no failure".to_string()), Err)),
        ]);
        let ok = checks.iter().all(|(_, result)| result.is_ok());
        let checks: Vec<_> = checks
            .into_iter()
            .map(|(what, it)| json!({ "what": what, "ok": it.is_ok(), "detail": it.unwrap_or_else(|error| error) }))
            .collect();
        json!({ "ok": ok, "checks": checks })
    }
}

fn no_file(call: &str) -> String {
    format!("no file came with the call `{call}`; send a descriptor of an empty file")
}

/// Why nothing more is destroyed, if so: the disk is latched, or it was not `done` because destruction pauses.
fn refuse(after: &Status, done: bool) -> Result<(), String> {
    match (&after.latched, &after.owed.pauses) {
        (Some(reason), _) => Err(format!("the disk is read-only: {reason}")),
        (None, Some(reason)) if !done => Err(format!("destruction pauses: {reason}")),
        _ => Ok(()),
    }
}
