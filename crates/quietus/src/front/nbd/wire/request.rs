//! The header of a request: compact (28 bytes) or extended (32).

use super::{Fields, Malformed, NBD_EXTENDED_REQUEST_MAGIC, NBD_REQUEST_MAGIC, cmd_flag};

/// Kinds of header that a connection agreed on, in both directions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Style {
    /// Compact requests, simple replies.
    Simple,
    /// Compact requests, structured replies.
    Structured,
    /// Extended requests and replies.
    Extended,
}

impl Style {
    /// Bytes of a request's header.
    #[must_use]
    pub const fn request_bytes(self) -> usize {
        match self {
            Self::Simple | Self::Structured => 28,
            Self::Extended => 32,
        }
    }
}

/// `NBD_CMD_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Read bytes.
    Read,
    /// Write the payload.
    Write,
    /// End the session.
    Disc,
    /// Make what was written durable.
    Flush,
    /// The bytes are of no more use.
    Trim,
    /// Bring the bytes into the cache.
    Cache,
    /// Write zeros.
    WriteZeroes,
    /// Tell of the bytes.
    BlockStatus,
    /// Any other number.
    Unknown(u16),
}

impl Command {
    const fn from_number(number: u16) -> Self {
        match number {
            0 => Self::Read,
            1 => Self::Write,
            2 => Self::Disc,
            3 => Self::Flush,
            4 => Self::Trim,
            5 => Self::Cache,
            6 => Self::WriteZeroes,
            7 => Self::BlockStatus,
            other => Self::Unknown(other),
        }
    }
}

/// A request's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestHeader {
    /// `NBD_CMD_FLAG_*`.
    pub flags: u16,
    /// Command to carry out.
    pub command: Command,
    /// Names the request to the client.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes of the export, or of the payload.
    pub len: u64,
}

impl RequestHeader {
    /// The header at the front of `bytes`; `None` if they are too few.
    ///
    /// # Errors
    /// If the magic is wrong, after which nothing can be made of the stream.
    pub fn from_bytes(bytes: &[u8], style: Style) -> Result<Option<Self>, Malformed> {
        let Some(header) = bytes.get(..style.request_bytes()) else { return Ok(None) };
        let mut fields = Fields(header);
        let extended = style == Style::Extended;
        let magic = if extended { NBD_EXTENDED_REQUEST_MAGIC } else { NBD_REQUEST_MAGIC };
        if fields.u32()? != magic {
            return Err(Malformed("a request without its magic"));
        }
        Ok(Some(Self {
            flags: fields.u16()?,
            command: Command::from_number(fields.u16()?),
            cookie: fields.u64()?,
            offset: fields.u64()?,
            len: if extended { fields.u64()? } else { fields.u32()?.into() },
        }))
    }

    /// Whether flag `flag` is set.
    #[must_use]
    pub const fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Bytes of payload that follow the header in the stream.
    ///
    /// A write is always followed by its payload: with extended headers the flag must say so
    /// (`doc/proto.md`, "Request message"), but QEMU's client leaves the flag out (decision 15).
    #[must_use]
    pub fn payload_bytes(&self, style: Style) -> u64 {
        let announced = style == Style::Extended && self.has(cmd_flag::PAYLOAD_LEN);
        if announced || self.command == Command::Write { self.len } else { 0 }
    }

    /// Whether the command may carry these flags.
    #[must_use]
    pub const fn flags_fit(&self, style: Style) -> bool {
        let own = match (self.command, style) {
            (Command::Read, Style::Structured | Style::Extended) => cmd_flag::DF,
            (Command::Write, Style::Extended) => cmd_flag::PAYLOAD_LEN,
            (Command::WriteZeroes, _) => cmd_flag::NO_HOLE | cmd_flag::FAST_ZERO,
            (Command::BlockStatus, Style::Extended) => cmd_flag::REQ_ONE | cmd_flag::PAYLOAD_LEN,
            (Command::BlockStatus, _) => cmd_flag::REQ_ONE,
            _ => 0,
        };
        self.flags & !(cmd_flag::FUA | own) == 0
    }
}

/// The payload of a `NBD_CMD_BLOCK_STATUS`: how many bytes, and which contexts.
///
/// # Errors
/// If the length is not 8 + 4n, with n at least one.
pub fn status_payload(payload: &[u8]) -> Result<(u64, Vec<u32>), Malformed> {
    let mut fields = Fields(payload);
    let len = fields.u64()?;
    if fields.left() == 0 || !fields.left().is_multiple_of(4) {
        return Err(Malformed("not a list of contexts"));
    }
    let ids = (0..fields.left() / 4).map(|_| fields.u32()).collect::<Result<_, _>>()?;
    Ok((len, ids))
}
