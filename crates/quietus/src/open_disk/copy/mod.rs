//! Copying what a disk holds at one instant to a [sink]; the disk may be in use meanwhile.
//!
//! 1. All live blocks are copied, and changes meanwhile are marked.
//! 2. Marked blocks are copied again, and so on, until they are few.
//! 3. Requests that change something are held back, the rest is read into memory,
//!    and they go on; the sink gets it after that. So nothing but the disk's own
//!    reads holds up a guest, and [`Hold`](crate::engine::Hold) limits even that.
//!
//! Content that is inferred to be dead during a hold may be in the copy or not: the guest counts on
//! neither.

mod error;
mod pieces;
mod sink;

pub use error::CopyError;
pub(crate) use pieces::{GRANULE_BYTES, Pieces};

use crate::base::zeros::filled;
use crate::disk::Step;
use crate::engine::Engine;
use crate::engine::export::{Export, carry_out, liveness_runs};
use pieces::PIECE_BYTES;
use quietus_core::base::blocks::BlockSet;
use quietus_core::base::units::{Addr, BLOCK_BYTES, Extent};
use quietus_core::request::{Liveness, Op, Refusal, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sink::Sink;
use std::fs::File;

/// Most bytes that are copied while requests are held back, and kept in memory.
const HELD_BYTES_MAX: u64 = 16 << 20;
/// Most rounds of copying for a guest that changes more than that in each.
const ROUNDS_MAX: usize = 32;

/// Figures of a copy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Copied {
    /// Size of the disk, bytes.
    pub size_bytes: u64,
    /// Bytes in blocks that are not all zeros.
    pub live_bytes: u64,
    /// Time for which requests that change something were held back, ms.
    pub held_ms: u64,
    /// Bytes that are zeros in the copy because they are forgotten in the epoch.
    #[serde(default)]
    pub gone_bytes: u64,
}

/// Copies what is live on the disk that `engine` runs to `into`.
pub fn copy(engine: &Engine, into: &File, step: Step<'_>) -> Result<Copied, CopyError> {
    let mut task = Task::begin(engine, Op::Copy, into)?;
    let mut wait = || step(0, engine.size());
    let follower = engine.wait_until_known(|_| wait()).then(|| engine.follow(&mut wait)).flatten();
    let follower = follower.ok_or(CopyError::Interrupted)?;
    let mut todo = task.outdated(std::iter::once(task.whole()));
    for _ in 0..ROUNDS_MAX {
        task.copy(&todo, step)?;
        let (changed, hold) = follower.take(HELD_BYTES_MAX);
        todo = task.outdated(changed.runs_within(task.whole()));
        let Some(hold) = hold else { continue };
        let rest = pieces(&todo, task.whole()).map(|piece| Ok((piece, task.read(piece)?)));
        let rest: Vec<_> = rest.collect::<Result<_, CopyError>>()?;
        let Some(held) = hold.end() else { continue };
        rest.iter().try_for_each(|(piece, bytes)| task.put(*piece, bytes, step))?;
        return Ok(task.copied(held.as_millis() as u64));
    }
    Err(CopyError::Restless)
}

/// Copies what `past` shows, which does not change, to `into`. What is forgotten there is `zeros` in the copy, or refuses it.
pub fn copy_past(past: &dyn Export, into: &File, zeros: bool, step: Step<'_>) -> Result<Copied, CopyError> {
    let mut task = Task { gone: zeros.then_some(0), ..Task::begin(past, Op::Read, into)? };
    let todo = task.outdated(std::iter::once(task.whole()));
    task.copy(&todo, step)?;
    Ok(task.copied(0))
}

/// A copy under way: from where, how that is read, and to where.
struct Task<'a> {
    from: &'a dyn Export,
    op: Op,
    sink: Sink<'a>,
    /// Blocks of the copy that are not all zeros.
    filled: BlockSet<Addr>,
    /// Bytes copied so far, and bytes to copy, in all rounds.
    done: (u64, u64),
    /// How many bytes are zeros because they are forgotten; `None` if these refuse the copy.
    gone: Option<u64>,
}

impl<'a> Task<'a> {
    fn begin(from: &'a dyn Export, op: Op, into: &'a File) -> Result<Self, CopyError> {
        let sink = Sink::of(into, from.size())?;
        Ok(Self { from, op, sink, filled: BlockSet::default(), done: (0, 0), gone: None })
    }

