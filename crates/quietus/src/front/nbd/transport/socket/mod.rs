//! A connected stream socket: received from with blocking, sent to without.

#[cfg(test)]
mod tests;

use crate::front::nbd::wire::PAYLOAD_BYTES_MAX;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, sockopt};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes that the kernel may hold of a connection in either direction.
const KERNEL_BUFFER_BYTES: usize = 2 << 20;
/// Longest wait without sleep for a quick client: to be woken takes longer than such a client needs
/// for its next request.
const AWAKE_MAX: Duration = Duration::from_micros(50);
/// Time beyond which a client does not count as quick.
const QUICK_MAX: Duration = Duration::from_micros(200);
/// Bytes discarded after the last reply, at most: two of the largest payloads.
const DISCARD_BYTES_MAX: usize = 2 * PAYLOAD_BYTES_MAX as usize;
/// Bytes discarded at once.
const DISCARD_PIECE_BYTES: usize = 64 << 10;
/// Time for the discarding, at most.
const DISCARD_MAX: Duration = Duration::from_secs(10);
/// Silence of the other end that ends the discarding.
pub const SILENCE_MAX: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    peer: String,
    /// Number of the process that connected, if it is on this host.
    pub process: Option<u32>,
    /// The client was quick the last time.
    is_quick: AtomicBool,
    opened: Instant,
    /// When the wait for bytes began: milliseconds since `opened`.
    waits_since_ms: AtomicU64,
}

impl Socket {
    /// Takes over the connected stream socket `fd`.
    ///
    /// # Errors
    /// If `fd` is something else.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, false)?;
        let (peer, process) = peer_of(&fd)?;
        tune(&fd);
        let waits_since_ms = AtomicU64::new(0);
        Ok(Self {
            fd,
            peer,
            process,
            is_quick: AtomicBool::new(false),
            opened: Instant::now(),
            waits_since_ms,
        })
    }

    /// How long the other end has been waited for, if it is.
    pub fn waited(&self) -> Duration {
        let since = Duration::from_millis(self.waits_since_ms.load(Ordering::Relaxed));
        self.opened.elapsed().saturating_sub(since)
    }

    /// The other end, for people.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Waits for bytes, until `deadline` at most. Zero bytes mean the end.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] at the deadline.
    pub fn recv(&self, buf: &mut [u8], deadline: Option<Instant>) -> io::Result<usize> {
        let began = Instant::now();
        let since = began.saturating_duration_since(self.opened);
        self.waits_since_ms.store(since.as_millis() as u64, Ordering::Relaxed);
        if let Some(received) = self.recv_awake(buf, began) {
            return received;
        }
        self.wait_until(PollFlags::IN, deadline)?;
        let received = self.recv_now(buf, RecvFlags::empty());
        self.is_quick.store(began.elapsed() < QUICK_MAX, Ordering::Relaxed);
        received
    }

    /// Polls again and again, for as long as that is worth it.
    fn recv_awake(&self, buf: &mut [u8], began: Instant) -> Option<io::Result<usize>> {
        while self.is_quick.load(Ordering::Relaxed) && began.elapsed() < AWAKE_MAX {
            match self.recv_now(buf, RecvFlags::DONTWAIT) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                received => return Some(received),
            }
        }
        None
    }

    fn recv_now(&self, buf: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
        Ok(retry_on_intr(|| rustix::net::recv(&self.fd, &mut *buf, flags))?.0)
    }

    /// Notes that the next bytes are worth no haste.
    pub fn expect_delay(&self) {
        self.is_quick.store(false, Ordering::Relaxed);
    }

    /// As [`Self::recv`]; the bytes go to `first`, and the rest to `second`.
    pub fn recv_both(
        &self,
        first: &mut [u8],
        second: &mut [u8],
        deadline: Option<Instant>,
    ) -> io::Result<usize> {
        self.wait_until(PollFlags::IN, deadline)?;
        let mut parts = [IoSliceMut::new(first), IoSliceMut::new(second)];
        Ok(retry_on_intr(|| rustix::io::readv(&self.fd, &mut parts))?)
    }

    /// Sends some of `slices`, and returns how many bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] rather than wait; else the connection's end.
    pub fn try_send(&self, slices: &[IoSlice]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let send = || rustix::net::sendmsg(&self.fd, slices, &mut SendAncillaryBuffer::default(), flags);
        Ok(retry_on_intr(send)?)
    }

    /// Waits until something can be sent.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] after `timeout`.
    pub fn wait_to_send(&self, timeout: Duration) -> io::Result<()> {
        self.wait_until(PollFlags::OUT, Some(Instant::now() + timeout))
    }

    fn wait_until(&self, events: PollFlags, deadline: Option<Instant>) -> io::Result<()> {
        let Some(deadline) = deadline else { return Ok(()) };
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(&self.fd, events)], Some(&timeout)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends nothing more. The other end reads what was sent, and then the end.
    pub fn hang_up(&self) {
        // The connection may have ended by itself.
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Write);
    }

    /// Discards what the other end still sends, until it hangs up too, within limits of bytes and
    /// time.
    ///
    /// Where bytes lie unread, or still arrive, the kernel resets a connection that is closed, and
    /// what was sent may be lost on its way; over a Unix socket, the other end cannot finish
    /// sending, and may never come to read.
    pub fn discard(&self) {
        self.discard_until(Instant::now() + DISCARD_MAX);
    }

    fn discard_until(&self, until: Instant) {
        let mut piece = vec![0; DISCARD_PIECE_BYTES];
        let mut left = DISCARD_BYTES_MAX;
        while left > 0 && Instant::now() < until {
            match self.recv(&mut piece, Some(until.min(Instant::now() + SILENCE_MAX))) {
                Ok(0) | Err(_) => return,
                Ok(len) => left = left.saturating_sub(len),
            }
        }
    }

    /// Ends the connection at once, and wakes every thread that waits on it. Sent bytes may be lost.
    pub fn shutdown(&self) {
        // The connection may have ended by itself.
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Both);
    }
}

/// Asks for large kernel buffers and no delay. A refusal only costs speed.
fn tune(fd: &OwnedFd) {
    if sockopt::set_socket_send_buffer_size_force(fd, KERNEL_BUFFER_BYTES).is_err() {
        let _ = sockopt::set_socket_send_buffer_size(fd, KERNEL_BUFFER_BYTES);
    }
    if sockopt::set_socket_recv_buffer_size_force(fd, KERNEL_BUFFER_BYTES).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(fd, KERNEL_BUFFER_BYTES);
    }
    let _ = sockopt::set_tcp_nodelay(fd, true);
    let _ = sockopt::set_socket_keepalive(fd, true);
}

/// The other end, for people and as a process number.
fn peer_of(fd: &OwnedFd) -> io::Result<(String, Option<u32>)> {
    let address = rustix::net::getpeername(fd)?;
    if let Some(Ok(address)) = address.map(std::net::SocketAddr::try_from) {
        return Ok((address.to_string(), None));
    }
    let process = sockopt::socket_peercred(fd).ok().map(|peer| peer.pid.as_raw_nonzero());
    let process = process.and_then(|pid| u32::try_from(pid.get()).ok());
    Ok((process.map_or_else(|| "local".to_string(), |pid| format!("process {pid}")), process))
}
