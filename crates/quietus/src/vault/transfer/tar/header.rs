//! The header of an entry of an archive: a block of 512 bytes, as POSIX (`ustar`, from *pax*, IEEE 1003.1) and GNU tar have it.

use std::ops::Range;

/// Bytes of a block; content is filled up to whole blocks.
pub(super) const BLOCK_BYTES: usize = 512;
/// Bytes that a name has in a header at most.
pub(super) const NAME_BYTES_MAX: usize = 100;

/// Where a number is in a header, and what it is called.
pub(super) type Field = (&'static str, Range<usize>);

pub(super) const MODE: Field = ("mode", 100..108);
pub(super) const UID: Field = ("uid", 108..116);
pub(super) const GID: Field = ("gid", 116..124);
pub(super) const SIZE: Field = ("size", 124..136);
pub(super) const MTIME: Field = ("mtime", 136..148);
const CHKSUM: Field = ("chksum", 148..156);
pub(super) const DEVMAJOR: Field = ("devmajor", 329..337);
pub(super) const DEVMINOR: Field = ("devminor", 337..345);
const NAME: Range<usize> = 0..100;
const TYPEFLAG: usize = 156;
const LINKNAME: Range<usize> = 157..257;
const MAGIC: Range<usize> = 257..265;
const PREFIX: Range<usize> = 345..500;
/// The prefix of `star`, which has times behind it.
const STAR_PREFIX: Range<usize> = 345..476;
const STAR_MAGIC: Range<usize> = 508..512;

const USTAR: &[u8; 8] = b"ustar\x0000";
const GNU: &[u8; 8] = b"ustar  \0";

/// The block of a header.
#[derive(Clone, Debug)]
pub(super) struct Header(pub(super) [u8; BLOCK_BYTES]);

impl Header {
    /// A header without anything but its kind.
    pub(super) fn new(flag: u8) -> Header {
        let mut header = Header([0; BLOCK_BYTES]);
        header.0[MAGIC].copy_from_slice(USTAR);
        header.0[TYPEFLAG] = flag;
        header
    }

    /// Whether the checksum is right: of unsigned bytes, or, as some old programs have it, of signed ones.
    pub(super) fn is_whole(&self) -> bool {
        let sum = |of: fn(u8) -> i64| {
            let counted = |(at, byte): (usize, &u8)| of(if CHKSUM.1.contains(&at) { b' ' } else { *byte });
            self.0.iter().enumerate().map(counted).sum::<i64>()
        };
        let said = self.number(&CHKSUM);
        said == Ok(sum(i64::from)) || said == Ok(sum(|byte| i64::from(byte.cast_signed())))
    }

    /// The kind of the entry.
    pub(super) fn flag(&self) -> u8 {
        self.0[TYPEFLAG]
    }

    /// The path of the entry.
    pub(super) fn name(&self) -> Vec<u8> {
        let prefix = match &self.0[MAGIC] {
            _ if &self.0[STAR_MAGIC] == b"tar\0" => text(&self.0[STAR_PREFIX]),
            magic if magic[..5] == USTAR[..5] && magic != GNU => text(&self.0[PREFIX]),
            _ => &[],
        };
        let name = text(&self.0[NAME]);
        if prefix.is_empty() { name.into() } else { [prefix, b"/", name].concat() }
    }

    /// Target of a link.
    pub(super) fn link(&self) -> Vec<u8> {
        text(&self.0[LINKNAME]).into()
    }

    /// A number.
    ///
    /// # Errors
    /// The field and its value, if that is no number.
    pub(super) fn number(&self, (name, at): &Field) -> Result<i64, String> {
        let bytes = &self.0[at.clone()];
        number(bytes).ok_or_else(|| format!("the field `{name}` is {:?}", String::from_utf8_lossy(bytes)))
    }

    /// Major and minor number of a device; old headers lack them.
    pub(super) fn device(&self) -> Result<(u32, u32), String> {
        if self.0[MAGIC][..5] != USTAR[..5] {
            return Ok((0, 0));
        }
        let part = |field: &Field| {
            let number = self.number(field)?;
            u32::try_from(number).map_err(|_| format!("the field `{}` is {number}", field.0))
        };
        Ok((part(&DEVMAJOR)?, part(&DEVMINOR)?))
    }

    /// Sets the path, or as much of it as there is room for.
    pub(super) fn set_name(&mut self, name: &[u8]) {
        set(&mut self.0[NAME], name);
    }

    /// Sets what a link leads to, or as much of it as there is room for.
    pub(super) fn set_link(&mut self, link: &[u8]) {
        set(&mut self.0[LINKNAME], link);
    }

    /// Sets a number: as octal digits, or in base 256 if it has too many of them.
    pub(super) fn set_number(&mut self, (_, at): &Field, number: i64) {
        let field = &mut self.0[at.clone()];
        let digits = field.len() - 1;
        let octal = format!("{number:0digits$o}");
        if number >= 0 && octal.len() <= digits {
            return set(field, octal.as_bytes());
        }
        field.fill(if number < 0 { 0xff } else { 0 });
        let end = field.len();
        field[end - 8..].copy_from_slice(&number.to_be_bytes());
        field[0] = if number < 0 { 0xff } else { 0x80 };
    }

    /// The block, with its checksum.
    pub(super) fn finished(mut self) -> [u8; BLOCK_BYTES] {
        self.0[CHKSUM.1].fill(b' ');
        let sum: u32 = self.0.iter().copied().map(u32::from).sum();
        set(&mut self.0[CHKSUM.1], format!("{sum:06o}\0 ").as_bytes());
        self.0
    }
}

fn set(field: &mut [u8], value: &[u8]) {
    let length = value.len().min(field.len());
    field[..length].copy_from_slice(&value[..length]);
}

/// The text of a field, which ends at its end or before a zero byte.
fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A number in octal digits, or in base 256 as GNU tar writes it. An empty field is zero.
pub(super) fn number(field: &[u8]) -> Option<i64> {
    match *field {
        [first, ref rest @ ..] if first & 0x80 != 0 => {
            let first = if first == 0xff { -1 } else { i128::from(first & 0x7f) };
            let number =
                rest.iter().try_fold(first, |sum, byte| Some(sum.checked_mul(256)? + i128::from(*byte)))?;
            i64::try_from(number).ok()
        }
        _ => {
            let is_blank = |byte: &u8| matches!(byte, b' ' | 0);
            let from = field.iter().position(|byte| !is_blank(byte)).unwrap_or(field.len());
            let digits = field[from..].split(is_blank).next().unwrap_or_default();
            digits.iter().try_fold(0_i64, |sum, byte| match byte {
                b'0'..=b'7' => sum.checked_mul(8)?.checked_add(i64::from(byte - b'0')),
                _ => None,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::vault::transfer::tar::header::*;

    #[test]
    fn numbers_are_octal_or_of_base_256_and_come_back() {
        for value in [0, 7, 0o7777, 0o77_777_777_777, 1 << 33, i64::MAX, -1, -5, i64::MIN] {
            let mut header = Header::new(b'0');
            header.set_number(&MTIME, value);
            assert_eq!(header.number(&MTIME), Ok(value));
        }
        let mut header = Header::new(b'0');
        header.set_number(&UID, 3_000_000_000);
        assert_eq!(header.number(&UID), Ok(3_000_000_000));
        assert_eq!(number(b"  644 \0"), Some(0o644));
        assert_eq!(number(b"\0\0\0"), Some(0));
        assert_eq!((number(b"0x12"), number(b"8"), number(b"7777777777777777777777777")), (None, None, None));
        assert_eq!(number(&[0xff; 12]), Some(-1));
        assert_eq!(number(&[0x80, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn a_header_is_whole_with_the_right_checksum_and_with_no_other() {
        let mut header = Header::new(b'0');
        header.set_name(b"caf\xc3\xa9");
        let mut bytes = header.finished();
        assert!(Header(bytes).is_whole());
        bytes[3] ^= 1;
        assert!(!Header(bytes).is_whole());
    }
}
