//! Files and folders of this host, as a snapshot.
//!
//! Invariants:
//! 1. A symbolic link is stored, and never followed, but for the folders above a path that was named.
//! 2. What cannot be read is left out and told of. What was stored of it already is owed.
//! 3. One thread stores, in the order of the walk. What others read ahead of it is bounded, and decides nothing: the vault is the
//!    same, byte by byte, whatever their number.

mod read;
#[cfg(test)]
mod tests;
mod walk;

use super::select::check_name;
use super::{Client, Error, Globs, Step, attributes, now_ms};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use quietus_vault::client::{Access, FileWriter, Writer};
use quietus_vault::container::Class;
use quietus_vault::tree::{FolderBuilder, Kind, Metadata, Node, Recipe, Snapshot, Totals};
use quietus_vault::{SnapshotId, VaultError};
use read::{Order, Part, Parts, Reader, order};
use serde::Serialize;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;
use walk::{Branch, Content, Entry, Found, Walk};

/// Most threads that read files.
const READERS_MAX: usize = 8;
/// Most entries that have been found and not stored yet. Each has at most 2 MiB of content in memory.
const FOUND_MAX: usize = 16;
/// Time between two looks at whether to go on, while nothing comes.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Files that were left out and are named one by one.
const LEFT_OUT_MAX: usize = 1000;

/// The result of a put.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Put {
    /// The snapshot.
    pub snapshot: u64,
    /// Its name.
    pub name: String,
    /// Entries, folders apart.
    pub files: u64,
    /// Folders.
    pub folders: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Chunks that were new, and the bytes that they took.
    pub new_chunks: u64,
    /// Bytes that the new chunks took.
    pub new_bytes: u64,
    /// Paths that were left out, with the reason; the first thousand.
    pub left_out: Vec<String>,
    /// How much was left out.
    pub left_out_count: u64,
}

/// Puts `paths` into the vault, as a snapshot of that name.
///
/// # Errors
/// [`Error`]; nothing is committed then, and what was stored is owed.
pub fn put_files(
    client: &mut Client,
    name: &str,
    paths: &[PathBuf],
    exclude: &Globs,
    step: Step<'_>,
) -> Result<Put, Error> {
    let readers = thread::available_parallelism().map_or(1, usize::from).min(READERS_MAX);
    put_with(readers, client, name, paths, exclude, step)
}

/// The same, with so many readers.
fn put_with(
    readers: usize,
    client: &mut Client,
    name: &str,
    paths: &[PathBuf],
    exclude: &Globs,
    step: Step<'_>,
) -> Result<Put, Error> {
    check_name(name)?;
    let mut top = Branch::default();
    paths.iter().try_for_each(|path| top.add(path))?;
    let of = top.measure(exclude, b"", step)?;
    let mut task = Task::begin(client, of, step)?;
    task.top = top.metadata();
    let folder = task.tree(readers, &top, exclude);
    task.end(name, folder)
}

/// The channels between the thread that stores and those that work ahead of it.
struct Ahead {
    found: Receiver<Found>,
    /// Reads files with several names, each when it is stored.
    late: Sender<Order>,
}

/// A put under way.
pub(super) struct Task<'s, 'a> {
    pub(super) client: &'s mut Client,
    pub(super) writer: Writer,
    /// The files with several names: the number of each, and its content.
    links: HashMap<(u64, u64), (u64, Kind)>,
    devices: Vec<u64>,
    pub(super) totals: Totals,
    /// The attributes of the folder that has all of it, where one was put.
    pub(super) top: Option<Metadata>,
    done: (u64, u64),
    step: Step<'a>,
    left_out: Vec<String>,
    /// Tells the readers whether most of the content that was stored last was new, so that what follows is likely to be.
    finds_new: Arc<AtomicBool>,
}

impl<'s, 'a> Task<'s, 'a> {
    pub(super) fn begin(client: &'s mut Client, of: u64, step: Step<'a>) -> Result<Self, Error> {
        let home = client.home().clone();
        let writer = Writer::begin(client, home.key(), home.toml().compress.into())?;
        Ok(Self {
            client,
            writer,
            links: HashMap::new(),
            devices: Vec::new(),
            totals: Totals::default(),
            top: None,
            done: (0, of),
            step,
            left_out: Vec::new(),
            finds_new: Arc::new(AtomicBool::new(true)),
        })
    }

