//! Holds, and paths that are taken out of snapshots.

use quietus_vault::chunk::{Compression, VaultKey};
use quietus_vault::client::Writer;
use quietus_vault::tree::Snapshot;
use quietus_vault::{SnapshotId, Vault, VaultError};

use super::{Life, Stop, refused, restored};
use crate::rng::Rng;
use crate::vault::items::{Item, Shot};
use crate::vault::model::Pending;
use crate::violation::Violation;

impl Life<'_, '_> {
    /// Holds a snapshot, or releases all.
    pub(super) fn hold(&mut self, rng: &mut Rng) -> Result<(), Stop> {
        let released = !self.model.held.is_empty() && rng.chance(60);
        let Some(snapshot) = self.any_snapshot(rng) else { return Ok(()) };
        let called = match released {
            true => self.vault.release("hold").map(|_| ()),
            false => self.vault.hold("hold", &[snapshot]),
        };
        match called {
            Err(VaultError::Snapshots(_)) => return Ok(()),
            Err(error) => {
                self.model.pending = Some(Pending::Hold);
                self.check(Err(error))?;
            }
            Ok(()) => {}
        }
        match released {
            true => self.model.held.clear(),
            false => drop(self.model.held.insert(snapshot)),
        }
        Ok(())
    }

    /// Takes a file out of a snapshot.
    pub(super) fn remove_file(&mut self, rng: &mut Rng) -> Result<(), Stop> {
        let Some(snapshot) = self.any_snapshot(rng) else { return Ok(()) };
        let shot = self.model.live[&snapshot].clone();
        if self.is_read_only || self.model.held.contains(&snapshot) || shot.files.len() < 2 {
            return Ok(());
        }
        let (name, chunks) = shot.files[rng.index(shot.files.len())].clone();
        let path = Item::Name(name).bytes();
        let mut pruned = shot.clone();
        pruned.files.retain(|(it, _)| *it != name);
        let removed = removed(&mut self.vault, &self.bench.setup.key, snapshot, &path);
        match removed {
            Ok(()) => {
                self.model.replace(snapshot, pruned, &Shot { name, files: vec![(name, chunks)] });
                Ok(())
            }
            Err(VaultError::Full { .. } | VaultError::Snapshots(_)) => Ok(()),
            Err(error) => {
                self.model.pending = Some(Pending::Replace(snapshot, pruned));
                self.check(Err(error))
            }
        }
    }

    /// A snapshot that was being exchanged is the one or the other.
    pub(super) fn reconcile_replaced(&mut self, snapshot: SnapshotId, shot: Shot) -> Result<(), Violation> {
        let files = restored(&mut self.vault, snapshot).map_err(refused)?.len();
        if files == shot.files.len() {
            let old = self.model.live[&snapshot].clone();
            self.model.replace(snapshot, shot, &old);
        }
        Ok(())
    }
}

/// Takes the file of that name out of a snapshot.
fn removed(
    vault: &mut Vault<'_>,
    key: &VaultKey,
    snapshot: SnapshotId,
    name: &[u8],
) -> Result<(), VaultError> {
    let old = vault.snapshot(snapshot)?;
    let mut writer = Writer::begin(vault, key, Compression::None)?;
    let done = match writer.without(vault, &old.folder, b"", &|path| path == name) {
        Ok(Some(folder)) => writer.replace(vault, &[(snapshot, Snapshot { folder, ..old })]).map(|_| ()),
        Ok(None) => panic!("a file is not in its snapshot"),
        Err(error) => Err(error),
    };
    match done {
        Err(VaultError::Full { .. } | VaultError::Snapshots(_)) => {
            vault.drop_put(writer.put())?;
            done
        }
        done => done,
    }
}
