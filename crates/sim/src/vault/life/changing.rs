//! Forgets, holds, paths that are taken out of snapshots, and what a put replaces.

use quietus_vault::chunk::Compression;
use quietus_vault::client::{Thinning, Writer};
use quietus_vault::tree::Snapshot;
use quietus_vault::{Reference, SnapshotId, VaultError};

use super::{Life, Stop, refused, restored};
use crate::machine::rng::Rng;
use crate::vault::client::Client;
use crate::vault::items::{Item, Shot};
use crate::vault::model::Pending;
use crate::verdict::{Judged, broken};

/// Removals at once.
const REMOVALS_MAX: usize = 2;

/// A file that is being taken out of a snapshot.
pub(super) struct Removal {
    writer: Writer,
    snapshot: SnapshotId,
    /// The first entries of the snapshot when it was read.
    root: Reference,
    /// The snapshot without the file.
    new: Snapshot,
    gone: Shot,
    /// The rest of what the snapshot had when it was read.
    pub(super) left: Shot,
}

impl Removal {
    /// Whether `now` is what was read.
    fn is_of(&self, now: &Shot) -> bool {
        let has = |shot: &Shot| shot.files.iter().all(|it| now.files.contains(it));
        has(&self.left) && has(&self.gone) && now.files.len() == self.left.files.len() + 1
    }
}

impl Life<'_, '_> {
    /// Notes that a put is over without a snapshot, and owes what it stored.
    pub(super) fn ends(&mut self, client: &Client) {
        self.model.end(&client.shot);
        self.model.drop_content(&client.drafts);
        self.model.orphans.extend(client.is_noted.then_some(client.put));
    }

    /// What a put stored and does not commit is owed, however the put ends.
    pub(super) fn note_drafts(&mut self, client: &Client) {
        self.model.drop_content(&client.drafts);
        self.model.orphans.extend((!client.drafts.is_empty()).then_some(client.put));
    }

    pub(super) fn forget(&mut self, rng: &mut Rng) -> Result<(), Stop> {
        let Some(snapshot) = self.any_snapshot(rng) else { return Ok(()) };
        let forgotten = self.vault.forget(&[snapshot]);
        if let Err(VaultError::Held { .. }) = forgotten
            && self.model.held.contains(&snapshot)
        {
            return Ok(());
        }
        if self.model.held.contains(&snapshot) && forgotten.is_ok() {
            return Err(broken(format!("{snapshot:?} was forgotten although it is held")).into());
        }
        if forgotten.is_err() {
            self.model.pending = Some(Pending::Forget(snapshot));
        }
        self.check(forgotten)?;
        self.figures.forgets += 1;
        self.model.forget(snapshot);
        Ok(())
    }

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

    /// Begins to take a file out of a snapshot, or ends what was begun: others come in between.
    pub(super) fn remove_file(&mut self, rng: &mut Rng) -> Result<(), Stop> {
        let under_way = self.removals.len();
        if under_way == REMOVALS_MAX || under_way > 0 && rng.chance(50) {
            let removal = self.removals.swap_remove(rng.index(under_way));
            return self.end_removal(removal);
        }
        let same = self.removals.first().map(|it| it.snapshot);
        let same = same.filter(|it| self.model.live.contains_key(it) && rng.chance(50));
        let Some(snapshot) = same.or_else(|| self.any_snapshot(rng)) else { return Ok(()) };
        let mut left = self.model.live[&snapshot].clone();
        if self.is_read_only || left.files.len() < 2 {
            return Ok(());
        }
        let (name, chunks) = left.files.remove(rng.index(left.files.len()));
        let writer = Writer::begin(&mut self.vault, &self.bench.setup.key, Compression::None);
        let mut writer = self.check(writer)?;
        let root = self.vault.snapshots().find(|(it, _)| *it == snapshot).expect("it is live").1;
        let old = self.ask(|vault| vault.snapshot(snapshot))?;
        let path = Item::Name(name).bytes();
        let is_gone = |it: &[u8]| it == path;
        let stored = Thinning::new(&is_gone).without(&mut writer, &mut self.vault, &old.folder, b"");
        let gone = Shot { name, files: vec![(name, chunks)] };
        let removal = |new| Removal { writer, snapshot, root, new, gone, left };
        match stored {
            Ok(folder) => {
                let folder = folder.expect("the file is in its snapshot");
                self.removals.push(removal(Snapshot { folder, ..old }));
                Ok(())
            }
            // The put has not begun.
            Err(VaultError::Snapshots(_)) => self.drop_removal(&removal(old)),
            Err(VaultError::Full { .. }) => self.give_up_removal(&removal(old)),
            Err(error) => self.check(Err(error)),
        }
    }

    /// The snapshot loses the file, unless it has changed, is held or was forgotten meanwhile.
    fn end_removal(&mut self, mut removal: Removal) -> Result<(), Stop> {
        let Removal { snapshot, root, ref new, .. } = removal;
        let now = self.model.live.get(&snapshot).cloned();
        let is_same = now.as_ref().is_some_and(|now| removal.is_of(now));
        let replaced = removal.writer.replace(&mut self.vault, &[(snapshot, root, new.clone())]);
        let is_right = match (&replaced, &now) {
            (Ok(_), Some(now)) => {
                let mut now = now.clone();
                now.files.retain(|(name, _)| *name != removal.gone.name);
                self.model.replace(snapshot, now, &removal.gone);
                return Ok(());
            }
            (Err(VaultError::NoSnapshot(_)), None) => true,
            (Err(VaultError::Held { .. }), Some(_)) => self.model.held.contains(&snapshot),
            (Err(VaultError::Changed(_)), Some(_)) => !is_same,
            (error, _) => matches!(error, Err(VaultError::Full { .. } | VaultError::Snapshots(_))),
        };
        if is_right {
            return self.give_up_removal(&removal);
        }
        self.model.pending = is_same.then(|| Pending::Replace(snapshot, removal.left.clone()));
        // Whether the put has ended well, and so owes nothing, is not known.
        self.model.end(&removal.left);
        self.check(replaced.map(drop))
    }

    /// Ends a removal without a change.
    fn give_up_removal(&mut self, removal: &Removal) -> Result<(), Stop> {
        self.model.orphans.insert(removal.writer.put());
        self.drop_removal(removal)
    }

    fn drop_removal(&mut self, removal: &Removal) -> Result<(), Stop> {
        self.model.end(&removal.left);
        self.ask(|vault| vault.drop_put(removal.writer.put()))
    }

    /// Notes that a removal is over, and owes what it stored.
    pub(super) fn end_without(&mut self, removal: &Removal) {
        self.model.end(&removal.left);
        self.model.orphans.insert(removal.writer.put());
    }

    /// A snapshot that was being exchanged is the one or the other.
    pub(super) fn reconcile_replaced(&mut self, snapshot: SnapshotId, shot: Shot) -> Judged {
        let files = restored(&mut self.vault, snapshot).map_err(refused)?.len();
        if files == shot.files.len() {
            let old = self.model.live[&snapshot].clone();
            self.model.replace(snapshot, shot, &old);
        }
        Ok(())
    }
}
