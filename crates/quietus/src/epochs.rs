//! Epochs of a disk that keeps versions, as people see them: by number, by name, and by time; exports of the past; and
//! the ends of epochs: closing them, and forgetting them by rule.

mod at;
mod clock;
mod export;
mod keeper;
mod names;
mod timer;

pub use at::{At, FindError, Listed, last};
pub use clock::{Clock, Reading, Untrusted};
pub use export::{Past, Versioned};
pub(crate) use keeper::note_doubts;
pub use keeper::timers;
pub use names::{Confirmed, Doubt, HoldOf, NAMES_FILE, Names, NamesError};
pub use timer::Timer;

use crate::engine::Engine;
use crate::export::carry_out;
use quietus_core::request::{Op, Outcome, Refusal, Request, Weighing};
use quietus_core::units::{Epoch, EpochRange, Extent};

/// Bytes of an epoch in a list.
const ENTRY_BYTES: usize = 16;

/// Closes the open epoch at `when`, in milliseconds since 1970; returns the number of the last closed one.
///
/// # Errors
/// The refusal.
pub fn close(engine: &Engine, when: u64) -> Result<Epoch, Refusal> {
    let reply = ask(engine, Op::CloseEpoch { when })?;
    Ok(Epoch(reply.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))))
}

/// The kept epochs from `from` on, as many as one answer has.
///
/// # Errors
/// The refusal.
pub fn list(engine: &Engine, from: Epoch) -> Result<Vec<Listed>, Refusal> {
    let reply = ask(engine, Op::ListEpochs(from))?;
    let number =
        |bytes: &[u8], at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let entries = reply.chunks_exact(ENTRY_BYTES);
    Ok(entries.map(|entry| Listed { epoch: number(entry, 0), closed_ms: number(entry, 8) }).collect())
}

/// Counts on what would die with some epochs.
///
/// # Errors
/// The refusal.
pub fn weigh(engine: &Engine, weighing: Weighing) -> Result<Weighing, Refusal> {
    let reply = ask(engine, Op::Weigh(weighing))?;
    Weighing::from_bytes(&reply).ok_or(Refusal::Invalid("the disk's count makes no sense"))
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
