//! The file systems that are open, with folders and content that were read of them.

use super::fresh::Fresh;
use crate::files::{Disk, Error, Look, Target};
use crate::host::fuse::{Cache, Errno};
use quietus_files::{Attributes, Entry, ExtendedAttribute, FileId, Kind};
use std::collections::HashSet;
use std::rc::Rc;
use std::time::Instant;

/// Most file systems that are open at once. Each keeps up to 32 MiB of what it has read.
const LOOKS_MAX: usize = 8;
/// Entries of folders that are kept; also most entries of a folder that is shown.
const ENTRIES_MAX: usize = 1 << 20;
/// Bytes of content that are kept.
const CONTENT_BYTES_MAX: usize = 8 << 20;
/// Bytes of a file that are read at once.
const PIECE_BYTES: u64 = 1 << 18;
/// Most reasons that are told: a guest may have any number of damaged files.
const REASONS_MAX: usize = 1000;

/// A state: the number of the epoch, or `None` for the current one.
pub(super) type Epoch = Option<u64>;

/// A state as it was when it was opened.
type Opening = (Epoch, u64);

/// The states of a disk.
pub(super) struct States<'a> {
    disk: &'a Rc<Disk>,
    target: &'a Target,
    /// The file systems that are open, the one that was used last at the end.
    open: Vec<Open>,
    folders: Cache<(Opening, FileId), Vec<Entry>>,
    content: Cache<(Opening, FileId, u64), Vec<u8>>,
    /// How often the current state was opened.
    openings: u64,
    told: HashSet<String>,
}

/// A file system that is open, or could not be opened.
struct Open {
    opening: Opening,
    look: Option<Look>,
    fresh: Fresh,
}

impl<'a> States<'a> {
    pub(super) fn new(disk: &'a Rc<Disk>, target: &'a Target) -> Self {
        Self {
            disk,
            target,
            open: Vec::new(),
            folders: Cache::new(ENTRIES_MAX),
            content: Cache::new(CONTENT_BYTES_MAX),
            openings: 0,
            told: HashSet::new(),
        }
    }

    /// Drops all that was read: some of it was of an epoch that is forgotten.
    pub(super) fn forget(&mut self) {
        self.open.clear();
        self.folders.clear();
        self.content.clear();
    }

    /// Says once why something cannot be read.
    fn tell(&mut self, epoch: Epoch, error: &Error) {
        let state = epoch.map_or("the current state".into(), |epoch| format!("epoch {epoch}"));
        self.say(format!("cannot read {state}: {error}"));
    }

    /// Says a reason once.
    pub(super) fn say(&mut self, reason: String) {
        if self.told.len() < REASONS_MAX && !self.told.contains(&reason) {
            tracing::warn!("{reason}");
            self.told.insert(reason);
        }
    }

    /// What a program is told that asked for something that cannot be read.
    fn failed(&mut self, epoch: Epoch, error: &Error) -> Errno {
        match error {
            Error::Files(_, quietus_files::Error::NotA("folder")) => Errno::ENOTDIR,
            Error::Files(_, quietus_files::Error::NotA(_)) => Errno::EINVAL,
            // The guest may have deleted the file meanwhile, which is no fault.
            Error::Files(..) if epoch.is_none() && self.disk.is_served() => Errno::ESTALE,
            _ => {
                self.tell(epoch, error);
                Errno::EIO
            }
        }
    }

    /// The file system of a state.
    fn look(&mut self, epoch: Epoch) -> Result<(&mut Look, Opening), Errno> {
        let found = self.open.iter().position(|it| it.opening.0 == epoch).map(|at| self.open.remove(at));
        // Only a guest changes a state, the current one; and what could not be opened may have been in the way of a guest, too.
        let stale =
            |it: &Open| it.fresh.is_over() && (it.look.is_none() || epoch.is_none() && self.disk.is_served());
        let open = match found.filter(|it| !stale(it)) {
            Some(open) => open,
            None => self.opened(epoch),
        };
        if self.open.len() == LOOKS_MAX {
            self.open.remove(0);
        }
        self.open.push(open);
        let open = self.open.last_mut().expect("it was just added");
        let look = open.look.as_mut().ok_or(Errno::EIO)?;
        // What was read is not asked for here, and would grow with every file.
        look.seen.take();
        Ok((look, open.opening))
    }

    fn opened(&mut self, epoch: Epoch) -> Open {
        let began = Instant::now();
        let at = epoch.map(|epoch| epoch.to_string());
        let look = Look::new(self.disk, self.target, at.as_deref());
        let look = look.inspect_err(|error| self.tell(epoch, error)).ok();
        self.openings += u64::from(epoch.is_none());
        let age = if epoch.is_none() { self.openings } else { 0 };
        Open { opening: (epoch, age), look, fresh: Fresh::since(began) }
    }