    /// Commits the folder as a snapshot; after an error ends the put without one.
    pub(super) fn end(mut self, name: &str, folder: Result<Recipe, Error>) -> Result<Put, Error> {
        let committed = folder.and_then(|folder| self.commit(name, folder));
        if committed.is_err() {
            // The error that matters is the one that led here; a put that is not ended is owed at the next start.
            let _ = self.client.drop_put(self.writer.put());
        }
        committed
    }

    fn commit(&mut self, name: &str, folder: Recipe) -> Result<Put, Error> {
        let Totals { files, folders, bytes } = self.totals;
        let (totals, top) = (self.totals, self.top.take());
        let snapshot = Snapshot { name: name.into(), created_ms: now_ms(), totals, folder, top };
        let SnapshotId(snapshot) = self.writer.commit(self.client, &snapshot)?;
        let (new_chunks, new_bytes) = self.writer.stored();
        Ok(Put {
            snapshot,
            name: name.into(),
            files,
            folders,
            bytes,
            new_chunks,
            new_bytes,
            left_out: std::mem::take(&mut self.left_out),
            left_out_count: self.writer.left_out(),
        })
    }

    /// Stores all that the paths name: a thread walks, others read, and this one stores.
    fn tree(&mut self, readers: usize, top: &Branch, exclude: &Globs) -> Result<Recipe, Error> {
        thread::scope(|scope| {
            let (ahead, walker) = self.go_ahead(scope, readers, top, exclude)?;
            let folder = self.folder(&ahead);
            drop(ahead);
            match (folder, walker.join().unwrap_or_else(|panic| resume_unwind(panic))) {
                // Nothing came any more, because the walk has failed.
                (Err(Error::Interrupted), Err(error)) => Err(error),
                (folder, _) => folder,
            }
        })
    }

