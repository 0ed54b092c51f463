//! Reparse points: symbolic links, files of Linux, and content that is kept in another way (`$REPARSE_POINT`).

use crate::ntfs::disk::{Disk, damaged};
use crate::ntfs::name::units;
use crate::ntfs::node::Node;
use crate::{Error, Kind};
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Type of the attribute.
const REPARSE_POINT: u32 = 0xC0;
/// Most bytes of it: a head, and data of at most 16 KiB.
const BYTES_MAX: u64 = 24 + (16 << 10);
const IO_REPARSE_TAG_MOUNT_POINT: u32 = 0xA000_0003;
const IO_REPARSE_TAG_SYMLINK: u32 = 0xA000_000C;
const IO_REPARSE_TAG_LX_SYMLINK: u32 = 0xA000_001D;
const IO_REPARSE_TAG_AF_UNIX: u32 = 0x8000_0023;
const IO_REPARSE_TAG_LX_FIFO: u32 = 0x8000_0024;
/// Twelve bits of the tag of a file in a cloud tell its state.
const CLOUD: (u32, u32) = (0xFFFF_0FFF, 0x9000_001A);
/// The version of a link of Linux.
const LX_VERSION: [u8; 4] = [2, 0, 0, 0];
/// What Windows writes before a path from the root of all devices.
const DEVICES: &str = "\\??\\";

/// The head of a reparse point.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
struct RawReparse {
    reparse_tag: U32,
    reparse_data_length: U16,
    _reserved: U16,
}

/// The data of a mount point, and of a symbolic link, which has flags behind it.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
struct RawNames {
    substitute_name_offset: U16,
    substitute_name_length: U16,
    print_name_offset: U16,
    print_name_length: U16,
}

const _: () = {
    assert!(size_of::<RawReparse>() == 8 && offset_of!(RawReparse, reparse_data_length) == 4);
    assert!(size_of::<RawNames>() == 8 && offset_of!(RawNames, print_name_offset) == 4);
};

/// Bytes of the flags of a symbolic link.
const FLAGS_BYTES: usize = 4;

/// A reparse point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Reparse {
    number: u64,
    tag: u32,
    data: Vec<u8>,
}

impl Reparse {
    /// The reparse point of `node`, if it has one.
    pub(super) fn of(disk: &mut Disk, node: &Node) -> Result<Option<Self>, Error> {
        let Some(stream) = node.stream(disk, REPARSE_POINT, &[])? else { return Ok(None) };
        let value = stream.whole(disk, BYTES_MAX)?;
        let lie = |what: &str| damaged(node.number, format_args!("$REPARSE_POINT: {what}"));
        let (raw, data) = RawReparse::read_from_prefix(&value).map_err(|_| lie("cut off"))?;
        let length = usize::from(raw.reparse_data_length);
        let data = data.get(..length).ok_or_else(|| lie(&format!("reparse_data_length {length}")))?;
        Ok(Some(Self { number: node.number, tag: raw.reparse_tag.get(), data: data.to_vec() }))
    }

    /// What the file is, if the reparse point says that.
    pub(super) fn kind(&self) -> Option<Kind> {
        match self.tag {
            IO_REPARSE_TAG_MOUNT_POINT | IO_REPARSE_TAG_SYMLINK | IO_REPARSE_TAG_LX_SYMLINK => {
                Some(Kind::Link)
            }
            IO_REPARSE_TAG_AF_UNIX => Some(Kind::Socket),
            IO_REPARSE_TAG_LX_FIFO => Some(Kind::Pipe),
            _ => None,
        }
    }

    /// Where the link leads: with `/`, and with the letter of a drive as it stands.
    pub(super) fn target(&self) -> Result<Vec<u8>, Error> {
        let target = match self.tag {
            IO_REPARSE_TAG_LX_SYMLINK => self.data.strip_prefix(&LX_VERSION).map(<[u8]>::to_vec),
            IO_REPARSE_TAG_MOUNT_POINT => self.path(0),
            IO_REPARSE_TAG_SYMLINK => self.path(FLAGS_BYTES),
            _ => return Err(Error::NotA("symbolic link")),
        };
        target
            .filter(|it| !it.is_empty() && !it.contains(&0))
            .ok_or_else(|| damaged(self.number, "$REPARSE_POINT: a link without a target"))
    }

    /// The target of a link of Windows, whose names lie `flags_bytes` behind its head.
    fn path(&self, flags_bytes: usize) -> Option<Vec<u8>> {
        let (raw, rest) = RawNames::read_from_prefix(&self.data).ok()?;
        let names = rest.get(flags_bytes..)?;
        let name = |at: U16, length: U16| {
            let bytes = names.get(usize::from(at)..)?.get(..usize::from(length))?;
            Some(String::from_utf16_lossy(&units(bytes)))
        };
        let substitute = name(raw.substitute_name_offset, raw.substitute_name_length)?;
        let path = match substitute.strip_prefix(DEVICES).unwrap_or(&substitute) {
            "" => name(raw.print_name_offset, raw.print_name_length)?,
            path => path.into(),
        };
        Some(path.replace('\\', "/").into_bytes())
    }

    /// Why the content of a file with this reparse point cannot be read.
    pub(super) fn refusal(&self) -> Error {
        let what = match self.tag {
            0x8000_0013 => "the content is deduplicated",
            0x8000_0017 => "the content is compressed (WOF)",
            0x8000_0018 => "the content is in the image of a container (WCI)",
            0x8000_001B => "an alias of an application",
            0x8000_0025 => "a character device of Linux",
            0x8000_0026 => "a block device of Linux",
            tag if tag & CLOUD.0 == CLOUD.1 => "the content is kept in a cloud, as OneDrive does",
            _ => "the content is kept in a way that is not known",
        };
        Error::Unsupported(format!("record {}: {what} (reparse tag {:#010x})", self.number, self.tag))
    }
}

#[cfg(test)]
mod tests;
