//! A Quietus disk as a snapshot: one file, the image of the disk or of an epoch at one instant. The disk copies itself, as for an
//! export ([decision 14](../../../docs/decisions/0014-export-of-a-served-disk.md)), through a pipe: no image lies anywhere on the way.

use crate::base::rfc3339::now_ms;
use crate::disk::keys::Source;
use crate::front::control::{self, Call};
use crate::open_disk::copy::{Copied, GRANULE_BYTES, Pieces};
use crate::vault::transfer::source::Task;
use crate::vault::{Client, Error, Label, Put, Step};
use quietus_vault::client::{IMAGE_CHUNK_BYTES, ImageWriter};
use quietus_vault::tree::{FolderBuilder, Kind, Metadata, Node, Recipe};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::thread;

// A piece of a copy is whole chunks.
const _: () = assert!(GRANULE_BYTES.is_multiple_of(IMAGE_CHUNK_BYTES));

/// Permissions of an image: what a guest has is its owner's alone.
const MODE: u32 = 0o600;

/// The disk to put.
#[derive(Clone, Copy, Debug)]
pub struct DiskOf<'a> {
    /// The disk's directory.
    pub disk: &'a Path,
    /// The epoch, in words; `None` for the current state.
    pub at: Option<&'a str>,
    /// What is forgotten in the epoch is zeros in the copy. Else it refuses that.
    pub zeros: bool,
    /// The credential that opens the keys, if the disk has keys and is not served.
    pub source: &'a Source,
}

/// Puts a disk into the vault, as a snapshot with that label.
///
/// # Errors
/// [`Error`]; nothing is committed then, and what was stored is owed.
pub fn put_disk(client: &mut Client, label: &Label, what: DiskOf<'_>, step: Step<'_>) -> Result<Put, Error> {
    label.check()?;
    let node = node(what.disk)?;
    let failed = |error| Error::io("make a pipe from it", what.disk, error);
    let (pieces, into) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    let (answer, answered) = mpsc::channel();
    thread::scope(|scope| {
        let storer = scope.spawn(|| store(client, label, node, Pieces::new(pieces.into()), answered));
        // The storer learns of whatever ends it.
        let _ = answer.send(copy(what, into.into(), step));
        storer.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Lets the disk copy itself into a pipe.
fn copy(what: DiskOf<'_>, into: File, step: Step<'_>) -> Result<Copied, Error> {
    let call = what.at.map_or(Call::Export, |at| Call::ExportPast { at: at.into(), zeros: what.zeros });
    let copied: Copied = control::ask_unlocked(what.disk, &call, Some(&into), Some(what.source), step)?;
    // A short copy may be over before the caller was asked.
    if step(copied.size_bytes, copied.size_bytes) { Ok(copied) } else { Err(Error::Interrupted) }
}

/// Stores the pieces of a copy, and commits them if the disk says that they are all.
fn store(
    client: &mut Client,
    label: &Label,
    node: Node,
    pieces: Pieces<File>,
    answered: Receiver<Result<Copied, Error>>,
) -> Result<Put, Error> {
    // The copier is told when the copy is not wanted any more.
    let mut go_on = |_, _| true;
    let mut task = Task::begin(client, 0, &mut go_on)?;
    let folder = image(&mut task, pieces).and_then(|image| {
        let copied = answered.recv().unwrap_or(Err(Error::Interrupted))?;
        let recipe = image.finish(&mut task.writer, task.client, copied.size_bytes)?;
        let mut folder = FolderBuilder::default();
        task.add(&mut folder, Node { kind: Kind::File(recipe), ..node })?;
        task.finish(folder)
    });
    task.end(label, folder)
}

/// The entry that the image becomes, without its content.
fn node(disk: &Path) -> Result<Node, Error> {
    let unread = |error| Error::io("read it", disk, error);
    let (path, about) = (fs::canonicalize(disk).map_err(unread)?, fs::metadata(disk).map_err(unread)?);
    let name = path.file_name().unwrap_or(disk.as_os_str()).as_bytes();
    let modified_ns = i64::try_from(now_ms()).unwrap_or(0).saturating_mul(1_000_000);
    let (user, group) = (about.uid(), about.gid());
    let metadata = Metadata { mode: MODE, user, group, modified_ns, ..Metadata::default() };
    Ok(Node { name: [name, b".img"].concat(), metadata, kind: Kind::File(Recipe::default()) })
}

fn image(task: &mut Task<'_, '_>, pieces: Pieces<File>) -> Result<ImageWriter, Error> {
    let mut image = ImageWriter::default();
    for piece in pieces {
        let piece = piece.map_err(|error| Error::io("take its copy", Path::new("the disk"), error))?;
        image.push(&mut task.writer, task.client, piece.at, &piece.bytes)?;
    }
    Ok(image)
}
