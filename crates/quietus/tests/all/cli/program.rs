//! The program as a user runs it, on a disk of its own.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// A disk in a directory of its own.
pub struct Disk {
    pub dir: tempfile::TempDir,
}

impl Disk {
    /// A disk made with `args`.
    pub fn new(args: &[&str]) -> Self {
        Self::made(tempfile::tempdir().expect("a directory"), args)
    }

    /// A disk made with `args` in `dir`.
    pub fn made(dir: tempfile::TempDir, args: &[&str]) -> Self {
        let disk = Self { dir };
        disk.json("create", args);
        disk
    }

    pub fn path(&self) -> PathBuf {
        self.beside("disk")
    }

    /// The path with this name beside it.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn run(&self, command: &str, args: &[&str]) -> Output {
        let mut quietus = Command::new(env!("CARGO_BIN_EXE_quietus"));
        quietus.args(["--json", command]).arg(self.path()).args(args);
        crate::schemas::checked(quietus.output().expect("it runs"))
    }

    pub fn json(&self, command: &str, args: &[&str]) -> Value {
        let output = self.run(command, args);
        assert!(output.status.success(), "{output:?}");
        crate::schemas::valid(std::str::from_utf8(&output.stdout).expect("text"))
    }

    pub fn serve(&self, args: &[&str]) -> Server {
        let mut quietus = Command::new(env!("CARGO_BIN_EXE_quietus"));
        let serve = quietus.arg("serve").arg(self.path()).args(args).stdout(Stdio::piped());
        let child = serve.spawn().expect("it runs");
        let mut server = Server(child);
        let mut line = String::new();
        let out = server.0.stdout.as_mut().expect("a pipe");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).expect("a line");
        assert!(line.starts_with("serving disk at nbd+unix://"), "{line}");
        server
    }
}

/// A server of it, killed when it is dropped.
pub struct Server(pub Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
