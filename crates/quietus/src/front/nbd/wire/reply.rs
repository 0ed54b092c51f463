//! Replies to requests: simple, structured or extended.

use super::request::Style;
use super::{NBD_EXTENDED_REPLY_MAGIC, NBD_SIMPLE_REPLY_MAGIC, NBD_STRUCTURED_REPLY_MAGIC, STRING_BYTES_MAX};

/// Longest head of a reply: an extended chunk's, and the offset of its data.
const HEAD_BYTES_MAX: usize = 40;

const NBD_REPLY_FLAG_DONE: u16 = 1;
const NBD_REPLY_TYPE_NONE: u16 = 0;
const NBD_REPLY_TYPE_OFFSET_DATA: u16 = 1;
const NBD_REPLY_TYPE_BLOCK_STATUS: u16 = 5;
const NBD_REPLY_TYPE_BLOCK_STATUS_EXT: u16 = 6;
const NBD_REPLY_TYPE_ERROR: u16 = (1 << 15) + 1;

/// The protocol's error values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[allow(clippy::upper_case_acronyms, reason = "the specification's names")]
pub enum Errno {
    /// Operation not permitted.
    EPERM = 1,
    /// Input/output error.
    EIO = 5,
    /// Invalid argument.
    EINVAL = 22,
    /// No space left on device.
    ENOSPC = 28,
    /// Value too large.
    EOVERFLOW = 75,
    /// Operation not supported.
    ENOTSUP = 95,
    /// The server is being stopped.
    ESHUTDOWN = 108,
}

/// The request that a reply is to, as far as the reply tells of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplyFor {
    /// The connection's headers.
    pub style: Style,
    /// The request's cookie.
    pub cookie: u64,
    /// The request's offset.
    pub offset: u64,
}

/// Head of a reply, before its data.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    bytes: [u8; HEAD_BYTES_MAX],
    len: usize,
}

impl Head {
    const EMPTY: Self = Self { bytes: [0; HEAD_BYTES_MAX], len: 0 };

    fn put(&mut self, field: &[u8]) {
        self.bytes[self.len..][..field.len()].copy_from_slice(field);
        self.len += field.len();
    }

    /// The bytes of the head.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl ReplyFor {
    /// The head of a success without data.
    #[must_use]
    pub fn done(&self) -> Head {
        match self.style {
            Style::Simple => self.simple(0),
            _ => self.chunk(NBD_REPLY_FLAG_DONE, NBD_REPLY_TYPE_NONE, 0),
        }
    }

    /// The head of a success with the `len` bytes that were read; a positive number.
    #[must_use]
    pub fn data(&self, len: usize) -> Head {
        assert!(len > 0, "a chunk of nothing");
        if self.style == Style::Simple {
            return self.simple(0);
        }
        let mut head = self.chunk(NBD_REPLY_FLAG_DONE, NBD_REPLY_TYPE_OFFSET_DATA, 8 + len);
        head.put(&self.offset.to_be_bytes());
        head
    }

    /// The head and the data of a refusal with `errno`; `text`, for people, is cut to what the
    /// protocol allows.
    #[must_use]
    pub fn error(&self, errno: Errno, text: &str) -> (Head, Vec<u8>) {
        if self.style == Style::Simple {
            return (self.simple(errno as u32), Vec::new());
        }
        let text = &text.as_bytes()[..text.floor_char_boundary(STRING_BYTES_MAX)];
        let text_len = u16::try_from(text.len()).expect("cut above");
        let mut data = Vec::with_capacity(6 + text.len());
        data.extend((errno as u32).to_be_bytes());
        data.extend(text_len.to_be_bytes());
        data.extend(text);
        (self.chunk(NBD_REPLY_FLAG_DONE, NBD_REPLY_TYPE_ERROR, data.len()), data)
    }

    /// Appends the chunk for context `context` to `out`: lengths that follow one
    /// another, each with its status; at least one, each not empty, in the compact
    /// style each at most `u32::MAX`. `last` ends the reply.
    pub fn put_status(&self, out: &mut Vec<u8>, context: u32, extents: &[(u64, u32)], last: bool) {
        assert!(!extents.is_empty() && self.style != Style::Simple, "not a block status reply");
        let flags = if last { NBD_REPLY_FLAG_DONE } else { 0 };
        if self.style == Style::Extended {
            let head = self.chunk(flags, NBD_REPLY_TYPE_BLOCK_STATUS_EXT, 8 + extents.len() * 16);
            out.extend(head.bytes());
            out.extend(context.to_be_bytes());
            out.extend(u32::try_from(extents.len()).expect("limited by the caller").to_be_bytes());
            for (len, status) in extents {
                out.extend(len.to_be_bytes());
                out.extend(u64::from(*status).to_be_bytes());
            }
        } else {
            let head = self.chunk(flags, NBD_REPLY_TYPE_BLOCK_STATUS, 4 + extents.len() * 8);
            out.extend(head.bytes());
            out.extend(context.to_be_bytes());
            for (len, status) in extents {
                out.extend(u32::try_from(*len).expect("a compact request is no longer").to_be_bytes());
                out.extend(status.to_be_bytes());
            }
        }
    }

    fn simple(&self, error: u32) -> Head {
        let mut head = Head::EMPTY;
        head.put(&NBD_SIMPLE_REPLY_MAGIC.to_be_bytes());
        head.put(&error.to_be_bytes());
        head.put(&self.cookie.to_be_bytes());
        head
    }

    fn chunk(&self, flags: u16, kind: u16, len: usize) -> Head {
        let extended = self.style == Style::Extended;
        let magic = if extended { NBD_EXTENDED_REPLY_MAGIC } else { NBD_STRUCTURED_REPLY_MAGIC };
        let mut head = Head::EMPTY;
        head.put(&magic.to_be_bytes());
        head.put(&flags.to_be_bytes());
        head.put(&kind.to_be_bytes());
        head.put(&self.cookie.to_be_bytes());
        if extended {
            head.put(&self.offset.to_be_bytes());
            head.put(&(len as u64).to_be_bytes());
        } else {
            head.put(&u32::try_from(len).expect("payloads are limited").to_be_bytes());
        }
        head
    }
}
