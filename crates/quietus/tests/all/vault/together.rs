//! Several commands at once on one vault: the first one that has opened it serves the others.

use crate::program::{signal, text, wait_until};
use crate::vault::program::{Vault, needles, noise, report};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdin, Output, Stdio};
use std::time::Duration;

/// A put of an archive that is still being written: it lasts for as long as the test wants.
pub struct Held {
    child: Child,
    archive: tar::Builder<ChildStdin>,
}

impl Held {
    /// Begins a put that has the vault open, or is served by the process that has.
    pub fn begin(vault: &Vault, name: &str) -> Self {
        let mut command = vault.command("put");
        command.args([name, "--tar", "-"]).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let archive = tar::Builder::new(child.stdin.take().expect("a pipe"));
        wait_until(|| vault.path().join("vault.sock").exists());
        Self { child, archive }
    }

    /// Adds a file. Its content is in the vault only once more comes than the pipe takes.
    fn add(&mut self, name: &str, content: &[u8]) -> std::io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        self.archive.append_data(&mut header, name, content)
    }

    pub fn end(self) -> Output {
        drop(self.archive.into_inner().expect("it takes the end"));
        self.child.wait_with_output().expect("it has ended")
    }
}

#[test]
fn puts_and_restores_are_served_by_the_put_that_has_the_vault_open() {
    let vault = Vault::new(&["--compress", "none"]);
    let mut first = Held::begin(&vault, "first");
    first.add("a", &noise(7, 3 << 20)).expect("it is read");
    let mode = std::fs::metadata(vault.path().join("vault.sock")).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let files = vault.folder("files", &(1..30).collect::<Vec<_>>());
    let mut puts: Vec<Child> =
        ["b", "c"].iter().map(|name| vault.spawn("put", &[name, text(&files)])).collect();
    assert!(puts.iter_mut().all(|put| put.wait().expect("it has ended").success()));
    assert_eq!(vault.snapshots(), 2);
    vault.assert_back("b", &files);
    assert!(vault.refused("verify", &[]).contains("needs the vault alone"));
    let ended = first.end();
    assert!(ended.status.success(), "{ended:?}");
    assert!(!vault.path().join("vault.sock").exists());
    assert_eq!(vault.snapshots(), 3);
    vault.assert_whole();
    vault.assert_back("c", &files);
    assert_eq!(vault.run("cat", &["first", "a"]).stdout, noise(7, 3 << 20));
    assert_eq!(vault.owed(), 0);
}

#[test]
fn a_command_that_is_done_first_stays_until_those_that_it_serves_are_done() {
    let vault = Vault::new(&[]);
    let mut first = Held::begin(&vault, "first");
    let mut second = Held::begin(&vault, "second");
    second.add("a", &noise(3, 3 << 20)).expect("it is read");
    first.add("b", b"short").expect("it is read");
    let pipe = first.archive.into_inner().expect("it takes the end");
    drop(pipe);
    wait_until(|| vault.snapshots() == 1);
    assert!(first.child.try_wait().expect("a child").is_none(), "it left those that it serves");
    assert!(second.end().status.success());
    assert!(first.child.wait_with_output().expect("it has ended").status.success());
    assert_eq!(vault.snapshots(), 2);
    vault.assert_whole();
}

#[test]
fn an_owner_that_is_asked_to_stop_ends_its_own_put_and_serves_the_others_to_the_end() {
    let vault = Vault::new(&["--compress", "none"]);
    let mut owner = Held::begin(&vault, "owner");
    owner.add("a", &noise(5, 3 << 20)).expect("it is read");
    let mut client = Held::begin(&vault, "client");
    client.add("b", &noise(6, 3 << 20)).expect("it is read");
    signal(&owner.child, Signal::TERM);
    std::thread::sleep(Duration::from_millis(300));
    // The put hears of it once more comes, of which the pipe takes all.
    owner.add("more", b"a little").expect("it is written");
    wait_until(|| vault.owed() == 1);
    client.add("c", &noise(8, 3 << 20)).expect("it is read");
    assert!(client.end().status.success());
    let told = owner.child.wait_with_output().expect("it has ended");
    assert_eq!(told.status.code(), Some(130), "{told:?}");
    assert_eq!(vault.snapshots(), 1);
    assert_eq!(vault.run("cat", &["client", "c"]).stdout, noise(8, 3 << 20));
    vault.sanitize();
    assert_eq!(vault.missing(&[noise(5, 64)]), 1);
}