    /// What `ask` answers about the file system of a state.
    fn ask<T>(&mut self, epoch: Epoch, ask: impl FnOnce(&mut Look) -> Result<T, Error>) -> Result<T, Errno> {
        let (look, _) = self.look(epoch)?;
        ask(look).map_err(|error| self.failed(epoch, &error))
    }

    pub(super) fn root(&mut self, epoch: Epoch) -> Result<FileId, Errno> {
        self.look(epoch).map(|(look, _)| look.root())
    }

    pub(super) fn attributes(&mut self, epoch: Epoch, file: FileId) -> Result<Attributes, Errno> {
        self.ask(epoch, |look| look.attributes(file))
    }

    pub(super) fn link(&mut self, epoch: Epoch, file: FileId) -> Result<Vec<u8>, Errno> {
        self.ask(epoch, |look| look.link(file))
    }

    pub(super) fn extended(&mut self, epoch: Epoch, file: FileId) -> Result<Vec<ExtendedAttribute>, Errno> {
        self.ask(epoch, |look| look.extended(file))
    }

    /// The file that a path leads to, links in its middle included.
    pub(super) fn find(&mut self, epoch: Epoch, path: &[u8]) -> Result<Option<FileId>, Errno> {
        self.ask(epoch, |look| look.find(path))
    }

    /// The entries of a folder, by name.
    pub(super) fn entries(&mut self, epoch: Epoch, folder: FileId) -> Result<Rc<Vec<Entry>>, Errno> {
        let (_, opening) = self.look(epoch)?;
        if let Some(entries) = self.folders.get(&(opening, folder)) {
            return Ok(entries);
        }
        let mut entries = self.ask(epoch, |look| look.list_some(folder, ENTRIES_MAX))?;
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        // Of two entries with one name, which only a damaged folder has, the first one is found.
        entries.dedup_by(|one, other| one.name == other.name);
        let count = entries.len();
        Ok(self.folders.keep((opening, folder), entries, count))
    }

    /// The file of that name in a folder, compared as the file system does.
    pub(super) fn entry(
        &mut self,
        epoch: Epoch,
        folder: FileId,
        name: &[u8],
    ) -> Result<Option<FileId>, Errno> {
        let entries = self.entries(epoch, folder)?;
        match entries.binary_search_by(|it| it.name.as_slice().cmp(name)) {
            Ok(at) => Ok(Some(entries[at].file)),
            Err(_) => self.ask(epoch, |look| look.entry(folder, name)),
        }
    }

    /// The file at a path, and its kind. No link is followed.
    pub(super) fn walk(&mut self, epoch: Epoch, path: &[u8]) -> Result<Option<(FileId, Kind)>, Errno> {
        let (mut file, mut kind) = (self.root(epoch)?, Kind::Folder);
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            if kind != Kind::Folder {
                return Ok(None);
            }
            let Some(next) = self.entry(epoch, file, name)? else { return Ok(None) };
            (file, kind) = (next, self.attributes(epoch, next)?.kind);
        }
        Ok(Some((file, kind)))
    }

    /// The bytes of a file from `offset` on, `bytes` of them or up to its end.
    pub(super) fn read(
        &mut self,
        epoch: Epoch,
        file: FileId,
        offset: u64,
        bytes: u32,
    ) -> Result<Vec<u8>, Errno> {
        let end = offset.saturating_add(bytes.into());
        let mut found = Vec::new();
        let mut at = offset;
        while at < end {
            let (piece, skip) = (self.piece(epoch, file, at / PIECE_BYTES)?, (at % PIECE_BYTES) as usize);
            let part = &piece[skip.min(piece.len())..];
            let part = &part[..part.len().min((end - at) as usize)];
            found.extend(part);
            at += part.len() as u64;
            if part.is_empty() || (piece.len() as u64) < PIECE_BYTES {
                break;
            }
        }
        Ok(found)
    }

    /// The piece of a file with that number; the last one is shorter.
    fn piece(&mut self, epoch: Epoch, file: FileId, number: u64) -> Result<Rc<Vec<u8>>, Errno> {
        let (_, opening) = self.look(epoch)?;
        let key = (opening, file, number);
        if let Some(piece) = self.content.get(&key) {
            return Ok(piece);
        }
        let piece = self.ask(epoch, |look| look.piece(file, number * PIECE_BYTES, PIECE_BYTES))?;
        let weight = piece.len();
        Ok(self.content.keep(key, piece, weight))
    }
}
