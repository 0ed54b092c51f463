//! Files of a state, as files and folders of this host again.
//!
//! Invariants:
//! 1. Nothing is written outside of the folder that was named, and no symbolic link is followed on the way.
//! 2. What exists is never replaced. A folder that exists takes more entries, and keeps its own attributes.
//! 3. A file has its name only once it is whole. One whose content cannot be read whole is not there afterwards.

use super::{Error, FILE_MODE, FOLDER_MODE, Look};
use crate::base::path_text::PathText;
use crate::base::refused_paths::RefusedPaths;
use crate::disk::Step;
use crate::host::entries::attributes::{self, Place};
use crate::host::entries::{DEPTH_MAX, Partial, clear, make_folder, make_special, open_below};
use quietus_files::{Attributes, Entry, FileId, Kind};
use quietus_vault::tree::{self, Metadata};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::fmt::Display;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The result of bringing files back.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct BroughtBack {
    /// The target, as it was named.
    pub target: String,
    /// The epoch; `None` for the current state.
    pub epoch: Option<u64>,
    /// Path of the folder that has it now.
    pub into: PathText,
    /// Entries, folders apart.
    pub files: u64,
    /// Folders.
    pub folders: u64,
    /// Bytes of all files, holes included.
    pub bytes: u64,
    /// Entries that did not get what only root sets: their owner, attributes of the system.
    pub needs_root: u64,
    /// Paths that could not be brought back, or not wholly.
    #[serde(flatten)]
    pub refused: RefusedPaths,
}

struct Task<'a, 's> {
    look: &'a mut Look,
    root: OwnedFd,
    /// Where the first name of a file with several was made.
    names: HashMap<FileId, Vec<u8>>,
    /// The folders on the way to the present one.
    above: HashSet<FileId>,
    done: BroughtBack,
    step: Step<'s>,
}

/// Brings `file`, whose name is `name`, and all below it back into the folder `into`, which is made if need be. The root of a file system has
/// no name: what it holds goes there.
pub fn bring_back(
    look: &mut Look,
    (file, name): (FileId, &[u8]),
    into: &Path,
    step: Step<'_>,
) -> Result<BroughtBack, Error> {
    let unwritten = |error| Error::Write(into.display().to_string(), error);
    std::fs::create_dir_all(into).map_err(unwritten)?;
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let root = rustix::fs::open(into, flags, Mode::empty()).map_err(|error| unwritten(error.into()))?;
    clear(&root);
    let done = BroughtBack {
        target: look.name(),
        epoch: look.epoch,
        into: into.into(),
        files: 0,
        folders: 0,
        bytes: 0,
        needs_root: 0,
        refused: RefusedPaths::default(),
    };
    let mut task = Task { look, root, names: HashMap::new(), above: HashSet::new(), done, step };
    if name.is_empty() {
        task.folder(file, b"")?;
    } else {
        task.entry(&Entry { name: name.to_vec(), file }, name)?;
    }
    Ok(task.done)
}

impl Task<'_, '_> {
    fn refuse(&mut self, path: &[u8], why: &dyn Display) {
        self.done.refused.note(path, why);
    }

    fn go_on(&mut self) -> Result<(), Error> {
        if (self.step)(self.done.bytes, self.done.bytes.max(1)) { Ok(()) } else { Err(Error::Interrupted) }
    }

    /// Brings back what a folder holds, into the one at `path`.
    fn folder(&mut self, folder: FileId, path: &[u8]) -> Result<(), Error> {
        if self.above.len() >= DEPTH_MAX || !self.above.insert(folder) {
            self.refuse(path, &"the folder lies below itself, or too deep");
            return Ok(());
        }
        match self.look.list(folder) {
            Ok(entries) => {
                for entry in entries {
                    let path =
                        if path.is_empty() { entry.name.clone() } else { [path, b"/", &entry.name].concat() };
                    self.entry(&entry, &path)?;
                }
            }
            Err(why) => self.refuse(path, &why),
        }
        self.above.remove(&folder);
        Ok(())
    }

    /// Brings back an entry, which is to be at `path`.
    fn entry(&mut self, entry: &Entry, path: &[u8]) -> Result<(), Error> {
        self.go_on()?;
        let is_good = !entry.name.is_empty() && !entry.name.iter().any(|byte| matches!(byte, 0 | b'/'));
        if !is_good || matches!(&entry.name[..], b"." | b"..") {
            self.refuse(path, &"such a name leads elsewhere");
            return Ok(());
        }
        let parent = path.strip_suffix(&entry.name[..]).unwrap_or_default();
        let made = match (self.look.attributes(entry.file), open_below(&self.root, parent)) {
            (Ok(attributes), Ok(here)) => self.make(&here, entry, &attributes, path),
            (Err(why), _) => Err(why.to_string()),
            (_, Err(why)) => Err(why.to_string()),
        };
        match made {
            Ok(Made::Folder { is_new, metadata }) => {
                self.folder(entry.file, path)?;
                self.done.folders += 1;
                if is_new && let Ok(here) = open_below(&self.root, parent) {
                    self.give((here.as_fd(), &entry.name), &metadata, false, path);
                }
            }
            Ok(Made::Other) => self.done.files += 1,
            Err(why) => self.refuse(path, &why),
        }
        self.go_on()
    }

