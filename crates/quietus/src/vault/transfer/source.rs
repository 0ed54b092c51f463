//! Files and folders of this host, as a snapshot.
//!
//! Invariants:
//! 1. A symbolic link is stored, and never followed, but for the folders above a path that was named.
//! 2. What cannot be read is left out and told of. What was stored of it already is owed.
//! 3. A file unchanged since the snapshot before is not opened: [`parent`] says how that is known.
//! 4. One thread stores, in the order of the walk. What others read ahead of it is bounded, and decides nothing: the vault is the
//!    same, byte by byte, whatever their number.

mod parent;
mod read;
#[cfg(test)]
mod tests;
mod walk;

use crate::base::rfc3339::now_ms;
use crate::host::entries::attributes;
use crate::vault::{Client, Error, Globs, Label, Step};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parent::Parent;
use quietus_vault::client::{Access, FileWriter, Writer};
use quietus_vault::container::Class;
use quietus_vault::tree::{FolderBuilder, Kind, Metadata, Node, Recipe, Snapshot, Totals};
use quietus_vault::{SnapshotId, VaultError};
use read::{Order, Part, Parts, Reader, order};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;
use walk::{Branch, Content, Entry, Found, Measure, Walk};

/// Most threads that read files.
const READERS_MAX: usize = 8;
/// Most entries that have been found and not stored yet. Each has at most 2 MiB of content in memory.
const FOUND_MAX: usize = 16;
/// Time between two looks at whether to go on, while nothing comes.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Files that were left out, or that changed, and are named one by one.
const NAMED_MAX: usize = 1000;

/// The result of a put.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Put {
    /// The snapshot.
    pub snapshot: u64,
    /// Its name, host and tags.
    #[serde(flatten)]
    pub label: Label,
    /// Entries, folders apart.
    pub files: u64,
    /// Folders.
    pub folders: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Files that were not read, since they are unchanged since the snapshot before.
    pub unchanged: u64,
    /// Chunks that were new.
    pub new_chunks: u64,
    /// Bytes that the new chunks took.
    pub new_bytes: u64,
    /// The first thousand paths that were left out: the path, a colon and the reason.
    pub left_out: Vec<String>,
    /// How many paths were left out.
    pub left_out_count: u64,
    /// The first thousand files that changed while they were read, so that their content may be of no one instant.
    pub changed: Vec<String>,
    /// How many files changed while they were read.
    pub changed_count: u64,
}

/// What is put of this host.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Files and folders.
    pub paths: &'a [PathBuf],
    /// Patterns of files and folders to leave out.
    pub exclude: &'a Globs,
    /// Whether other file systems below the paths are left out.
    pub one_file_system: bool,
    /// Whether folders that are marked as caches (`CACHEDIR.TAG`) are left out.
    pub exclude_caches: bool,
    /// Whether every file is read, changed or not.
    pub reread: bool,
}

/// Lines for a report, of which the first are kept.
#[derive(Default)]
struct Named {
    first: Vec<String>,
    count: u64,
}

impl Named {
    fn note(&mut self, line: String) {
        self.count += 1;
        if self.first.len() < NAMED_MAX {
            self.first.push(line);
        }
    }
}

/// Puts files into the vault, as a snapshot with that label.
///
/// # Errors
/// [`Error`]; nothing is committed then, and what was stored is owed.
pub fn put_files(
    client: &mut Client,
    label: &Label,
    wanted: Wanted<'_>,
    step: Step<'_>,
) -> Result<Put, Error> {
    let readers = thread::available_parallelism().map_or(1, usize::from).min(READERS_MAX);
    put_with(readers, client, label, wanted, step)
}

/// Like [`put_files`], with this number of readers.
fn put_with(
    readers: usize,
    client: &mut Client,
    label: &Label,
    wanted: Wanted<'_>,
    step: Step<'_>,
) -> Result<Put, Error> {
    label.check()?;
    let mut top = Branch::default();
    wanted.paths.iter().try_for_each(|path| top.add(path))?;
    let parent = if wanted.reread { None } else { Parent::find(client, label)? };
    let mut task = Task::begin(client, 0, step)?;
    task.top = top.metadata();
    let folder = task.tree(readers, &top, &wanted, parent);
    task.end(label, folder)
}

