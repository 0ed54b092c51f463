//! Epochs of a disk that keeps versions, as people see them: by number, by name, and by time; exports of the past; and
//! the ends of epochs: closing them, and forgetting them by rule.

mod at;
mod comparing;
mod export;
mod gate;
mod keeper;
mod names;
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
use quietus_core::request::{Op, Outcome, Refusal, Request};
use quietus_core::units::{Epoch, EpochRange, Extent};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of an epoch in a list.
const ENTRY_BYTES: usize = 16;

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
    let number =
        |bytes: &[u8], at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let entries = reply.chunks_exact(ENTRY_BYTES);
    Ok(entries.map(|entry| Listed { epoch: number(entry, 0), closed_ms: number(entry, 8) }).collect())
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
