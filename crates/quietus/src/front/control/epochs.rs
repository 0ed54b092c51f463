//! The answers to calls about epochs.

use super::refused::Refused;
use super::reports::{Closed, Forgotten, Held, Released, VersionLine, Versions, Weighed};
use crate::disk::Step;
use crate::disk::epochs::HoldOf;
use crate::engine::Entry;
use crate::epochs::{self, At, Listed, Past};
use crate::open_disk::OpenDisk;
use crate::open_disk::copy::{self, Copied};
use quietus_core::base::units::{BLOCK_BYTES, Epoch, EpochRange, Scope};
use quietus_core::request::Weighing;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

/// Most epochs in one answer.
const LISTED_MAX: usize = 1000;
/// Some epochs, in words: the first, and the last if there are several.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Epochs {
    /// The first one.
    pub from: String,
    /// The last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// The epochs that a disk keeps, and by which rules.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EpochsKept {
    /// The first kept epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Listed>,
    /// The last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Listed>,
    /// When the open epoch closes: a duration, `flush` or `manual`.
    pub closes: Option<String>,
    /// How many have a name.
    pub named: usize,
    /// The holds, by name.
    pub holds: BTreeMap<String, HoldOf>,
    /// The rules of retention; empty if all epochs are kept.
    pub retention: String,
    /// Why no rule is carried out, if so, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

impl From<&str> for Epochs {
    /// What follows `DISK@`: `A`, or `A..B`, where an end that is left out means the first or the last kept epoch.
    fn from(text: &str) -> Self {
        let or = |end: &str, other: &str| if end.is_empty() { other.into() } else { end.into() };
        match text.split_once("..") {
            None => Self { from: text.into(), to: None },
            Some((from, to)) => Self { from: or(from, "first"), to: Some(or(to, "last")) },
        }
    }
}

impl OpenDisk {
    pub(super) fn close_epoch(&self, name: Option<&str>, confirm_clock: bool) -> Result<Closed, Refused> {
        name.map_or(Ok(()), |name| self.names.check_free(name))?;
        epochs::note_doubts(self);
        let now = self.clock.now_ms();
        // Else a rule, or a person, could forget the epoch before it has its name.
        let _deciding = self.names.decide();
        let epoch = epochs::keep_now(&self.engine, now)?;
        if epoch == Epoch(0) {
            return Err("nothing was ever written: there is no epoch to close".into());
        }
        if let Some(name) = name {
            self.names.name(self.dir.directory(), name, epoch)?;
            self.record(Entry::Named { name: name.into(), epoch: epoch.0 })?;
        }
        if confirm_clock {
            // While the doubt stands the clock is not checked, so that the same leap is not found again.
            self.clock.trust();
            self.names.confirm(self.dir.directory(), epoch, now)?;
        }
        Ok(Closed { epoch: epoch.0, name: self.names.by_epoch().get(&epoch.0).cloned() })
    }

    /// The kept epochs from `from` on; with `count_unique`, also what forgetting each alone would destroy.
    pub(super) fn versions(
        &self,
        from: u64,
        count_unique: bool,
        step: Step<'_>,
    ) -> Result<Versions, Refused> {
        let (mut listed, mut next, mut more) = (Vec::<Listed>::new(), from, false);
        while listed.len() < LISTED_MAX && !more {
            let part = epochs::list(&self.engine, Epoch(next))?;
            let Some(last) = part.last() else { break };
            next = last.epoch + 1;
            listed.extend(part);
            more = listed.len() >= LISTED_MAX;
        }
        listed.truncate(LISTED_MAX);
        let names = self.names.by_epoch();
        let mut versions = Vec::new();
        for (n, it) in listed.iter().enumerate() {
            let Listed { epoch, closed_ms, changed_bytes } = *it;
            let (done, of) = (n as u64, listed.len() as u64);
            let unique = count_unique.then(|| epochs::unique(&self.engine, Epoch(epoch), || step(done, of)));
            versions.push(VersionLine {
                epoch,
                closed_ms,
                name: names.get(&epoch).cloned(),
                changed_bytes,
                unique_bytes: unique.transpose().map_err(|refusal| refusal.to_string())?,
            });
        }
        Ok(Versions { versions, more, holds: self.names.holds() })
    }

    /// The kept epochs that are meant. The ends of a range are bounds: they may be forgotten.
    pub(super) fn range(&self, epochs: &Epochs) -> Result<EpochRange, Refused> {
        let from = epochs.from.parse::<At>()?;
        match &epochs.to {
            Some(to) => Ok(epochs::range(&self.engine, &self.names, [&from, &to.parse()?])?),
            None => {
                let only = from.find(&self.engine, &self.names)?;
                Ok(EpochRange { from: only, to: only })
            }
        }
    }

    pub(super) fn forget(&self, epochs: &Epochs, wait: bool, step: Step<'_>) -> Result<Forgotten, Refused> {
        let deciding = self.names.decide();
        let range = self.range(epochs)?;
        self.names.check_held(range)?;
        epochs::forget(&self.engine, range)?;
        drop(deciding);
        let (from, to) = (range.from.0, range.to.0);
        self.engine.recorder().note(Entry::Forgets { scope: range.into(), by_rule: false });
        self.names.forget(self.dir.directory(), range)?;
        if wait {
            self.wait_until_forgotten(range.into(), step)?;
        }
        Ok(Forgotten { from, to, done: wait })
    }

