//! ACLs of POSIX: as archives have them, a text, and as Linux has them, a binary attribute.
//!
//! The attribute is a version (2, u32), then entries of a tag (u16), permissions (u16) and a number (u32), all little-endian
//! (`include/uapi/linux/posix_acl_xattr.h`).

/// The attributes that have ACLs.
pub(super) const ACCESS: &[u8] = b"system.posix_acl_access";
pub(super) const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const ENTRY_BYTES: usize = 8;
/// The number that an entry without one has.
const NO_ID: u32 = u32::MAX;
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// The attribute that a text such as `user::rw-,user:ann:r--:1001,group::r--,mask::r--,other::---` means; `None` for one that says
/// no more than the mode does.
///
/// # Errors
/// The entry is invalid, or names a user or group that this host does not know, without its number.
pub(super) fn parse(text: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "not UTF-8 text".to_owned())?;
    let lines = text.split(['\n', ',']).map(|line| line.split('#').next().unwrap_or_default().trim());
    let mut entries = lines.filter(|line| !line.is_empty()).map(entry).collect::<Result<Vec<_>, _>>()?;
    entries.sort_unstable();
    if entries.iter().all(|(tag, _, _)| matches!(*tag, USER_OBJ | GROUP_OBJ | OTHER)) {
        return Ok(None);
    }
    let mut bytes = VERSION.to_le_bytes().to_vec();
    for (tag, id, rights) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    Ok(Some(bytes))
}

/// Tag, number and permissions of an entry.
fn entry(line: &str) -> Result<(u16, u32, u16), String> {
    let unknown = || format!("invalid entry {line:?} of an ACL");
    let parts: Vec<&str> = line.split(':').map(str::trim).collect();
    let (kind, name, rest) = match parts[..] {
        // Solaris leaves the name out that these never have.
        [kind @ ("mask" | "m" | "other" | "o"), rights] => (kind, "", vec![rights]),
        [kind, name, ref rest @ ..] => (kind, name, rest.to_vec()),
        _ => return Err(unknown()),
    };
    let (tag, names) = match (kind, name) {
        ("user" | "u", "") => (USER_OBJ, None),
        ("user" | "u", _) => (USER, Some("/etc/passwd")),
        ("group" | "g", "") => (GROUP_OBJ, None),
        ("group" | "g", _) => (GROUP, Some("/etc/group")),
        ("mask" | "m", _) => (MASK, None),
        ("other" | "o", _) => (OTHER, None),
        _ => return Err(unknown()),
    };
    let rights = rest.first().and_then(|it| rights(it)).ok_or_else(unknown)?;
    let id = match names {
        None => NO_ID,
        Some(names) => {
            let number = rest.get(1).copied().unwrap_or(name).parse().ok();
            number
                .or_else(|| look_up(names, name))
                .ok_or_else(|| format!("{line:?} names {name:?}, which {names} of this host does not have"))?
        }
    };
    Ok((tag, id, rights))
}

fn rights(text: &str) -> Option<u16> {
    text.bytes().try_fold(0, |rights, byte| match byte {
        b'r' => Some(rights | 4),
        b'w' => Some(rights | 2),
        b'x' => Some(rights | 1),
        b'-' => Some(rights),
        _ => None,
    })
}

/// The number of a user or a group: the files with the names have it in their third column.
fn look_up(names: &str, name: &str) -> Option<u32> {
    let text = std::fs::read_to_string(names).ok()?;
    let mut lines = text.lines().map(|line| line.split(':'));
    lines.find_map(|mut parts| (parts.next() == Some(name)).then(|| parts.nth(1)?.parse().ok()).flatten())
}

