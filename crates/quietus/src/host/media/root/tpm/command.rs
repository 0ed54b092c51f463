//! Commands of a TPM 2.0 and its responses, as bytes: TPM 2.0 Library Specification, revision 1.59, Part 2 (structures) and Part 3
//! (commands). All numbers are big-endian.

use quietus_core::base::zeros::is_zeros;
use zeroize::Zeroizing;

/// Longest response of a TPM, as the kernel's driver has it.
pub(super) const RESPONSE_BYTES_MAX: usize = 4096;
/// Tag, size and code: what a command or response begins with.
pub(super) const HEAD_BYTES: usize = 10;
/// Longest authorisation value: a digest of SHA-512. Two bytes more say its length.
pub(super) const AUTH_BYTES_MAX: usize = 64;
/// Properties that do not change begin with this one (Part 2, table 28).
pub(super) const FIXED_PROPERTIES: u32 = 0x100;
/// Attributes of our indices (Part 2, table 204): an ordinary one, for the owner to write and read, beyond the protection against
/// dictionary attacks. It is never ORDERLY: such an index may lie in memory until the TPM is shut down.
pub(super) const ATTRIBUTES: u32 = OWNER_WRITE | OWNER_READ | NO_DA;

const NO_SESSIONS: u16 = 0x8001;
const SESSIONS: u16 = 0x8002;
pub(super) const OWNER: u32 = 0x4000_0001;
const PASSWORD_SESSION: u32 = 0x4000_0009;
const SHA256: u16 = 0x000b;
const CAP_TPM_PROPERTIES: u32 = 6;
const OWNER_WRITE: u32 = 1 << 1;
const OWNER_READ: u32 = 1 << 17;
const NO_DA: u32 = 1 << 25;
/// The index has been written.
const WRITTEN: u32 = 1 << 29;

const NV_UNDEFINE_SPACE: u32 = 0x122;
const NV_DEFINE_SPACE: u32 = 0x12a;
const NV_WRITE: u32 = 0x137;
const NV_READ: u32 = 0x14e;
const NV_READ_PUBLIC: u32 = 0x169;
const GET_CAPABILITY: u32 = 0x17a;

/// The codes of responses that we tell apart (Part 2, table 17), without the number of the parameter or handle.
pub(super) mod codes {
    pub(in crate::host::media::root::tpm) const SUCCESS: u32 = 0;
    pub(in crate::host::media::root::tpm) const HANDLE: u32 = 0x08b;
    pub(in crate::host::media::root::tpm) const AUTH_FAIL: u32 = 0x08e;
    pub(in crate::host::media::root::tpm) const BAD_AUTH: u32 = 0x0a2;
    pub(in crate::host::media::root::tpm) const INITIALIZE: u32 = 0x100;
    pub(in crate::host::media::root::tpm) const NV_UNINITIALIZED: u32 = 0x14a;
    pub(in crate::host::media::root::tpm) const NV_SPACE: u32 = 0x14b;
    pub(in crate::host::media::root::tpm) const NV_DEFINED: u32 = 0x14c;
    pub(in crate::host::media::root::tpm) const OBJECT_MEMORY: u32 = 0x902;
    pub(in crate::host::media::root::tpm) const SESSION_MEMORY: u32 = 0x903;
    pub(in crate::host::media::root::tpm) const MEMORY: u32 = 0x904;
    pub(in crate::host::media::root::tpm) const YIELDED: u32 = 0x908;
    pub(in crate::host::media::root::tpm) const CANCELED: u32 = 0x909;
    pub(in crate::host::media::root::tpm) const TESTING: u32 = 0x90a;
    pub(in crate::host::media::root::tpm) const NV_RATE: u32 = 0x920;
    pub(in crate::host::media::root::tpm) const LOCKOUT: u32 = 0x921;
    pub(in crate::host::media::root::tpm) const RETRY: u32 = 0x922;
    pub(in crate::host::media::root::tpm) const NV_UNAVAILABLE: u32 = 0x923;
}

/// The public area of an NV index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Public {
    pub(super) index: u32,
    pub(super) attributes: u32,
    pub(super) bytes: u16,
}

