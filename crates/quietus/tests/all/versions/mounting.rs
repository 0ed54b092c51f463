//! The epochs of a disk as a file system of this host, as a user mounts it.

use super::files::Guest;
use crate::mounted::{Mounted, has_fuse};
use crate::program::{Disk, Server, quietus, text, wait_until};
use crate::vault::files::restoring::{About, all, zoo};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What an ext4 of a guest has, where the host has no configuration that says so.
const FEATURES: &str = "extent,ext_attr,dir_index,filetype,huge_file";
const EIO: Option<i32> = Some(5);
const ESTALE: Option<i32> = Some(116);

fn mount(guest: &Guest, name: &str, args: &[&str]) -> Mounted {
    let at = guest.bench.disk.beside(name);
    fs::create_dir_all(&at).expect("a folder");
    let mut command = quietus();
    command.args(["--json", "mount", &guest.target("")]).arg(&at).args(args);
    Mounted::new(command.args(["--key-file", &guest.bench.key]), at)
}

fn serve(guest: &Guest) -> Server {
    guest.bench.disk.serve(&["--key-file", &guest.bench.key, "--detect", "off"])
}

/// A guest whose epochs 1, 2 and 3 have the files of folders, which come with it.
fn zoos() -> (Guest, Server, Vec<BTreeMap<PathBuf, About>>) {
    let dir = tempfile::tempdir().expect("a directory");
    let top = dir.path().join("zoo");
    zoo(&top);
    let mkfs = ["-b", "1024", "-I", "256", "-O", FEATURES, "-d", text(&top)];
    let mut guest = Guest::new(&mkfs);
    let server = serve(&guest);
    let mut written = vec![all(&top)];
    assert_eq!(guest.close(), 1);
    for (n, change) in [(2, "first"), (3, "second")] {
        fs::write(top.join("text"), format!("the {change} change\n").repeat(7000)).expect("a file");
        fs::write(top.join(format!("deep/only {n}")), change).expect("a file");
        let _ = fs::remove_file(top.join(format!("deep/only {}", n - 1)));
        guest.format(&mkfs);
        written.push(all(&top));
        assert_eq!(guest.close(), n);
    }
    (guest, server, written)
}

/// Checks that the files at `top` are those that were written.
#[track_caller]
fn assert_shows(top: &Path, written: &BTreeMap<PathBuf, About>) {
    let mut found = all(top);
    found.retain(|path, _| path != Path::new("lost+found"));
    assert_eq!(found.keys().collect::<Vec<_>>(), written.keys().collect::<Vec<_>>());
    for (path, mut about) in found {
        let wanted = &written[&path];
        // The folder of a state is one of the mount.
        if path == Path::new("") {
            continue;
        }
        // A mount does not tell holes, and mke2fs drops parts of a second of some kinds.
        about.is_sparse = wanted.is_sparse;
        about.modified.1 = wanted.modified.1;
        assert!(about == *wanted, "{path:?}: {about:?}, written: {wanted:?}");
    }
}

#[test]
fn each_epoch_and_the_current_state_show_their_files_served_or_not() {
    if !has_fuse() {
        return;
    }
    let (guest, server, written) = zoos();
    let mut mounted = mount(&guest, "one", &[]);
    let mut other = mount(&guest, "two", &["--only", "epochs"]);
    assert_eq!(mounted.names(""), ["by-epoch", "by-file", "by-time"]);
    assert_eq!(mounted.names("by-epoch"), ["1", "2", "3", "now"]);
    assert_eq!(other.names(""), ["1", "2", "3", "now"]);
    for (n, written) in written.iter().enumerate() {
        assert_shows(&mounted.at.join(format!("by-epoch/{}", n + 1)), written);
    }
    assert_shows(&other.at.join("now"), &written[2]);
    let one = mounted.at.join("by-epoch/1");
    let number = |name: &str| fs::metadata(one.join(name)).map(|it| (it.ino(), it.nlink())).expect("a file");
    assert_eq!(number("text"), number("deep/again"));
    assert_eq!(number("text").1, 2);
    assert!(
        fs::metadata(one.join("nothing")).is_err() && fs::metadata(mounted.at.join("by-epoch/01")).is_err()
    );
    let refused = fs::write(one.join("text"), b"x").expect_err("read only");
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!((mounted.interrupt(), other.interrupt()), (Some(0), Some(0)));
    assert!(!mounted.is_mounted() && !other.is_mounted());
    drop(server);
    let mut alone = mount(&guest, "one", &[]);
    assert_shows(&alone.at.join("by-epoch/2"), &written[1]);
    assert_shows(&alone.at.join("by-epoch/now"), &written[2]);
    assert_eq!(alone.interrupt(), Some(0));
}