/// The entries of an attribute; `None` for what is no ACL.
fn entries(attribute: &[u8]) -> Option<Vec<(u16, u32, u16)>> {
    let entries = attribute.strip_prefix(&VERSION.to_le_bytes())?;
    if entries.is_empty() || !entries.len().is_multiple_of(ENTRY_BYTES) {
        return None;
    }
    let entry = |it: &[u8]| {
        let (tag, rights) = (u16::from_le_bytes([it[0], it[1]]), u16::from_le_bytes([it[2], it[3]]));
        (tag, u32::from_le_bytes([it[4], it[5], it[6], it[7]]), rights)
    };
    Some(entries.chunks(ENTRY_BYTES).map(entry).collect())
}

/// The permissions of a mode that go with an ACL, as Linux has it: the permissions of the group are the mask. `None` for what is no ACL.
pub(super) fn mode(attribute: &[u8]) -> Option<u32> {
    let entries = entries(attribute)?;
    let of = |wanted| {
        entries.iter().find(|(tag, _, _)| *tag == wanted).map(|(_, _, rights)| u32::from(rights & 7))
    };
    Some(of(USER_OBJ)? << 6 | of(MASK).or_else(|| of(GROUP_OBJ))? << 3 | of(OTHER)?)
}

/// The text of an attribute, with numbers in place of names; `None` for what is no ACL.
pub(super) fn text(attribute: &[u8]) -> Option<String> {
    let line = |(tag, id, rights): (u16, u32, u16)| {
        let kind = match tag {
            USER_OBJ => "user:".to_owned(),
            USER => format!("user:{id}"),
            GROUP_OBJ => "group:".to_owned(),
            GROUP => format!("group:{id}"),
            MASK => "mask:".to_owned(),
            OTHER => "other:".to_owned(),
            _ => return None,
        };
        let right = |bit, letter| if rights & bit == 0 { '-' } else { letter };
        (rights <= 7).then(|| format!("{kind}:{}{}{}", right(4, 'r'), right(2, 'w'), right(1, 'x')))
    };
    let lines: Option<Vec<String>> = entries(attribute)?.into_iter().map(line).collect();
    Some(lines?.join(","))
}

#[cfg(test)]
mod tests {
    use crate::vault::transfer::tar::acl::*;

    #[test]
    fn texts_of_each_program_are_the_same_attribute() {
        let star = "user::rw-,user:nobody-here:r-x:1001,group::r--,group:7:-w-,mask::rwx,other::---";
        let long =
            "user::rw-\nuser:1001:r-x\t#effective:r--\ngroup::r--\ngroup:7:-w-\nmask::rwx\nother::---\n";
        let solaris = "u::rw-,u:1001:r-x,g::r--,g:7:-w-,m:rwx,o:---";
        let attribute = parse(star.as_bytes()).expect("a text").expect("an ACL");
        assert_eq!((attribute.len(), mode(&attribute)), (4 + 6 * ENTRY_BYTES, Some(0o670)));
        for other in [long, solaris, &text(&attribute).expect("an ACL")] {
            assert_eq!(parse(other.as_bytes()), Ok(Some(attribute.clone())), "{other}");
        }
        let root = parse(b"user::rw-,user:root:r--,group::r--,mask::r--,other::---").expect("a name");
        assert!(root.is_some_and(|it| text(&it).is_some_and(|it| it.contains("user:0:r--"))));
        assert_eq!(parse(b"user::rw-,group::r--,other::r--"), Ok(None), "no more than a mode");
    }

    #[test]
    fn an_invalid_acl_is_named() {
        for (bad, why) in [
            (&b"user::rwz"[..], "invalid entry"),
            (b"nobody", "invalid entry"),
            (b"user", "invalid entry"),
            (b"owner@::rwx", "invalid entry"),
            (b"user:nobody here:rwx", "does not have"),
            (b"\xff", "not UTF-8 text"),
        ] {
            assert!(parse(bad).is_err_and(|it| it.contains(why)), "{why}");
        }
        assert_eq!(
            (text(b""), text(b"\x02\0\0\0"), text(&[2, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0])),
            (None, None, None)
        );
    }
}
