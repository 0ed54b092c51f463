//! Copying what a disk holds at one instant to a file; the disk may be in use meanwhile.
//!
//! 1. All live blocks are copied, and changes meanwhile are marked.
//! 2. Marked blocks are copied again, and so on, until they are few.
//! 3. Requests that change something are held back, the rest is read into memory,
//!    and they go on; the file is written after that. So nothing but the disk's own
//!    reads holds up a guest, and [`Hold`](crate::engine::Hold) limits even that.
//!
//! Content that is inferred to be dead during a hold may be in the file or not: the guest counts on
//! neither.

use crate::disk::Step;
use crate::engine::Engine;
use crate::epochs::Past;
use crate::export::{Export, carry_out, liveness_runs};
use crate::zeros::{filled, is_zeros, runs_where};
use quietus_core::blocks::BlockSet;
use quietus_core::request::{Liveness, Op, Refusal, Request};
use quietus_core::units::{Addr, BLOCK_BYTES, Extent};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes copied at once.
const PIECE_BYTES: u64 = 1 << 20;
/// Most bytes that are copied while requests are held back, and kept in memory.
const HELD_BYTES_MAX: u64 = 16 << 20;
/// Most rounds of copying for a guest that changes more than that in each.
const ROUNDS_MAX: usize = 32;

/// Figures of a copy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Copied {
    /// Size of the disk, bytes.
    pub size_bytes: u64,
    /// Bytes in blocks that are not all zeros.
    pub live_bytes: u64,
    /// Time for which requests that change something were held back, ms.
    pub held_ms: u64,
}

/// Reason why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The disk refused to be read.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The image cannot be written.
    #[error("cannot write the image: {0}")]
    Image(io::Error),
    /// The image has content, or is no regular file.
    #[error("cannot write the image: the file that came with the call is not an empty regular file")]
    NotEmpty,
    /// Copying is slower than the guest.
    #[error(
        "cannot export: the guest writes faster than the disk can be copied; try again when it is less busy"
    )]
    Restless,
    /// The copy was interrupted.
    #[error("interrupted; run the command again")]
    Interrupted,
}

/// Copies what is live on the disk that `engine` runs to the empty file `into`.
///
/// # Errors
/// [`CopyError`].
pub fn copy(engine: &Engine, into: &File, step: Step<'_>) -> Result<Copied, CopyError> {
    let mut image = Image::begin(engine, into)?;
    let mut wait = || step(0, engine.size());
    let follower = engine.wait_until_known(|_| wait()).then(|| engine.follow(&mut wait)).flatten();
    let follower = follower.ok_or(CopyError::Interrupted)?;
    let mut todo = image.outdated(std::iter::once(image.whole()));
    for _ in 0..ROUNDS_MAX {
        image.copy(&todo, step)?;
        let (changed, hold) = follower.take(HELD_BYTES_MAX);
        todo = image.outdated(changed.runs_within(image.whole()));
        let Some(hold) = hold else { continue };
        let rest = pieces(&todo, image.whole()).map(|piece| Ok((piece, image.read(piece)?)));
        let rest: Vec<_> = rest.collect::<Result<_, CopyError>>()?;
        let Some(held) = hold.end() else { continue };
        rest.iter().try_for_each(|(piece, bytes)| image.put(*piece, bytes))?;
        let (size_bytes, live_bytes) = (engine.size(), image.filled_bytes());
        return Ok(Copied { size_bytes, live_bytes, held_ms: held.as_millis() as u64 });
    }
    Err(CopyError::Restless)
}

/// Copies the disk as it was at an epoch to the empty file `into`.
///
/// # Errors
/// [`CopyError`].
pub fn copy_past(past: &Past, into: &File, step: Step<'_>) -> Result<Copied, CopyError> {
    check_empty(into)?;
    let size_bytes = past.size();
    into.set_len(size_bytes).map_err(CopyError::Image)?;
    let mut live_bytes = 0;
    let whole = Extent::<Addr>::new(0, size_bytes);
    for (run, liveness) in liveness_runs(past, whole) {
        let is_filled = liveness == Liveness::Live;
        for piece in run.pieces(PIECE_BYTES).filter(|_| is_filled) {
            live_bytes += copy_piece(past, into, piece)?;
            go_on(step, piece.end(), size_bytes)?;
        }
        go_on(step, run.end(), size_bytes)?;
    }
    Ok(Copied { size_bytes, live_bytes, held_ms: 0 })
}

