//! Replies being sent together.

use crate::front::nbd::budget::Share;
use crate::front::nbd::transport::channel::Channel;
use crate::front::nbd::wire::reply::Head;
use std::io::{self, IoSlice};

/// Most pieces given to the socket at once.
const SLICES_MAX: usize = 64;

/// A reply.
pub struct Message {
    head: Option<Head>,
    data: Vec<u8>,
    /// Bytes of `data` to send; the rest only travels home.
    data_len: usize,
    charge: usize,
    share: Share,
}

impl Message {
    /// A message of `head`, if there is one, and `data`.
    pub fn new(head: Option<Head>, data: Vec<u8>) -> Self {
        Self { head, data_len: data.len(), data, charge: 0, share: Share::default() }
    }

    /// A message of `head` alone; `spent` is a buffer to be used again.
    pub fn returning(head: Head, spent: Vec<u8>) -> Self {
        Self { data_len: 0, ..Self::new(Some(head), spent) }
    }

    /// `self`, for a request that was charged `charge` bytes, and holds `share`.
    pub fn charged(self, charge: usize, share: Share) -> Self {
        Self { charge, share, ..self }
    }

    /// Marks the message as sent, and returns its buffer.
    fn spend(&mut self) -> Vec<u8> {
        self.share = Share::default();
        std::mem::take(&mut self.data)
    }

    /// Bytes to send.
    pub fn len(&self) -> usize {
        self.head_bytes().len() + self.data_len
    }

    fn head_bytes(&self) -> &[u8] {
        self.head.as_ref().map_or(&[], Head::bytes)
    }

    fn pieces(&self) -> [&[u8]; 2] {
        [self.head_bytes(), &self.data[..self.data_len]]
    }
}

impl From<(Head, Vec<u8>)> for Message {
    fn from((head, data): (Head, Vec<u8>)) -> Self {
        Self::new(Some(head), data)
    }
}

/// Result of sending a batch.
pub enum Progress {
    /// All of it was sent.
    All,
    /// The socket took no more.
    Stuck,
}

/// Messages in the order in which they are sent. Those before `next` are sent,
/// and of `next` itself `skip` bytes.
pub struct Batch {
    /// See above.
    pub messages: Vec<Message>,
    next: usize,
    skip: usize,
    accounted: usize,
}

/// Replies that were sent since this was last asked.
pub struct Sent<B> {
    /// Number of replies.
    pub requests: usize,
    /// Bytes that the replies were charged.
    pub charge: usize,
    /// Buffers of the replies.
    pub buffers: B,
}

impl Batch {
    /// A batch of unsent `messages`.
    pub const fn new(messages: Vec<Message>) -> Self {
        Self { messages, next: 0, skip: 0, accounted: 0 }
    }

    /// Sends as much as the socket takes.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn send(&mut self, channel: &Channel) -> io::Result<Progress> {
        while self.next < self.messages.len() || channel.owes() {
            match self.send_some(channel) {
                Ok(sent) => self.advance(sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Progress::Stuck),
                Err(error) => return Err(error),
            }
        }
        Ok(Progress::All)
    }

    fn send_some(&self, channel: &Channel) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        let mut skip = self.skip;
        let pieces = self.messages[self.next..].iter().flat_map(Message::pieces);
        for piece in pieces.take(SLICES_MAX) {
            let skipped = skip.min(piece.len());
            skip -= skipped;
            if skipped < piece.len() {
                slices[count] = IoSlice::new(&piece[skipped..]);
                count += 1;
            }
        }
        channel.try_send(&slices[..count])
    }

    fn advance(&mut self, sent: usize) {
        self.skip += sent;
        while let Some(message) = self.messages.get(self.next).filter(|message| message.len() <= self.skip) {
            self.skip -= message.len();
            self.next += 1;
        }
    }

    /// Takes the replies that were sent and not accounted for; once all are, the batch is empty and
    /// may be filled again.
    pub fn take_sent(&mut self) -> Sent<impl Iterator<Item = Vec<u8>>> {
        let sent = &mut self.messages[self.accounted..self.next];
        let (requests, charge) = (sent.len(), sent.iter().map(|message| message.charge).sum());
        let buffers: Vec<Vec<u8>> = sent.iter_mut().map(Message::spend).collect();
        self.accounted = self.next;
        if self.next == self.messages.len() {
            *self = Self::new(std::mem::take(&mut self.messages));
            self.messages.clear();
        }
        Sent { requests, charge, buffers: buffers.into_iter() }
    }
}
