//! Taking paths out of snapshots, all at once.

use super::{Client, Error, Globs, Step, find, snapshots};
use crate::vault::choose::select::Line;
use quietus_vault::client::{Access, Thinning, Writer};
use quietus_vault::tree::{Snapshot, Totals};
use quietus_vault::{ForgetId, Reference, SnapshotId, VaultError};
use schemars::JsonSchema;
use serde::Serialize;

/// The report of a forget, or of its dry run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct Forgotten {
    /// The snapshots that lose something.
    pub snapshots: Vec<Line>,
    /// The numbers of the forgets, which receipts will name; empty for a dry run.
    pub forgets: Vec<u64>,
    /// Entries that are forgotten, folders apart, in all snapshots together.
    pub files: u64,
    /// Bytes of their content.
    pub bytes: u64,
    /// Chunks that only these have; unknown where paths are forgotten.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u64>,
    /// Bytes that these chunks take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_bytes: Option<u64>,
    /// The patterns of `--path` that no snapshot has a path for.
    pub unmatched_paths: Vec<String>,
    /// Whether nothing was done.
    #[serde(rename = "dry_run")]
    pub is_dry_run: bool,
}

/// A snapshot that loses something.
struct Affected {
    snapshot: SnapshotId,
    /// Root of the snapshot's tree.
    root: Reference,
    old: Snapshot,
    gone: Totals,
}

/// Takes what the patterns are of out of these snapshots, or only says what that would be.
///
/// # Errors
/// [`Error`]; a snapshot that is held is one, and then nothing was done.
pub fn forget_paths(
    client: &mut Client,
    wanted: &[SnapshotId],
    paths: &Globs,
    is_dry_run: bool,
    step: Step<'_>,
) -> Result<Forgotten, Error> {
    let is_gone = |path: &[u8]| paths.have(path);
    let (mut thinning, mut affected) = (Thinning::new(&is_gone), Vec::new());
    for (done, snapshot) in (0..).zip(wanted) {
        if !step(done, wanted.len() as u64) {
            return Err(Error::Interrupted);
        }
        let root = client.root(*snapshot)?;
        let old = Snapshot::from_bytes(&client.get(&root)?).map_err(VaultError::from)?;
        let gone = thinning.matching(client, &old.folder, b"")?;
        if gone != Totals::default() {
            affected.push(Affected { snapshot: *snapshot, root, old, gone });
        }
    }
    let unmatched_paths = unmatched(client, wanted, paths)?;
    let lines = snapshots(client)?;
    let is_affected = |line: &Line| affected.iter().any(|it| it.snapshot.0 == line.snapshot);
    let mut forgotten = Forgotten {
        snapshots: lines.into_iter().filter(is_affected).collect(),
        files: affected.iter().map(|it| it.gone.files).sum(),
        bytes: affected.iter().map(|it| it.gone.bytes).sum(),
        unmatched_paths,
        is_dry_run,
        ..Forgotten::default()
    };
    if !is_dry_run && !affected.is_empty() {
        guard_holds(client, &affected)?;
        let forgets = take_out(client, &affected, &mut thinning)?;
        forgotten.forgets = forgets.into_iter().map(|forget| forget.0).collect();
    }
    Ok(forgotten)
}

/// The patterns that no snapshot has a path for. Patterns of paths below what is taken out have not been tried yet.
fn unmatched(client: &mut Client, wanted: &[SnapshotId], paths: &Globs) -> Result<Vec<String>, Error> {
    let untried = Globs::new("--path", &paths.unmatched())?;
    if !untried.unmatched().is_empty() {
        find(client, wanted, &untried, &mut |_, _| Ok(()))?;
    }
    Ok(untried.unmatched())
}

/// Refuses what a hold forbids, before anything is stored for it.
fn guard_holds(client: &mut Client, affected: &[Affected]) -> Result<(), Error> {
    let held = client.holds()?.into_iter().find(|(_, held)| affected.iter().any(|it| it.snapshot == *held));
    match held {
        Some((hold, snapshot)) => Err(VaultError::Held { snapshot, hold }.into()),
        None => Ok(()),
    }
}

/// Gives snapshots new folders without what the patterns are of, which is so much of each.
fn take_out(
    client: &mut Client,
    affected: &[Affected],
    thinning: &mut Thinning<'_>,
) -> Result<Vec<ForgetId>, Error> {
    let home = client.home().clone();
    let mut writer = Writer::begin(client, home.key(), home.toml().compress.into())?;
    let mut replace = || {
        let mut replaced = Vec::new();
        for Affected { snapshot, root, old, gone } in affected {
            let new = thinning.without(&mut writer, client, &old.folder, b"")?;
            let folder = new.unwrap_or_else(|| old.folder.clone());
            let new = Snapshot { totals: old.totals.less(*gone), folder, ..old.clone() };
            replaced.push((*snapshot, *root, new));
        }
        writer.replace(client, &replaced)
    };
    replace().map_err(|error: VaultError| {
        // A put that is not ended is owed at the next start.
        let _ = client.drop_put(writer.put());
        error.into()
    })
}
