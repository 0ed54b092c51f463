//! The host's session: the same number as long as whatever was written to some files is on
//! their devices or in this host's cache.

use ring::digest::{Context, SHA256};
use rustix::fs::{major, minor, stat};
use std::io;
use std::path::Path;

/// The session of this host for the files at `paths`: another one after each boot, and after a device below
/// one of them was attached anew, which may have taken unwritten content of the cache with it.
///
/// # Errors
/// If the system does not say which boot this is, or what a file is.
pub fn session<'a>(paths: impl IntoIterator<Item = &'a Path>) -> io::Result<u64> {
    session_of(Path::new("/"), paths)
}

fn session_of<'a>(root: &Path, paths: impl IntoIterator<Item = &'a Path>) -> io::Result<u64> {
    let mut digest = Context::new(&SHA256);
    digest.update(&std::fs::read(root.join("proc/sys/kernel/random/boot_id"))?);
    for path in paths {
        let found = stat(path)?;
        for device in [found.st_dev, found.st_rdev] {
            digest.update(&device.to_le_bytes());
            let at = format!("sys/dev/block/{}:{}/diskseq", major(device), minor(device));
            // Only a block device has a `diskseq`, and only on a newer kernel.
            digest.update(&std::fs::read(root.join(at)).unwrap_or_default());
        }
    }
    let digest = digest.finish();
    Ok(u64::from_le_bytes(*digest.as_ref().first_chunk().expect("a digest has 32 bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_with_the_boot_and_with_the_device() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path();
        let put = |at: &str, text: &str| {
            let path = root.path().join(at);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let now = || session_of(root.path(), [file]).unwrap();
        assert!(session_of(root.path(), [file]).is_err(), "the boot is not known");
        put("proc/sys/kernel/random/boot_id", "one");
        let first = now();
        assert_eq!(now(), first);
        put("proc/sys/kernel/random/boot_id", "two");
        let second = now();
        assert_ne!(second, first);
        let device = stat(file).unwrap().st_dev;
        put(&format!("sys/dev/block/{}:{}/diskseq", major(device), minor(device)), "7");
        assert_ne!(now(), second);
    }

    #[test]
    fn this_host_says_which_session_it_is() {
        let file = Path::new(".");
        assert_eq!(session([file]).unwrap(), session([file]).unwrap());
    }
}
