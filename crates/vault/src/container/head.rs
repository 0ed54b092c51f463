//! The head: the number of a container, and the amount of its content.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{ENTRY_BYTES, HEAD_BYTES, SLOT_BYTES};
use crate::units::Class;
use crate::{ContainerSequence, VaultId};

const MAGIC: [u8; 16] = *b"QuietusContainer";
const VERSION: u32 = 1;
/// Offset of the checksum: at the end.
const CHECKED_BYTES: usize = HEAD_BYTES - 4;

/// A container's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The vault that the container belongs to.
    pub vault: VaultId,
    /// The container's number.
    pub sequence: ContainerSequence,
    /// The container's content.
    pub class: Class,
    /// Chunks in its directory.
    pub chunks: u32,
    /// Bytes of all stored chunks.
    pub payload_bytes: u32,
}

/// Why bytes are not a valid head.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HeadError {
    /// Fewer bytes than a head has.
    #[error("container: head of {0} bytes, expected {HEAD_BYTES}; the medium is too short")]
    Short(usize),
    /// The magic number differs: the slot holds something else.
    #[error("container: bad magic in the head at offset 0; the slot holds no container")]
    Magic,
    /// Bytes have changed.
    #[error(
        "container: checksum {found:#010x} in the head, computed {computed:#010x}; run `quietus vault verify`"
    )]
    Checksum {
        /// The checksum in the head.
        found: u32,
        /// The checksum of its bytes.
        computed: u32,
    },
    /// A program with another version of the format wrote the head.
    #[error("container: format version {0}, expected {VERSION}; use a newer quietus")]
    Version(u32),
    /// A head with a right checksum has a field out of range.
    #[error("container: the head's field `{field}` is {value}, out of range; run `quietus vault verify`")]
    Field {
        /// The name of the field.
        field: &'static str,
        /// The value found.
        value: u32,
    },
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    magic: [u8; 16],
    version: U32,
    class: U32,
    vault: [u8; 16],
    sequence: U64,
    chunks: U32,
    payload_bytes: U32,
}

impl Head {
    /// Bytes from the container's start to its first stored chunk.
    pub fn payload_start(&self) -> usize {
        (HEAD_BYTES + self.chunks as usize * ENTRY_BYTES).next_multiple_of(HEAD_BYTES)
    }

    /// Bytes of the container, a multiple of [`HEAD_BYTES`].
    pub fn container_bytes(&self) -> usize {
        self.payload_start() + (self.payload_bytes as usize).next_multiple_of(HEAD_BYTES)
    }

    /// Reads the head that a container begins with.
    ///
    /// # Errors
    ///
    /// [`HeadError`]. Then nothing else of the container can be trusted.
    pub fn from_bytes(bytes: &[u8]) -> Result<Head, HeadError> {
        let bytes = bytes.get(..HEAD_BYTES).ok_or(HeadError::Short(bytes.len()))?;
        let (raw, _) = Raw::read_from_prefix(bytes).map_err(|_| HeadError::Short(bytes.len()))?;
        if raw.magic != MAGIC {
            return Err(HeadError::Magic);
        }
        let (checked, checksum) = bytes.split_at(CHECKED_BYTES);
        let computed = crc32c::crc32c(checked);
        let found = U32::read_from_bytes(checksum).map_or(0, U32::get);
        if found != computed {
            return Err(HeadError::Checksum { found, computed });
        }
        if raw.version != VERSION {
            return Err(HeadError::Version(raw.version.get()));
        }
        raw.head()
    }

    /// The head's bytes.
    pub(crate) fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let raw = Raw {
            magic: MAGIC,
            version: VERSION.into(),
            class: (self.class as u32).into(),
            vault: self.vault.0,
            sequence: self.sequence.0.into(),
            chunks: self.chunks.into(),
            payload_bytes: self.payload_bytes.into(),
        };
        let mut bytes = [0; HEAD_BYTES];
        bytes[..size_of::<Raw>()].copy_from_slice(raw.as_bytes());
        let checksum = crc32c::crc32c(&bytes[..CHECKED_BYTES]);
        bytes[CHECKED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }
}

impl Raw {
    fn head(&self) -> Result<Head, HeadError> {
        let class = self.class.get();
        let class = Class::from_number(class).ok_or(HeadError::Field { field: "class", value: class })?;
        let head = Head {
            vault: VaultId(self.vault),
            sequence: ContainerSequence(self.sequence.get()),
            class,
            chunks: self.chunks.get(),
            payload_bytes: self.payload_bytes.get(),
        };
        if head.chunks as usize > (SLOT_BYTES - HEAD_BYTES) / ENTRY_BYTES {
            return Err(HeadError::Field { field: "chunks", value: head.chunks });
        }
        if head.payload_bytes as usize > SLOT_BYTES || head.container_bytes() > SLOT_BYTES {
            return Err(HeadError::Field { field: "payload bytes", value: head.payload_bytes });
        }
        Ok(head)
    }
}
