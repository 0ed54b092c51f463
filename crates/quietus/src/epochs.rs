//! Epochs of a disk that keeps versions, as people see them: by number, by name, and by time; exports of the past; and
//! the ends of epochs: closing them, and forgetting them by rule.

mod at;
mod comparing;
mod export;
mod gate;
mod keeper;
mod names;
mod pieces;
mod timer;

pub use at::{At, Listed};
pub use comparing::{States, differences};
pub use export::{Past, Versioned};
pub use gate::{Closed, Gate};
pub use keeper::{Clock, Untrusted, carry_out as carry_out_retention};
pub use names::{HoldOf, NAMES_FILE, Names, NamesError};
pub use timer::Timer;

use crate::engine::Engine;
use crate::export::carry_out;
use quietus_core::request::{KeptEpoch, Op, Outcome, Refusal, Request, Unique, UniqueAt};
use quietus_core::units::{Epoch, EpochRange, Extent};
use std::time::{SystemTime, UNIX_EPOCH};

/// Closes the open epoch; returns the number of the last closed one.
///
/// # Errors
/// The refusal.
pub fn close(engine: &Engine) -> Result<Epoch, Refusal> {
    let reply = ask(engine, Op::CloseEpoch { when: now_ms() })?;
    Ok(Epoch(reply.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))))
}

/// The kept epochs from `from` on, as many as one answer has.
///
/// # Errors
/// The refusal.
pub fn list(engine: &Engine, from: Epoch) -> Result<Vec<Listed>, Refusal> {
    let reply = ask(engine, Op::ListEpochs(from))?;
    let entries = reply.chunks_exact(KeptEpoch::BYTES).filter_map(KeptEpoch::from_bytes);
    Ok(entries.map(Listed::from).collect())
}

/// The bytes of which only `epoch` shows a version: what forgetting it alone would destroy. `step` says whether to go on.
///
/// # Errors
/// The refusal; [`Refusal::ShuttingDown`] if `step` says no.
pub fn unique(engine: &Engine, epoch: Epoch, mut step: impl FnMut() -> bool) -> Result<u64, Refusal> {
    let (mut bytes, mut at) = (0, Some(UniqueAt::START));
    while let Some(from) = at {
        if !step() {
            return Err(Refusal::ShuttingDown);
        }
        let part = Unique::from_bytes(&ask(engine, Op::CountUnique(epoch, from))?);
        let part = part.ok_or_else(|| Refusal::Io("the answer to a count is damaged".into()))?;
        (bytes, at) = (bytes + part.bytes, part.next);
    }
    Ok(bytes)
}

/// Forgets `epochs`: returns when the intent is durable.
///
/// # Errors
/// The refusal.
pub fn forget(engine: &Engine, epochs: EpochRange) -> Result<(), Refusal> {
    ask(engine, Op::Forget(epochs)).map(drop)
}

fn ask(engine: &Engine, op: Op) -> Outcome {
    carry_out(engine, Request { op, extent: Extent::new(0, 0), fua: false })
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
