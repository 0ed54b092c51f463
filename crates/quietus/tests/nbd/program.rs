//! The server as the program runs it.

use crate::client::*;
use crate::tls::{Keys, secure};
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use tempfile::TempDir;

/// A disk of 1 MiB in a directory of its own.
struct Disk(TempDir);

impl Disk {
    fn new() -> Self {
        let disk = Self(tempfile::tempdir().unwrap());
        let made = quietus().arg("create").arg(disk.path()).args(["--size", "1M"]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        disk
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("disk")
    }

    fn serve(&self, args: &[&str]) -> Served {
        let mut command = quietus();
        command.env("QUIETUS_LOG", "info").arg("serve").arg(self.path()).args(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("serving disk at "), "{line}");
        Served { child, log, socket: self.path().join("nbd.sock") }
    }
}

fn quietus() -> Command {
    Command::new(env!("CARGO_BIN_EXE_quietus"))
}

struct Served {
    child: Child,
    log: Lines<BufReader<ChildStderr>>,
    socket: PathBuf,
}

impl Served {
    fn connect(&self) -> Client<UnixStream> {
        let mut client = Client::new(UnixStream::connect(&self.socket).unwrap());
        client.greet();
        client
    }

    /// Reloads, and returns what was logged meanwhile.
    fn reload(&mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
        let mut said = String::new();
        loop {
            let line = self.log.next().unwrap().unwrap();
            if line.contains("reloaded") {
                return said;
            }
            said.push_str(&line);
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_reload_takes_new_keys_and_refuses_broken_ones() {
    let (disk, old, new) = (Disk::new(), Keys::new(), Keys::new());
    let [certificate, key] = ["server.pem", "server.key"].map(|name| old.path(name));
    let mut served =
        disk.serve(&["--tls-cert", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()]);
    let mut early = secure(served.connect(), old.client(false));
    early.agree(Style::Structured);

    let whole = std::fs::read(&key).unwrap();
    std::fs::write(&key, "broken").unwrap();
    let said = served.reload();
    assert!(said.contains("server.key") && said.contains("the old certificates and key stay"), "{said}");
    secure(served.connect(), old.client(false)).agree(Style::Structured);
    std::fs::write(&key, whole).unwrap();

    new.replace(&old);
    assert_eq!(served.reload(), "");
    secure(served.connect(), new.client(false)).agree(Style::Structured);
    assert!(early.read(0, 0, 1).is_ok());
    let mut late = secure(served.connect(), old.client(false));
    assert!(late.stream.write_all(&option_bytes(OPT_LIST, &[])).is_err());
}
