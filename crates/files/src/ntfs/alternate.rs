//! Alternate data streams, as extended attributes: `user.NAME`, as ntfs-3g shows them with `streams_interface=xattr`.

use crate::ntfs::disk::{Disk, damaged};
use crate::ntfs::name::units;
use crate::ntfs::node::{Node, is_first};
use crate::{Error, ExtendedAttribute};
use quietus_detect::formats::ntfs::record::DATA;

/// Largest value of Linux (`XATTR_SIZE_MAX`). Larger streams are left out.
const VALUE_BYTES_MAX: u64 = 65_536;
/// Most streams of a file, which have 64 MiB in all.
const STREAMS_MAX: usize = 1024;

/// All streams of a file with a name that an extended attribute can hold. Those that are compressed or encrypted are left out.
pub(super) fn all(disk: &mut Disk, node: &Node) -> Result<Vec<ExtendedAttribute>, Error> {
    let mut names = Vec::new();
    node.each(disk, DATA, &mut |attribute| {
        if !attribute.name.is_empty() && is_first(attribute) {
            names.push(attribute.name.to_vec());
        }
        if names.len() <= STREAMS_MAX {
            return Ok(());
        }
        Err(damaged(node.number, format_args!("more than {STREAMS_MAX} streams")))
    })?;
    let mut found = Vec::new();
    for name in names {
        let stream = node.stream(disk, DATA, &name)?;
        if let Some(stream) = stream.filter(|it| it.is_plain() && it.bytes <= VALUE_BYTES_MAX) {
            found.push((full_name(node, &name)?, stream.whole(disk, VALUE_BYTES_MAX)?));
        }
    }
    Ok(found)
}

/// The name of the attribute for the stream with this name in UTF-16.
fn full_name(node: &Node, name: &[u8]) -> Result<Vec<u8>, Error> {
    let units = units(name);
    if units.contains(&0) {
        return Err(damaged(node.number, "the name of a stream has a NUL"));
    }
    Ok(format!("user.{}", String::from_utf16_lossy(&units)).into_bytes())
}