    /// Starts to walk and to read. Both end when nobody wants what they find.
    fn go_ahead<'t>(
        &self,
        scope: &'t Scope<'t, '_>,
        readers: usize,
        top: &'t Branch,
        exclude: &'t Globs,
    ) -> Result<(Ahead, ScopedJoinHandle<'t, Result<(), Error>>), Error> {
        let home = self.client.home();
        let own = [home.path().to_owned(), home.pool_path()];
        let (tell, found) = bounded(FOUND_MAX);
        let (orders, late) = (self.read(scope, "vault.read", readers)?, self.read(scope, "vault.link", 1)?);
        let walk = Walk::new(exclude, &own, tell, orders);
        let walker = spawn(scope, "vault.walk", move || walk.branch(top, b""))?;
        Ok((Ahead { found, late }, walker))
    }

    /// Starts threads that read the files of orders.
    fn read<'t>(&self, scope: &'t Scope<'t, '_>, name: &str, readers: usize) -> Result<Sender<Order>, Error> {
        let home = self.client.home();
        let (orders, taken) = bounded(FOUND_MAX);
        for _ in 0..readers {
            let compression = home.toml().compress.into();
            let reader = Reader::new(home.key(), compression, Arc::clone(&self.finds_new));
            let taken = taken.clone();
            spawn(scope, name, move || reader.run(&taken))?;
        }
        Ok(orders)
    }

    /// Stores what comes, to the end of the folder.
    fn folder(&mut self, ahead: &Ahead) -> Result<Recipe, Error> {
        let mut folder = FolderBuilder::default();
        loop {
            match self.next(&ahead.found)? {
                Found::End => return self.finish(folder),
                Found::Folder(name, metadata) => {
                    let kind = Kind::Folder(self.folder(ahead)?);
                    self.add(&mut folder, Node { name, metadata, kind })?;
                }
                Found::Entry(entry) => {
                    if let Some(node) = self.entry(*entry, ahead)? {
                        self.add(&mut folder, node)?;
                    }
                }
                Found::LeftOut(what) => self.note_left_out(what),
            }
        }
    }

    /// Waits for what comes next.
    fn next<T>(&mut self, from: &Receiver<T>) -> Result<T, Error> {
        loop {
            self.go_on(0)?;
            match from.recv_timeout(LOOK_EVERY) {
                Ok(next) => return Ok(next),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Error::Interrupted),
            }
        }
    }

    /// The entry; none if it is left out.
    fn entry(&mut self, entry: Entry, ahead: &Ahead) -> Result<Option<Node>, Error> {
        let Entry { name, path, about, mut metadata, content } = entry;
        let key = (about.dev(), about.ino());
        if let Some((number, kind)) = self.links.get(&key).filter(|_| about.nlink() > 1) {
            metadata.hard_link = Some(*number);
            return Ok(Some(Node { name, metadata, kind: kind.clone() }));
        }
        let kind = match content {
            Content::Other(kind) => Some(kind),
            Content::Coming(parts) => self.file(&path, &about, &parts)?,
            Content::Linked => {
                let (order, parts) = order(&path, &about);
                ahead.late.send(order).map_err(|_| Error::Interrupted)?;
                self.file(&path, &about, &parts)?
            }
        };
        let Some(kind) = kind else { return Ok(None) };
        if about.nlink() > 1 {
            let number = self.link_number(&about);
            metadata.hard_link = Some(number);
            self.links.insert(key, (number, kind.clone()));
        }
        Ok(Some(Node { name, metadata, kind }))
    }

    /// The number of a file with several names: the host's, so that it is the same in the next snapshot.
    fn link_number(&mut self, about: &fs::Metadata) -> u64 {
        let device = self.devices.iter().position(|device| *device == about.dev()).unwrap_or_else(|| {
            self.devices.push(about.dev());
            self.devices.len() - 1
        });
        about.ino() ^ (device as u64).rotate_right(8)
    }

    /// The file that these parts make; none if it cannot be read.
    fn file(&mut self, path: &Path, about: &fs::Metadata, parts: &Parts) -> Result<Option<Kind>, Error> {
        let mut content = FileWriter::default();
        loop {
            match self.next(parts)? {
                Part::Chunks(chunks) => {
                    let bytes = chunks.iter().map(|chunk| chunk.raw_bytes()).sum();
                    let (offered, (before, _)) = (chunks.len() as u64, self.writer.stored());
                    content.add(&mut self.writer, self.client, chunks)?;
                    let (after, _) = self.writer.stored();
                    self.finds_new.store((after - before) * 2 > offered, Ordering::Relaxed);
                    self.go_on(bytes)?;
                }
                Part::Hole(bytes) => {
                    content.hole(&mut self.writer, self.client, bytes)?;
                    self.go_on(bytes)?;
                }
                Part::End(Ok(after)) => {
                    let recipe = content.finish(&mut self.writer, self.client)?;
                    if state(&after) != state(about) {
                        tracing::warn!("{}: changed while it was read", path.display());
                    }
                    return Ok(Some(Kind::File(recipe)));
                }
                Part::End(Err(error)) => {
                    self.note_left_out(format!("{}: {error}", path.display()));
                    return Ok(None);
                }
            }
        }
    }

    /// Adds an entry to a folder.
    pub(super) fn add(&mut self, folder: &mut FolderBuilder, node: Node) -> Result<(), Error> {
        let (writer, vault) = (&mut self.writer, &mut *self.client);
        let pushed = folder.push(&node, &mut |bytes| writer.chunk(vault, Class::Metadata, bytes));
        match pushed {
            Ok(()) => self.totals.count(&node),
            Err(VaultError::Node(bad)) => self.note_left_out(bad.to_string()),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, folder: FolderBuilder) -> Result<Recipe, Error> {
        let (writer, vault) = (&mut self.writer, &mut *self.client);
        Ok(folder.finish(&mut |bytes| writer.chunk(vault, Class::Metadata, bytes))?)
    }

    /// Notes that so much more was read.
    pub(super) fn go_on(&mut self, bytes: u64) -> Result<(), Error> {
        self.done.0 += bytes;
        let (done, of) = self.done;
        if (self.step)(done, of.max(done)) { Ok(()) } else { Err(Error::Interrupted) }
    }

    pub(super) fn note_left_out(&mut self, what: String) {
        tracing::warn!("left out: {what}");
        self.writer.leave_out();
        if self.left_out.len() < LEFT_OUT_MAX {
            self.left_out.push(what);
        }
    }
}

/// The length of a file, and when it was written.
fn state(of: &fs::Metadata) -> (u64, i64, i64) {
    (of.len(), of.mtime(), of.mtime_nsec())
}

/// Starts a thread.
fn spawn<'t, T: Send + 't>(
    scope: &'t Scope<'t, '_>,
    name: &str,
    body: impl FnOnce() -> T + Send + 't,
) -> Result<ScopedJoinHandle<'t, T>, Error> {
    let spawned = thread::Builder::new().name(name.into()).spawn_scoped(scope, body);
    spawned.map_err(|error| Error::io("start a thread to read them", Path::new("the files"), error))
}
