//! A root in a TPM: one in software, `swtpm`, which `lab/setup test` installs.

use super::{BLOCK, assert_filled, client, fill, purges, serve, trim};
use crate::program::{Disk, quietus};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A TPM whose state outlives its process.
struct Swtpm {
    dir: TempDir,
    process: Child,
}

impl Swtpm {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let process = process(dir.path());
        Self { dir, process }
    }

    /// Cuts its power, and starts it again with what it has stored.
    fn restart(&mut self) {
        self.stop();
        self.process = process(self.dir.path());
    }

    fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn root(&self, index: u32) -> String {
        format!("tpm:socket:{}:{index:#010x}", self.dir.path().join("socket").display())
    }
}

impl Drop for Swtpm {
    fn drop(&mut self) {
        self.stop();
    }
}

fn process(dir: &Path) -> Child {
    let socket = dir.join("socket");
    let _ = std::fs::remove_file(&socket);
    let process = Command::new("swtpm")
        .args(["socket", "--tpm2", "--flags", "not-need-init,startup-clear"])
        .arg(format!("--tpmstate=dir={}", dir.display()))
        .arg(format!("--server=type=unixio,path={}", socket.display()))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("swtpm is installed: see lab/setup");
    let begun = Instant::now();
    while UnixStream::connect(&socket).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "swtpm takes connections");
        std::thread::sleep(Duration::from_millis(5));
    }
    process
}

fn made(root: &str) -> Disk {
    super::made(&["--size", "1M", "--root", root])
}

#[test]
fn a_disk_with_its_root_in_a_tpm_is_served_purged_and_proved_and_outlives_the_power() {
    let mut tpm = Swtpm::start();
    let root = tpm.root(0x0180_0150);
    let disk = made(&root);
    assert!(!disk.path().join("root").exists());
    let server = serve(&disk);
    let mut of = client(&server);
    fill(&mut of, 0, 0x41, 20 * BLOCK);
    trim(&mut of, 8, 4);
    disk.json("shred", &["--now"]);
    drop(of);
    // Dropping the server kills it.
    drop(server);
    tpm.restart();
    let server = serve(&disk);
    let mut of = client(&server);
    assert_filled(&mut of, 0, 0x41, 8 * BLOCK);
    assert_filled(&mut of, 8, 0, 4 * BLOCK);
    trim(&mut of, 0, 1);
    disk.json("shred", &["--now"]);
    drop(of);
    server.stop();
    assert_eq!(purges(&disk), 3);
    let proof = disk.shown("prove", &[]);
    assert!(proof.contains("no key of dead content is left") && proof.contains(&root), "{proof}");
    assert_eq!(disk.json("verify", &["--read-data"])["ok"], true);
    let life = &disk.json("status", &[])["root_life_ms"];
    assert!(life.as_u64() > Some(365 * 86_400_000), "{life}");
}

#[test]
fn without_its_tpm_a_disk_is_lost_and_two_disks_have_two_places() {
    let mut tpm = Swtpm::start();
    let (root, next) = (tpm.root(0x0180_0150), tpm.root(0x0180_0152));
    let (disk, _other) = (made(&root), made(&next));
    let mut create = quietus();
    create
        .arg("create")
        .arg(disk.beside("third"))
        .args(["--store", "sealed", "--size", "1M", "--root", &root]);
    let output = create.arg("--no-credential").output().expect("it runs");
    let (status, said) = crate::program::error(&output);
    assert!(status == Some(1) && said.contains("exists already"), "{said}");
    tpm.stop();
    disk.assert_refused("shred", &["--now"], 1, "cannot connect to the TPM");
    tpm.restart();
    drop(serve(&disk));
}
