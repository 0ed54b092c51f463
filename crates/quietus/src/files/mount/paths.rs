//! What is at a path in any state.
//!
//! A path is a folder or a file by the newest state that has it. The current state and the newest epoch are looked at first; only for what neither has, and for
//! the versions of a file, all epochs are asked.

use super::fresh::Fresh;
use super::kept::Kept;
use super::states::{Epoch, States};
use crate::files::{Disk, Error, FileVersion, Target, history_of};
use crate::host::fuse::{Cache, Errno};
use quietus_files::{FileId, Kind};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Instant;

/// Versions that are kept, of all histories together.
const VERSIONS_MAX: usize = 1 << 16;

/// A path, from its slash on; the root's is empty.
pub(super) type Path = Rc<[u8]>;

/// The versions of a file, the newest first.
struct History {
    versions: Vec<FileVersion>,
    fresh: Fresh,
}

/// The histories of paths.
pub(super) struct Paths<'a> {
    disk: &'a Rc<Disk>,
    target: &'a Target,
    is_asked: &'a dyn Fn() -> bool,
    histories: Cache<Path, History>,
}

impl<'a> Paths<'a> {
    pub(super) fn new(disk: &'a Rc<Disk>, target: &'a Target, is_asked: &'a dyn Fn() -> bool) -> Self {
        Self { disk, target, is_asked, histories: Cache::new(VERSIONS_MAX) }
    }

    fn history(&mut self, path: &Path) -> Result<Rc<History>, Errno> {
        if let Some(history) = self.histories.get(path).filter(|it| !it.fresh.is_over()) {
            return Ok(history);
        }
        let began = Instant::now();
        let found = history_of(self.disk, self.target, path, &mut |_, _| !(self.is_asked)());
        let versions = match found {
            Ok(history) => history.versions,
            Err(Error::Interrupted) => return Err(Errno::EINTR),
            Err(why) => {
                tracing::warn!("{}: cannot list its versions: {why}", String::from_utf8_lossy(path));
                return Err(Errno::EIO);
            }
        };
        let weight = versions.len() + 1;
        Ok(self.histories.keep(Rc::clone(path), History { versions, fresh: Fresh::since(began) }, weight))
    }

    /// The numbers of the versions of a file, the oldest first.
    pub(super) fn versions(&mut self, path: &Path) -> Result<Vec<usize>, Errno> {
        Ok(self.history(path)?.versions.iter().rev().map(|it| it.version).collect())
    }

    /// The first state that shows a version of a file, and the file there.
    pub(super) fn version(
        &mut self,
        states: &mut States<'_>,
        path: &Path,
        number: &[u8],
    ) -> Result<Option<(Epoch, FileId)>, Errno> {
        let history = self.history(path)?;
        let is_it = |it: &&FileVersion| it.version.to_string().as_bytes() == number;
        let Some(version) = history.versions.iter().find(is_it) else { return Ok(None) };
        Ok(states.find(version.from, path)?.map(|file| (version.from, file)))
    }

    /// Whether a path is a folder, in the newest state that has it; `None` if no state has it.
    pub(super) fn is_folder(
        &mut self,
        states: &mut States<'_>,
        kept: &Kept,
        path: &Path,
    ) -> Result<Option<bool>, Errno> {
        if path.is_empty() {
            return Ok(Some(true));
        }
        for epoch in newest(kept) {
            // The reason is in the log if a state cannot be read; others have the path perhaps.
            if let Ok(Some((_, kind))) = states.walk(epoch, path) {
                return Ok(Some(kind == Kind::Folder));
            }
        }
        let history = self.history(path)?;
        let Some(version) = history.versions.first() else { return Ok(None) };
        let Some(file) = states.find(version.to, path)? else { return Ok(None) };
        Ok(Some(states.attributes(version.to, file)?.kind == Kind::Folder))
    }

    /// The names in a folder: those of the current state, and those of the newest epoch that has the folder.
    pub(super) fn names(
        &mut self,
        states: &mut States<'_>,
        kept: &Kept,
        path: &Path,
    ) -> Result<Vec<Vec<u8>>, Errno> {
        let (mut names, mut failure) = (BTreeSet::new(), None);
        let mut from_epoch = kept.epochs().is_empty();
        for epoch in newest(kept) {
            match folder(states, epoch, path) {
                Ok(Some(found)) => {
                    names.extend(found);
                    from_epoch |= epoch.is_some();
                }
                Ok(None) => {}
                Err(error) => failure = Some(error),
            }
        }
        if !from_epoch && let Some(epoch) = self.newest_epoch(path)? {
            names.extend(folder(states, Some(epoch), path)?.unwrap_or_default());
        }
        match failure {
            Some(error) if names.is_empty() => Err(error),
            _ => Ok(names.into_iter().collect()),
        }
    }

    /// The newest epoch that has a path.
    fn newest_epoch(&mut self, path: &Path) -> Result<Epoch, Errno> {
        let history = self.history(path)?;
        Ok(history.versions.iter().find_map(|it| it.to.or(it.from)))
    }
}

/// The states that are looked at first.
fn newest(kept: &Kept) -> impl Iterator<Item = Epoch> {
    [None].into_iter().chain(kept.epochs().last().map(|epoch| Some(*epoch)))
}

/// The names in the folder at a path of one state; `None` if there is no folder.
fn folder(states: &mut States<'_>, epoch: Epoch, path: &Path) -> Result<Option<Vec<Vec<u8>>>, Errno> {
    match states.walk(epoch, path)? {
        Some((file, Kind::Folder)) => {
            let entries = states.entries(epoch, file)?;
            Ok(Some(entries.iter().map(|it| it.name.clone()).collect()))
        }
        _ => Ok(None),
    }
}
