//! Extended headers: records of a keyword and a value, as POSIX has them (*pax*, IEEE 1003.1), with the keywords of GNU tar, star,
//! libarchive and Go.

use crate::vault::transfer::tar::{acl, sparse};
use std::collections::BTreeMap;

/// Extended attributes as they are: GNU tar, star, libarchive, Go.
const SCHILY: &str = "SCHILY.xattr.";
/// Extended attributes in base 64, their names as in a URL: libarchive.
const LIBARCHIVE: &str = "LIBARCHIVE.xattr.";
const SELINUX: (&str, &[u8]) = ("RHT.security.selinux", b"security.selinux");
/// ACLs as text.
const ACLS: [(&str, &[u8]); 2] = [("SCHILY.acl.access", acl::ACCESS), ("SCHILY.acl.default", acl::DEFAULT)];
/// ACLs of NFSv4, which Linux keeps elsewhere.
const ACE: &str = "SCHILY.acl.ace";
const SECOND_NS: i64 = 1_000_000_000;

/// A keyword and a value.
type Record<'t> = (&'t [u8], &'t [u8]);

/// The records of an extended header: `LENGTH KEYWORD=VALUE`, each with a line's end. A value may have any bytes.
///
/// # Errors
/// An invalid record.
pub(super) fn records(mut text: &[u8]) -> Result<Vec<Record<'_>>, String> {
    let mut found = Vec::new();
    while !text.is_empty() {
        let record = record(text).ok_or_else(|| {
            let start = String::from_utf8_lossy(&text[..text.len().min(40)]);
            format!("an extended header has {start:?} in place of a record")
        })?;
        found.push((record.0, record.1));
        text = record.2;
    }
    Ok(found)
}

/// The keyword and the value of the first record, and what is behind it.
fn record(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = text.iter().take(20).position(|byte| *byte == b' ')?;
    let length: usize = std::str::from_utf8(&text[..space]).ok()?.parse().ok()?;
    let (record, rest) = text.split_at_checked(length)?;
    let record = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|byte| *byte == b'=')?;
    Some((&record[..equals], &record[equals + 1..], rest))
}

/// Adds a record.
pub(super) fn push_record(text: &mut Vec<u8>, keyword: &[u8], value: &[u8]) {
    let rest = keyword.len() + value.len() + 3;
    let with = |digits: usize| (rest + digits).to_string();
    // The length counts its own digits.
    let mut length = with(1);
    while with(length.len()) != length {
        length = with(length.len());
    }
    text.extend([length.as_bytes(), b" ", keyword, b"=", value, b"\n"].concat());
}

/// Attributes from extended headers, which take precedence over the fields of the entry's header.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Extended {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<i64>,
    pub(super) user: Option<i64>,
    pub(super) group: Option<i64>,
    pub(super) modified_ns: Option<i64>,
    pub(super) attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) sparse: sparse::Records,
    /// What cannot be kept, and why.
    pub(super) lost: Vec<String>,
}

impl Extended {
    /// Whether it has what can only be said of one file. A header of all has owners and times.
    pub(super) fn is_of_one(&self) -> bool {
        let Self { user, group, modified_ns, .. } = *self;
        *self != Self { user, group, modified_ns, ..Self::default() }
    }

    /// Takes a record. One without a value takes an earlier one back.
    ///
    /// # Errors
    /// A value that cannot be.
    pub(super) fn take(&mut self, keyword: &[u8], value: &[u8]) -> Result<(), String> {
        let Ok(keyword) = std::str::from_utf8(keyword) else { return Ok(()) };
        let bad = || format!("the record `{keyword}` is {:?}", String::from_utf8_lossy(value));
        let given = (!value.is_empty()).then_some(value);
        let text = || std::str::from_utf8(value).ok();
        let number = || given.map(|_| text().and_then(|it| it.parse().ok()).ok_or_else(bad)).transpose();
        match keyword {
            "path" => self.path = given.map(Into::into),
            "linkpath" => self.link = given.map(Into::into),
            "size" => self.size = number()?,
            "uid" => self.user = number()?,
            "gid" => self.group = number()?,
            "mtime" => {
                let nanoseconds = || text().and_then(nanoseconds).ok_or_else(bad);
                self.modified_ns = given.map(|_| nanoseconds()).transpose()?;
            }
            ACE => self.lost.push("an ACL of NFSv4".into()),
            _ if keyword.starts_with(sparse::PREFIX) => self.sparse.take(keyword, value).ok_or_else(bad)?,
            _ => self.attribute(keyword, value).ok_or_else(bad)?,
        }
        Ok(())
    }

    /// Takes an extended attribute, if it is one; `None` for a value that cannot be.
    fn attribute(&mut self, keyword: &str, value: &[u8]) -> Option<()> {
        if let Some((_, name)) = ACLS.iter().find(|(acl, _)| *acl == keyword) {
            match acl::parse(value) {
                Ok(Some(acl)) => drop(self.attributes.insert(name.to_vec(), acl)),
                Ok(None) => {}
                Err(why) => self.lost.push(format!("an ACL: {why}")),
            }
        } else if keyword == SELINUX.0 {
            self.attributes.insert(SELINUX.1.to_vec(), [value, b"\0"].concat());
        } else if let Some(name) = keyword.strip_prefix(SCHILY) {
            let name = name.replace("%3D", "=").replace("%25", "%");
            self.attributes.insert(name.into_bytes(), value.into());
        } else if let Some(name) = keyword.strip_prefix(LIBARCHIVE) {
            self.attributes.insert(from_url(name)?, from_base64(value)?);
        }
        Some(())
    }
}