#[test]
fn epochs_are_found_by_their_time_and_files_by_their_path() {
    if !has_fuse() {
        return;
    }
    let (guest, _server, written) = zoos();
    let mounted = mount(&guest, "one", &[]);
    let mut found = 0;
    for day in mounted.names("by-time") {
        for time in mounted.names(format!("by-time/{day}")) {
            assert_shows(&mounted.at.join(format!("by-time/{day}/{time}")), &written[found]);
            found += 1;
        }
    }
    assert_eq!(found, 3);
    assert_eq!(mounted.names("by-file/text"), ["1", "2", "3"]);
    for (n, written) in written.iter().enumerate() {
        let version = fs::read(mounted.at.join(format!("by-file/text/{}", n + 1))).expect("a version");
        assert!(Some(&version) == written[Path::new("text")].content.as_ref());
    }
    assert!(fs::metadata(mounted.at.join("by-file/text/4")).is_err());
    let read = |path: &str| fs::read_to_string(mounted.at.join(path)).ok();
    // Only epoch 2 has it: the folder does not list it, and it is found.
    assert!(mounted.names("by-file/deep").iter().all(|name| name != "only 2"));
    assert_eq!(mounted.names("by-file/deep/only 2"), ["1"]);
    assert_eq!(read("by-file/deep/only 2/1").as_deref(), Some("first"));
    assert_eq!(read("by-file/deep/only 3/1").as_deref(), Some("second"));
    assert!(fs::metadata(mounted.at.join("by-file/deep/only 4")).is_err());
    let link = mounted.at.join("by-file/dangling/1");
    assert_eq!(fs::read_link(link).expect("a link"), Path::new("../nowhere"));
}

#[test]
fn samba_finds_epochs_by_the_names_that_it_gives_them() {
    if !has_fuse() {
        return;
    }
    let (guest, _server, written) = zoos();
    let mounted = mount(&guest, "one", &["--only", "gmt"]);
    let names = mounted.names("");
    assert!(
        !names.is_empty() && names.iter().all(|it| it.starts_with("@GMT-20") && it.len() == 24),
        "{names:?}"
    );
    assert_shows(&mounted.at.join(names.last().expect("a name")), &written[2]);
}