impl Public {
    /// Whether the index has been written since it was defined.
    pub(super) fn is_written(self) -> bool {
        self.attributes & WRITTEN != 0
    }

    /// Whether the index is one that we have defined, as far as its kind and size tell.
    pub(super) fn is_ours(self, bytes: u16) -> bool {
        self.attributes & !WRITTEN == ATTRIBUTES && self.bytes == bytes
    }
}

/// A command, which may hold secrets.
pub(super) type Command = Zeroizing<Vec<u8>>;

/// The bytes are no response, or are cut off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Malformed;

/// Defines an index without an authorisation value of its own. `auth` is the owner's.
pub(super) fn define(auth: &[u8], index: u32, bytes: u16) -> Command {
    let mut parameters = Vec::new();
    sized(&mut parameters, &[]);
    let mut public = Vec::new();
    public.extend(index.to_be_bytes());
    public.extend(SHA256.to_be_bytes());
    public.extend(ATTRIBUTES.to_be_bytes());
    sized(&mut public, &[]);
    public.extend(bytes.to_be_bytes());
    sized(&mut parameters, &public);
    with_auth(NV_DEFINE_SPACE, &[OWNER], auth, &parameters)
}

/// Removes an index.
pub(super) fn undefine(auth: &[u8], index: u32) -> Command {
    with_auth(NV_UNDEFINE_SPACE, &[OWNER, index], auth, &[])
}

/// Writes `content` at `offset` of an index.
pub(super) fn write(auth: &[u8], index: u32, offset: u16, content: &[u8]) -> Command {
    let mut parameters = Zeroizing::new(Vec::with_capacity(content.len() + 4));
    sized(&mut parameters, content);
    parameters.extend(offset.to_be_bytes());
    with_auth(NV_WRITE, &[OWNER, index], auth, &parameters)
}

/// Reads an index from its beginning.
pub(super) fn read(auth: &[u8], index: u32, bytes: u16) -> Command {
    let parameters = [bytes.to_be_bytes(), [0; 2]].concat();
    with_auth(NV_READ, &[OWNER, index], auth, &parameters)
}

/// Asks for the public area of an index.
pub(super) fn read_public(index: u32) -> Command {
    command(NO_SESSIONS, NV_READ_PUBLIC, &index.to_be_bytes())
}

/// Asks for so many properties from `first` on.
pub(super) fn properties(first: u32, count: u32) -> Command {
    command(NO_SESSIONS, GET_CAPABILITY, &[CAP_TPM_PROPERTIES, first, count].map(u32::to_be_bytes).concat())
}

/// A command whose one session is the password session, with `auth` as the password.
pub(super) fn with_auth(code: u32, handles: &[u32], auth: &[u8], parameters: &[u8]) -> Command {
    assert!(auth.len() <= AUTH_BYTES_MAX, "an authorisation value has its limit");
    // Never moved while it grows: the old place would keep secrets.
    let mut rest = Zeroizing::new(Vec::with_capacity(handles.len() * 4 + 13 + auth.len() + parameters.len()));
    handles.iter().for_each(|handle| rest.extend(handle.to_be_bytes()));
    rest.extend((9 + auth.len() as u32).to_be_bytes());
    rest.extend(PASSWORD_SESSION.to_be_bytes());
    sized(&mut rest, &[]);
    rest.push(0);
    sized(&mut rest, auth);
    rest.extend(parameters);
    command(SESSIONS, code, &rest)
}

fn command(tag: u16, code: u32, rest: &[u8]) -> Command {
    let mut bytes = Zeroizing::new(Vec::with_capacity(HEAD_BYTES + rest.len()));
    bytes.extend(tag.to_be_bytes());
    bytes.extend((HEAD_BYTES as u32 + rest.len() as u32).to_be_bytes());
    bytes.extend(code.to_be_bytes());
    bytes.extend(rest);
    bytes
}

/// Appends bytes behind their length, as a TPM2B is.
pub(super) fn sized(to: &mut Vec<u8>, bytes: &[u8]) {
    let len = u16::try_from(bytes.len()).expect("what we send is short");
    to.extend(len.to_be_bytes());
    to.extend(bytes);
}

