//! Files unchanged since the last snapshot are not read again, and that costs neither truth nor secrecy.

use crate::program::text;
use crate::vault::program::{Vault, assert_same, folder, noise};
use crate::vault::together::Held;
use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A folder of files that have been as they are for so long that a put believes their times.
fn settled(vault: &Vault) -> PathBuf {
    let top = vault.folder("a", &(1..30).collect::<Vec<_>>());
    folder(&top.join("deep/er"), &[40, 41]);
    fs::write(top.join("large"), noise(42, 700_000)).expect("a file");
    fs::hard_link(top.join("large"), top.join("deep/again")).expect("a link");
    // No other entry has the time of this change.
    std::thread::sleep(Duration::from_millis(50));
    fs::set_permissions(top.join("deep/er/file 41"), fs::Permissions::from_mode(0o600)).expect("a mode");
    settle();
    top
}

fn settle() {
    std::thread::sleep(Duration::from_millis(2200));
}

/// Tells which files of folders are opened.
struct Watch(OwnedFd);

impl Watch {
    fn begin(folders: &[&Path]) -> Self {
        let watch = rustix::fs::inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).expect("inotify");
        for folder in folders {
            rustix::fs::inotify::add_watch(&watch, *folder, WatchFlags::OPEN).expect("a watch");
        }
        Self(watch)
    }

    /// The names of the files that were opened.
    fn opened(&self) -> BTreeSet<String> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let (mut events, mut opened) = (Reader::new(&self.0, &mut buffer), BTreeSet::new());
        loop {
            match events.next() {
                Ok(event) if event.events().contains(ReadFlags::ISDIR) => {}
                Ok(event) => opened.extend(event.file_name().map(|name| name.to_string_lossy().into_owned())),
                Err(Errno::AGAIN) => return opened,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// The files that a put opened, and what it said.
fn put(vault: &Vault, top: &Path, args: &[&str]) -> (BTreeSet<String>, Value) {
    let watch = Watch::begin(&[top, &top.join("deep"), &top.join("deep/er")]);
    let put = vault.json("put", &[args, &[text(top)]].concat());
    (watch.opened(), put)
}

#[test]
fn unchanged_files_are_not_opened() {
    let vault = Vault::new(&[]);
    let top = settled(&vault);
    let (opened, first) = put(&vault, &top, &["daily"]);
    assert_eq!((opened.len(), first["unchanged"].as_u64()), (32, Some(0)), "{first}");
    let (opened, second) = put(&vault, &top, &["daily"]);
    assert_eq!((opened.len(), second["unchanged"].as_u64()), (0, Some(33)), "{opened:?}, {second}");
    assert_eq!((&second["files"], &second["bytes"]), (&first["files"], &first["bytes"]));
    let (_into, there) = vault.get("daily", &top);
    assert_same(&top, &there);
    let inode = |name: &str| fs::metadata(there.join(name)).expect("a file").ino();
    assert_eq!(inode("large"), inode("deep/again"));

    // The length and the time of modification stay, as after `cp --preserve` or `rsync --inplace --times`.
    let changed = fs::File::options().write(true).open(top.join("file 7")).expect("a file");
    let modified = changed.metadata().and_then(|about| about.modified()).expect("a time");
    changed.write_all_at(b"?", 500).and_then(|()| changed.set_modified(modified)).expect("a change");
    fs::rename(top.join("file 9"), top.join("file 8")).expect("another file of that name");
    let (opened, third) = put(&vault, &top, &["daily"]);
    assert_eq!(opened, ["file 7", "file 8"].map(String::from).into(), "{third}");
    vault.assert_back("daily", &top);

    // Any snapshot of this host will do; one of another host says nothing of its files.
    let (_, other) = put(&vault, &top, &["another"]);
    assert!(other["unchanged"].as_u64() > Some(28), "{other}");
    let (opened, elsewhere) = put(&vault, &top, &["daily", "--host", "elsewhere"]);
    assert_eq!((opened.len(), elsewhere["unchanged"].as_u64()), (31, Some(0)), "{elsewhere}");
    let (opened, reread) = put(&vault, &top, &["daily", "--reread"]);
    assert_eq!((opened.len(), reread["unchanged"].as_u64()), (31, Some(0)), "{reread}");
    vault.assert_whole();
    // A file with the time of a put, or a later one, is read again by each.
    let later = std::time::SystemTime::now() + Duration::from_secs(3600);
    let file = fs::File::options().write(true).open(top.join("file 1")).expect("a file");
    file.set_modified(later).expect("a time");
    for _ in 0..2 {
        assert!(put(&vault, &top, &["daily"]).0.contains("file 1"));
    }
}

#[test]
fn what_the_vault_knows_of_a_forgotten_file_is_destroyed_with_it() {
    let vault = Vault::new(&["--compress", "none"]);
    let top = settled(&vault);
    let about = fs::metadata(top.join("deep/er/file 41")).expect("a file");
    // The time of the last change of the inode, as the format says: a zigzag varint of nanoseconds.
    let mut number = ((about.ctime() * 1_000_000_000 + about.ctime_nsec()) as u64) << 1;
    let mut changed = Vec::new();
    while number >= 0x80 {
        changed.push(number as u8 | 0x80);
        number >>= 7;
    }
    changed.push(number as u8);
    let needles = [b"file 41".to_vec(), noise(41, 64), changed];
    for _ in 0..3 {
        put(&vault, &top, &["daily"]);
    }
    let counts = needles.each_ref().map(|needle| vault.count(needle));
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}: so that the search finds what is there");
    vault.json("forget", &["--path", "file 41"]);
    vault.sanitize();
    assert_eq!(needles.each_ref().map(|needle| vault.count(needle)), [0; 3]);
    // What is forgotten is no snapshot's any more: another put stores it anew, and the rest is still known.
    let (opened, put) = put(&vault, &top, &["daily"]);
    assert_eq!(opened, ["file 41".to_string()].into(), "{put}");
    assert!(vault.count(&needles[1]) > 0);
}

#[test]
fn a_file_whose_content_the_vault_has_lost_is_read_again_and_heals() {
    let vault = Vault::new(&["--compress", "none"]);
    let top = settled(&vault);
    let first = vault.put("daily", &top);
    vault.damage(&noise(3, 64), 5);
    vault.damage(&noise(42, 700_000)[500_000..500_064], 5);
    vault.findings("verify", &[]);
    let (opened, put) = put(&vault, &top, &["daily"]);
    // A file is read whose content lies in a damaged container, and is not whole there; others are not.
    assert!(opened.contains("file 3") && opened.len() == 2, "{opened:?}, {put}");
    vault.assert_whole();
    for snapshot in [first.as_str(), "daily"] {
        vault.assert_back(snapshot, &top);
    }
}

#[test]
fn a_put_that_another_command_serves_reads_nothing_again_either() {
    let vault = Vault::new(&[]);
    let top = settled(&vault);
    vault.put("daily", &top);
    let owner = Held::begin(&vault, "owner");
    let (opened, second) = put(&vault, &top, &["daily"]);
    assert_eq!((opened.len(), second["unchanged"].as_u64()), (0, Some(33)), "{opened:?}, {second}");
    assert!(owner.end().status.success());
}