/// The channels between the thread that stores and those that work ahead of it.
struct Ahead {
    found: Receiver<Found>,
    /// Reads files with several names, each when it is stored.
    late: Sender<Order>,
}

/// A put under way.
pub(in super::super) struct Task<'s, 'a> {
    pub(in super::super) client: &'s mut Client,
    pub(in super::super) writer: Writer,
    /// The files with several names: the number of each, and its content.
    links: HashMap<(u64, u64), (u64, Kind)>,
    devices: Vec<u64>,
    pub(in super::super) totals: Totals,
    /// The attributes of the folder that has all of it, where one was put.
    pub(in super::super) top: Option<Metadata>,
    begun_ms: u64,
    done: u64,
    of: Arc<AtomicU64>,
    step: Step<'a>,
    unchanged: u64,
    left_out: Named,
    changed: Named,
    /// Tells the readers whether most of the content that was stored last was new, so that what follows is likely to be.
    finds_new: Arc<AtomicBool>,
}

impl<'s, 'a> Task<'s, 'a> {
    pub(in super::super) fn begin(client: &'s mut Client, of: u64, step: Step<'a>) -> Result<Self, Error> {
        let home = client.home().clone();
        let writer = Writer::begin(client, home.key(), home.toml().compress.into())?;
        Ok(Self {
            client,
            writer,
            links: HashMap::new(),
            devices: Vec::new(),
            totals: Totals::default(),
            top: None,
            begun_ms: now_ms(),
            done: 0,
            of: Arc::new(AtomicU64::new(of)),
            step,
            unchanged: 0,
            left_out: Named::default(),
            changed: Named::default(),
            finds_new: Arc::new(AtomicBool::new(true)),
        })
    }

    /// Commits the folder as a snapshot; after an error ends the put without one.
    pub(in super::super) fn end(
        mut self,
        label: &Label,
        folder: Result<Recipe, Error>,
    ) -> Result<Put, Error> {
        let committed = folder.and_then(|folder| self.commit(label, folder));
        if committed.is_err() {
            // The error that matters is the one that led here; a put that is not ended is owed at the next start.
            let _ = self.client.drop_put(self.writer.put());
        }
        committed
    }

    fn commit(&mut self, label: &Label, folder: Recipe) -> Result<Put, Error> {
        let Totals { files, folders, bytes } = self.totals;
        let snapshot = Snapshot {
            name: label.name.clone().into(),
            host: label.host.clone().into(),
            tags: label.tags.iter().map(|tag| tag.clone().into()).collect(),
            begun_ms: self.begun_ms,
            created_ms: now_ms(),
            totals: self.totals,
            folder,
            top: self.top.take(),
        };
        let SnapshotId(snapshot) = self.writer.commit(self.client, &snapshot)?;
        let (new_chunks, new_bytes) = self.writer.stored();
        let (left_out, changed) = (std::mem::take(&mut self.left_out), std::mem::take(&mut self.changed));
        Ok(Put {
            snapshot,
            label: label.clone(),
            files,
            folders,
            bytes,
            unchanged: self.unchanged,
            new_chunks,
            new_bytes,
            left_out: left_out.first,
            left_out_count: left_out.count,
            changed: changed.first,
            changed_count: changed.count,
        })
    }

    /// Stores all that is wanted: a thread walks, one counts how much there is, others read, and this one stores.
    fn tree(
        &mut self,
        readers: usize,
        top: &Branch,
        wanted: &Wanted<'_>,
        parent: Option<Parent>,
    ) -> Result<Recipe, Error> {
        let (bytes, is_over) = (Arc::clone(&self.of), AtomicBool::new(false));
        thread::scope(|scope| {
            let measure = Measure { wanted, bytes: &bytes, is_over: &is_over };
            spawn(scope, "vault.measure", move || measure.branch(top, b""))?;
            let ahead = self.go_ahead(scope, readers, top, wanted, parent);
            let stored = ahead.and_then(|(ahead, walker)| {
                let folder = self.folder(&ahead);
                drop(ahead);
                match (folder, walker.join().unwrap_or_else(|panic| resume_unwind(panic))) {
                    // Nothing came any more, because the walk has failed.
                    (Err(Error::Interrupted), Err(error)) => Err(error),
                    (folder, _) => folder,
                }
            });
            is_over.store(true, Ordering::Relaxed);
            stored
        })
    }

