//! The options of a handshake, and the replies to them.

use super::{Fields, IHAVEOPT, Malformed, NBD_REP_MAGIC, STRING_BYTES_MAX, info};

/// Bytes of an option's header: magic, option, length.
pub const OPTION_HEADER_BYTES: usize = 16;

/// Header of an option: it precedes the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionHeader {
    /// `NBD_OPT_*`, perhaps unknown.
    pub option: u32,
    /// Bytes of data that follow.
    pub len: u32,
}

impl OptionHeader {
    /// # Errors
    /// If the magic is wrong, after which nothing can be made of the stream.
    pub fn from_bytes(bytes: &[u8; OPTION_HEADER_BYTES]) -> Result<Self, Malformed> {
        let mut fields = Fields(bytes);
        if fields.u64()? != IHAVEOPT {
            return Err(Malformed("an option without its magic"));
        }
        Ok(Self { option: fields.u32()?, len: fields.u32()? })
    }
}

/// `NBD_OPT_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionKind {
    /// Begin transmission, or end the session.
    ExportName,
    /// End the session.
    Abort,
    /// Name all exports.
    List,
    /// Turn to TLS.
    StartTls,
    /// Tell of an export.
    Info,
    /// Tell of an export and begin transmission.
    Go,
    /// Use structured replies.
    StructuredReply,
    /// Name metadata contexts.
    ListMetaContext,
    /// Choose metadata contexts.
    SetMetaContext,
    /// Use extended headers.
    ExtendedHeaders,
}

impl OptionKind {
    /// The kind of number `option`, if it is known.
    #[must_use]
    pub const fn from_number(option: u32) -> Option<Self> {
        Some(match option {
            1 => Self::ExportName,
            2 => Self::Abort,
            3 => Self::List,
            5 => Self::StartTls,
            6 => Self::Info,
            7 => Self::Go,
            8 => Self::StructuredReply,
            9 => Self::ListMetaContext,
            10 => Self::SetMetaContext,
            11 => Self::ExtendedHeaders,
            _ => return None,
        })
    }
}

/// The data of `NBD_OPT_INFO` and `NBD_OPT_GO`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InfoRequest<'a> {
    /// Name of the export; empty for the default.
    pub name: &'a str,
    /// Known information that is asked for, a bit each.
    wanted: u16,
}

impl<'a> InfoRequest<'a> {
    /// # Errors
    /// If the lengths do not fit each other, or the name is not a string.
    pub fn from_bytes(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(data);
        let name = fields.string()?;
        let count = fields.u16()?;
        let mut wanted = 0;
        for _ in 0..count {
            wanted |= information_bit(fields.u16()?);
        }
        fields.end()?;
        Ok(Self { name, wanted })
    }

    /// Whether information `kind` is asked for.
    #[must_use]
    pub const fn wants(&self, kind: u16) -> bool {
        self.wanted & information_bit(kind) != 0
    }
}

const fn information_bit(kind: u16) -> u16 {
    if kind <= info::BLOCK_SIZE { 1 << kind } else { 0 }
}

/// The data of `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetaRequest<'a> {
    /// Name of the export; empty for the default.
    pub name: &'a str,
    /// Names of contexts, or of name spaces.
    pub queries: Vec<&'a str>,
}

impl<'a> MetaRequest<'a> {
    /// # Errors
    /// If the lengths do not fit each other, or a name is not a string.
    pub fn from_bytes(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(data);
        let name = fields.string()?;
        let count = fields.u32()? as usize;
        if count > fields.left() / 4 {
            return Err(Malformed("more queries than bytes for them"));
        }
        let queries = (0..count).map(|_| fields.string()).collect::<Result<_, _>>()?;
        fields.end()?;
        Ok(Self { name, queries })
    }
}

/// The whole of `data` as the name of an export, for `NBD_OPT_EXPORT_NAME`.
///
/// # Errors
/// If the name is not a string.
pub fn export_name(data: &[u8]) -> Result<&str, Malformed> {
    if data.len() > STRING_BYTES_MAX {
        return Err(Malformed("a name of more than 4096 bytes"));
    }
    std::str::from_utf8(data).map_err(|_| Malformed("a name that is not UTF-8"))
}

/// Appends to `out` the reply `kind` to option `option`, with the data `parts`.
pub fn put_reply(out: &mut Vec<u8>, option: u32, kind: u32, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let len = u32::try_from(len).expect("replies to options are short");
    out.extend(NBD_REP_MAGIC.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend(len.to_be_bytes());
    parts.iter().for_each(|part| out.extend(*part));
}