#[test]
fn other_users_are_let_in_as_the_files_allow() {
    if !has_fuse() || !rustix::process::geteuid().is_root() {
        return;
    }
    let mut guest = Guest::new(&["-b", "1024"]);
    let _server = serve(&guest);
    // The folder of the test is closed to others, as temporary ones are.
    fs::set_permissions(guest.bench.disk.dir.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    for (name, mode) in [("open", "0100644"), ("closed", "0100600")] {
        guest.write(name, "text");
        guest.change(&[&format!("sif {name} mode {mode}")]);
    }
    guest.close();
    let cat = |mounted: &Mounted, name: &str| {
        let mut cat = Command::new("cat");
        cat.arg(mounted.at.join("1").join(name)).uid(1234).gid(1234);
        String::from_utf8(cat.output().expect("it runs").stdout).expect("text")
    };
    let mounted = mount(&guest, "one", &["--only", "epochs"]);
    assert_eq!(cat(&mounted, "open"), "");
    let mounted = mount(&guest, "two", &["--only", "epochs", "--allow-other"]);
    assert_eq!((cat(&mounted, "open").as_str(), cat(&mounted, "closed").as_str()), ("text", ""));
    guest.change(&["sif / mode 040700"]);
    guest.close();
    let mounted = mount(&guest, "three", &["--only", "gmt", "--allow-other"]);
    let newest = mounted.names("").pop().expect("an epoch");
    let opened = Command::new("cat").arg(mounted.at.join(newest).join("open")).uid(1234).gid(1234).output();
    assert!(!opened.expect("it runs").status.success());
}

#[test]
fn a_forgotten_epoch_is_gone_from_a_mount_and_the_current_state_follows_the_guest() {
    if !has_fuse() {
        return;
    }
    let mut guest = Guest::new(&["-t", "ext2", "-b", "1024"]);
    let _server = serve(&guest);
    guest.write("file", &"one\n".repeat(30_000));
    assert_eq!(guest.close(), 1);
    guest.change(&["rm file"]);
    guest.write("file", "two");
    assert_eq!(guest.close(), 2);
    let mut mounted = mount(&guest, "one", &[]);
    let file = mounted.at.join("by-epoch/1/file");
    let open = fs::File::open(&file).expect("a file");
    let folder = fs::File::open(mounted.at.join("by-epoch/1")).expect("a folder");
    assert!(open.read_at(&mut [0; 100], 0).is_ok() && fs::metadata(&file).is_ok());
    guest.bench.forget("1");
    wait_until(|| mounted.names("by-epoch") == ["2", "now"]);
    let why = open.read_at(&mut [0; 100], 50_000).expect_err("it is forgotten").raw_os_error();
    assert!(why == ESTALE || why == EIO, "{why:?}");
    drop((open, folder));
    assert_eq!(mounted.names("by-file/file"), ["1"]);
    guest.change(&["rm file"]);
    guest.write("other", "three");
    assert_eq!(guest.close(), 3);
    wait_until(|| mounted.names("by-epoch/now").contains(&"other".into()));
    assert_eq!(mounted.names("by-epoch"), ["2", "3", "now"]);
    wait_until(|| fs::metadata(&file).is_err());
    assert_eq!(mounted.interrupt(), Some(0));
}

#[test]
fn a_state_that_cannot_be_read_has_a_folder_and_a_disk_without_epochs_has_its_current_state() {
    if !has_fuse() {
        return;
    }
    let mut guest = Guest::new(&["-t", "ext2", "-b", "1024"]);
    let server = serve(&guest);
    guest.bench.write(0, 7);
    guest.bench.close(&[]);
    guest.write("file", "text");
    guest.close();
    let mut mounted = mount(&guest, "one", &[]);
    assert_eq!(mounted.names("by-epoch"), ["1", "2", "now"]);
    assert!(fs::metadata(mounted.at.join("by-epoch/1")).expect("a folder").is_dir());
    let refused =
        fs::read_dir(mounted.at.join("by-epoch/1")).and_then(|mut it| it.next().expect("an answer"));
    assert_eq!(refused.expect_err("no file system").raw_os_error(), EIO);
    assert_eq!(mounted.names("by-file/file"), ["1"]);
    assert_eq!(mounted.interrupt(), Some(0));
    drop(server);

    let image = fs::read(guest.bench.disk.beside("image")).expect("an image");
    let disk = Disk::on(&image, &["--adopt"]);
    let at = disk.beside("mounted");
    fs::create_dir(&at).expect("a folder");
    disk.assert_refused("mount", &[text(&at), "--only", "times"], 1, "keeps no epochs");
    let mut mounted = Mounted::new(quietus().args(["--json", "mount"]).arg(disk.path()).arg(&at), at);
    assert_eq!(mounted.names(""), ["by-epoch"]);
    assert_eq!(mounted.names("by-epoch"), ["now"]);
    assert_eq!(fs::read_to_string(mounted.at.join("by-epoch/now/file")).expect("a file"), "text");
    assert_eq!(mounted.interrupt(), Some(0));
}