    /// Starts to walk and to read. Both end when the receiver is gone.
    fn go_ahead<'t>(
        &self,
        scope: &'t Scope<'t, '_>,
        readers: usize,
        top: &'t Branch,
        wanted: &'t Wanted<'t>,
        parent: Option<Parent>,
    ) -> Result<(Ahead, ScopedJoinHandle<'t, Result<(), Error>>), Error> {
        let home = self.client.home();
        let own = [home.path().to_owned(), home.pool_path()];
        let (tell, found) = bounded(FOUND_MAX);
        let (orders, late) = (self.read(scope, "vault.read", readers)?, self.read(scope, "vault.link", 1)?);
        let mut walk = Walk::new(wanted, &own, parent, (tell, orders));
        let walker = spawn(scope, "vault.walk", move || walk.all(top))?;
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
                Found::Unchanged(files) => self.unchanged(&mut folder, files, ahead)?,
                Found::LeftOut(what) => self.note_left_out(what),
            }
        }
    }

    /// Adds unchanged files. A file whose content the vault has lost is read again.
    fn unchanged(
        &mut self,
        folder: &mut FolderBuilder,
        files: Vec<(Entry, Recipe)>,
        ahead: &Ahead,
    ) -> Result<(), Error> {
        let recipes: Vec<&Recipe> = files.iter().map(|(_, recipe)| recipe).collect();
        let kept = self.writer.keep(self.client, &recipes)?;
        for ((mut entry, recipe), is_kept) in files.into_iter().zip(kept) {
            let (bytes, before) = (recipe.bytes(), Kind::File(recipe));
            if is_kept {
                self.unchanged += 1;
                self.go_on(bytes)?;
                entry.content = Content::Other(before.clone());
            }
            let node = self.entry(entry, ahead)?;
            if node.as_ref().is_none_or(|node| node.kind != before) {
                // The put may refer to chunks that its snapshot will not have, and has kept them from a sanitization.
                self.writer.leave_behind(self.client)?;
            }
            if let Some(node) = node {
                self.add(folder, node)?;
            }
        }
        Ok(())
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

    /// The entry; `None` if it is left out.
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
            Content::Late => {
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

    /// The file that these parts make; `None` if it cannot be read.
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
                        self.changed.note(path.display().to_string());
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
    pub(in super::super) fn add(&mut self, folder: &mut FolderBuilder, node: Node) -> Result<(), Error> {
        let (writer, vault) = (&mut self.writer, &mut *self.client);
        let pushed = folder.push(&node, &mut |bytes| writer.chunk(vault, Class::Metadata, bytes));
        match pushed {
            Ok(()) => self.totals.count(&node),
            Err(VaultError::Node(bad)) => self.note_left_out(bad.to_string()),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    pub(in super::super) fn finish(&mut self, folder: FolderBuilder) -> Result<Recipe, Error> {
        let (writer, vault) = (&mut self.writer, &mut *self.client);
        Ok(folder.finish(&mut |bytes| writer.chunk(vault, Class::Metadata, bytes))?)
    }

    /// Notes that so much more was read.
    pub(in super::super) fn go_on(&mut self, bytes: u64) -> Result<(), Error> {
        self.done += bytes;
        let (done, of) = (self.done, self.of.load(Ordering::Relaxed));
        if (self.step)(done, of.max(done)) { Ok(()) } else { Err(Error::Interrupted) }
    }

    pub(in super::super) fn note_left_out(&mut self, what: String) {
        self.writer.leave_out();
        self.left_out.note(what);
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
