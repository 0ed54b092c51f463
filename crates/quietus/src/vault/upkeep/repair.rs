//! Repairing a vault's directory: one changed bit of the files that never change, and the catalog, which is rebuilt from the pool.

use crate::evidence::audit_log::{HostDirectory, names};
use crate::host::directory::{Access, Directory, lock_storage, make_file, public_key_of, remove, sync_dir};
use crate::host::media::FileMedium;
use crate::vault::place::dir::{CATALOG_FILE, open_medium, parse_policy, setup};
use crate::vault::place::record::{Entry, OwedLine};
use crate::vault::place::settings::{SECRET_FILE, TOML_FILE, VaultToml};
use crate::vault::{Error, Home, Session, Step, VaultDir};
use quietus_core::base::units::Extent;
use quietus_core::media::medium::Medium;
use quietus_vault::catalog::Numbers;
use quietus_vault::vault::{Repair, Repaired};
use quietus_vault::{ForgetId, PutId, RunId, SnapshotId, Vault};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use zeroize::Zeroizing;

/// The catalog until it is whole.
const NEW_FILE: &str = "catalog.new";
/// The catalog that was replaced.
const OLD_FILE: &str = "catalog.old";
/// Longest file of which one bit is set right.
const MENDED_BYTES_MAX: u64 = 4096;

/// What a repair has found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct RepairedVault {
    /// Files of which one bit was set right.
    pub mended: Vec<String>,
    /// Whether there was an old catalog, which is kept as `catalog.old`.
    #[serde(rename = "old_catalog_kept")]
    pub is_old_kept: bool,
    /// Whether the old catalog could be read to its end.
    #[serde(rename = "old_catalog_whole")]
    pub is_log_whole: bool,
    /// Containers of the pool.
    pub containers: u64,
    /// How many of the containers are damaged, in whole or in part.
    pub damaged: u64,
    /// Snapshots that the old catalog knew.
    pub known: Vec<u64>,
    /// Snapshots that the old catalog did not know, by their new numbers.
    pub found: Vec<u64>,
    /// Snapshots that were forgotten by the audit log, and are back.
    pub back: Vec<u64>,
    /// Snapshots that were forgotten by the audit log without a receipt: those in `found` may be among them.
    pub unmet: Vec<u64>,
    /// Holds of the audit log that are gone.
    pub lost_holds: Vec<LostHold>,
}

/// A hold that is gone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct LostHold {
    /// Its name.
    pub name: String,
    /// The snapshots that it kept, by the numbers that they had.
    pub snapshots: Vec<u64>,
}

impl RepairedVault {
    /// Whether nothing is left to be decided.
    pub fn is_whole(&self) -> bool {
        self.damaged == 0 && self.found.is_empty() && self.back.is_empty() && self.lost_holds.is_empty()
    }
}

/// Repairs the vault in the directory `path`. All of the pool is read. The old catalog is kept beside the new one.
///
/// # Errors
/// [`Error`]: another process has the vault, or a file is missing, or damaged in more than one bit.
pub fn repair(path: &Path, step: Step<'_>) -> Result<RepairedVault, Error> {
    if !path.join(TOML_FILE).is_file() {
        // The error says what is missing.
        VaultToml::read(path)?;
    }
    let directory = Directory::open(path, Access::ReadWrite)?;
    let mut mended = Vec::new();
    mend(&directory, TOML_FILE, &mut mended, &mut |text| VaultToml::is_whole(text, path))?;
    mend(&directory, SECRET_FILE, &mut mended, &mut |secret| VaultToml::is_key(secret, path))?;
    mend_signing_key(&directory, &mut mended)?;
    let home = Home::open(path)?;
    let history = History::read(path)?;
    let is_old_kept = path.join(CATALOG_FILE).exists();
    let repaired = make_catalog(&home, &history, step)?;
    drop(directory);
    let dir = VaultDir::open(path)?;
    let mut session = Session::open(&dir)?;
    let found: Vec<u64> = repaired.found.iter().map(|it| it.0).collect();
    session.note(&[Entry::Repaired { found: found.clone(), damaged: repaired.damaged }])?;
    let held: BTreeSet<&str> = session.vault.holds().map(|(name, _)| name).collect();
    let is_there = |snapshot: &&u64| repaired.known.contains(&SnapshotId(**snapshot));
    let lost_holds = history.holds.into_iter().filter(|(name, _)| !held.contains(name.as_str()));
    let lost_holds =
        lost_holds.map(|(name, snapshots)| LostHold { name, snapshots: snapshots.into_iter().collect() });
    Ok(RepairedVault {
        mended,
        is_old_kept,
        is_log_whole: repaired.is_log_whole,
        containers: repaired.containers,
        damaged: repaired.damaged,
        known: repaired.known.iter().map(|it| it.0).collect(),
        back: history.forgotten.iter().filter(is_there).copied().collect(),
        unmet: if found.is_empty() { Vec::new() } else { history.unmet.iter().copied().collect() },
        found,
        lost_holds: lost_holds.collect(),
    })
}

