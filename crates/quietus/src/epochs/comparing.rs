//! Where two states of a disk differ, as its index says.

use super::asking::unasked;
use crate::engine::Engine;
use crate::engine::export::{self, Changes};
use quietus_core::base::units::{Addr, Extent};
use quietus_core::request::{AsOf, Compared, Op, Refusal, Reply, Request};
use std::sync::Arc;

/// Most parts that one question of a client about changes is answered from.
const PARTS_MAX: usize = 16;

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
    let request = Request { op: Op::Compare(states), extent, fua: false };
    let Reply::Compared(compared) = export::ask(engine, request)? else { unasked() };
    Ok(compared)
}

/// Two states of a disk, as clients learn where they differ.
pub struct States {
    /// The engine that runs the disk.
    pub engine: Arc<Engine>,
    /// The states.
    pub states: [AsOf; 2],
}

impl Changes for States {
    fn changed(&self, extent: Extent<Addr>, runs_max: usize) -> Result<Vec<(u64, bool)>, Refusal> {
        let (mut runs, mut known) = (Vec::new(), extent.start.0);
        for part in differences(&self.engine, extent, self.states).take(PARTS_MAX) {
            let Compared { end, differing } = part?;
            for run in differing {
                add(&mut runs, run.start.0 - known, false);
                add(&mut runs, run.len, true);
                known = run.end();
            }
            add(&mut runs, end - known, false);
            known = end;
            if runs.len() > runs_max {
                break;
            }
        }
        runs.truncate(runs_max);
        Ok(runs)
    }
}

/// Adds a run behind the others.
fn add(runs: &mut Vec<(u64, bool)>, len: u64, differs: bool) {
    match runs.last_mut() {
        _ if len == 0 => {}
        Some(last) if last.1 == differs => last.0 += len,
        _ => runs.push((len, differs)),
    }
}
