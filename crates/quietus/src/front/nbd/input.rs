//! The bytes that a client sends, through a buffer that takes many small requests at once and lets
//! large payloads pass it by.

use super::budget::Patience;
use super::transport::channel::{Channel, Ciphertext};
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// Bytes received at once.
const BUFFER_BYTES: usize = 256 << 10;
/// Bytes received at once while large payloads are expected, which would have
/// to be copied out of the buffer.
const READ_AHEAD_BYTES: usize = 4096;
/// Bytes from which on a payload is large.
const LARGE_BYTES: usize = 32 << 10;

/// Time that the client may take.
enum Pace {
    /// Until this instant for all of it.
    Until(Instant),
    /// In the middle of a request, with this patience; between requests for ever.
    Patient(Patience),
}

/// See the module.
pub struct Input {
    channel: Arc<Channel>,
    ciphertext: Ciphertext,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    pace: Pace,
    payloads_are_large: bool,
}

impl Input {
    /// An input from `channel`, until `deadline` at most.
    pub fn new(channel: Arc<Channel>, deadline: Instant) -> Self {
        Self {
            channel,
            ciphertext: Ciphertext::default(),
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            pace: Pace::Until(deadline),
            payloads_are_large: false,
        }
    }

    /// The channel to the client.
    pub const fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// Begins transmission: from now on waits between requests for ever, and within them with
    /// `patience`.
    pub fn begin_transmission(&mut self, patience: Patience) {
        self.pace = Pace::Patient(patience);
    }

    /// The deadline of the next byte, in the middle of a request.
    fn deadline(&self) -> Instant {
        match &self.pace {
            Pace::Until(deadline) => *deadline,
            Pace::Patient(patience) => Instant::now() + patience.stall_timeout,
        }
    }

    /// Turns to `channel`; received bytes are forgotten.
    pub fn replace(&mut self, channel: Arc<Channel>, ciphertext: Ciphertext) {
        (self.channel, self.ciphertext) = (channel, ciphertext);
        (self.start, self.end) = (0, 0);
    }

    /// Bytes that were received and not yet taken.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Takes the first `len` of [`Self::bytes`].
    pub fn take(&mut self, len: usize) -> &[u8] {
        let taken = self.start..self.start + len;
        assert!(taken.end <= self.end, "taken before it was received");
        self.start = taken.end;
        &self.buffer[taken]
    }

    /// Waits for more bytes, without a limit while no byte of them has come. False at the end of the stream.
    pub fn fill(&mut self) -> io::Result<bool> {
        let rests = self.bytes().is_empty() && matches!(self.pace, Pace::Patient(_));
        self.fill_until(if rests { None } else { Some(self.deadline()) })
    }

    fn fill_until(&mut self, deadline: Option<Instant>) -> io::Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let ahead = if self.payloads_are_large { READ_AHEAD_BYTES } else { BUFFER_BYTES };
        let free = self.end..self.buffer.len().min(self.end + ahead);
        assert!(!free.is_empty(), "the buffer is full");
        let received = self.channel.recv(&mut self.ciphertext, &mut self.buffer[free], deadline)?;
        self.end += received;
        Ok(received > 0)
    }

    /// Waits for `len` bytes, which fit into the buffer, and takes them.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] at the end of the stream.
    pub fn exactly(&mut self, len: usize) -> io::Result<&[u8]> {
        while self.bytes().len() < len {
            if !self.fill_until(Some(self.deadline()))? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.take(len))
    }

    /// Waits for as many bytes as `payload` holds, and takes them into it.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] at the end of the stream;
    /// [`io::ErrorKind::TimedOut`] if it takes too long.
    pub fn receive(&mut self, payload: &mut [u8]) -> io::Result<()> {
        self.payloads_are_large = payload.len() >= LARGE_BYTES;
        let buffered = payload.len().min(self.bytes().len());
        let (front, mut rest) = payload.split_at_mut(buffered);
        front.copy_from_slice(self.take(buffered));
        let since = Instant::now();
        while !rest.is_empty() {
            let received = self.receive_past_buffer(rest)?;
            rest = rest.split_at_mut(received).1;
            if let Pace::Patient(patience) = &self.pace
                && !rest.is_empty()
            {
                patience.check(since)?;
            }
        }
        Ok(())
    }

    /// Receives into `rest` while the buffer is empty, and further bytes into the buffer.
    fn receive_past_buffer(&mut self, rest: &mut [u8]) -> io::Result<usize> {
        let deadline = Some(self.deadline());
        let ahead = &mut self.buffer[..READ_AHEAD_BYTES];
        let received = self.channel.recv_both(&mut self.ciphertext, rest, ahead, deadline)?;
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        (self.start, self.end) = (0, received.saturating_sub(rest.len()));
        Ok(received.min(rest.len()))
    }

    /// Takes `len` bytes and forgets them.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] at the end of the stream.
    pub fn skip(&mut self, len: u64) -> io::Result<()> {
        let mut left = len;
        while left > 0 {
            let piece = left.min(BUFFER_BYTES as u64 / 2) as usize;
            self.exactly(piece)?;
            left -= piece as u64;
        }
        Ok(())
    }
}
