//! A tree of numbered entries as a file system of this host, to read.
//!
//! The kernel's requests come on a thread of the library, and are answered one after another on the command's. An answer that is dropped is an error to the program that waits for it.
//!
//! | question | where |
//! | --- | --- |
//! | what a tree has to answer | here: [`Tree`] |
//! | the requests of the kernel | `requests` |
//! | attributes, as a tree has them and as the kernel takes them | `attributes` |
//! | the entries that the kernel knows; values that were used last, for trees | `inodes`, `cache` |

mod attributes;
mod cache;
mod inodes;
mod requests;
#[cfg(test)]
mod tests;

pub use attributes::{About, time};
pub use cache::Cache;
pub use fuser::{Errno, FileType};
pub use inodes::{Inodes, ROOT};

use crossbeam_channel::{RecvTimeoutError, bounded};
use fuser::{Config, MountOption, SessionACL, SessionUnmounter};
use requests::Requests;
use rustix::mount::UnmountFlags;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Requests that wait at most; the kernel's thread waits with more.
const REQUESTS_MAX: usize = 64;
/// How often it is asked whether to stop while no request comes.
const PAUSE: Duration = Duration::from_millis(100);

/// How long the kernel may take an answer for true that never changes.
pub const FOREVER: Duration = Duration::from_secs(3600);

/// Something that is done with the tree.
type Request = Box<dyn FnOnce(&mut dyn Tree) + Send>;

/// An extended attribute: its full name, and its value.
type ExtendedAttribute = (Vec<u8>, Vec<u8>);

/// Why a tree cannot be shown at a folder.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The path is no folder.
    #[error("{}: not a folder; name an empty one to mount {what} there", at.display())]
    NotAFolder {
        /// The path.
        at: PathBuf,
        /// What was to be mounted.
        what: &'static str,
    },
    /// The host refused.
    #[error("{}: cannot {act}: {error}", at.display())]
    Host {
        /// The act that failed.
        act: String,
        /// The folder.
        at: PathBuf,
        /// Why the act failed.
        error: io::Error,
    },
}

/// An entry, as the kernel is told of it.
pub struct Shown {
    /// Its number, which no other entry has while the kernel knows it.
    pub number: u64,
    /// All of it but its content.
    pub about: About,
    /// How long the kernel may take its name and attributes for true.
    pub valid: Duration,
}

/// An entry of a listing.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The name.
    pub name: Vec<u8>,
    /// What the entry is.
    pub kind: FileType,
}

/// What is shown. The folder that is mounted is number [`ROOT`].
pub trait Tree {
    /// The entry of that name in a folder. The kernel then has its number once more.
    fn look_up(&mut self, parent: u64, name: &[u8]) -> Result<Shown, Errno>;

    /// The kernel has forgotten this number of lookups of an entry.
    fn forget(&mut self, number: u64, times: u64);

    /// An entry that the kernel knows.
    fn shown(&mut self, number: u64) -> Result<Shown, Errno>;

    /// The folder in which an entry was found.
    fn parent(&self, number: u64) -> Result<u64, Errno>;

    /// Entries of a folder from index `from` on, `most` at most; fewer only at the end. A listing begins with index 0, and what it has
    /// by then it has to its end.
    fn list(&mut self, number: u64, from: usize, most: usize) -> Result<Vec<Listed>, Errno>;

    /// As [`Tree::look_up`], of an entry that was just listed: it is told to the kernel with the listing, which then need not ask.
    fn look_up_listed(&mut self, parent: u64, entry: &Listed) -> Result<Shown, Errno> {
        self.look_up(parent, &entry.name)
    }

    /// Where a symbolic link leads.
    fn link(&mut self, number: u64) -> Result<Vec<u8>, Errno>;

    /// The bytes of a file from `offset` on: `bytes` of them, or up to its end.
    fn read(&mut self, number: u64, offset: u64, bytes: u32) -> Result<Vec<u8>, Errno>;

    /// The extended attributes of an entry.
    fn extended(&mut self, number: u64) -> Result<Vec<ExtendedAttribute>, Errno>;
}

