//! The answers to calls about epochs.

use super::refused::Refused;
use crate::copy;
use crate::disk::Step;
use crate::epochs::{self, At, HoldOf, Listed, Past, now_ms};
use crate::open_disk::OpenDisk;
use quietus_core::units::{Epoch, EpochRange};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

/// Most epochs in one answer.
const LISTED_MAX: usize = 1000;
/// How often a call looks whether a forget has completed.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Some epochs, in words: the first, and the last if there are several.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Epochs {
    /// The first one.
    pub from: String,
    /// The last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

impl Epochs {
    /// The word for the first kept epoch.
    pub const FIRST: &str = "first";
}

impl OpenDisk {
    pub(super) fn close_epoch(&self, name: Option<&str>) -> Result<Value, String> {
        let refused = |error: crate::epochs::NamesError| error.to_string();
        name.map_or(Ok(()), |name| self.names.check_free(name)).map_err(refused)?;
        let epoch = epochs::close(&self.engine).map_err(|refusal| refusal.to_string())?;
        if epoch == Epoch(0) {
            return Err("nothing was ever written: there is no epoch to close".into());
        }
        if let Some(name) = name {
            self.names.name(self.dir.directory(), name, epoch).map_err(refused)?;
        }
        Ok(json!({ "epoch": epoch.0, "name": name }))
    }

    /// The kept epochs from `from` on; with `count_unique`, also what forgetting each alone would destroy.
    pub(super) fn versions(&self, from: u64, count_unique: bool, step: Step<'_>) -> Result<Value, String> {
        let (mut listed, mut next, mut more) = (Vec::<Listed>::new(), from, false);
        while listed.len() < LISTED_MAX && !more {
            let part = epochs::list(&self.engine, Epoch(next)).map_err(|refusal| refusal.to_string())?;
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
            let mut version = json!({
                "epoch": epoch, "closed_ms": closed_ms, "name": names.get(&epoch), "changed_bytes": changed_bytes,
            });
            if count_unique {
                let (done, of) = (n as u64, listed.len() as u64);
                let unique = epochs::unique(&self.engine, Epoch(epoch), || step(done, of));
                version["unique_bytes"] = unique.map_err(|refusal| refusal.to_string())?.into();
            }
            versions.push(version);
        }
        Ok(json!({ "versions": versions, "more": more, "holds": self.names.holds() }))
    }

    fn range(&self, epochs: &Epochs) -> Result<EpochRange, String> {
        let find = |text: &str| text.parse::<At>()?.find(&self.engine, &self.names);
        let first = || {
            let kept = epochs::list(&self.engine, Epoch(0)).map_err(|refusal| refusal.to_string())?;
            kept.first().map(|it| Epoch(it.epoch)).ok_or_else(|| "no epoch is kept".to_string())
        };
        let from = if epochs.from == Epochs::FIRST { first()? } else { find(&epochs.from)? };
        let to = epochs.to.as_deref().map_or(Ok(from), find)?;
        if from > to {
            return Err(format!("epoch {} is after epoch {}; name the earlier one first", from.0, to.0));
        }
        Ok(EpochRange { from, to })
    }

    pub(super) fn forget(&self, epochs: &Epochs, wait: bool, step: Step<'_>) -> Result<Value, String> {
        let range = self.range(epochs)?;
        self.names.check_held(range).map_err(|error| error.to_string())?;
        epochs::forget(&self.engine, range).map_err(|refusal| refusal.to_string())?;
        self.names.forget(self.dir.directory(), range).map_err(|error| error.to_string())?;
        let is_done = !wait || self.wait_until_forgotten(range, step)?;
        Ok(json!({ "from": range.from.0, "to": range.to.0, "done": wait && is_done }))
    }

    /// Waits until all that died with `epochs` is destroyed; whether it is.
    fn wait_until_forgotten(&self, epochs: EpochRange, step: Step<'_>) -> Result<bool, String> {
        loop {
            let status = self.engine.status();
            if let Some(reason) = status.latched {
                return Err(format!("the disk is read-only: {reason}"));
            }
            if !status.owed.forgets.contains(&epochs) {
                return Ok(true);
            }
            if !step(0, 1) {
                return Ok(false);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    pub(super) fn hold(&self, name: &str, epochs: &Epochs, who: &str, why: &str) -> Result<Value, String> {
        let EpochRange { from: Epoch(from), to: Epoch(to) } = self.range(epochs)?;
        let hold = HoldOf { from, to, who: who.into(), why: why.into(), since_ms: now_ms() };
        self.names.hold(self.dir.directory(), name, hold.clone()).map_err(|error| error.to_string())?;
        let held = BTreeMap::from([(name, hold)]);
        serde_json::to_value(json!({ "holds": held })).map_err(|error| error.to_string())
    }

    pub(super) fn release(&self, name: &str) -> Result<Value, String> {
        let hold = self.names.release(self.dir.directory(), name).map_err(|error| error.to_string())?;
        Ok(json!({ "released": name, "hold": hold }))
    }

    /// Copies the disk as it was at an epoch to `file`.
    pub(super) fn export_past(&self, at: &str, file: &File, step: Step<'_>) -> Result<Value, Refused> {
        let epoch = at.parse::<At>()?.find(&self.engine, &self.names)?;
        let past = Past::new(Arc::clone(&self.engine), format!("{}@{at}", self.dir.name()), epoch);
        Ok(serde_json::to_value(copy::copy_past(&past, file, step)?)?)
    }
}
