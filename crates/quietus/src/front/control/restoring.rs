//! Writing the state of an epoch over the current one, as a guest would: nothing that is kept changes, and what is
//! replaced is the last epoch that is kept.

use super::refused::Refused;
use crate::base::zeros::runs_where;
use crate::disk::Step;
use crate::engine::Engine;
use crate::engine::export::{Export, carry_out};
use crate::epochs::{Past, differences, first_gap, keep_now};
use crate::open_disk::{Closed, OpenDisk};
use quietus_core::base::units::{Addr, Epoch, Extent};
use quietus_core::request::{AsOf, Op, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Bytes read and written at once.
const PIECE_BYTES: u64 = 1 << 20;

/// The answer to [`Call::Restore`](super::Call::Restore).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Restored {
    /// The number of the epoch whose state is the current one.
    pub epoch: u64,
    /// The number of the epoch that keeps the state before.
    pub before: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Bytes that were made zeros, because the epoch has nothing there.
    pub zeroed_bytes: u64,
}

impl OpenDisk {
    pub(super) fn restore(&self, at: &str, step: Step<'_>) -> Result<Restored, Refused> {
        let _closed = self.keep_clients_out()?;
        let epoch = self.epoch_at(at)?;
        if let Some(gap) = first_gap(&self.engine, epoch)? {
            let (start, len, epoch) = (gap.start.0, gap.len, epoch.0);
            let refused = format!(
                "cannot restore epoch {epoch}: its {len} bytes at {start} are forgotten; copy what is left of it from the export \
                 DISK@{epoch}"
            );
            return Err(Refused::Forgotten(refused));
        }
        // A watcher would read a file system's order into what is written.
        self.engine.keep_watcher_out();
        let before = keep_now(&self.engine, self.clock.now_ms())?;
        let stopped = |why: String| {
            format!(
                "{why}: the disk is in part as epoch {} and in part as before; restore epoch {} to go on, or epoch {} to \
                 go back",
                epoch.0, epoch.0, before.0
            )
        };
        let past = Past::new(Arc::clone(&self.engine), self.dir.name(), epoch);
        let restoring = Restoring { engine: &self.engine, past, epoch };
        let restored = Restored { epoch: epoch.0, before: before.0, written_bytes: 0, zeroed_bytes: 0 };
        let restored = restoring.run(restored, step).map_err(stopped)?;
        carry_out(&*self.engine, Request { op: Op::Flush, extent: Extent::new(0, 0), fua: false })?;
        // What is in part as before is no state of any file system: after a restore that fails, no watcher runs.
        self.engine.watch_anew();
        Ok(restored)
    }

    /// Keeps the current state from clients.
    fn keep_clients_out(&self) -> Result<Closed<'_>, String> {
        self.gate.close().map_err(|clients| match clients {
            0 => "the disk is already being restored; wait until that restore ends".into(),
            _ => format!("cannot restore: {clients} clients use the disk; disconnect them (stop the guest) and try again"),
        })
    }
}

struct Restoring<'a> {
    engine: &'a Engine,
    past: Past,
    epoch: Epoch,
}

impl Restoring<'_> {
    /// The runs of `extent` in which two states differ.
    fn runs(
        &self,
        extent: Extent<Addr>,
        states: [AsOf; 2],
    ) -> impl Iterator<Item = Result<Extent<Addr>, String>> {
        let parts = differences(self.engine, extent, states);
        parts.flat_map(|part| match part {
            Ok(part) => part.differing.into_iter().map(Ok).collect(),
            Err(refusal) => vec![Err(refusal.to_string())],
        })
    }

    fn run(&self, mut restored: Restored, step: Step<'_>) -> Result<Restored, String> {
        let (whole, states) = (Extent::new(0, self.engine.size()), [AsOf::End(self.epoch), AsOf::Now]);
        let total =
            self.runs(whole, states).map(|run| run.map(|run| run.len)).sum::<Result<u64, String>>()?;
        let mut done = 0;
        // Only what lies behind the comparison changes meanwhile.
        for run in self.runs(whole, states) {
            for piece in run?.pieces(PIECE_BYTES) {
                if !step(done, total) {
                    return Err("interrupted".into());
                }
                self.restore_piece(piece, &mut restored)?;
                done += piece.len;
            }
        }
        Ok(restored)
    }

    /// Writes what the epoch has in `piece`, and zeros where it has nothing.
    fn restore_piece(&self, piece: Extent<Addr>, restored: &mut Restored) -> Result<(), String> {
        let mut from = piece.start.0;
        for filled in self.runs(piece, [AsOf::Beginning, AsOf::End(self.epoch)]) {
            let filled = filled?;
            self.zero(Extent::between(from, filled.start.0), restored)?;
            self.write(filled, restored)?;
            from = filled.end();
        }
        self.zero(Extent::between(from, piece.end()), restored)
    }

    /// Writes the blocks of `extent` whose content is another one now: a restore that goes on does not write again what
    /// it has written.
    fn write(&self, extent: Extent<Addr>, restored: &mut Restored) -> Result<(), String> {
        let past = self.past.read(extent).map_err(|refusal| refusal.to_string())?;
        // Content that cannot be read is overwritten like any other.
        let now = carry_out(self.engine, Request { op: Op::Copy, extent, fua: false }).unwrap_or_default();
        for run in runs_where(&past, |block| now.get(block.clone()) != Some(&past[block])) {
            let at = Extent::new(extent.start.0 + run.start as u64, run.len() as u64);
            self.ask(Op::Write(past[run].to_vec().into()), at)?;
            restored.written_bytes += at.len;
        }
        Ok(())
    }

    /// Makes what there is in `extent` zeros.
    fn zero(&self, extent: Extent<Addr>, restored: &mut Restored) -> Result<(), String> {
        for run in self.runs(extent, [AsOf::Beginning, AsOf::Now]) {
            let run = run?;
            // A discard would be ignored where only a watcher is trusted.
            self.ask(Op::Zero { no_hole: false, fast: false }, run)?;
            restored.zeroed_bytes += run.len;
        }
        Ok(())
    }

    fn ask(&self, op: Op, extent: Extent<Addr>) -> Result<(), String> {
        let outcome = carry_out(self.engine, Request { op, extent, fua: false });
        outcome.map(drop).map_err(|refusal| refusal.to_string())
    }
}
