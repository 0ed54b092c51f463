//! What the volume is asked about epochs, and told of them.

use crate::engine::Engine;
use crate::engine::export;
use quietus_core::base::parts::Parts;
use quietus_core::base::units::{Addr, BLOCK_BYTES, Block, Epoch, EpochRange, Extent, Pos, Scope};
use quietus_core::request::{
    Changes, Judged, KeptEpoch, Listed as Versions, Lives, Op, Outcome, Question, Refusal, Reply, Request,
    Weighing,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An epoch in a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Listed {
    /// The number.
    pub epoch: u64,
    /// When it closed, in milliseconds since 1970.
    #[serde(rename = "closed", with = "crate::base::rfc3339::or_unknown")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub closed_ms: u64,
    /// Bytes in blocks that were written or freed in it.
    pub changed_bytes: u64,
}

impl From<KeptEpoch> for Listed {
    fn from(KeptEpoch { epoch, closed_ms, changed_bytes }: KeptEpoch) -> Self {
        Self { epoch: epoch.0, closed_ms, changed_bytes }
    }
}

/// Closes the open epoch at `when`, in milliseconds since 1970; returns the number of the last closed one.
pub fn close(engine: &Engine, when: u64) -> Result<Epoch, Refusal> {
    close_as(engine, when, false)
}

/// Closes the open epoch as [`close`] does, and, if nothing has changed since the last one, which is forgotten by now, as a whole or in
/// part, makes an epoch of the current state all the same. So the epoch whose number is returned shows that.
pub fn keep_now(engine: &Engine, when: u64) -> Result<Epoch, Refusal> {
    let last = close(engine, when)?;
    let is_kept = list(engine, last)?.first().is_some_and(|it| it.epoch == last.0);
    let is_whole = is_kept && first_gap(engine, last)?.is_none();
    if last == Epoch(0) || is_whole { Ok(last) } else { close_as(engine, when, true) }
}

fn close_as(engine: &Engine, when: u64, anew: bool) -> Result<Epoch, Refusal> {
    let Reply::Closed(last) = ask(engine, Op::CloseEpoch { when, anew })? else { unasked() };
    Ok(last)
}

/// The kept epochs from `from` on, as many as one answer has.
pub fn list(engine: &Engine, from: Epoch) -> Result<Vec<Listed>, Refusal> {
    listed(engine, Question::Epochs(from))
}

/// The first of the kept epochs that still show content which was not plain and has died since, or may: as many as one answer has.
pub fn showing_dead(engine: &Engine) -> Result<Vec<Listed>, Refusal> {
    listed(engine, Question::ShowingDead(Epoch(0)))
}

fn listed(engine: &Engine, question: Question) -> Result<Vec<Listed>, Refusal> {
    let Reply::Epochs(epochs) = ask(engine, Op::Ask(question))? else { unasked() };
    Ok(epochs.into_iter().map(Listed::from).collect())
}

/// The bytes of which only `epoch` shows a version: what forgetting it alone would destroy. `step` says whether to go on.
///
/// # Errors
/// The refusal; [`Refusal::ShuttingDown`] if `step` says no.
pub fn unique(engine: &Engine, epoch: Epoch, mut step: impl FnMut() -> bool) -> Result<u64, Refusal> {
    let mut weighing = Weighing::new(EpochRange { from: epoch, to: epoch });
    while weighing.at.is_some() {
        if !step() {
            return Err(Refusal::ShuttingDown);
        }
        weighing = weigh(engine, weighing)?;
    }
    Ok(weighing.dies * BLOCK_BYTES)
}

/// Counts on what would die with some epochs.
pub fn weigh(engine: &Engine, weighing: Weighing) -> Result<Weighing, Refusal> {
    let Reply::Weighed(weighing) = ask(engine, Op::Ask(Question::Weigh(weighing)))? else { unasked() };
    Ok(*weighing)
}

/// Tells which of the stubs or of the cells that `question` shows are needed.
pub fn judge(engine: &Engine, question: Question) -> Result<Judged, Refusal> {
    let Reply::Judged(judged) = ask(engine, Op::Ask(question))? else { unasked() };
    Ok(*judged)
}

/// What is wrong with the page of the index that was read at `at` of its medium, if anything is.
pub fn page_fault(engine: &Engine, at: Pos, bytes: Vec<u8>) -> Result<Option<String>, Refusal> {
    let Reply::Page(fault) = ask(engine, Op::Ask(Question::Page(at, bytes)))? else { unasked() };
    Ok(fault)
}

/// The versions from `block` and `born` on, in the order of the index, as many as one answer has.
pub fn versions(engine: &Engine, block: Block, born: Epoch) -> Result<Versions, Refusal> {
    let Reply::Versions(versions) = ask(engine, Op::Ask(Question::Versions(block, born)))? else { unasked() };
    Ok(*versions)
}

/// The first bytes that are forgotten in `epoch`, which is kept.
pub fn first_gap(engine: &Engine, epoch: Epoch) -> Result<Option<Extent<Addr>>, Refusal> {
    let mut from = 0;
    loop {
        let Reply::Gap(gap, next) = ask(engine, Op::Ask(Question::FirstGap(epoch, from)))? else { unasked() };
        match next {
            Some(next) if gap.is_none() => from = next,
            _ => return Ok(gap),
        }
    }
}

/// The kept epochs that change some blocks, as many as one answer has.
pub fn changes(engine: &Engine, lives: Lives) -> Result<Changes, Refusal> {
    let Reply::Changes(changes) = ask(engine, Op::Ask(Question::Lives(lives)))? else { unasked() };
    Ok(*changes)
}

/// Forgets epochs, or some of their blocks: returns when the intent is durable.
pub fn forget(engine: &Engine, scope: impl Into<Scope>) -> Result<(), Refusal> {
    ask(engine, Op::Forget(scope.into())).map(drop)
}

/// Forgets parts as one: returns when the intent is durable.
pub fn forget_set(engine: &Engine, parts: Arc<Parts>) -> Result<(), Refusal> {
    ask(engine, Op::ForgetSet(parts)).map(drop)
}

fn ask(engine: &Engine, op: Op) -> Outcome {
    export::ask(engine, Request { op, extent: Extent::new(0, 0), fua: false })
}

/// A reply to something else.
pub(super) fn unasked() -> ! {
    unreachable!("a disk replies to what it is asked")
}
