//! A record on NOR flash: 64 bytes that are written once.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0..4 | `QNOR` |
//! | 4 | the kind: 1 the label, 2 slot 0, 3 slot 1 |
//! | 5..8 | zeros |
//! | 8..12 | generation of the block |
//! | 12..16 | number of the record in its block |
//! | 16..56 | the label and zeros, or the content of the slot |
//! | 56..60 | CRC-32C of bytes 0..56 |
//! | 60..64 | zeros |
//!
//! Bytes of 0xff are a place that was not written since it was erased. What is neither is a record that was destroyed, or whose write
//! was cut off.

use super::super::{LABEL_BYTES, Label, SLOT_BYTES, SlotContent};
use zeroize::Zeroizing;

/// Bytes of a record.
pub(super) const RECORD_BYTES: usize = 64;
const MAGIC: [u8; 4] = *b"QNOR";
const CONTENT: std::ops::Range<usize> = 16..56;
const BODY_BYTES: usize = 56;

/// What a record holds.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Held {
    /// The label of the disk. A block counts once it has two of these.
    Label(Label),
    /// The content of a slot.
    Slot(usize, SlotContent),
}

/// A record with its place.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) generation: u32,
    pub(super) number: u32,
    pub(super) held: Held,
}

impl Record {
    pub(super) fn to_bytes(&self) -> Zeroizing<[u8; RECORD_BYTES]> {
        let mut bytes = Zeroizing::new([0; RECORD_BYTES]);
        bytes[..4].copy_from_slice(&MAGIC);
        match &self.held {
            Held::Label(label) => {
                bytes[4] = 1;
                bytes[CONTENT.start..CONTENT.start + LABEL_BYTES].copy_from_slice(label);
            }
            Held::Slot(slot, content) => {
                bytes[4] = 2 + *slot as u8;
                bytes[CONTENT].copy_from_slice(&content[..]);
            }
        }
        bytes[8..12].copy_from_slice(&self.generation.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.number.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..BODY_BYTES]);
        bytes[BODY_BYTES..BODY_BYTES + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The record in these bytes; `None` if there is none.
    pub(super) fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let content: [u8; SLOT_BYTES] = bytes[CONTENT].try_into().expect("the content has its length");
        let content = Zeroizing::new(content);
        let held = match bytes[4] {
            1 => Held::Label(*content.first_chunk()?),
            kind @ (2 | 3) => Held::Slot(usize::from(kind) - 2, content),
            _ => return None,
        };
        let is_whole = bytes[..4] == MAGIC && number(BODY_BYTES) == crc32c::crc32c(&bytes[..BODY_BYTES]);
        let record = Self { generation: number(8), number: number(12), held };
        // Every byte is as it would be written, those beside the checksum too.
        (is_whole && *record.to_bytes() == *bytes).then_some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(held: Held) -> Record {
        Record { generation: 7, number: 1000, held }
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_a_flipped_bit_makes_it_none() {
        for held in [
            Held::Label([9; LABEL_BYTES]),
            Held::Slot(0, Zeroizing::new([1; SLOT_BYTES])),
            Held::Slot(1, Zeroizing::new([2; SLOT_BYTES])),
        ] {
            let bytes = record(held.clone()).to_bytes();
            assert!(Record::from_bytes(&bytes) == Some(record(held)));
            for bit in 0..8 * RECORD_BYTES {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(Record::from_bytes(&flipped).is_none(), "bit {bit}");
            }
        }
        assert!(Record::from_bytes(&[0; RECORD_BYTES]).is_none());
        assert!(Record::from_bytes(&[0xff; RECORD_BYTES]).is_none());
    }
}