    fn whole(&self) -> Extent<Addr> {
        Extent::new(0, self.from.size())
    }

    fn copied(&self, held_ms: u64) -> Copied {
        let live_bytes = self.filled.runs_within(self.whole()).map(|run| run.len).sum();
        let gone_bytes = self.gone.unwrap_or(0);
        Copied { size_bytes: self.from.size(), live_bytes, held_ms, gone_bytes }
    }

    /// The blocks of `extents` that hold something, on the disk or in the copy, and those that the sink takes only together
    /// with them.
    fn outdated(&self, extents: impl Iterator<Item = Extent<Addr>>) -> BlockSet<Addr> {
        let (mut blocks, granule) = (BlockSet::default(), self.sink.granule());
        let mut add = |run: Extent<Addr>| {
            let end = run.end().next_multiple_of(granule).min(self.from.size());
            blocks.insert(Extent::between(run.start.0 / granule * granule, end));
        };
        for extent in extents {
            self.filled.runs_within(extent).for_each(&mut add);
            let live = liveness_runs(self.from, extent)
                .filter(|(_, liveness)| matches!(liveness, Liveness::Live | Liveness::Suspicious));
            live.for_each(|(run, _)| add(run));
        }
        blocks
    }

    fn copy(&mut self, blocks: &BlockSet<Addr>, step: Step<'_>) -> Result<(), CopyError> {
        let whole = self.whole();
        self.done.1 += pieces(blocks, whole).map(|piece| piece.len).sum::<u64>();
        for piece in pieces(blocks, whole) {
            let bytes = match self.gone {
                None => self.read(piece)?,
                Some(gone) => {
                    let (bytes, more) = self.read_around(piece)?;
                    self.gone = Some(gone + more);
                    bytes
                }
            };
            self.put(piece, &bytes, step)?;
            self.done.0 += piece.len;
            if !step(self.done.0, self.done.1) {
                return Err(CopyError::Interrupted);
            }
        }
        Ok(())
    }

    fn read(&self, extent: Extent<Addr>) -> Result<Vec<u8>, CopyError> {
        let read = carry_out(self.from, Request { op: self.op.clone(), extent, fua: false });
        match read {
            Err(Refusal::ForgottenBlocks(epoch, lost)) => Err(CopyError::Gone(epoch, lost)),
            read => Ok(read?.into_vec()),
        }
    }

    /// The bytes of `extent`, with zeros where they are forgotten, and how many these are.
    fn read_around(&self, extent: Extent<Addr>) -> Result<(Vec<u8>, u64), CopyError> {
        let (mut bytes, mut gone, mut from) = (Vec::with_capacity(extent.len as usize), 0, extent.start.0);
        while from < extent.end() {
            let rest = Extent::between(from, extent.end());
            let lost = match self.read(rest) {
                Ok(read) => {
                    bytes.extend(read);
                    break;
                }
                Err(CopyError::Gone(epoch, lost)) => {
                    lost.overlap(rest).ok_or(CopyError::Gone(epoch, lost))?
                }
                Err(error) => return Err(error),
            };
            let (before, more) = self.read_around(Extent::between(from, lost.start.0))?;
            bytes.extend(before);
            bytes.resize(bytes.len() + lost.len as usize, 0);
            gone += more + lost.len;
            from = lost.end();
        }
        Ok((bytes, gone))
    }

    fn put(&mut self, piece: Extent<Addr>, bytes: &[u8], step: Step<'_>) -> Result<(), CopyError> {
        let (first, done) = (piece.start.0, self.done);
        let is_filled = |at: u64| self.filled.contains((first + at) / BLOCK_BYTES);
        self.sink.put(first, bytes, &is_filled, &mut || step(done.0, done.1))?;
        self.filled.remove(Extent::between(first, piece.end().next_multiple_of(BLOCK_BYTES)));
        for run in filled(bytes) {
            self.filled.insert(Extent::new(first + run.start as u64, run.len() as u64));
        }
        Ok(())
    }
}

fn pieces(blocks: &BlockSet<Addr>, within: Extent<Addr>) -> impl Iterator<Item = Extent<Addr>> {
    blocks.runs_within(within).flat_map(|run| run.pieces(PIECE_BYTES))
}