    /// Counts what a forget would destroy.
    pub(super) fn weigh(&self, epochs: &Epochs, step: Step<'_>) -> Result<Weighed, Refused> {
        let range = self.range(epochs)?;
        self.wait_until_all_forgotten(step)?;
        let mut weighing = Weighing::new(range);
        while weighing.at.is_some() {
            weighing = epochs::weigh(&self.engine, weighing)?;
            if !step(0, 1) {
                return Err(Refused::Interrupted);
            }
        }
        let Weighing { dies, stays, before, after, .. } = weighing;
        let after =
            Some(after.0).filter(|after| self.engine.open_epoch().is_some_and(|open| *after < open.0));
        Ok(Weighed {
            from: range.from.0,
            to: range.to.0,
            epochs: self.count(range)?,
            dies_blocks: dies,
            dies_bytes: dies * BLOCK_BYTES,
            stays_before_bytes: stays * BLOCK_BYTES,
            before: Some(before.0).filter(|before| *before > 0),
            after,
            held: self.names.check_held(range).err().map(|error| error.to_string()),
        })
    }

    /// How many of some epochs are kept.
    fn count(&self, epochs: EpochRange) -> Result<u64, Refused> {
        let (mut count, mut from) = (0, epochs.from);
        loop {
            let part = epochs::list(&self.engine, from)?;
            count += part.iter().filter(|it| it.epoch <= epochs.to.0).count() as u64;
            match part.last().filter(|last| last.epoch < epochs.to.0) {
                Some(last) => from = Epoch(last.epoch + 1),
                None => return Ok(count),
            }
        }
    }

    /// The epochs that are kept, for the status; `None` if the disk keeps no epochs, or cannot say.
    pub(super) fn epochs_kept(&self) -> Option<EpochsKept> {
        let behaviour = &self.dir.toml().behaviour;
        self.engine.open_epoch()?;
        Some(EpochsKept {
            first: epochs::list(&self.engine, Epoch(0)).ok()?.first().copied(),
            last: epochs::last(&self.engine).ok()?,
            closes: behaviour.epoch.map(|end| end.to_string()),
            named: self.names.by_epoch().len(),
            holds: self.names.holds(),
            retention: behaviour.retention.as_ref().map(ToString::to_string).unwrap_or_default(),
            stopped: self.names.doubt().map(|doubt| doubt.why),
        })
    }

    /// Waits until nothing is being forgotten: that still counts as kept in the index.
    pub(super) fn wait_until_all_forgotten(&self, step: Step<'_>) -> Result<(), Refused> {
        while let Some(busy) = self.engine.status().owed.forgets.first() {
            if self.dir.is_read_only() {
                let EpochRange { from: Epoch(from), to: Epoch(to) } = busy.epochs();
                return Err(format!("epochs {from} to {to} are being forgotten; serve the disk first").into());
            }
            self.wait_until_forgotten(*busy, step)?;
        }
        Ok(())
    }

    /// Waits until all that died with `scope` is destroyed.
    pub(super) fn wait_until_forgotten(&self, scope: Scope, step: Step<'_>) -> Result<(), Refused> {
        let mut refused = Refused::Interrupted;
        let is_forgotten = self.engine.wait_until_forgotten(&scope, |status| {
            if let Some(reason) = &status.latched {
                refused = format!("the disk is read-only: {reason}").into();
                return false;
            }
            if let Some(why) = status.store.trouble() {
                let noted = "the forget is noted, and not carried out before the server starts again";
                refused = format!("{noted}: {why}; stop the server and run `quietus verify`").into();
                return false;
            }
            step(0, 1)
        });
        if is_forgotten { Ok(()) } else { Err(refused) }
    }

    pub(super) fn hold(&self, name: &str, epochs: &Epochs, who: &str, why: &str) -> Result<Held, Refused> {
        if who.trim().is_empty() || why.trim().is_empty() {
            return Err(
                "--who and --why must not be empty: the audit log keeps who asked for a hold, and why".into(),
            );
        }
        let _deciding = self.names.decide();
        let EpochRange { from: Epoch(from), to: Epoch(to) } = self.range(epochs)?;
        let hold = HoldOf { from, to, who: who.into(), why: why.into(), since_ms: self.clock.now_ms() };
        self.names.hold(self.dir.directory(), name, hold.clone())?;
        self.record(Entry::Held(hold.line(name)))?;
        Ok(Held { holds: BTreeMap::from([(name.to_string(), hold)]) })
    }

    /// Puts on record, durably, what has changed in the names and holds: the log is their second copy.
    fn record(&self, entry: Entry) -> Result<(), Refused> {
        self.engine.recorder().note(entry);
        let recorded = self.engine.recorder().flush();
        recorded.map(drop).map_err(|why| {
            format!("the change is made, but the audit log does not have it yet: {why}").into()
        })
    }

    pub(super) fn release(&self, name: &str) -> Result<Released, Refused> {
        let hold = self.names.release(self.dir.directory(), name)?;
        self.record(Entry::Released(hold.line(name)))?;
        Ok(Released { released: name.into(), hold })
    }

    /// Copies the disk as it was at an epoch to `file`.
    pub(super) fn export_past(
        &self,
        at: &str,
        zeros: bool,
        file: &File,
        step: Step<'_>,
    ) -> Result<Copied, Refused> {
        let epoch = at.parse::<At>()?.find(&self.engine, &self.names)?;
        let past = Past::new(Arc::clone(&self.engine), format!("{}@{at}", self.dir.name()), epoch);
        Ok(copy::copy_past(&past, file, zeros, step)?)
    }
}
