//! The metadata contexts: what `NBD_CMD_BLOCK_STATUS` tells of a disk.
//!
//! | liveness   | `base:allocation` | `quietus:liveness` |
//! | ---------- | ----------------- | ------------------ |
//! | live       | 0                 | 0                  |
//! | dead       | 3 (hole, zero)    | 1                  |
//! | queued     | 2 (zero)          | 2                  |
//! | suspicious | 0                 | 3                  |
//!
//! `quietus:changed-since:EPOCH` is 1 where the export differs from what the disk was at that epoch (its number, its
//! name, or a time), and 0 elsewhere, as `qemu:dirty-bitmap:` is. In a list, the name without an epoch stands for all
//! kept epochs, and a query for it lists the first of them.

use super::wire::reply::ReplyFor;
use crate::engine::export::{Changes, Export};
use quietus_core::base::units::{Addr, Extent};
use quietus_core::request::{Liveness, Refusal};
use std::sync::Arc;

/// Most runs of equal status that one reply tells of.
const RUNS_MAX: usize = 16 << 10;
/// Most runs that are merged for a reply of one extent.
const RUNS_FOR_ONE_MAX: usize = 64;
/// Most contexts of changes in one session.
const SINCE_MAX: usize = 8;
/// Most queries for contexts of changes in one option: each may have to look for its epoch.
const SINCE_QUERIES_MAX: usize = 64;
/// Most contexts in one session.
pub const CONTEXTS_MAX: usize = Context::FIXED.len() + SINCE_MAX;
/// Prefix of the names of contexts of changes.
const SINCE: &str = "quietus:changed-since:";

/// A metadata context.
#[derive(Clone)]
pub enum Context {
    /// `base:allocation`, of the protocol.
    Allocation,
    /// `quietus:liveness`, our own.
    Liveness,
    /// `quietus:changed-since:`, our own.
    ChangedSince {
        /// The number of the context in replies.
        id: u32,
        /// The name, as the client gave it.
        name: String,
        /// The changes.
        changes: Arc<dyn Changes>,
    },
}

impl Context {
    /// The contexts that each disk has.
    const FIXED: [Self; 2] = [Self::Allocation, Self::Liveness];

    /// The name of the context.
    pub fn name(&self) -> &str {
        match self {
            Self::Allocation => "base:allocation",
            Self::Liveness => "quietus:liveness",
            Self::ChangedSince { name, .. } => name,
        }
    }

    /// The number of the context in replies.
    pub const fn id(&self) -> u32 {
        match self {
            Self::Allocation => 1,
            Self::Liveness => 2,
            Self::ChangedSince { id, .. } => *id,
        }
    }

    /// Whether `query` asks for the context by name, or for its name space.
    fn is_listed(&self, query: &str) -> bool {
        let space = query.strip_suffix(':').filter(|space| !space.contains(':'));
        query == self.name() || space.is_some_and(|space| self.name().split(':').next() == Some(space))
    }

    const fn status(&self, liveness: Liveness) -> u32 {
        match (self, liveness) {
            (Self::Allocation, Liveness::Live | Liveness::Suspicious) | (Self::Liveness, Liveness::Live) => 0,
            (Self::Allocation, Liveness::Dead) | (Self::Liveness, Liveness::Suspicious) => 3,
            (Self::Allocation | Self::Liveness, Liveness::Queued) => 2,
            (Self::Liveness, Liveness::Dead) | (Self::ChangedSince { .. }, _) => 1,
        }
    }

    /// The statuses of `extent`, from its start on; `one` if only the first is wanted.
    fn extents(
        &self,
        export: &dyn Export,
        extent: Extent<Addr>,
        one: bool,
    ) -> Result<Vec<(u64, u32)>, Refusal> {
        if let Self::ChangedSince { changes, .. } = self {
            let runs = changes.changed(extent, if one { 1 } else { RUNS_MAX })?;
            return Ok(runs.into_iter().map(|(len, differs)| (len, u32::from(differs))).collect());
        }
        let runs = export.liveness(extent, if one { RUNS_FOR_ONE_MAX } else { RUNS_MAX });
        let mut extents = merged(self, &runs, extent.len);
        extents.truncate(if one { 1 } else { RUNS_MAX });
        Ok(extents)
    }
}

/// Most bytes of a reply about `contexts` contexts.
pub const fn reply_bytes_max(contexts: usize) -> usize {
    contexts * (RUNS_MAX * 16 + 64)
}

/// The contexts of `export` that a client selects with `queries`.
pub fn chosen(export: &dyn Export, queries: &[&str]) -> Vec<Context> {
    let named = |context: &Context| queries.contains(&context.name());
    let mut chosen: Vec<Context> = Context::FIXED.into_iter().filter(named).collect();
    for (name, changes) in since(export, queries) {
        let is_new = !chosen.iter().any(|context| context.name() == name);
        if is_new && chosen.len() < CONTEXTS_MAX {
            let id = Context::FIXED.len() + chosen.len() + 1;
            chosen.push(Context::ChangedSince { id: id as u32, name: name.into(), changes });
        }
    }
    chosen
}

/// The names of the contexts of `export` that a client asks for with `queries`.
pub fn listed(export: &dyn Export, queries: &[&str]) -> Vec<String> {
    let is_asked =
        |context: &Context| queries.is_empty() || queries.iter().any(|query| context.is_listed(query));
    let fixed = Context::FIXED.into_iter().filter(is_asked);
    let mut names: Vec<String> = fixed.map(|context| context.name().into()).collect();
    let has_query = |wanted: &str| queries.contains(&wanted);
    let Some(epochs) = export.epochs() else { return names };
    if queries.is_empty() || has_query("quietus:") || has_query(SINCE) {
        names.push(SINCE.into());
    }
    if has_query(SINCE) {
        names.extend(epochs.iter().map(|epoch| format!("{SINCE}{epoch}")));
    }
    for (name, _) in since(export, queries) {
        if !names.iter().any(|known| known == name) {
            names.push(name.into());
        }
    }
    names
}

/// The contexts of changes that `queries` name, and that there are.
fn since<'a>(
    export: &'a dyn Export,
    queries: &'a [&'a str],
) -> impl Iterator<Item = (&'a str, Arc<dyn Changes>)> {
    let named = queries.iter().filter_map(|query| Some((*query, query.strip_prefix(SINCE)?)));
    let named = named.filter(|(_, at)| !at.is_empty()).take(SINCE_QUERIES_MAX);
    named.filter_map(|(query, at)| Some((query, export.changes_since(at)?.ok()?)))
}

/// The reply to a question about `extent`, which is not empty and lies within
/// the disk: a chunk for each of `contexts`, with one extent only if `one`.
pub fn reply(
    export: &dyn Export,
    to: &ReplyFor,
    contexts: &[Context],
    extent: Extent<Addr>,
    one: bool,
) -> Result<Vec<u8>, Refusal> {
    let mut out = Vec::new();
    for (index, context) in contexts.iter().enumerate() {
        let extents = context.extents(export, extent, one)?;
        to.put_status(&mut out, context.id(), &extents, index + 1 == contexts.len());
    }
    Ok(out)
}

/// `runs` as statuses of `context`, equal neighbours merged, over `len` bytes
/// at most.
fn merged(context: &Context, runs: &[(u64, Liveness)], len: u64) -> Vec<(u64, u32)> {
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