#[test]
fn a_put_after_one_that_was_killed_stores_only_what_that_had_not_made_durable() {
    let vault = Vault::new(&["--compress", "none"]);
    let content = noise(7, 24 << 20);
    // First the process that has the vault open is killed: it loses what was not durable yet. Then a client of another process: it loses nothing.
    for (owner, stored_max) in [(None, 12 << 20), (Some("owner"), 2 << 20)] {
        let owner = owner.map(|name| Held::begin(&vault, name));
        let mut first = Held::begin(&vault, "first");
        first.add("big", &content).expect("it is read");
        first.child.kill().expect("it runs");
        first.child.wait().expect("it has ended");
        let _ = owner.map(Held::end);
        let mut second = Held::begin(&vault, "second");
        second.add("big", &content).expect("it is read");
        let second = second.end();
        let put = report(&second);
        assert!(put["new_bytes"].as_u64().is_some_and(|bytes| bytes < stored_max), "{put}");
        vault.assert_whole();
        vault.json("forget", &[&put["snapshot"].to_string()]);
        vault.sanitize();
    }
}

/// A sanitization that pauses. If it ends before it could be paused, another one follows.
fn paused(vault: &Vault, doomed: &Path) -> Child {
    loop {
        let mut sanitize = vault.spawn("sanitize", &[]);
        let mut is_paused = false;
        wait_until(|| {
            is_paused = vault.run("sanitize", &["--pause"]).status.success();
            is_paused || sanitize.try_wait().expect("a child").is_some()
        });
        if is_paused {
            return sanitize;
        }
        let gone = vault.put("doomed", doomed);
        vault.json("forget", &[&gone]);
    }
}

#[test]
fn a_sanitization_is_paused_resumed_watched_and_cancelled_by_others() {
    // Many passes, so that it takes a while.
    let vault = Vault::new(&["--compress", "none", "--policy", "gutmann-35"]);
    let doomed = vault.folder("doomed", &(100..140).collect::<Vec<_>>());
    let gone = vault.put("doomed", &doomed);
    vault.json("forget", &[&gone]);
    assert!(vault.refused("sanitize", &["--cancel"]).contains("no sanitization is under way"));
    let mut sanitize = paused(&vault, &doomed);
    std::thread::sleep(Duration::from_millis(1500));
    let condemned = || vault.json("status", &[])["condemned_bytes"].clone();
    let before = condemned();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(condemned(), before);
    assert!(sanitize.try_wait().expect("a child").is_none(), "it went on");
    assert_eq!(vault.json("sanitize", &["--cancel"])["sanitization"], "cancelled");
    assert_eq!(sanitize.wait().expect("it has ended").code(), Some(1));
    let mut sanitize = paused(&vault, &doomed);
    let watch = vault.command("sanitize").arg("--watch").stdout(Stdio::piped()).spawn().expect("it runs");
    assert!(vault.refused("sanitize", &[]).contains("a sanitization is under way"));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(vault.json("sanitize", &["--resume"])["sanitization"], "resumed");
    assert!(sanitize.wait().expect("it has ended").success());
    let watched = watch.wait_with_output().expect("it has ended");
    let receipt = report(&watched);
    assert_eq!(receipt["statement"]["owed"].as_array().map(Vec::len), Some(0), "{receipt}");
    assert_eq!(vault.missing(&needles(100..140)), 40);
}

#[test]
fn a_client_that_says_nonsense_on_the_socket_is_dropped_and_others_are_served() {
    let vault = Vault::new(&[]);
    let files = vault.folder("files", &[1, 2, 3]);
    let owner = Held::begin(&vault, "owner");
    let connect = || {
        let mut stream = UnixStream::connect(vault.path().join("vault.sock")).expect("a socket");
        let mut greeting = [0; 20];
        stream.read_exact(&mut greeting).expect("a greeting");
        assert!(greeting.ends_with(b"quietus-vault-3"));
        stream
    };
    let mut silent = Vec::new();
    for seed in 0..200 {
        let mut stream = connect();
        let nonsense = noise(seed, 4 + seed as usize * 3);
        let length = match seed % 4 {
            // A frame of gigabytes.
            0 => u32::MAX - seed as u32,
            // A client that does not come.
            1 => nonsense.len() as u32 + 9,
            _ => nonsense.len() as u32,
        };
        // The owner may hang up first.
        let _ = stream.write_all(&[&length.to_le_bytes()[..], &nonsense].concat());
        let mut first = nonsense;
        first[0] = seed as u8 % 16;
        let _ = stream.write_all(&[&(first.len() as u32).to_le_bytes()[..], &first].concat());
        if seed % 4 == 1 && silent.len() < 20 {
            silent.push(stream);
        }
    }
    vault.put("files", &files);
    vault.assert_back("files", &files);
    drop(silent);
    assert!(owner.end().status.success());
    vault.assert_whole();
}
