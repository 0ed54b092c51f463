//! Disks that are only to be read.

use crate::program::{Disk, Server, error, quietus, tree};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The regular files below `dir` that process `pid` has open for writing.
fn open_for_writing(pid: u32, dir: &Path) -> Vec<PathBuf> {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives").flatten();
    let writes = |fd: &str| {
        let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or_default();
        u32::from_str_radix(flags.trim(), 8).is_ok_and(|flags| flags & 3 != 0)
    };
    let open = open.filter(|fd| writes(&fd.file_name().to_string_lossy()));
    let files = open.filter_map(|fd| std::fs::read_link(fd.path()).ok());
    files.filter(|file| file.starts_with(dir)).collect()
}

/// A server of the disk in `dir` at `socket`, for reading only.
fn serve(dir: &Path, socket: PathBuf) -> Server {
    let nbd = format!("unix:{}", socket.display());
    Server::start(quietus().arg("serve").arg(dir).args(["--read-only", "--nbd", &nbd]), socket)
}

/// A disk in place, and one above an image, both with changes.
fn disks() -> [Disk; 2] {
    let overlay = Disk::on(&[7; 1 << 20], &["--store", "overlay", "--base"]);
    let disks = [Disk::new(&["--size", "1M"]), overlay];
    for disk in &disks {
        disk.json("purge", &["0+8192"]);
        disk.json("shred", &["--now"]);
    }
    disks
}

#[test]
fn a_disk_that_is_only_read_has_no_file_open_for_writing_and_changes_none() {
    for disk in disks() {
        let before = tree(&disk.path());
        let [one, other] = ["one", "other"].map(|name| serve(&disk.path(), disk.beside(name)));
        for server in [&one, &other] {
            assert_eq!(open_for_writing(server.child.id(), &disk.path()), Vec::<PathBuf>::new());
        }
        assert_eq!(disk.json("status", &[])["served"], true);
        let (_, error) = disk.refused("serve", &[]);
        assert!(error.contains("in use by process"), "{error}");
        one.stop();
        other.stop();
        // To look at a disk changes nothing either.
        assert_eq!(disk.json("status", &[])["served"], false);
        assert_eq!(disk.json("verify", &[])["ok"], true);
        assert!(tree(&disk.path()) == before, "something was written");
    }
}

/// A read-only view of a directory, until it is dropped.
pub struct View(pub PathBuf);

impl View {
    pub fn of(dir: &Path, at: PathBuf) -> Option<Self> {
        std::fs::create_dir(&at).expect("a directory");
        let mount = |args: &[&str]| Command::new("mount").args(args).arg(&at).output();
        let bound = mount(&["--bind", dir.to_str()?]).ok().filter(|it| it.status.success());
        bound?;
        let view = Self(at.clone());
        mount(&["-o", "remount,ro,bind"]).ok().filter(|it| it.status.success()).map(|_| view)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_disk_on_a_read_only_mount_is_served_and_looked_at() {
    for disk in disks() {
        let Some(view) = View::of(disk.dir.path(), disk.beside("view")) else {
            return eprintln!("skipped: nothing can be mounted here");
        };
        let dir = view.0.join("disk");
        let run = |args: &[&str]| quietus().args(args).arg(&dir).output().expect("it runs");
        for _ in ["with a lock", "without"] {
            serve(&dir, disk.beside("socket")).stop();
            for command in ["status", "verify", "prove"] {
                let output = run(&[command]);
                assert!(output.status.success(), "{command}: {output:?}");
            }
            std::fs::remove_file(disk.path().join("lock")).unwrap_or_default();
        }
        let (_, error) = error(&run(&["serve", "--read-only"]));
        assert!(error.contains("name a socket elsewhere"), "{error}");
        let writer = run(&["serve"]);
        assert_eq!(writer.status.code(), Some(1), "{writer:?}");
    }
}
