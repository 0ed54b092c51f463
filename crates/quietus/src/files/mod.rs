//! Files in the states of a disk: look back, and bring back. The parsers are those of `quietus_files`; they run in the process of the
//! command, and ask the disk, served or not, for bytes.
//!
//! | question | where |
//! | --- | --- |
//! | how people say which file they mean | `target` |
//! | the disk, served or not; one state of it | `disk`, `state` |
//! | the versions of one file; what is known of the epochs on the way | `history`, `past` |
//! | the files that a pattern is of; those that differ between two states | `find`, `differences` |
//! | who has had which blocks, and what dies with files; the request | `owners`, `forget` |
//! | files as files of this host again | `restore` |
//! | all states as a file system of this host | `mount` |

mod differences;
mod disk;
mod find;
mod forget;
mod history;
mod mount;
mod owners;
mod past;
mod restore;
mod state;
mod target;

pub use differences::{FileChange, FileDifference, FilesCompared, differences};
pub use disk::Disk;
pub use find::{Found, FoundFile, Wanted, find, find_in_all};
pub use forget::{FilesForgotten, FilesWeighed, Which, forget, plan_forget};
pub use history::{FileHistory, FileVersion, Unreadable, history};
pub use mount::{View, mount};
pub use restore::{BroughtBack, bring_back};
pub use state::{Seen, State};
pub use target::Target;

use crate::base::rfc3339;
use crate::front::control::Refused;
use crate::host::fuse::MountError;
use history::{blocks, epochs, history_of};
use quietus_core::base::extents::ExtentMap;
use quietus_core::base::units::{Addr, Extent};
use quietus_files::{Attributes, Entry, ExtendedAttribute, FileId, Kind, Run, Time};
use std::io::Write;

/// Bytes of a file that are read at once.
const PIECE_BYTES: usize = 8 << 20;
/// Most entries of a folder that is listed.
const ENTRIES_MAX: usize = 4 << 20;
/// Permissions where the file system has none.
const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;

/// The text of a time.
fn time_text(time: Time) -> String {
    rfc3339::text_ns(time.ns())
}