/// A folder to mount something at.
pub struct Place<'a> {
    at: &'a Path,
    is_for_others: bool,
}

impl<'a> Place<'a> {
    /// The folder `at`, where `what` is to be mounted.
    ///
    /// # Errors
    /// There is no folder.
    pub fn new(at: &'a Path, what: &'static str) -> Result<Self, MountError> {
        let failed = |error| MountError::Host { act: format!("mount {what} there"), at: at.into(), error };
        match std::fs::metadata(at).map_err(failed)?.is_dir() {
            true => Ok(Self { at, is_for_others: false }),
            false => Err(MountError::NotAFolder { at: at.into(), what }),
        }
    }

    /// Whether users other than the one who mounts are let in, as modes, owners and access lists say. Without that the one sees everything.
    #[must_use]
    pub fn for_others(self, is_for_others: bool) -> Self {
        Self { is_for_others, ..self }
    }

    pub fn is_for_others(&self) -> bool {
        self.is_for_others
    }

    fn failed(&self, act: &str) -> impl Fn(io::Error) -> MountError + use<> {
        let (act, at) = (act.to_string(), self.at.to_path_buf());
        move |error| MountError::Host { act: act.clone(), at: at.clone(), error }
    }

    /// Shows `tree` there, which mount tables call `name`, until it is unmounted or `is_asked` to stop. Calls `ready` once it can be seen.
    ///
    /// # Errors
    /// FUSE, or the host, refuses.
    pub fn show(
        &self,
        tree: &mut dyn Tree,
        name: &str,
        ready: impl FnOnce(),
        is_asked: impl Fn() -> bool,
    ) -> Result<(), MountError> {
        let what = if self.is_for_others { "mount it there for other users" } else { "mount it there" };
        let failed = self.failed(what);
        let (sender, requests) = bounded::<Request>(REQUESTS_MAX);
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::RO,
            MountOption::NoSuid,
            MountOption::NoDev,
            // A comma would begin another option.
            MountOption::FSName(name.replace(',', "_")),
            MountOption::Subtype("quietus".into()),
        ];
        if self.is_for_others {
            config.acl = SessionACL::All;
            config.mount_options.push(MountOption::DefaultPermissions);
        }
        let requests_of_kernel = Requests { sender, is_for_others: self.is_for_others };
        let session = fuser::Session::new(requests_of_kernel, self.at, &config);
        let mut mounted = session.map_err(without_fuse).map_err(&failed)?;
        let mut unmounter = mounted.unmount_callable();
        let kernel = thread::Builder::new().name("fuse".into()).spawn(move || mounted.run());
        let kernel = kernel.map_err(&failed)?;
        ready();
        while !is_asked() {
            match requests.recv_timeout(PAUSE) {
                Ok(request) => request(tree),
                Err(RecvTimeoutError::Timeout) => {}
                // The folder was unmounted.
                Err(RecvTimeoutError::Disconnected) => {
                    let ended =
                        kernel.join().unwrap_or_else(|_| Err(io::Error::other("the thread has panicked")));
                    return ended.map_err(self.failed("answer the kernel"));
                }
            }
        }
        // Programs that wait for an answer get an error. The thread is not waited for: programs may still use what they have open.
        drop(requests);
        unmount(&mut unmounter, self.at).map_err(self.failed("unmount it"))
    }
}

/// Takes the file system away, also from below a program that still uses it.
fn unmount(unmounter: &mut SessionUnmounter, at: &Path) -> io::Result<()> {
    match unmounter.unmount() {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            tracing::warn!("{} is still in use; programs that use it get errors from now on", at.display());
            Ok(rustix::mount::unmount(at, UnmountFlags::DETACH)?)
        }
        ended => ended,
    }
}

/// Says what is needed if the library does not.
fn without_fuse(error: io::Error) -> io::Error {
    let needs = "FUSE needs /dev/fuse, and fusermount3 (package fuse3) unless root mounts";
    io::Error::new(error.kind(), format!("{}; {needs}", error.to_string().trim_end()))
}
