//! A root in a TPM: one in software, `swtpm`, which `lab/setup test` installs.

use super::{BLOCK, assert_filled, client, fill, purges, serve, trim};
use crate::program::{Disk, Server, quietus, signal, wait_until};
use rustix::process::Signal;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// A way to a TPM that answers for it that it is busy, while told to.
struct Crowd {
    socket: PathBuf,
    is_busy: Arc<AtomicBool>,
}

/// TPM_RC_RETRY.
const RETRY: [u8; 10] = [0x80, 0x01, 0, 0, 0, 10, 0, 0, 0x09, 0x22];

impl Crowd {
    fn before(tpm: &Swtpm) -> Self {
        let (socket, behind) = (tpm.dir.path().join("crowd"), tpm.dir.path().join("socket"));
        let listener = UnixListener::bind(&socket).expect("a socket");
        let is_busy = Arc::<AtomicBool>::default();
        let busy = Arc::clone(&is_busy);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, tpm) = (client.expect("a client"), UnixStream::connect(&behind).expect("a TPM"));
                // The client has gone.
                let _ = carry(&client, &tpm, &busy);
            }
        });
        Self { socket, is_busy }
    }

    fn root(&self, index: u32) -> String {
        format!("tpm:socket:{}:{index:#010x}", self.socket.display())
    }
}

fn carry(mut client: &UnixStream, mut tpm: &UnixStream, busy: &AtomicBool) -> io::Result<()> {
    loop {
        let command = message(client)?;
        let response = if busy.load(Ordering::Relaxed) {
            RETRY.to_vec()
        } else {
            tpm.write_all(&command)?;
            message(tpm)?
        };
        client.write_all(&response)?;
    }
}

/// A command or a response: its length stands in bytes 2 to 5.
fn message(mut from: &UnixStream) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 10];
    from.read_exact(&mut bytes)?;
    let len = u32::from_be_bytes(*bytes[2..].first_chunk().expect("a length"));
    bytes.resize(len as usize, 0);
    from.read_exact(&mut bytes[10..])?;
    Ok(bytes)
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

#[test]
fn a_start_waits_for_a_tpm_that_is_busy_and_ends_at_once_when_it_is_told_to() {
    let tpm = Swtpm::start();
    let crowd = Crowd::before(&tpm);
    let disk = made(&crowd.root(0x0180_0150));
    let server = serve(&disk);
    fill(&mut client(&server), 0, 0x41, 4 * BLOCK);
    server.stop();
    crowd.is_busy.store(true, Ordering::Relaxed);
    let said = disk.beside("said");
    let waits = || {
        let mut serve = disk.server(&["--detect", "off"]);
        serve.stdout(Stdio::piped()).stderr(File::create(&said).expect("a file"));
        let child = serve.spawn().expect("it runs");
        wait_until(|| told(&said).contains("trying again"));
        child
    };
    let mut ended = waits();
    let begun = Instant::now();
    signal(&ended, Signal::INT);
    assert_eq!(ended.wait().expect("it ends").code(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(20), "it waited on");
    let mut child = waits();
    // More than one try.
    std::thread::sleep(Duration::from_secs(3));
    assert!(child.try_wait().expect("a child").is_none(), "{}", told(&said));
    assert_eq!(told(&said).matches("the TPM is busy").count(), 1, "{}", told(&said));
    crowd.is_busy.store(false, Ordering::Relaxed);
    let mut line = [0; 12];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut line).expect("a line");
    assert_eq!(&line, b"serving disk");
    let server = Server { child, socket: disk.path().join("nbd.sock") };
    assert_filled(&mut client(&server), 0, 0x41, 4 * BLOCK);
    server.stop();
}

fn told(said: &Path) -> String {
    std::fs::read_to_string(said).expect("text")
}
