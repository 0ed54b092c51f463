//! The disk as an epoch had it, read-only.

use super::{At, States, list, note_doubts};
use crate::disk::EpochEnd;
use crate::engine::Engine;
use crate::engine::export::{Changes, Export, ExportInfo, ReplyTo, Sink, carry_out};
use crate::open_disk::OpenDisk;
use quietus_core::base::buf::Buf;
use quietus_core::base::units::{Addr, Epoch, Extent};
use quietus_core::request::{AsOf, Liveness, Op, Outcome, Refusal, Reply, Request};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A disk as `epoch` had it.
pub struct Past {
    /// The disk, for clients, who may ask about its other epochs.
    disk: Option<Arc<OpenDisk>>,
    engine: Arc<Engine>,
    name: String,
    epoch: Epoch,
}

impl Past {
    /// The disk of `engine` as `epoch` had it, offered as `name`.
    #[must_use]
    pub fn new(engine: Arc<Engine>, name: String, epoch: Epoch) -> Self {
        Self { disk: None, engine, name, epoch }
    }

    /// The bytes of `extent`.
    pub fn read(&self, extent: Extent<Addr>) -> Result<Buf, Refusal> {
        carry_out(self, Request { op: Op::Read, extent, fua: false })
    }
}

impl Export for Past {
    fn info(&self) -> ExportInfo {
        let epoch = self.epoch.0;
        ExportInfo {
            name: self.name.clone(),
            description: format!("epoch {epoch} of a Quietus disk"),
            size: self.engine.size(),
            read_only: true,
            multi_connection: true,
        }
    }

    fn size(&self) -> u64 {
        self.engine.size()
    }

    fn submit(&self, request: Request, reply: ReplyTo) {
        match request.op {
            Op::Read => {
                let op = Op::ReadPast(self.epoch);
                self.engine.submit(Request { op, ..request }, reply);
            }
            // A kept epoch does not change, and a cache of it promises nothing.
            Op::Flush | Op::Cache => reply.send(Ok(Reply::default())),
            _ => reply.send(Err(Refusal::ReadOnly)),
        }
    }

    fn changes_since(&self, at: &str) -> Option<Result<Arc<dyn Changes>, String>> {
        Some(self.disk.as_ref()?.changes(at, AsOf::End(self.epoch)))
    }

    fn epochs(&self) -> Option<Vec<u64>> {
        Some(self.disk.as_ref()?.first_epochs())
    }

    fn liveness(&self, extent: Extent<Addr>, runs_max: usize) -> Vec<(u64, Liveness)> {
        let states = [AsOf::Beginning, AsOf::End(self.epoch)];
        let filled = States { engine: Arc::clone(&self.engine), states }.changed(extent, runs_max);
        // A read there says why nothing is known.
        let filled = filled.unwrap_or_else(|_| vec![(extent.len, true)]);
        let liveness = |is_filled| if is_filled { Liveness::Live } else { Liveness::Dead };
        filled.into_iter().map(|(len, is_filled)| (len, liveness(is_filled))).collect()
    }
}

impl OpenDisk {
    /// Where the epoch `at` differs from another state.
    fn changes(&self, at: &str, other: AsOf) -> Result<Arc<dyn Changes>, String> {
        let epoch = at.parse::<At>()?.find(&self.engine, &self.names).map_err(|error| error.to_string())?;
        Ok(Arc::new(States { engine: Arc::clone(&self.engine), states: [AsOf::End(epoch), other] }))
    }

    fn first_epochs(&self) -> Vec<u64> {
        list(&self.engine, Epoch(0)).unwrap_or_default().iter().map(|it| it.epoch).collect()
    }
}

/// A disk that keeps versions, and its epochs.
pub struct Versioned {
    disk: Arc<OpenDisk>,
    /// When a flush last closed an epoch, in milliseconds since 1970.
    closed_ms: AtomicU64,
}

impl Versioned {
    /// Offers `disk`.
    #[must_use]
    pub fn new(disk: Arc<OpenDisk>) -> Self {
        Self { disk, closed_ms: AtomicU64::new(0) }
    }

    /// Closes the epoch at a flush, ahead of it.
    fn close(&self, flush: &Request) {
        let (clock, when) = (&self.disk.clock, self.disk.clock.now_ms());
        // Only a clock that seems wrong is worth a look at the index, which others wait for.
        if clock.check(self.closed_ms.fetch_max(when, Ordering::Relaxed)).is_err() {
            note_doubts(&self.disk);
        }
        let close = Request { op: Op::CloseEpoch { when, anew: false }, ..flush.clone() };
        self.disk.engine.submit(close, ReplyTo { sink: Arc::new(Unheard), cookie: 0 });
    }

    fn at(&self, at: &str) -> Result<Arc<dyn Export>, String> {
        let found = at.parse::<At>()?.find(&self.disk.engine, &self.disk.names);
        let epoch = found.map_err(|error| error.to_string())?;
        let name = format!("{}@{at}", self.disk.dir.name());
        let (disk, engine) = (Some(Arc::clone(&self.disk)), Arc::clone(&self.disk.engine));
        Ok(Arc::new(Past { disk, engine, name, epoch }))
    }
}

impl Export for Versioned {
    fn info(&self) -> ExportInfo {
        self.disk.engine.info()
    }

    fn connected(&self, process: Option<u32>) -> u64 {
        self.disk.gate.enter();
        self.disk.engine.connected(process)
    }

    fn disconnected(&self, client: u64) {
        self.disk.engine.disconnected(client);
        self.disk.gate.leave();
    }

    fn submit(&self, request: Request, reply: ReplyTo) {
        if self.disk.gate.is_closed() {
            return reply.send(Err(Refusal::Restoring));
        }
        let ends = self.disk.dir.toml().behaviour.epoch == Some(EpochEnd::Flush);
        if request.op == Op::Flush {
            self.disk.look_at_names();
        }
        if ends && request.op == Op::Flush && !self.disk.dir.is_read_only() {
            self.close(&request);
        }
        self.disk.engine.submit(request, reply);
    }

    fn past(&self, at: &str) -> Option<Result<Arc<dyn Export>, String>> {
        Some(self.at(at))
    }

    fn changes_since(&self, at: &str) -> Option<Result<Arc<dyn Changes>, String>> {
        Some(self.disk.changes(at, AsOf::Now))
    }

    fn epochs(&self) -> Option<Vec<u64>> {
        Some(self.disk.first_epochs())
    }

    fn liveness(&self, extent: Extent<Addr>, runs_max: usize) -> Vec<(u64, Liveness)> {
        self.disk.engine.liveness(extent, runs_max)
    }
}

/// No caller waits for the end of an epoch that a flush closes: the flush has an answer of its own.
struct Unheard;

impl Sink for Unheard {
    fn reply(&self, _: u64, outcome: Outcome) {
        if let Err(refusal) = outcome {
            tracing::warn!(%refusal, "cannot close the epoch at a flush");
        }
    }
}
