//! The program as a user runs it, on a disk of its own.

use crate::nbd::client::Client;
use crate::schemas;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub fn quietus() -> Command {
    Command::new(env!("CARGO_BIN_EXE_quietus"))
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// What a command has told people.
pub fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a command, which has to succeed; returns what it told people.
#[track_caller]
pub fn succeeds(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{command:?}: {output:?}");
    told(&output)
}

/// The exit status of a command, and its error.
pub fn error(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

pub fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it lives");
}

#[track_caller]
pub fn wait_until(mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed().as_secs() < 60, "not after a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Makes a file that only its owner may read, as the file of a credential has to be.
pub fn private(path: &Path, content: &[u8]) {
    std::fs::write(path, content).expect("a file");
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).expect("a mode");
}

pub fn holds(path: &Path, needle: &[u8]) -> bool {
    std::fs::read(path).expect("a file").windows(needle.len()).any(|window| window == needle)
}

/// Copies the files of a directory to a new one.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory").map(|it| it.expect("an entry")) {
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
    }
}

/// All directories and files below `dir`, and the content of each file.
pub fn tree(dir: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut all = BTreeMap::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(at) = pending.pop() {
        for entry in std::fs::read_dir(dir.join(&at)).expect("a directory").map(|it| it.expect("an entry")) {
            let (path, at) = (entry.path(), at.join(entry.file_name()));
            if path.is_dir() {
                pending.push(at.clone());
                all.insert(at, None);
            } else if path.is_file() {
                all.insert(at, Some(std::fs::read(&path).expect("a file")));
            }
        }
    }
    all
}

/// Writes to a file behind the back of the program.
pub fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(path).expect("a file");
    file.write_all_at(bytes, at).expect("a write");
}

/// Flips a bit of this byte of a file.
pub fn flip(path: &Path, at: u64) {
    let byte = std::fs::read(path).expect("a file")[at as usize];
    overwrite(path, at, &[byte ^ 0x10]);
}

/// Runs a tool of the system; `None`, with a message, where the tool is not installed.
pub fn tool(program: &str, args: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(args).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").env("MKE2FS_CONFIG", "/dev/null");
    match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: no {program}");
            None
        }
        output => {
            let output = output.expect("it runs");
            assert!(output.status.success(), "{program} {args:?}: {output:?}");
            Some(told(&output))
        }
    }
}

/// A terminal: the person's end, and a maker of the program's ends.
pub fn terminal() -> (File, impl Fn() -> Stdio) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&person).and_then(|()| unlockpt(&person)).expect("it is ours");
    let name = ptsname(&person, Vec::new()).expect("a name").into_string().expect("text");
    let other =
        move || Stdio::from(File::options().read(true).write(true).open(&name).expect("the other end"));
    (person.into(), other)
}

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

    /// A disk made with `args` and, behind the last one, an image of these bytes, which lies beside it.
    pub fn on(content: &[u8], args: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let image = dir.path().join("image");
        std::fs::write(&image, content).expect("an image");
        Self::made(dir, &[args, &[text(&image)]].concat())
    }

    pub fn path(&self) -> PathBuf {
        self.beside("disk")
    }

    /// The path with this name beside it.
    pub fn beside(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn run(&self, command: &str, args: &[&str]) -> Output {
        let output = quietus().args(["--json", command]).arg(self.path()).args(args).output();
        schemas::checked(output.expect("it runs"))
    }

    pub fn json(&self, command: &str, args: &[&str]) -> Value {
        let output = self.run(command, args);
        assert!(output.status.success(), "{output:?}");
        schemas::valid(std::str::from_utf8(&output.stdout).expect("text"))
    }

    /// The exit status of a command that fails, and its error.
    pub fn refused(&self, command: &str, args: &[&str]) -> (Option<i32>, String) {
        let output = self.run(command, args);
        assert!(!output.status.success(), "{command} {args:?}: {output:?}");
        error(&output)
    }

    /// Checks that a command fails with this exit status, and that its error says `why`.
    #[track_caller]
    pub fn assert_refused(&self, command: &str, args: &[&str], status: i32, why: &str) {
        let (found, said) = self.refused(command, args);
        assert!(found == Some(status) && said.contains(why), "{command} {args:?}: {found:?}, {said}");
    }

    /// What a command tells people.
    pub fn shown(&self, command: &str, args: &[&str]) -> String {
        succeeds(quietus().arg(command).arg(self.path()).args(args))
    }

    /// The command that serves the disk.
    pub fn server(&self, args: &[&str]) -> Command {
        let mut serve = quietus();
        serve.arg("serve").arg(self.path()).args(args);
        serve
    }

    pub fn serve(&self, args: &[&str]) -> Server {
        Server::start(&mut self.server(args), self.path().join("nbd.sock"))
    }
}

/// A server, killed when it is dropped.
pub struct Server {
    pub child: Child,
    /// Where its clients connect.
    pub socket: PathBuf,
}

impl Server {
    /// Begins to serve; the first line that the server prints.
    pub fn spawn(serve: &mut Command, socket: PathBuf) -> (Self, String) {
        let mut server = Self { child: serve.stdout(Stdio::piped()).spawn().expect("it runs"), socket };
        let mut line = String::new();
        let out = server.child.stdout.as_mut().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        (server, line)
    }

    pub fn start(serve: &mut Command, socket: PathBuf) -> Self {
        let (server, line) = Self::spawn(serve, socket);
        assert!(line.starts_with("serving disk at nbd"), "{line}");
        server
    }

    /// A client that has greeted.
    pub fn connect(&self) -> Client<UnixStream> {
        let mut client = Client::new(UnixStream::connect(&self.socket).expect("a server"));
        client.greet();
        client
    }

    /// Stops the server in good order.
    pub fn stop(mut self) {
        signal(&self.child, Signal::TERM);
        assert!(self.child.wait().expect("it ends").success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