/// Copies what is not zeros; returns how much that is.
fn copy_piece(past: &Past, into: &File, piece: Extent<Addr>) -> Result<u64, CopyError> {
    let (bytes, mut copied) = (past.read(piece)?, 0);
    for run in filled(&bytes) {
        let written = into.write_all_at(&bytes[run.clone()], piece.start.0 + run.start as u64);
        written.map_err(CopyError::Image)?;
        copied += run.len() as u64;
    }
    Ok(copied)
}

fn go_on(step: Step<'_>, done: u64, of: u64) -> Result<(), CopyError> {
    if step(done, of) { Ok(()) } else { Err(CopyError::Interrupted) }
}

fn check_empty(file: &File) -> Result<(), CopyError> {
    let is_new = file.metadata().map(|it| it.is_file() && it.len() == 0).map_err(CopyError::Image)?;
    if is_new { Ok(()) } else { Err(CopyError::NotEmpty) }
}

/// The file, and the disk that it is an image of.
struct Image<'a> {
    engine: &'a Engine,
    file: &'a File,
    /// Blocks of the file that are not all zeros.
    filled: BlockSet<Addr>,
    /// Bytes copied so far, and bytes to copy, in all rounds.
    done: (u64, u64),
}

impl<'a> Image<'a> {
    fn begin(engine: &'a Engine, file: &'a File) -> Result<Self, CopyError> {
        check_empty(file)?;
        file.set_len(engine.size()).map_err(CopyError::Image)?;
        Ok(Self { engine, file, filled: BlockSet::default(), done: (0, 0) })
    }

    fn whole(&self) -> Extent<Addr> {
        Extent::new(0, self.engine.size())
    }

    fn filled_bytes(&self) -> u64 {
        self.filled.runs_within(self.whole()).map(|run| run.len).sum()
    }

    /// The blocks of `extents` that hold something, on the disk or in the file.
    fn outdated(&self, extents: impl Iterator<Item = Extent<Addr>>) -> BlockSet<Addr> {
        let mut blocks = BlockSet::default();
        for extent in extents {
            self.filled.runs_within(extent).for_each(|run| blocks.insert(run));
            let live = liveness_runs(self.engine, extent)
                .filter(|(_, liveness)| matches!(liveness, Liveness::Live | Liveness::Suspicious));
            live.for_each(|(run, _)| blocks.insert(run));
        }
        blocks
    }

    fn copy(&mut self, blocks: &BlockSet<Addr>, step: Step<'_>) -> Result<(), CopyError> {
        let whole = self.whole();
        self.done.1 += pieces(blocks, whole).map(|piece| piece.len).sum::<u64>();
        for piece in pieces(blocks, whole) {
            let bytes = self.read(piece)?;
            self.put(piece, &bytes)?;
            self.done.0 += piece.len;
            if !step(self.done.0, self.done.1) {
                return Err(CopyError::Interrupted);
            }
        }
        Ok(())
    }

    fn read(&self, extent: Extent<Addr>) -> Result<Vec<u8>, CopyError> {
        Ok(carry_out(self.engine, Request { op: Op::Copy, extent, fua: false })?.into_vec())
    }

    /// Writes blocks that are not zeros; writes zeros only over something else.
    fn put(&mut self, piece: Extent<Addr>, bytes: &[u8]) -> Result<(), CopyError> {
        let first = piece.start.0;
        let is_filled = |at: usize| self.filled.contains((first + at as u64) / BLOCK_BYTES);
        for run in runs_where(bytes, |block| is_filled(block.start) || !is_zeros(&bytes[block])) {
            let written = self.file.write_all_at(&bytes[run.clone()], first + run.start as u64);
            written.map_err(CopyError::Image)?;
        }
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
