//! The protocol's bytes, apart from any input or output: received bytes are parsed from `&[u8]`,
//! and bytes to send are encoded into a buffer.
//!
//! Every number is big-endian. A parser allocates nothing that is longer than
//! the bytes it was given.

pub mod option;
pub mod reply;
pub mod request;
#[cfg(test)]
mod tests;

/// The first eight bytes of a server, "NBDMAGIC".
pub const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
/// The next eight, and the start of every option, "IHAVEOPT".
pub const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
/// The start of every reply to an option.
pub const NBD_REP_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// The start of a compact request.
pub const NBD_REQUEST_MAGIC: u32 = 0x2560_9513;
/// The start of an extended request.
pub const NBD_EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// The start of a simple reply.
pub const NBD_SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// The start of a structured reply chunk.
pub const NBD_STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
/// The start of an extended reply chunk.
pub const NBD_EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// Handshake flags, of the server.
pub mod handshake_flag {
    /// Options may be refused without ending the session.
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    /// The zeros after the reply to `NBD_OPT_EXPORT_NAME` may be left out.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Transmission flags.
pub mod flag {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Writes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// `NBD_CMD_FLUSH` is understood.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// `NBD_CMD_FLAG_FUA` is understood.
    pub const SEND_FUA: u16 = 1 << 3;
    /// `NBD_CMD_TRIM` is understood.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// `NBD_CMD_WRITE_ZEROES` is understood.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// `NBD_CMD_FLAG_DF` is understood.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection covers all.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// `NBD_CMD_CACHE` is understood.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// `NBD_CMD_FLAG_FAST_ZERO` is understood.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
    /// `NBD_CMD_BLOCK_STATUS` may carry a choice of contexts.
    pub const BLOCK_STATUS_PAYLOAD: u16 = 1 << 12;
}

/// Command flags.
pub mod cmd_flag {
    /// Reply when the effect is durable.
    pub const FUA: u16 = 1 << 0;
    /// Zero without making a hole.
    pub const NO_HOLE: u16 = 1 << 1;
    /// Reply to a read with one content chunk at most.
    pub const DF: u16 = 1 << 2;
    /// Reply with one extent a context.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Zero only if that is faster than writing zeros.
    pub const FAST_ZERO: u16 = 1 << 4;
    /// The length is that of a payload.
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Option reply types.
pub mod rep {
    /// The option was accepted, and there is nothing more to say.
    pub const ACK: u32 = 1;
    /// An export.
    pub const SERVER: u32 = 2;
    /// A detail of an export.
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// The option is unknown.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// The configuration of the server forbids the option.
    pub const ERR_POLICY: u32 = (1 << 31) + 2;
    /// The option makes no sense.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// TLS has to come first.
    pub const ERR_TLS_REQD: u32 = (1 << 31) + 5;
    /// No such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    /// The server is being stopped.
    pub const ERR_SHUTDOWN: u32 = (1 << 31) + 7;
    /// The option is longer than the server takes.
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
    /// Extended headers were agreed on, and exclude this.
    pub const ERR_EXT_HEADER_REQD: u32 = (1 << 31) + 10;
}

/// Information types of `NBD_REP_INFO`.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// The export's name.
    pub const NAME: u16 = 1;
    /// A line for people.
    pub const DESCRIPTION: u16 = 2;
    /// Smallest, preferred and largest request.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Longest string of the protocol, bytes.
pub const STRING_BYTES_MAX: usize = 4096;
/// Longest option that is looked at, bytes.
pub const OPTION_BYTES_MAX: u32 = 65_536;
/// Longest payload of a request or reply, bytes: what a client may take for granted (`doc/proto.md`, "Size constraints").
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;

/// Reason, in words, why received bytes break the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// Reads fields off the front of some bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed("shorter than it says"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed("ends too early"))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string with its length before it.
    pub(crate) fn string(&mut self) -> Result<&'a str, Malformed> {
        let len = self.u32()? as usize;
        if len > STRING_BYTES_MAX {
            return Err(Malformed("a string of more than 4096 bytes"));
        }
        std::str::from_utf8(self.bytes(len)?).map_err(|_| Malformed("a string that is not UTF-8"))
    }

    pub(crate) const fn left(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("longer than it says")) }
    }
}
