//! Access lists: from the short form on the disk to the form that a program sees.

use crate::Error;
use crate::ext::bytes::{at, slice};
use crate::ext::units::Ino;
use zerocopy::little_endian::{U16, U32};

const EXT4_ACL_VERSION: u32 = 1;
const POSIX_ACL_XATTR_VERSION: u32 = 2;
const ACL_USER: u16 = 0x2;
const ACL_GROUP: u16 = 0x8;
/// Tags without a number of a user or a group: owner, owning group, mask, others.
const SHORT_TAGS: [u16; 4] = [0x1, 0x4, 0x10, 0x20];
const ACL_UNDEFINED_ID: u32 = u32::MAX;
/// Bytes of the version, and of an entry without a number.
const SHORT_BYTES: usize = 4;
const LONG_BYTES: usize = 8;

/// The list `value` of an inode, as the kernel gives it to a program.
///
/// # Errors
/// If the version or a tag is unknown, or an entry is cut off.
pub(super) fn converted(ino: Ino, value: &[u8]) -> Result<Vec<u8>, Error> {
    let a_version = at::<U32>(value, 0).map_or(0, |it| it.get());
    if a_version != EXT4_ACL_VERSION {
        return Err(ino.damaged(&format!("a_version {a_version} of an access list")));
    }
    let (mut found, mut from) = (POSIX_ACL_XATTR_VERSION.to_le_bytes().to_vec(), SHORT_BYTES);
    while from < value.len() {
        let (entry, bytes) =
            entry(value, from).map_err(|what| ino.damaged(&format!("access list: {what}")))?;
        found.extend(entry);
        from += bytes;
    }
    Ok(found)
}

/// The entry at byte `from` in its long form, and how many bytes its form on the disk has.
fn entry(value: &[u8], from: usize) -> Result<([u8; LONG_BYTES], usize), String> {
    let short = slice(value, from, SHORT_BYTES).ok_or("an entry is cut off")?;
    let e_tag = at::<U16>(short, 0).map_or(0, |it| it.get());
    let (e_id, bytes) = match e_tag {
        ACL_USER | ACL_GROUP => {
            let e_id = at::<U32>(value, from + SHORT_BYTES).ok_or("e_id is cut off")?;
            (e_id.get(), LONG_BYTES)
        }
        _ if SHORT_TAGS.contains(&e_tag) => (ACL_UNDEFINED_ID, SHORT_BYTES),
        _ => return Err(format!("e_tag {e_tag:#x}")),
    };
    let mut entry = [0; LONG_BYTES];
    entry[..SHORT_BYTES].copy_from_slice(short);
    entry[SHORT_BYTES..].copy_from_slice(&e_id.to_le_bytes());
    Ok((entry, bytes))
}
