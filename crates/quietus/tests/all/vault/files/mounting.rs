//! Snapshots as a file system.

use crate::mounted::{Mounted, has_fuse};
use crate::vault::files::restoring::{all, zoo};
use crate::vault::program::{Vault, folder, noise};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A vault made with `args`; `None`, with a message, where this host does not let FUSE be tested.
fn vault(args: &[&str]) -> Option<Vault> {
    has_fuse().then(|| Vault::new(args))
}

fn mounted(vault: &Vault, args: &[&str]) -> Mounted {
    let at = vault.beside("mounted");
    fs::create_dir_all(&at).expect("a folder");
    Mounted::new(vault.command("mount").arg(&at).args(args), at)
}

/// Where a folder is in the mounted one.
fn inside(mounted: &Mounted, snapshot: &str, path: &Path) -> PathBuf {
    mounted.at.join(snapshot).join(path.strip_prefix("/").expect("an absolute path"))
}

#[test]
fn snapshots_are_folders_with_all_that_was_put() {
    let Some(vault) = vault(&[]) else { return };
    let top = vault.beside("zoo");
    zoo(&top);
    vault.put("daily/odd", &top);
    let before = all(&top);
    folder(&top.join("later"), &[11, 12]);
    vault.put("daily/odd", &top);
    let mut mounted = mounted(&vault, &[]);
    assert_eq!(mounted.names(""), ["0-daily_odd", "1-daily_odd"]);
    for (snapshot, expected) in [("0-daily_odd", before), ("1-daily_odd", all(&top))] {
        let found = all(&inside(&mounted, snapshot, &top));
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        for (path, mut about) in found {
            let wanted = &expected[&path];
            // A mount does not tell holes, nor how many names a folder has.
            about.is_sparse = wanted.is_sparse;
            about.names = wanted.names;
            assert!(about == *wanted, "{path:?}");
        }
    }
    let inside = inside(&mounted, "0-daily_odd", &top);
    let number =
        |name: &str| fs::metadata(inside.join(name)).map(|it| (it.ino(), it.nlink())).expect("a file");
    assert_eq!(number("text"), number("deep/again"));
    assert_eq!(number("text").1, 2);
    for refused in [
        fs::write(inside.join("new"), b"x"),
        fs::remove_file(inside.join("text")),
        fs::write(inside.join("text"), b"x"),
    ] {
        assert_eq!(refused.expect_err("read only").kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    }
    assert!(fs::metadata(inside.join("nothing")).is_err());
    assert_eq!(vault.snapshots(), 2, "others are served");
    vault.json("sanitize", &[]);
    assert!(fs::metadata(inside.join("text")).is_ok());
    assert_eq!(mounted.interrupt(), Some(0));
    assert!(!mounted.is_mounted());
    vault.sanitize();
}

#[test]
fn any_part_of_a_large_file_is_read_as_it_was_put() {
    let Some(vault) = vault(&[]) else { return };
    let top = vault.beside("large");
    fs::create_dir(&top).expect("a folder");
    // Several layers of spans, and holes among them.
    let mut content = noise(3, 30_000_000);
    content[9_000_000..14_000_000].fill(0);
    let file = fs::File::create(top.join("file")).expect("a file");
    file.set_len(content.len() as u64).expect("a length");
    file.write_all_at(&content[..9_000_000], 0).expect("content");
    file.write_all_at(&content[14_000_000..], 14_000_000).expect("content");
    vault.put("one", &top);
    let mut mounted = mounted(&vault, &["--snapshot", "one"]);
    let path = inside(&mounted, "", &top).join("file");
    let found = fs::File::open(&path).expect("a file");
    let random = noise(4, 8 * 2 * 300);
    let numbers: Vec<u64> =
        random.chunks(8).map(|it| u64::from_le_bytes(it.try_into().expect("8 bytes"))).collect();
    for pair in numbers.chunks(2) {
        let at = pair[0] % (content.len() as u64 + 1000);
        let mut bytes = vec![0; (pair[1] % 200_000) as usize];
        let count = found.read_at(&mut bytes, at).expect("a read");
        let rest = content.get(at as usize..).unwrap_or_default();
        assert_eq!(count, bytes.len().min(rest.len()), "at {at}");
        assert!(bytes[..count] == rest[..count], "at {at}");
    }
    assert!(fs::read(&path).expect("a file") == content);
    // What is in the kernel's cache could be mapped, and shared.
    let flags = (ProtFlags::READ, MapFlags::SHARED);
    // SAFETY: no address is asked for, so that no other mapping is touched.
    let mapped = unsafe { rustix::mm::mmap(std::ptr::null_mut(), 4096, flags.0, flags.1, &found, 0) };
    assert_eq!(mapped.err(), Some(Errno::NODEV), "content goes through the kernel's cache");
    drop(found);
    assert_eq!(mounted.interrupt(), Some(0));
}

#[test]
fn a_mount_that_is_used_is_taken_away_all_the_same_and_damage_is_an_error() {
    let Some(vault) = vault(&["--compress", "none"]) else { return };
    let top = vault.folder("a", &[1, 2, 3]);
    vault.put("some", &top);
    vault.damage(&noise(2, 64), 5);
    let mut mounted = mounted(&vault, &[]);
    let inside = inside(&mounted, "0-some", &top);
    assert_eq!(fs::read(inside.join("file 2")).expect_err("damage").raw_os_error(), Some(5));
    let open = fs::File::open(inside.join("file 1")).expect("a file");
    assert!(
        fs::read(inside.join("file 3")).expect("a file") == fs::read(top.join("file 3")).expect("a file")
    );
    assert_eq!(mounted.interrupt(), Some(0));
    assert!(!mounted.is_mounted());
    assert!(open.read_at(&mut [0; 10], 0).is_err(), "the server has ended");
    vault.json("list", &[]);
}
