//! Standard input and output as a client's connection: one socket, as inetd and
//! libnbd hand over, or a pipe each, as with ssh.

use rustix::fs::{FileType, Stat, fstat};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Bytes carried at once.
const PIECE_BYTES: usize = 256 << 10;

/// Hangs up when everything for the client has gone out.
pub type Drained = Receiver<()>;

/// Takes the client's connection; if it goes through pipes, also the signal of its end.
///
/// From then on the process has no input, and prints to standard error: a word in between would
/// break the protocol.
///
/// # Errors
/// If input and output are neither one socket nor two pipes.
pub fn take() -> io::Result<(OwnedFd, Option<Drained>)> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    let (from, to) = (fstat(&input)?, fstat(&output)?);
    if !is_stream(&from) || !is_stream(&to) {
        let what = "standard input and output are neither a socket nor pipes to a client";
        return Err(io::Error::other(what));
    }
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    if (from.st_dev, from.st_ino) == (to.st_dev, to.st_ino) {
        return Ok((input, None));
    }
    let (connection, drained) = pump(input, output)?;
    Ok((connection, Some(drained)))
}

fn is_stream(stat: &Stat) -> bool {
    matches!(FileType::from_raw_mode(stat.st_mode), FileType::Fifo | FileType::Socket)
}

/// Starts two threads: one carries bytes from `input` to a socket, one from that socket to
/// `output`.
fn pump(input: OwnedFd, output: OwnedFd) -> io::Result<(OwnedFd, Drained)> {
    let (ours, theirs) = UnixStream::pair()?;
    let to_server = ours.try_clone()?;
    let (done, drained) = channel();
    for fd in [&input, &output] {
        rustix::io::ioctl_fionbio(fd, false)?;
    }
    thread::Builder::new().name("nbd-stdin".into()).spawn(move || carry_in(input, &to_server))?;
    thread::Builder::new().name("nbd-stdout".into()).spawn(move || carry_out(&ours, output, &done))?;
    Ok((theirs.into(), drained))
}

fn carry_in(input: OwnedFd, server: &UnixStream) {
    // However it ended, the client has no more to say.
    let _ = carry(File::from(input), server);
    let _ = server.shutdown(Shutdown::Write);
}

fn carry_out(server: &UnixStream, output: OwnedFd, _done: &Sender<()>) {
    if carry(server, File::from(output)).is_err() {
        // The client hung up, and the server is to know.
        let _ = server.shutdown(Shutdown::Both);
    }
}

/// Copies as [`io::copy`] does, but each byte at once: that function has the kernel move the bytes,
/// which may wait for more.
fn carry(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut buf = vec![0; PIECE_BYTES];
    loop {
        match from.read(&mut buf) {
            Ok(0) => return Ok(()),
            Ok(len) => to.write_all(&buf[..len])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