    fn make(
        &mut self,
        here: &OwnedFd,
        entry: &Entry,
        attributes: &Attributes,
        path: &[u8],
    ) -> Result<Made, String> {
        let metadata = self.metadata(entry.file, attributes);
        if attributes.kind == Kind::Folder {
            let is_new = make_folder(here, &entry.name).map_err(|error| error.to_string())?;
            return Ok(Made::Folder { is_new, metadata: metadata? });
        }
        if rustix::fs::statat(here, &entry.name[..], AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            return Err("exists already, and is left as it is".into());
        }
        if self.link(here, entry)? {
            return Ok(Made::Other);
        }
        let is_link = attributes.kind == Kind::Link;
        let (partial, _locked) = self.partial(here.as_fd(), entry.file, attributes)?;
        self.give((here.as_fd(), partial.name().to_bytes()), &metadata?, is_link, path);
        partial.keep(&entry.name, false).map_err(|error| error.to_string())?;
        if attributes.links.is_some_and(|links| links > 1) {
            self.names.insert(entry.file, path.to_vec());
        }
        Ok(Made::Other)
    }

    /// Makes another name of a file that has one already; whether it has.
    fn link(&mut self, here: &OwnedFd, entry: &Entry) -> Result<bool, String> {
        let Some(first) = self.names.get(&entry.file) else { return Ok(false) };
        let (parent, first) = match first.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&first[..at], &first[at + 1..]),
            None => (&b""[..], &first[..]),
        };
        let linked = open_below(&self.root, parent)
            .and_then(|parent| rustix::fs::linkat(&parent, first, here, &entry.name[..], AtFlags::empty()));
        linked.map(|()| true).map_err(|error| error.to_string())
    }

    /// The entry under a name of its own, with its content.
    fn partial<'d>(
        &mut self,
        here: BorrowedFd<'d>,
        file: FileId,
        attributes: &Attributes,
    ) -> Result<(Partial<'d>, Option<File>), String> {
        let failed = |error: rustix::io::Errno| error.to_string();
        let kind = match attributes.kind {
            Kind::Regular => {
                let (partial, out) = Partial::file(here).map_err(failed)?;
                self.content(file, attributes.bytes, &out).map_err(|error| error.to_string())?;
                return Ok((partial, Some(out)));
            }
            Kind::Folder => unreachable!("folders are made elsewhere"),
            Kind::Link => tree::Kind::Link(self.look.link(file).map_err(|error| error.to_string())?),
            Kind::Pipe => tree::Kind::Pipe,
            Kind::Socket => tree::Kind::Socket,
            Kind::Character(major, minor) => tree::Kind::CharacterDevice(major, minor),
            Kind::Block(major, minor) => tree::Kind::BlockDevice(major, minor),
        };
        let made = Partial::make(here, |name| make_special(here, name, &kind));
        made.map(|(partial, ())| (partial, None)).map_err(failed)
    }

    /// Writes the content of `file` to `out`, with its holes.
    fn content(&mut self, file: FileId, size: u64, out: &File) -> Result<(), Error> {
        let unwritten = |error| Error::Write("the file".into(), error);
        out.set_len(size).map_err(unwritten)?;
        for (at, bytes) in self.look.data(file)? {
            let mut done = 0;
            while done < bytes {
                let part = self.look.piece(file, at + done, bytes - done)?;
                if part.is_empty() {
                    break;
                }
                out.write_all_at(&part, at + done).map_err(unwritten)?;
                done += part.len() as u64;
                self.done.bytes += part.len() as u64;
                self.go_on()?;
            }
        }
        Ok(())
    }

    /// What the entry is to get. Attributes that cannot be read are an error of the entry.
    fn metadata(&mut self, file: FileId, attributes: &Attributes) -> Result<Metadata, String> {
        let is_folder = attributes.kind == Kind::Folder;
        let (user, group) = attributes.owner.unwrap_or((uid(), gid()));
        let extended = self.look.extended(file).map_err(|error| error.to_string())?;
        Ok(Metadata {
            mode: attributes.mode.unwrap_or(if is_folder { FOLDER_MODE } else { FILE_MODE }),
            user,
            group,
            modified_ns: attributes.modified.unwrap_or_default().ns(),
            attributes: extended,
            hard_link: None,
            origin: None,
        })
    }

    fn give(
        &mut self,
        (parent, name): (BorrowedFd<'_>, &[u8]),
        metadata: &Metadata,
        is_link: bool,
        path: &[u8],
    ) {
        let Ok(name) = CString::new(name) else { return };
        let name: &CStr = &name;
        let refused = attributes::write(Place { parent, name, is_link }, metadata);
        self.done.needs_root += u64::from(refused.needs_root);
        if !refused.what.is_empty() {
            self.refuse(path, &refused.what.join("; "));
        }
    }
}

/// What was made.
enum Made {
    Folder { is_new: bool, metadata: Metadata },
    Other,
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn gid() -> u32 {
    rustix::process::getegid().as_raw()
}
