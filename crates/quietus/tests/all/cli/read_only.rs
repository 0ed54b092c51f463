//! Disks that are only to be read.

use crate::cli::program::{Disk, Server};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// Every file in `dir`, with its content.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let found = std::fs::read_dir(dir).expect("a directory").flatten().map(|it| it.path());
    let mut files: Vec<_> = found.filter(|it| it.is_file()).map(|it| (it.clone(), content(&it))).collect();
    files.sort();
    files
}

fn content(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("a file")
}

/// A server of the disk in `dir` at `socket`, for reading only.
fn serve(dir: &Path, socket: &Path) -> Server {
    let mut quietus = Command::new(env!("CARGO_BIN_EXE_quietus"));
    let nbd = format!("unix:{}", socket.display());
    let quietus = quietus.arg("serve").arg(dir).args(["--read-only", "--nbd", &nbd]);
    let mut server = Server(quietus.stdout(Stdio::piped()).spawn().expect("it runs"));
    let mut line = String::new();
    let out = server.0.stdout.as_mut().expect("a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).expect("a line");
    assert!(line.starts_with("serving disk at nbd+unix://"), "{line}");
    server
}

fn end(mut server: Server) {
    let pid = rustix::process::Pid::from_child(&server.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it lives");
    assert!(server.0.wait().expect("it ends").success());
}

/// A disk in place, and one above an image, both with changes.
fn disks() -> [Disk; 2] {
    let dir = tempfile::tempdir().expect("a directory");
    let golden = dir.path().join("golden");
    std::fs::write(&golden, vec![7; 1 << 20]).expect("an image");
    let base = golden.to_str().expect("text").to_string();
    let disks = [Disk::new(&["--size", "1M"]), Disk::made(dir, &["--store", "overlay", "--base", &base])];
    for disk in &disks {
        disk.json("purge", &["0+8192"]);
        disk.json("shred", &["--now"]);
    }
    disks
}

#[test]
fn a_disk_that_is_only_read_has_no_file_open_for_writing_and_changes_none() {
    for disk in disks() {
        let before = files(&disk.path());
        let [one, other] = ["one", "other"].map(|name| serve(&disk.path(), &disk.beside(name)));
        for server in [&one, &other] {
            assert_eq!(open_for_writing(server.0.id(), &disk.path()), Vec::<PathBuf>::new());
        }
        assert_eq!(disk.json("status", &[])["served"], true);
        let writer = disk.run("serve", &[]);
        let error = String::from_utf8_lossy(&writer.stderr).into_owned();
        assert!(error.contains("in use by process"), "{error}");
        end(one);
        end(other);
        // To look at a disk changes nothing either.
        assert_eq!(disk.json("status", &[])["served"], false);
        assert_eq!(disk.json("verify", &[])["ok"], true);
        assert!(files(&disk.path()) == before, "something was written");
    }
}

#[test]
fn a_server_that_writes_keeps_readers_out() {
    let disk = Disk::new(&["--size", "1M"]);
    let server = disk.serve(&[]);
    let reader = disk.run("serve", &["--read-only"]);
    let error = String::from_utf8_lossy(&reader.stderr).into_owned();
    assert!(error.contains(&format!("in use by process {}", server.0.id())), "{error}");
}

#[test]
fn a_medium_that_was_cut_off_below_a_reader_is_named() {
    let disk = Disk::new(&["--size", "1M"]);
    let server = serve(&disk.path(), &disk.beside("socket"));
    let medium = std::fs::File::options().write(true).open(disk.path().join("data"));
    medium.and_then(|it| it.set_len(4096)).expect("it is ours");
    let latched = disk.json("status", &[])["latched"].clone();
    assert!(latched.as_str().is_some_and(|it| it.contains("truncated")), "{latched}");
    drop(server);
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
        let quietus = |args: &[&str]| {
            let mut quietus = Command::new(env!("CARGO_BIN_EXE_quietus"));
            quietus.args(args).arg(&dir).output().expect("it runs")
        };
        for _ in ["with a lock", "without"] {
            end(serve(&dir, &disk.beside("socket")));
            for command in ["status", "verify", "prove"] {
                let output = quietus(&[command]);
                assert!(output.status.success(), "{command}: {output:?}");
            }
            std::fs::remove_file(disk.path().join("lock")).unwrap_or_default();
        }
        let refused = quietus(&["serve", "--read-only"]);
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(error.contains("name a socket elsewhere"), "{error}");
        let writer = quietus(&["serve"]);
        assert_eq!(writer.status.code(), Some(1), "{writer:?}");
    }
}
