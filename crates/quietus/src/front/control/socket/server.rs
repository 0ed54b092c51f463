//! The answering end: a socket in the directory of a disk that is open here.

use crate::front::control::call::Call;
use crate::front::control::reply::Reply;
use crate::front::control::socket::wire;
use crate::front::control::socket::wire::{Line, SOCKET, through_fd};
use crate::open_disk::OpenDisk;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most calls answered at once.
const CALLS_MAX: usize = 32;
/// How often the size of an overlay is noted.
const SIZES_EVERY: Duration = Duration::from_secs(60);
/// Pause after a failed accept.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

/// The control socket of a disk; the socket is removed when this is dropped.
pub struct Control {
    /// Written to when the thread is to end.
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Control {
    fn drop(&mut self) {
        // Eight bytes always fit into the counter.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
        // A thread that panicked answers no call either.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Answers calls on the control socket of `open`.
///
/// # Errors
/// The socket cannot be made.
pub fn serve(open: Arc<OpenDisk>) -> io::Result<Control> {
    let listener = through_fd(open.dir.path(), SOCKET, |socket| {
        // Others may read the disk too; one of them answers for it.
        if open.dir.is_read_only() && UnixStream::connect(socket).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        // The lock is held here: any socket in its place was left by a crash.
        let _ = std::fs::remove_file(socket);
        UnixListener::bind(socket)
    })?;
    listener.set_nonblocking(true)?;
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
    let ends = Arc::clone(&wake);
    let thread = std::thread::Builder::new().name("control".into());
    let thread = thread.spawn(move || {
        answer_calls(&listener, &open, &ends);
        let _ = std::fs::remove_file(open.dir.path().join(SOCKET));
    })?;
    Ok(Control { wake, thread: Some(thread) })
}

/// Answers until `ends` is readable. Where there is nothing to note now and then, only
/// a call wakes this thread.
fn answer_calls(listener: &UnixListener, open: &Arc<OpenDisk>, ends: &OwnedFd) {
    let calls = Arc::new(());
    let has_numbers = open.dir.host_bytes().is_some() || open.dir.toml().chip().is_some();
    let notes_sizes = !open.dir.is_read_only() && has_numbers;
    let mut note_at = Instant::now();
    loop {
        if notes_sizes && note_at <= Instant::now() {
            open.note_size();
            open.note_wear();
            note_at = Instant::now() + SIZES_EVERY;
        }
        let left = note_at.saturating_duration_since(Instant::now());
        let timeout = notes_sizes.then(|| Timespec::try_from(left).expect("a minute is not long"));
        let mut fds = [PollFd::new(ends, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) if !fds[0].revents().is_empty() => return,
            Ok(_) if !fds[1].revents().is_empty() => accept(listener, open, &calls, ends),
            // A signal, or time.
            _ => {}
        }
    }
}

/// Takes the call that has come. While the process has no descriptor left, the call stays, and
/// is not asked for again at once.
fn accept(listener: &UnixListener, open: &Arc<OpenDisk>, calls: &Arc<()>, ends: &OwnedFd) {
    match listener.accept() {
        Ok((stream, _)) => take_call(stream, open, calls),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(_) => {
            let pause = Timespec::try_from(PAUSE_AFTER_FAILURE).expect("a moment is not long");
            let _ = poll(&mut [PollFd::new(ends, PollFlags::IN)], Some(&pause));
        }
    }
}

/// Each call has a clone of `calls` until it ends, however it does.
fn take_call(stream: UnixStream, open: &Arc<OpenDisk>, calls: &Arc<()>) {
    if Arc::strong_count(calls) > CALLS_MAX {
        return;
    }
    let (open, call) = (Arc::clone(open), Arc::clone(calls));
    let body = move || {
        // A client that hangs up early gets no answer.
        let _ = answer_on(&stream, &open);
        drop(call);
    };
    if let Err(error) = std::thread::Builder::new().name("call".into()).spawn(body) {
        tracing::warn!(%error, "cannot start a thread for a call on the control socket");
    }
}

fn answer_on(stream: &UnixStream, open: &OpenDisk) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.set_write_timeout(Some(Duration::from_secs(10)))?;
    let (line, file) = wire::receive(stream)?;
    let say = |line: &Line<Reply>| -> io::Result<()> {
        let text = serde_json::to_string(line)?;
        writeln!(&*stream, "{text}")
    };
    let mut last = Instant::now();
    let mut tell = |done, of| {
        if last.elapsed() < Duration::from_millis(100) {
            return true;
        }
        last = Instant::now();
        say(&Line::Progress(done, of)).is_ok()
    };
    let answer = match serde_json::from_str::<Call>(&line) {
        Ok(call) => open.reply(&call, file.as_ref(), &mut tell),
        Err(error) => Err(format!("unknown call on the control socket: {error}").into()),
    };
    say(&answer.into())
}