/// Why files cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk refused.
    #[error("{0}")]
    Refused(Refused),
    /// The file system cannot be read.
    #[error("{0}: {1}")]
    Files(String, quietus_files::Error),
    /// The content cannot be written where it is to go.
    #[error("cannot write {0}: {1}")]
    Write(String, std::io::Error),
    /// The folder that states were to be mounted at, or FUSE.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// A person interrupted the command.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Why the file system of `target` cannot be opened, and what to do.
    fn of_open(target: &Target, error: quietus_files::Error) -> Self {
        let name = target.to_string();
        match error {
            quietus_files::Error::Several(what) => {
                let disk = target.disk.display();
                Self::Refused(format!("{name}: {what}; name one, as in {disk}:1:/PATH").into())
            }
            error => Self::Files(name, error),
        }
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

/// The file system of a target, in one state.
pub struct Look {
    opened: quietus_files::Found,
    /// What was read of the disk.
    pub seen: Seen,
    /// The epoch; `None` for the current state.
    pub epoch: Option<u64>,
    name: String,
}

impl Look {
    /// The file system of `target` in the state that people call `at`.
    pub fn new(disk: &std::rc::Rc<Disk>, target: &Target, at: Option<&str>) -> Result<Self, Error> {
        Self::of(State::new(disk, at)?, target)
    }

    /// The file system of `target` in `state`.
    pub fn of(state: State, target: &Target) -> Result<Self, Error> {
        let (seen, epoch) = (state.seen(), state.epoch);
        let name = target.to_string();
        let opened = quietus_files::open(Box::new(state), target.partition);
        let opened = opened.map_err(|error| Error::of_open(target, error))?;
        Ok(Self { opened, seen, epoch, name })
    }

    fn failed(&self) -> impl Fn(quietus_files::Error) -> Error + use<> {
        let name = self.name.clone();
        move |error| Error::Files(name.clone(), error)
    }

    /// The file at `path`; `None` if there is none.
    pub fn find(&mut self, path: impl AsRef<[u8]>) -> Result<Option<FileId>, Error> {
        match self.opened.look_up(path.as_ref()) {
            Err(quietus_files::Error::Missing(_)) => Ok(None),
            found => found.map(Some).map_err(self.failed()),
        }
    }

    /// The root folder.
    pub fn root(&self) -> FileId {
        self.opened.volume.root()
    }

    /// The file of that name in `folder`, compared as the file system does; `None` if it cannot be compared so, too.
    pub fn entry(&mut self, folder: FileId, name: &[u8]) -> Result<Option<FileId>, Error> {
        match self.opened.volume.find(&mut *self.opened.source, folder, name) {
            Err(quietus_files::Error::Unsupported(_)) => Ok(None),
            found => found.map(|entry| entry.map(|it| it.file)).map_err(self.failed()),
        }
    }

    /// What is said of `file`.
    pub fn attributes(&mut self, file: FileId) -> Result<Attributes, Error> {
        let failed = self.failed();
        self.opened.attributes(file).map_err(failed)
    }

    /// The entries of `folder`.
    pub fn list(&mut self, folder: FileId) -> Result<Vec<Entry>, Error> {
        self.list_some(folder, ENTRIES_MAX)
    }

    /// The entries of `folder`, an error if there are more than `most`.
    pub fn list_some(&mut self, folder: FileId, most: usize) -> Result<Vec<Entry>, Error> {
        let failed = self.failed();
        let mut entries = Vec::new();
        let listed = self.opened.list(folder, &mut |entry| {
            entries.push(entry);
            entries.len() <= most
        });
        listed.map_err(&failed)?;
        if entries.len() > most {
            let why = format!("a folder of more than {most} entries, which are not listed");
            return Err(failed(quietus_files::Error::Unsupported(why)));
        }
        Ok(entries)
    }

    /// Where the file system lies on the disk.
    pub(in crate::files) fn place(&self) -> Extent<Addr> {
        self.opened.place
    }

    /// Where the content of a regular file lies, in the order of the file.
    pub(in crate::files) fn runs(&mut self, file: FileId) -> Result<Vec<Run>, Error> {
        let (failed, mut runs) = (self.failed(), Vec::new());
        let found = self.opened.runs(file, &mut |run| {
            runs.push(run);
            true
        });
        found.map(|()| runs).map_err(failed)
    }

    /// Where the content of `file` lies; nowhere if it is no regular file.
    pub fn places(&mut self, file: FileId) -> Result<ExtentMap<Addr, ()>, Error> {
        let mut places = ExtentMap::default();
        if self.attributes(file)?.kind != Kind::Regular {
            return Ok(places);
        }
        let failed = self.failed();
        let found = self.opened.runs(file, &mut |run: Run| {
            if let Some(place) = run.place {
                places.insert(Extent::new(place.0, run.bytes), ());
            }
            true
        });
        match found {
            // What is encrypted or compressed has attributes all the same.
            Ok(()) | Err(quietus_files::Error::Unsupported(_)) => Ok(places),
            Err(error) => Err(failed(error)),
        }
    }

    /// Writes the content of `file` to `out`, while `step` says so.
    pub fn cat(
        &mut self,
        file: FileId,
        out: &mut dyn Write,
        step: crate::disk::Step<'_>,
    ) -> Result<(), Error> {
        let (failed, size) = (self.failed(), self.attributes(file)?.bytes);
        let unwritten = |error| Error::Write("the content to standard output".into(), error);
        let mut at = 0;
        while at < size {
            let bytes = self.opened.read(file, at, PIECE_BYTES).map_err(&failed)?;
            if bytes.is_empty() {
                break;
            }
            out.write_all(&bytes).map_err(unwritten)?;
            at += bytes.len() as u64;
            if !step(at, size) {
                return Err(Error::Interrupted);
            }
        }
        out.flush().map_err(unwritten)
    }

    /// The target, as it was named.
    pub fn name(&self) -> String {
        self.name.clone()
    }

    /// The first byte and the number of bytes of each part of a regular file that has data.
    pub fn data(&mut self, file: FileId) -> Result<Vec<(u64, u64)>, Error> {
        let (failed, mut parts) = (self.failed(), Vec::<(u64, u64)>::new());
        let found = self.opened.runs(file, &mut |run: Run| {
            match parts.last_mut() {
                Some((at, bytes)) if *at + *bytes == run.at => *bytes += run.bytes,
                _ => parts.push((run.at, run.bytes)),
            }
            true
        });
        found.map(|()| parts).map_err(failed)
    }

    /// Content of a regular file from `at` on: at most `bytes`, and no more than is read at once.
    pub fn piece(&mut self, file: FileId, at: u64, bytes: u64) -> Result<Vec<u8>, Error> {
        let failed = self.failed();
        self.opened.read(file, at, bytes.min(PIECE_BYTES as u64) as usize).map_err(failed)
    }

    /// Where a symbolic link leads.
    pub fn link(&mut self, file: FileId) -> Result<Vec<u8>, Error> {
        let failed = self.failed();
        self.opened.link(file).map_err(failed)
    }

    /// The extended attributes of a file.
    pub fn extended(&mut self, file: FileId) -> Result<Vec<ExtendedAttribute>, Error> {
        let failed = self.failed();
        self.opened.extended(file).map_err(failed)
    }
}
