//! A connection's two directions, plain or under TLS.
//!
//! One thread receives; one at a time sends, without ever waiting in it. Under
//! TLS both share the state machine, for as long as they compute.

use super::socket::Socket;
use crate::base::lock::lock;
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, IoSlice, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Ciphertext received at once, bytes.
const CIPHERTEXT_BYTES: usize = 64 << 10;
/// Plaintext encrypted before it is offered to the socket, bytes.
const ENCRYPT_BYTES_MAX: usize = 128 << 10;

/// See the module.
pub struct Channel {
    socket: Arc<Socket>,
    tls: Option<Mutex<ServerConnection>>,
}

/// Ciphertext that was received and not yet decrypted.
#[derive(Default)]
pub struct Ciphertext {
    bytes: Vec<u8>,
    start: usize,
}

impl Channel {
    /// A channel without TLS.
    pub const fn plain(socket: Arc<Socket>) -> Self {
        Self { socket, tls: None }
    }

    /// Turns to TLS. `received` came after the client's option to do so.
    ///
    /// # Errors
    /// If client and server do not come to terms until `deadline`.
    pub fn secured(
        socket: Arc<Socket>,
        config: Arc<ServerConfig>,
        received: &[u8],
        deadline: Instant,
    ) -> io::Result<(Self, Ciphertext)> {
        let mut tls = ServerConnection::new(config).map_err(io::Error::other)?;
        tls.set_buffer_limit(None);
        let channel = Self { socket, tls: Some(Mutex::new(tls)) };
        let mut ciphertext = Ciphertext { bytes: received.to_vec(), start: 0 };
        while channel.is_handshaking() {
            let outcome = channel.decrypt(&mut ciphertext, &mut []);
            channel.send_all(&[], deadline)?;
            if outcome?.is_none() && channel.is_handshaking() {
                channel.receive_ciphertext(&mut ciphertext, Some(deadline))?;
            }
        }
        Ok((channel, ciphertext))
    }

    /// The socket below.
    pub const fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// Whether the channel is under TLS.
    pub const fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    fn is_handshaking(&self) -> bool {
        self.tls().is_some_and(|tls| tls.is_handshaking())
    }

    fn tls(&self) -> Option<MutexGuard<'_, ServerConnection>> {
        self.tls.as_ref().map(lock)
    }

    /// Waits for bytes, until `deadline` at most. Zero bytes mean the end.
    pub fn recv(
        &self,
        ciphertext: &mut Ciphertext,
        buf: &mut [u8],
        deadline: Option<Instant>,
    ) -> io::Result<usize> {
        if self.tls.is_none() {
            return self.socket.recv(buf, deadline);
        }
        loop {
            if let Some(len) = self.decrypt(ciphertext, buf)? {
                return Ok(len);
            }
            self.receive_ciphertext(ciphertext, deadline)?;
        }
    }

    /// As [`Self::recv`]; the bytes go to `first`, and the rest, perhaps, to `second`.
    pub fn recv_both(
        &self,
        ciphertext: &mut Ciphertext,
        first: &mut [u8],
        second: &mut [u8],
        deadline: Option<Instant>,
    ) -> io::Result<usize> {
        match self.tls {
            None => self.socket.recv_both(first, second, deadline),
            Some(_) => self.recv(ciphertext, first, deadline),
        }
    }

    /// Plaintext from what was received; `None` if more has to be received first.
    fn decrypt(&self, ciphertext: &mut Ciphertext, buf: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(mut tls) = self.tls() else { return Ok(None) };
        loop {
            match tls.reader().read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) if buf.is_empty() => {}
                other => return other.map(Some),
            }
            let mut waiting = &ciphertext.bytes[ciphertext.start..];
            if waiting.is_empty() {
                return Ok(None);
            }
            ciphertext.start += tls.read_tls(&mut waiting)?;
            tls.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }

    fn receive_ciphertext(&self, ciphertext: &mut Ciphertext, deadline: Option<Instant>) -> io::Result<()> {
        ciphertext.start = 0;
        ciphertext.bytes.resize(CIPHERTEXT_BYTES, 0);
        let received = self.socket.recv(&mut ciphertext.bytes, deadline);
        ciphertext.bytes.truncate(*received.as_ref().unwrap_or(&0));
        match received? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Takes some of `slices` to be sent, and returns how many bytes. Empty `slices` only have the
    /// bytes that were taken before [sent on](Self::owes).
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] rather than wait; else the connection's end.
    pub fn try_send(&self, slices: &[IoSlice]) -> io::Result<usize> {
        let Some(mut tls) = self.tls() else { return self.socket.try_send(slices) };
        self.send_ciphertext(&mut tls)?;
        let taken = encrypt(&mut tls, slices)?;
        match self.send_ciphertext(&mut tls) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    /// Whether taken bytes are not sent yet.
    pub fn owes(&self) -> bool {
        self.tls().is_some_and(|tls| tls.wants_write())
    }

    fn send_ciphertext(&self, tls: &mut ServerConnection) -> io::Result<()> {
        while tls.wants_write() {
            tls.write_tls(&mut Unblocked(&self.socket))?;
        }
        Ok(())
    }

    /// Sends all of `bytes`, waiting until `deadline` at most.
    pub fn send_all(&self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() || self.owes() {
            match self.try_send(&[IoSlice::new(bytes)]) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.socket.wait_to_send(deadline.saturating_duration_since(Instant::now()))?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends nothing more; under TLS tells the client, if it listens.
    pub fn hang_up(&self, patience: Duration) {
        if let Some(mut tls) = self.tls() {
            tls.send_close_notify();
        }
        let _ = self.send_all(&[], Instant::now() + patience);
        self.socket.hang_up();
    }

    /// Ends the connection, such that everything sent can arrive.
    pub fn close(&self, patience: Duration) {
        self.hang_up(patience);
        self.socket.discard();
        self.socket.shutdown();
    }
}

fn encrypt(tls: &mut ServerConnection, slices: &[IoSlice]) -> io::Result<usize> {
    let mut taken = 0;
    for slice in slices {
        let piece = &slice[..slice.len().min(ENCRYPT_BYTES_MAX - taken)];
        taken += tls.writer().write(piece)?;
        if taken == ENCRYPT_BYTES_MAX {
            break;
        }
    }
    Ok(taken)
}

/// The socket, as a [`Write`] that never waits.
struct Unblocked<'a>(&'a Socket);

impl Write for Unblocked<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_send(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice]) -> io::Result<usize> {
        self.0.try_send(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
