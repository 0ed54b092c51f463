//! Facts gathered from the host that runs the tests.

use super::*;
use std::collections::HashSet;
use std::fs;
use std::process::Command;

/// The layers of `path`, by kind.
fn file_facts(path: &Path) -> FileFacts {
    match gather(&Roots::default(), path).expect("it can be looked at").layers.into_iter().next() {
        Some(Layer::File(file)) => file,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_file_system_of_a_real_file_is_the_one_that_the_system_names() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let told = Command::new("stat").args(["-f", "-c", "%T"]).arg(file.path()).output();
    let Ok(told) = told else { return println!("skipped: there is no stat") };
    let told = String::from_utf8_lossy(&told.stdout).trim().to_owned();
    let found = file_facts(file.path()).file_system;
    let names = if told == "ext2/ext3" { "ext2/ext3/ext4".into() } else { told };
    assert!(names.split('/').any(|name| name == found), "{found} is not {names}");
}

#[test]
fn memory_is_seen_to_be_memory() {
    let Ok(file) = tempfile::NamedTempFile::new_in("/dev/shm") else {
        return println!("skipped: there is no /dev/shm");
    };
    let facts = gather(&Roots::default(), file.path()).expect("it can be looked at");
    assert_eq!(file_facts(file.path()).file_system, "tmpfs");
    assert!(facts.unknown.is_empty(), "{facts:?}");
}

#[test]
fn what_is_not_there_is_an_error() {
    assert_eq!(inspect(Path::new("/nowhere/at/all")).expect_err("nothing").kind(), io::ErrorKind::NotFound);
}

/// A file system of its own, mounted through a loop device.
struct Mounted {
    folder: tempfile::TempDir,
    at: PathBuf,
}

impl Mounted {
    /// `None`, with a message, where this host does not allow that.
    fn new(make: &[&str], options: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a directory");
        let (image, at) = (folder.path().join("image"), folder.path().join("mnt"));
        fs::create_dir(&at).expect("a folder");
        fs::File::create(&image).and_then(|file| file.set_len(320 << 20)).expect("an image");
        let mut mount = Command::new("mount");
        mount.arg("-o").arg(format!("loop{options}")).arg(&image).arg(&at);
        let made = run(Command::new(make[0]).args(&make[1..]).arg(&image)).and_then(|()| run(&mut mount));
        made.map_err(|why| println!("skipped: {why}")).ok().map(|()| Self { folder, at })
    }

    fn file(&self, name: &str) -> PathBuf {
        let path = self.at.join(name);
        fs::write(&path, vec![7; 1 << 20]).expect("a file");
        run(Command::new("sync").arg(&path)).expect("a sync");
        path
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run(Command::new("umount").arg(&self.at)).expect("it was mounted");
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {}", error.trim())) }
}

fn found(path: &Path) -> HashSet<Code> {
    inspect(path).expect("it can be looked at").findings.iter().map(|finding| finding.code).collect()
}

#[test]
fn btrfs_is_found_and_nocow_and_the_loop_device_below() {
    let Some(btrfs) = Mounted::new(&["mkfs.btrfs", "-q"], "") else { return };
    assert!(found(&btrfs.file("plain")).contains(&Code::CopyOnWriteFileSystem));
    let marked = btrfs.at.join("marked");
    fs::write(&marked, []).expect("a file");
    run(Command::new("chattr").arg("+C").arg(&marked)).expect("chattr");
    btrfs.file("marked");
    assert!(found(&marked).contains(&Code::CopyOnWriteDisabled));
    let layers = gather(&Roots::default(), &marked).expect("facts").layers;
    assert!(matches!(&layers[1], Layer::Device(device) if device.kind == DeviceKind::Loop), "{layers:?}");
    let image = real(&btrfs.folder.path().join("image"));
    assert!(matches!(&layers[2], Layer::File(file) if file.path == image), "{layers:?}");
}

#[test]
fn a_snapshot_shares_the_extents_of_a_nocow_file() {
    let Some(btrfs) = Mounted::new(&["mkfs.btrfs", "-q"], ",nodatacow") else { return };
    let file = btrfs.file("file");
    assert!(found(&file).contains(&Code::CopyOnWriteDisabled));
    let snapshot = btrfs.at.join("snapshot");
    run(Command::new("btrfs").args(["subvolume", "snapshot"]).arg(&btrfs.at).arg(&snapshot))
        .expect("a snapshot");
    let codes = found(&file);
    assert!(
        codes.contains(&Code::SharedExtents) && codes.contains(&Code::CopyOnWriteFileSystem),
        "{codes:?}"
    );
}

#[test]
fn xfs_shares_extents_after_a_reflink_and_not_before() {
    let Some(xfs) = Mounted::new(&["mkfs.xfs", "-q", "-m", "reflink=1"], "") else { return };
    let file = xfs.file("file");
    assert_eq!((file_facts(&file).reflink, file_facts(&file).shared_extents), (Some(true), Some(false)));
    assert!(found(&file).contains(&Code::ReflinksPossible));
    let copy = xfs.at.join("copy");
    run(Command::new("cp").arg("--reflink=always").arg(&file).arg(&copy)).expect("a reflink");
    assert!(found(&file).contains(&Code::SharedExtents));
}

#[test]
fn xfs_without_reflinks_is_known_to_have_none() {
    let Some(xfs) = Mounted::new(&["mkfs.xfs", "-q", "-m", "reflink=0"], "") else { return };
    assert_eq!(file_facts(&xfs.file("file")).reflink, Some(false));
}

#[test]
fn ext4_with_a_data_journal_is_found() {
    let Some(ext4) = Mounted::new(&["mkfs.ext4", "-q"], ",data=journal") else { return };
    assert!(found(&ext4.file("file")).contains(&Code::DataJournal));
    let Some(ordered) = Mounted::new(&["mkfs.ext4", "-q"], "") else { return };
    assert!(!found(&ordered.file("file")).contains(&Code::DataJournal));
}