/// Bytes of the response that begins with `head`; `None` if it is too short or long.
pub(super) fn response_bytes(head: &[u8; HEAD_BYTES]) -> Option<usize> {
    let bytes = u32::from_be_bytes([head[2], head[3], head[4], head[5]]) as usize;
    (HEAD_BYTES..=RESPONSE_BYTES_MAX).contains(&bytes).then_some(bytes)
}

/// The code of a response and its parameters.
pub(super) fn response(bytes: &[u8]) -> Result<(u32, &[u8]), Malformed> {
    let mut from = Reader(bytes);
    let (tag, size, code) = (from.u16()?, from.u32()?, from.u32()?);
    if size as usize != bytes.len() {
        return Err(Malformed);
    }
    match tag {
        SESSIONS if code == codes::SUCCESS => {
            let parameters = from.u32()? as usize;
            Ok((code, from.bytes(parameters)?))
        }
        _ => Ok((code, from.0)),
    }
}

/// The code without the number of the parameter, handle or session that it is about (Part 2, section 6.6).
pub(super) fn plain(code: u32) -> u32 {
    if code & 0x80 == 0 { code } else { code & 0x0bf }
}

/// The bytes in the response to [`read`].
pub(super) fn content(parameters: &[u8]) -> Result<&[u8], Malformed> {
    Reader(parameters).sized()
}

/// The area in the response to [`read_public`].
pub(super) fn public(parameters: &[u8]) -> Result<Public, Malformed> {
    let mut area = Reader(Reader(parameters).sized()?);
    let (index, _name, attributes, _policy) = (area.u32()?, area.u16()?, area.u32()?, area.sized()?);
    Ok(Public { index, attributes, bytes: area.u16()? })
}

/// The properties in the response to [`properties`]: number and value.
pub(super) fn property_list(parameters: &[u8]) -> Result<Vec<(u32, [u8; 4])>, Malformed> {
    let mut from = Reader(parameters);
    let (_more, capability, count) = (from.bytes(1)?, from.u32()?, from.u32()?);
    if capability != CAP_TPM_PROPERTIES || count as usize > RESPONSE_BYTES_MAX / 8 {
        return Err(Malformed);
    }
    (0..count).map(|_| Ok((from.u32()?, from.u32()?.to_be_bytes()))).collect()
}

/// The authorisation value in the bytes of a file: without the end of its line, and without zeros at its end, which a TPM does not
/// count either (Part 1, section 19.6.4.3).
pub(super) fn auth_value(bytes: &[u8]) -> Option<&[u8]> {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let end = (0..=line.len()).find(|end| is_zeros(&line[*end..]))?;
    (end <= AUTH_BYTES_MAX).then_some(&line[..end])
}

