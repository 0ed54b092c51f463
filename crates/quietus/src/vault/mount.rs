//! Snapshots of a vault as a file system of this host, to read.
//!
//! The kernel's requests come on a thread of the library, and are answered one after another on the command's. An answer that is dropped is an error to the program that waits for it.

mod attributes;
mod cache;
mod inodes;
mod requests;
#[cfg(test)]
mod tests;
mod tree;

use super::{Client, Error};
use crossbeam_channel::{RecvTimeoutError, bounded};
use fuser::{Config, MountOption, SessionUnmounter};
use quietus_vault::SnapshotId;
use requests::Requests;
use rustix::mount::UnmountFlags;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;
use tree::Tree;

/// Requests that wait at most; the kernel's thread waits with more.
const REQUESTS_MAX: usize = 64;
/// How often it is asked whether to stop while no request comes.
const PAUSE: Duration = Duration::from_millis(100);

/// Something that is done with the tree.
type Request = Box<dyn FnOnce(&mut Tree<'_>) + Send>;

/// Shows snapshots at the folder `at`, until it is unmounted or `is_asked` to stop: each in a folder of its own, or the files of
/// `only` one. Calls `ready` once they can be seen.
///
/// # Errors
/// [`Error`]: the folder, FUSE, the vault.
pub fn mount(
    client: &mut Client,
    at: &Path,
    only: Option<SnapshotId>,
    ready: impl FnOnce(),
    is_asked: impl Fn() -> bool,
) -> Result<(), Error> {
    let failed = |error| Error::io("mount the vault there", at, error);
    if !std::fs::metadata(at).map_err(failed)?.is_dir() {
        return Err(Error::Invalid(format!(
            "{}: not a folder; name an empty one to mount the vault there",
            at.display()
        )));
    }
    let (sender, requests) = bounded::<Request>(REQUESTS_MAX);
    let mut config = Config::default();
    let name = format!("quietus:{}", client.home().path().display());
    let mut tree = Tree::new(client, only)?;
    config.mount_options = vec![
        MountOption::RO,
        MountOption::NoSuid,
        MountOption::NoDev,
        // A comma would begin another option.
        MountOption::FSName(name.replace(',', "_")),
        MountOption::Subtype("quietus".into()),
    ];
    let mut mounted =
        fuser::Session::new(Requests(sender), at, &config).map_err(without_fuse).map_err(failed)?;
    let mut unmounter = mounted.unmount_callable();
    let kernel = thread::Builder::new().name("fuse".into()).spawn(move || mounted.run()).map_err(failed)?;
    ready();
    while !is_asked() {
        match requests.recv_timeout(PAUSE) {
            Ok(request) => request(&mut tree),
            Err(RecvTimeoutError::Timeout) => {}
            // The folder was unmounted.
            Err(RecvTimeoutError::Disconnected) => {
                let ended =
                    kernel.join().unwrap_or_else(|_| Err(io::Error::other("the thread has panicked")));
                return ended.map_err(|error| Error::io("answer the kernel", at, error));
            }
        }
    }
    // Programs that wait for an answer get an error. The thread is not waited for: programs may still use what they have open.
    drop(requests);
    unmount(&mut unmounter, at).map_err(|error| Error::io("unmount it", at, error))
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
