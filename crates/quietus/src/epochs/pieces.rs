//! Long reads of the past, in pieces: what an epoch shows may be named by a page of the index for each block, and the
//! volume looks at all blocks of a request anew after each page that had to be fetched.

use crate::buffers;
use crate::engine::Engine;
use crate::export::{Export, ReplyTo, Sink};
use quietus_core::request::{Op, Outcome, Refusal, Request};
use quietus_core::units::{Addr, Epoch, Extent};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Longest read that is handed to the volume, bytes.
const PIECE_BYTES: u64 = 1 << 20;

/// A read whose pieces are under way.
struct Pieces(Mutex<Left>);

struct Left {
    bytes: Vec<u8>,
    /// How many pieces have not ended.
    pieces: usize,
    refused: Option<Refusal>,
    /// Address for the outcome; none once that was sent.
    reply: Option<ReplyTo>,
}

/// Reads `extent` as `epoch` had it; the bytes go to `reply`.
pub(super) fn read(engine: &Engine, epoch: Epoch, extent: Extent<Addr>, reply: ReplyTo) {
    let op = Op::ReadPast(epoch);
    if extent.len <= PIECE_BYTES {
        return engine.submit(Request { op, extent, fua: false }, reply);
    }
    let count = extent.pieces(PIECE_BYTES).count();
    let bytes = buffers::take(extent.len as usize);
    let left = Left { bytes, pieces: count, refused: None, reply: Some(reply) };
    let sink: Arc<dyn Sink> = Arc::new(Pieces(Mutex::new(left)));
    for (cookie, piece) in (0..).zip(extent.pieces(PIECE_BYTES)) {
        let request = Request { op: op.clone(), extent: piece, fua: false };
        engine.submit(request, ReplyTo { sink: Arc::clone(&sink), cookie });
    }
}

impl Pieces {
    fn lock(&self) -> MutexGuard<'_, Left> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Pieces {
    fn reply(&self, cookie: u64, outcome: Outcome) {
        let mut left = self.lock();
        match outcome {
            Ok(piece) => {
                let at = (cookie * PIECE_BYTES) as usize;
                left.bytes[at..at + piece.len()].copy_from_slice(&piece);
                buffers::give(piece.into_memory());
            }
            Err(refusal) => left.refused = Some(refusal),
        }
        left.pieces -= 1;
        if left.pieces > 0 {
            return;
        }
        let (bytes, refused) = (std::mem::take(&mut left.bytes), left.refused.take());
        let reply = left.reply.take();
        drop(left);
        if let Some(reply) = reply {
            reply.send(refused.map_or_else(|| Ok(bytes.into()), Err));
        }
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        // The engine has dropped a piece: it is being stopped.
        if let Some(reply) = self.lock().reply.take() {
            reply.send(Err(Refusal::ShuttingDown));
        }
    }
}
