//! The server as the program runs it.

use crate::nbd::client::*;
use crate::nbd::protocol::ending::{flood, hears_the_end, too_long};
use crate::nbd::protocol::tls::{Keys, secure};
use crate::program::{Disk, Server, error, signal, text};
use rustix::process::Signal;
use std::io::{self, BufRead, BufReader, Lines, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

fn disk() -> Disk {
    Disk::new(&["--size", "1M"])
}

/// The log of a server.
pub type Log = Lines<BufReader<ChildStderr>>;

/// A server of the disk, and its log.
pub fn logged(disk: &Disk, args: &[&str]) -> (Server, Log) {
    let mut serve = disk.server(args);
    serve.env("QUIETUS_LOG", "info").stderr(Stdio::piped());
    let mut server = Server::start(&mut serve, disk.path().join("nbd.sock"));
    let log = BufReader::new(server.child.stderr.take().unwrap()).lines();
    (server, log)
}

/// Reloads, and returns what was logged of it.
fn reload(server: &Server, log: &mut Log) -> String {
    signal(&server.child, Signal::HUP);
    let mut said = String::new();
    while !(said.contains("reload complete") || said.contains("reload refused")) {
        said += &(log.next().unwrap().unwrap() + "\n");
    }
    said
}

/// What is read from one place and written to another.
struct Pipes(ChildStdout, ChildStdin);

impl Read for Pipes {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

impl Write for Pipes {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.1.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.1.flush()
    }
}

/// A whole session, to its end.
fn session<S: Read + Write>(client: &mut Client<S>) {
    let payload: Vec<u8> = (0..1 << 20).map(|n| (n >> 4) as u8).collect();
    client.begin(Style::Structured);
    assert_eq!(client.write(0, 0, &payload), 0);
    assert!(client.read(0, 0, payload.len()) == Ok(payload));
    client.say_request(DISC, 0, 0, 0, 0);
    assert!(client.is_closed());
}

#[test]
fn a_client_at_a_socket_for_input_and_output_is_served_to_its_end() {
    let disk = disk();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = disk.server(&["--nbd", "stdio"]);
    command.stdin(OwnedFd::from(theirs.try_clone().unwrap())).stdout(OwnedFd::from(theirs));
    let mut child = command.spawn().unwrap();
    drop(command);
    session(&mut Client::new(ours));
    assert!(child.wait().unwrap().success());
}

/// Serves a client over a pair of pipes; after `talk` the server has to end well.
fn at_pipes(talk: impl FnOnce(&mut Client<Pipes>)) {
    let disk = disk();
    let mut command = disk.server(&["--nbd", "stdio"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let pipes = Pipes(child.stdout.take().unwrap(), child.stdin.take().unwrap());
    talk(&mut Client { stream: pipes, style: Style::Simple });
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_client_at_a_pair_of_pipes_is_served_to_its_end() {
    at_pipes(session);
}

#[test]
fn a_client_at_a_pair_of_pipes_that_says_much_behind_a_refused_header_hears_the_refusal() {
    at_pipes(|client| {
        client.begin(Style::Structured);
        flood(client, too_long(Style::Structured));
        assert_eq!(client.outcome(5), EINVAL);
        assert!(hears_the_end(client));
    });
}

#[test]
fn a_client_that_hangs_up_its_pipes_ends_the_server() {
    at_pipes(|client| {
        client.begin(Style::Structured);
        client.say_request(READ, 0, 1, 0, 1 << 20);
    });
}

#[test]
fn input_and_output_without_a_client_are_refused() {
    let disk = disk();
    let output = disk.server(&["--nbd", "stdio"]).stdin(Stdio::null()).output().unwrap();
    let (status, error) = error(&output);
    let why = "--nbd stdio: standard input and output are neither";
    assert!(status == Some(1) && error.contains(why), "{error}");
}

/// A server that gets this socket as a service manager passes it.
fn passed(disk: &Disk, socket: OwnedFd) -> Child {
    let server = disk.server(&[]);
    let mut command = Command::new("/bin/sh");
    let script = "LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" \"$@\" 3<&0 </dev/null";
    command.arg("-c").arg(script).arg(server.get_program()).args(server.get_args());
    command.stdin(socket).stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_connection_from_the_service_manager_is_served_to_its_end() {
    let disk = disk();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut child = passed(&disk, OwnedFd::from(theirs));
    session(&mut Client::new(ours));
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_socket_from_the_service_manager_is_listened_at() {
    let disk = disk();
    let path = disk.beside("passed.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let mut child = passed(&disk, OwnedFd::from(listener));
    session(&mut Client::new(UnixStream::connect(&path).unwrap()));
    signal(&child, Signal::TERM);
    assert!(child.wait().unwrap().success());
    assert!(!disk.path().join("nbd.sock").exists());
}

#[test]
fn the_service_manager_is_told_of_the_start_and_of_the_stop() {
    let disk = disk();
    let path = disk.beside("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    let told = || {
        let mut buf = [0; 256];
        let len = manager.recv(&mut buf).unwrap();
        String::from_utf8_lossy(&buf[..len]).trim_end().to_string()
    };
    let mut child = disk.server(&[]).env("NOTIFY_SOCKET", &path).stdout(Stdio::null()).spawn().unwrap();
    assert_eq!(told(), "READY=1");
    signal(&child, Signal::TERM);
    assert_eq!(told(), "STOPPING=1");
    assert!(child.wait().unwrap().success());
}

#[test]
fn extended_headers_are_offered_unless_turned_off() {
    let disk = disk();
    assert_eq!(disk.serve(&[]).connect().verdict(OPT_EXTENDED, &[]), ACK);
    let served = disk.serve(&["--extended-headers", "no"]);
    let mut client = served.connect();
    assert_eq!(client.verdict(OPT_EXTENDED, &[]), ERR_UNSUP);
}

#[test]
fn a_reload_takes_new_keys_and_refuses_broken_ones() {
    let (disk, old, new) = (disk(), Keys::new(), Keys::new());
    let [certificate, key] = ["server.pem", "server.key"].map(|name| old.path(name));
    let (served, mut log) = logged(&disk, &["--tls-cert", text(&certificate), "--tls-key", text(&key)]);
    let mut early = secure(served.connect(), old.client(false));
    early.agree(Style::Structured);

    let whole = std::fs::read(&key).unwrap();
    std::fs::write(&key, "broken").unwrap();
    let said = reload(&served, &mut log);
    assert!(said.contains("server.key") && !said.contains("reload complete"), "{said}");
    assert!(said.contains("reload refused: the certificates and the key"), "{said}");
    // A log that no terminal shows has no colours.
    assert!(!said.contains('\x1b'), "{said:?}");
    secure(served.connect(), old.client(false)).agree(Style::Structured);
    std::fs::write(&key, whole).unwrap();

    let behaviour = disk.path().join("disk.toml");
    let toml = std::fs::read_to_string(&behaviour).unwrap();
    std::fs::write(&behaviour, toml.replace("clear", "polish")).unwrap();
    let said = reload(&served, &mut log);
    assert!(said.contains("polish") && said.contains("reload refused: [behaviour] of disk"), "{said}");
    std::fs::write(&behaviour, toml).unwrap();

    new.replace(&old);
    let said = reload(&served, &mut log);
    assert!(said.contains("reload complete") && !said.contains("refused"), "{said}");
    secure(served.connect(), new.client(false)).agree(Style::Structured);
    assert!(early.read(0, 0, 1).is_ok());
    let mut late = secure(served.connect(), old.client(false));
    assert!(late.stream.write_all(&option_bytes(OPT_LIST, &[])).is_err());
}