/// The record of an extended attribute.
pub(super) fn push_attribute(text: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let acl =
        ACLS.iter().find(|(_, it)| *it == name).and_then(|(keyword, _)| Some((*keyword, acl::text(value)?)));
    if let Some((keyword, acl)) = acl {
        return push_record(text, keyword.as_bytes(), acl.as_bytes());
    }
    match value.strip_suffix(b"\0") {
        Some(context) if name == SELINUX.1 && !context.contains(&0) => {
            push_record(text, SELINUX.0.as_bytes(), context);
        }
        _ => {
            let escape = |byte: &u8| match byte {
                b'%' => b"%25".to_vec(),
                b'=' => b"%3D".to_vec(),
                other => vec![*other],
            };
            let name: Vec<u8> = name.iter().flat_map(escape).collect();
            push_record(text, &[SCHILY.as_bytes(), &name].concat(), value);
        }
    }
}

/// Seconds with a fraction, in nanoseconds. Times that no number of nanoseconds has are the last one that one has.
pub(super) fn nanoseconds(text: &str) -> Option<i64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    if !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits: String = part.chars().chain("000000000".chars()).take(9).collect();
    let part: i64 = digits.parse().ok()?;
    let part = if whole.starts_with('-') { -part } else { part };
    Some(seconds.saturating_mul(SECOND_NS).saturating_add(part))
}

/// Nanoseconds as seconds with a fraction.
pub(super) fn seconds(nanoseconds: i64) -> String {
    let (sign, all) = (if nanoseconds < 0 { "-" } else { "" }, nanoseconds.unsigned_abs());
    let (whole, part) = (all / SECOND_NS as u64, all % SECOND_NS as u64);
    let text = format!("{sign}{whole}.{part:09}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

fn from_url(text: &str) -> Option<Vec<u8>> {
    let (mut found, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next() {
        let escaped =
            |high: u8, low: u8| u8::from_str_radix(std::str::from_utf8(&[high, low]).ok()?, 16).ok();
        found.push(if byte == b'%' { escaped(bytes.next()?, bytes.next()?)? } else { byte });
    }
    Some(found)
}

fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let (mut found, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for byte in text.iter().filter(|byte| !matches!(byte, b'=' | b'\n')) {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, count) = ((bits << 6 | u32::from(value)) & 0xffff, count + 6);
        if count >= 8 {
            count -= 8;
            found.push((bits >> count) as u8);
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use crate::vault::transfer::tar::pax::*;

    #[test]
    fn times_with_a_fraction_are_whole_nanoseconds_and_come_back() {
        assert_eq!(nanoseconds("12.5"), Some(12_500_000_000));
        assert_eq!(nanoseconds("-1.25"), Some(-1_250_000_000));
        assert_eq!(nanoseconds("-0.5"), Some(-500_000_000));
        assert_eq!(nanoseconds("7"), Some(7_000_000_000));
        assert_eq!(nanoseconds("9223372036854775807"), Some(i64::MAX));
        assert_eq!(
            (nanoseconds("99999999999999999999"), nanoseconds("1.x"), nanoseconds("1.+2")),
            (None, None, None)
        );
        for time in [0, 1, -1, 1_500_000_000, -1_250_000_000, i64::MAX] {
            assert_eq!(nanoseconds(&seconds(time)), Some(time));
        }
    }

    #[test]
    fn a_record_has_any_bytes_and_its_own_length() {
        let mut text = Vec::new();
        let long = vec![b'\n'; 90];
        for (keyword, value) in [(&b"a"[..], &b"line\nline\n"[..]), (b"bb", &long), (b"c", b"=\0")] {
            push_record(&mut text, keyword, value);
        }
        let found = records(&text).expect("records");
        assert_eq!(found, [(&b"a"[..], &b"line\nline\n"[..]), (b"bb", &long), (b"c", b"=\0")]);
        for bad in ["5 a=b", "99 a=b\n", "x a=b\n", "6 a=bc", "4 ab\n", "0 \n", "18446744073709551615 a=b\n"]
        {
            assert!(records(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn attributes_are_read_as_each_program_writes_them() {
        let mut extended = Extended::default();
        for (keyword, value) in [
            ("SCHILY.xattr.user.a%3Db", "one"),
            ("LIBARCHIVE.xattr.user.b%20c", "dHdvAA"),
            ("RHT.security.selinux", "u:r:t"),
            ("comment", "nothing"),
        ] {
            extended.take(keyword.as_bytes(), value.as_bytes()).expect("a record");
        }
        let found: Vec<_> = extended.attributes.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        let selinux = (&b"security.selinux"[..], &b"u:r:t\0"[..]);
        assert_eq!(found, [selinux, (b"user.a=b", b"one"), (b"user.b c", b"two\0")]);
        assert!(
            extended.take(b"LIBARCHIVE.xattr.user.x", b"?").is_err() && extended.take(b"size", b"x").is_err()
        );
    }
}
