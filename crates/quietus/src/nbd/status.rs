//! The metadata contexts: what `NBD_CMD_BLOCK_STATUS` tells of a disk.
//!
//! | liveness   | `base:allocation` | `quietus:liveness` |
//! | ---------- | ----------------- | ------------------ |
//! | live       | 0                 | 0                  |
//! | dead       | 3 (hole, zero)    | 1                  |
//! | queued     | 2 (zero)          | 2                  |
//! | suspicious | 0                 | 3                  |

use super::wire::reply::ReplyFor;
use crate::export::Export;
use quietus_core::request::Liveness;
use quietus_core::units::{Addr, Extent};

/// Most runs of equal liveness that one reply tells of.
const RUNS_MAX: usize = 16 << 10;
/// Most runs that are merged for a reply of one extent.
const RUNS_FOR_ONE_MAX: usize = 64;
/// Most bytes of a reply.
pub const REPLY_BYTES_MAX: usize = Context::ALL.len() * (RUNS_MAX * 16 + 64);

/// A metadata context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Context {
    /// `base:allocation`, of the protocol.
    Allocation,
    /// `quietus:liveness`, our own.
    Liveness,
}

impl Context {
    /// All contexts.
    pub const ALL: [Self; 2] = [Self::Allocation, Self::Liveness];

    /// The name of the context.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allocation => "base:allocation",
            Self::Liveness => "quietus:liveness",
        }
    }

    /// The number of the context in replies.
    pub const fn id(self) -> u32 {
        match self {
            Self::Allocation => 1,
            Self::Liveness => 2,
        }
    }

    /// Whether `query` asks for the context by name.
    pub fn is_named(self, query: &str) -> bool {
        query == self.name()
    }

    /// Whether `query` asks for the context by name, or for its name space.
    pub fn is_listed(self, query: &str) -> bool {
        let space = query.strip_suffix(':').filter(|space| !space.contains(':'));
        self.is_named(query) || space.is_some_and(|space| self.name().split(':').next() == Some(space))
    }

    const fn status(self, liveness: Liveness) -> u32 {
        match (self, liveness) {
            (Self::Allocation, Liveness::Live | Liveness::Suspicious) | (Self::Liveness, Liveness::Live) => 0,
            (Self::Allocation, Liveness::Dead) | (Self::Liveness, Liveness::Suspicious) => 3,
            (Self::Allocation | Self::Liveness, Liveness::Queued) => 2,
            (Self::Liveness, Liveness::Dead) => 1,
        }
    }
}

/// The reply to a question about `extent`, which is not empty and lies within
/// the disk: a chunk for each of `contexts`, with one extent only if `one`.
pub fn reply(
    export: &dyn Export,
    to: &ReplyFor,
    contexts: &[Context],
    extent: Extent<Addr>,
    one: bool,
) -> Vec<u8> {
    let runs = export.liveness(extent, if one { RUNS_FOR_ONE_MAX } else { RUNS_MAX });
    let mut out = Vec::new();
    for (index, context) in contexts.iter().enumerate() {
        let mut extents = merged(*context, &runs, extent.len);
        extents.truncate(if one { 1 } else { RUNS_MAX });
        to.put_status(&mut out, context.id(), &extents, index + 1 == contexts.len());
    }
    out
}

/// `runs` as statuses of `context`, equal neighbours merged, over `len` bytes
/// at most.
fn merged(context: Context, runs: &[(u64, Liveness)], len: u64) -> Vec<(u64, u32)> {
    let mut extents: Vec<(u64, u32)> = Vec::with_capacity(runs.len());
    let mut left = len;
    for &(run, liveness) in runs {
        let (run, status) = (run.min(left), context.status(liveness));
        left -= run;
        match extents.last_mut() {
            _ if run == 0 => {}
            Some(last) if last.1 == status => last.0 += run,
            _ => extents.push((run, status)),
        }
    }
    extents
}