/// Takes fields off the front of bytes that a TPM has sent.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(u16::from_be_bytes(*taken))
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*taken))
    }

    fn sized(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u16()?;
        self.bytes(len.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::hex::hex;

    const INDEX: u32 = 0x0180_0150;

    fn bytes(text: &str) -> Vec<u8> {
        let digits: String = text.split_whitespace().collect();
        let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("digits"));
        pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hex digits")).collect()
    }

    #[test]
    fn commands_are_laid_out_as_part_3_of_the_specification_says() {
        for (made, expected) in [
            (read_public(INDEX), "8001 0000000e 00000169 01800150"),
            (properties(0x100, 8), "8001 00000016 0000017a 00000006 00000100 00000008"),
            (
                define(b"", INDEX, 72),
                "8002 0000002d 0000012a 40000001 00000009 40000009 0000 00 0000 0000 000e 01800150 000b 02020002 0000 0048",
            ),
            (
                define(b"pw", INDEX, 72),
                "8002 0000002f 0000012a 40000001 0000000b 40000009 0000 00 0002 7077 0000 000e 01800150 000b 02020002 0000 0048",
            ),
            (undefine(b"", INDEX), "8002 0000001f 00000122 40000001 01800150 00000009 40000009 0000 00 0000"),
            (
                write(b"", INDEX, 32, &[1, 2, 3]),
                "8002 00000026 00000137 40000001 01800150 00000009 40000009 0000 00 0000 0003 010203 0020",
            ),
            (
                read(b"", INDEX, 72),
                "8002 00000023 0000014e 40000001 01800150 00000009 40000009 0000 00 0000 0048 0000",
            ),
        ] {
            assert_eq!(hex(&made), hex(&bytes(expected)), "{expected}");
        }
    }

    #[test]
    fn a_response_is_read_without_its_sessions_and_with_its_code() {
        let read = bytes("8002 00000018 00000000 00000005 0003 0a0b0c 0000 00 0000 ");
        let (code, parameters) = response(&read).expect("a response");
        assert_eq!((code, content(parameters)), (0, Ok(&[10, 11, 12][..])));
        let busy = bytes("8001 0000000a 00000922");
        assert_eq!(response(&busy), Ok((codes::RETRY, &[][..])));
        for (code, expected) in [
            (0x18b, codes::HANDLE),
            (0x28b, codes::HANDLE),
            (0x9a2, codes::BAD_AUTH),
            (0x14c, codes::NV_DEFINED),
            (0x922, codes::RETRY),
            (0x1c4, 0x084),
        ] {
            assert_eq!(plain(code), expected, "{code:x}");
        }
    }

    #[test]
    fn a_response_that_is_cut_off_or_longer_than_it_says_is_refused() {
        let read = bytes("8002 00000018 00000000 00000005 0003 0a0b0c 0000 00 0000 ");
        for end in 0..read.len() {
            assert_eq!(response(&read[..end]), Err(Malformed), "{end}");
        }
        assert_eq!(response(&[&read[..], &[0]].concat()), Err(Malformed));
        let longer = bytes("8002 00000018 00000000 00000105 0003 0a0b0c 0000 00 0000 ");
        assert_eq!(response(&longer), Err(Malformed));
        assert_eq!((content(&[0, 4, 1, 2, 3]), content(&[0])), (Err(Malformed), Err(Malformed)));
        let head = |size: u32| {
            response_bytes(
                &[&[0x80, 1][..], &size.to_be_bytes(), &[0; 4]].concat().try_into().expect("ten bytes"),
            )
        };
        assert_eq!([9, 10, 4096, 4097].map(head), [None, Some(10), Some(4096), None]);
    }

    #[test]
    fn a_public_area_and_properties_are_read() {
        let area = bytes("000e 01800150 000b 22020002 0000 0048 0000");
        let found = public(&area).expect("an area");
        assert_eq!(found, Public { index: INDEX, attributes: 0x2202_0002, bytes: 72 });
        assert!(found.is_written() && found.is_ours(72) && !found.is_ours(40));
        // One that is kept in memory until the TPM is shut down.
        assert!(!Public { attributes: found.attributes | 1 << 26, ..found }.is_ours(72));
        assert!((0..area.len() - 2).all(|end| public(&area[..end]).is_err()));
        let list = bytes("01 00000006 00000002 00000105 49424d00 00000106 53572020");
        assert_eq!(property_list(&list), Ok(vec![(0x105, *b"IBM\0"), (0x106, *b"SW  ")]));
        assert!((0..list.len()).all(|end| property_list(&list[..end]).is_err()));
        assert!(property_list(&bytes("01 00000006 ffffffff")).is_err());
    }

    #[test]
    fn an_authorisation_value_ends_before_its_line_and_its_zeros() {
        let long = [7; AUTH_BYTES_MAX + 1];
        assert_eq!(auth_value(b"secret\n"), Some(&b"secret"[..]));
        assert_eq!(auth_value(b"secret\r\n"), Some(&b"secret"[..]));
        assert_eq!(auth_value(b"a\0b\0\0"), Some(&b"a\0b"[..]));
        assert_eq!((auth_value(b"\n"), auth_value(&long)), (Some(&b""[..]), None));
        assert_eq!(auth_value(&long[1..]), Some(&long[1..]));
    }
}
