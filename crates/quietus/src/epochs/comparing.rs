//! Where two states of a disk differ, as its index says.

use crate::engine::Engine;
use crate::export::carry_out;
use quietus_core::request::{AsOf, Compared, Op, Refusal, Request};
use quietus_core::units::{Addr, Extent};

/// Where the two states differ in `extent`, part by part: each part ends where the next one begins, or with `extent`.
/// After an error nothing follows.
pub fn differences(
    engine: &Engine,
    extent: Extent<Addr>,
    states: [AsOf; 2],
) -> impl Iterator<Item = Result<Compared, Refusal>> {
    let mut rest = extent;
    std::iter::from_fn(move || {
        let part = (!rest.is_empty()).then(|| compare(engine, rest, states))?;
        let end = part.as_ref().map_or(extent.end(), |part| part.end);
        rest = Extent::between(end, extent.end());
        Some(part)
    })
}

fn compare(engine: &Engine, extent: Extent<Addr>, states: [AsOf; 2]) -> Result<Compared, Refusal> {
    let reply = carry_out(engine, Request { op: Op::Compare(states), extent, fua: false })?;
    Compared::from_bytes(&reply).ok_or_else(|| Refusal::Io("the answer to a comparison is damaged".into()))
}