/// Makes the catalog anew, and puts it in the place of the old one once it is durable.
fn make_catalog(home: &Home, history: &History, step: Step<'_>) -> Result<Repaired, Error> {
    let (path, pool_path) = (home.path(), home.pool_path());
    let (layout, policy) = (home.toml().layout(), parse_policy(&home.toml().policy)?);
    let _lock = lock_storage(&pool_path, Access::ReadWrite)?;
    let pool = open_medium(&pool_path, false)?;
    if pool.size() < layout.pool_bytes() {
        let what = format!("the pool has {} bytes, and {} by vault.toml", pool.size(), layout.pool_bytes());
        return Err(Error::Invalid(format!("{}: {what}; put the whole file back", pool_path.display())));
    }
    let old_path = path.join(CATALOG_FILE);
    let old = match FileMedium::open(&old_path, true) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        opened => Some(opened.map_err(|error| Error::io("open it", &old_path, error))?),
    };
    let failed = |act| move |error| Error::io(act, path, error);
    remove(path, NEW_FILE).map_err(failed("clear what an interrupted repair left"))?;
    let new_path = make_file(path, NEW_FILE, layout.bytes()).map_err(failed("make the file catalog.new"))?;
    let new = open_medium(&new_path, false)?;
    new.reserve(Extent::new(0, layout.bytes()))?;
    let repair = Repair {
        old: old.as_ref().map(|old| old as &dyn Medium),
        new: &new,
        pool: &pool,
        layout,
        next: history.next,
    };
    let bytes = u64::from(layout.slot_bytes);
    let mut step = |done, of| step(done * bytes, of * bytes);
    let made = Vault::repair(&repair, setup(home.key().clone(), policy)?, &mut step);
    let (vault, repaired) = made.inspect_err(|_| drop(remove(path, NEW_FILE)))?;
    drop(vault);
    new.sync()?;
    if old.is_some() {
        remove(path, OLD_FILE).map_err(failed("remove the file catalog.old"))?;
        std::fs::hard_link(&old_path, path.join(OLD_FILE)).map_err(failed("keep the old catalog"))?;
    }
    std::fs::rename(&new_path, &old_path).map_err(failed("put the new catalog in its place"))?;
    sync_dir(path).map_err(failed("sync the directory"))?;
    Ok(repaired)
}

/// Corrects the one bit that has changed in a file. False if the file is still wrong: reading it then says why.
fn mend(
    directory: &Directory,
    name: &str,
    mended: &mut Vec<String>,
    is_right: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<bool, Error> {
    let path = directory.file(name);
    let is_short = path.metadata().is_ok_and(|about| about.is_file() && about.len() <= MENDED_BYTES_MAX);
    let Some(mut bytes) = std::fs::read(&path).ok().filter(|_| is_short).map(Zeroizing::new) else {
        return Ok(false);
    };
    if is_right(&bytes) {
        return Ok(true);
    }
    for bit in 0..8 * bytes.len() {
        bytes[bit / 8] ^= 1 << (bit % 8);
        if is_right(&bytes) {
            directory.replace(name, &bytes).map_err(|error| Error::io("set a bit right", &path, error))?;
            mended.push(name.into());
            return Ok(true);
        }
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    Ok(false)
}

/// Sets a bit of `key` or of `key.pub` right: each is known by the other.
fn mend_signing_key(directory: &Directory, mended: &mut Vec<String>) -> Result<(), Error> {
    let read = |name| std::fs::read(directory.file(name)).map(Zeroizing::new).unwrap_or_default();
    let (seed, public) = (read("key"), read("key.pub"));
    let fits = |seed: &[u8], public: &[u8]| public_key_of(seed).is_some_and(|it| it.as_bytes() == public);
    if !mend(directory, "key", mended, &mut |seed| fits(seed, &public))? {
        mend(directory, "key.pub", mended, &mut |public| fits(&seed, public))?;
    }
    Ok(())
}

/// What the audit log says. Its lines are not checked here: nothing is destroyed because of them.
#[derive(Default)]
struct History {
    next: Numbers,
    forgotten: BTreeSet<u64>,
    unmet: BTreeSet<u64>,
    holds: BTreeMap<String, BTreeSet<u64>>,
}

impl History {
    fn read(path: &Path) -> Result<Self, Error> {
        let failed = |error| Error::io("read the audit log", path, error);
        let mut history = Self::default();
        for name in names(&HostDirectory(path.into())).map_err(failed)? {
            for line in BufReader::new(File::open(path.join(name)).map_err(failed)?).split(b'\n') {
                // A line that is damaged says nothing.
                if let Ok(entry) = serde_json::from_slice(&line.map_err(failed)?) {
                    history.take(entry);
                }
            }
        }
        Ok(history)
    }

    fn take(&mut self, entry: Entry) {
        let next = &mut self.next;
        let after = |number: u64| number.saturating_add(1);
        match entry {
            Entry::Put { snapshot, .. } => next.snapshot = next.snapshot.max(SnapshotId(after(snapshot))),
            Entry::Forgets { forget, of, .. } => {
                next.forget = next.forget.max(ForgetId(after(forget)));
                match of {
                    OwedLine::Snapshot(snapshot) => {
                        self.forgotten.insert(snapshot);
                        self.unmet.insert(snapshot);
                    }
                    OwedLine::Put(put) => next.put = next.put.max(PutId(after(put))),
                    OwedLine::PathsOfSnapshot(_) => {}
                }
            }
            Entry::Receipt(receipt) => {
                next.forget = next.forget.max(ForgetId(after(receipt.forget)));
                next.run = next.run.max(RunId(after(receipt.run)));
                if let OwedLine::Snapshot(snapshot) = receipt.of {
                    self.unmet.remove(&snapshot);
                }
            }
            Entry::Held { name, snapshots, .. } => self.holds.entry(name).or_default().extend(snapshots),
            Entry::Released { name, .. } => drop(self.holds.remove(&name)),
            Entry::Sanitized { run, .. } => next.run = next.run.max(RunId(after(run))),
            Entry::Repaired { found, .. } => {
                let last = found.into_iter().max().map_or(0, after);
                next.snapshot = next.snapshot.max(SnapshotId(last));
            }
            Entry::Proved { .. } => {}
        }
    }
}
