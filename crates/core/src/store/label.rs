//! The first bytes of a medium that belongs to one disk: what it is, and whose.

use crate::base::fields::Fields;

const VERSION: u32 = 1;
/// Bytes of a label, without its checksum.
const BODY_BYTES: usize = 28;
/// Bytes of a label.
pub(super) const LABEL_BYTES: usize = BODY_BYTES + 4;

/// Why a medium is not the one that it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wrong {
    /// There is no label, or a damaged one.
    Label,
    /// The medium belongs to the disk with this uuid.
    OtherDisk(u128),
}

/// The label of a medium of `disk`.
pub(super) fn to_bytes(magic: [u8; 8], disk: [u8; 16]) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(disk);
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    assert_eq!(check(&bytes, magic, disk), Ok(()), "a label is read as it was written");
    bytes
}

/// Checks the label that a medium of `disk` begins with.
pub(super) fn check(label: &[u8], magic: [u8; 8], disk: [u8; 16]) -> Result<(), Wrong> {
    let (body, crc) = label.split_at_checked(BODY_BYTES).ok_or(Wrong::Label)?;
    let mut fields = Fields(body);
    let is_label = fields.array() == Some(magic)
        && fields.u32() == Some(VERSION)
        && Fields(crc).u32() == Some(crc32c::crc32c(body));
    match fields.array::<16>().filter(|_| is_label) {
        None => Err(Wrong::Label),
        Some(found) if found != disk => Err(Wrong::OtherDisk(u128::from_be_bytes(found))),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::store::label::*;

    const DISK: [u8; 16] = [5; 16];

    #[test]
    fn a_flipped_bit_another_kind_of_medium_and_another_disk_are_told_apart() {
        let label = to_bytes(*b"ONE KIND", DISK);
        let is = |label: &[u8], disk| check(label, *b"ONE KIND", disk);
        assert_eq!((label.len(), is(&label, DISK)), (LABEL_BYTES, Ok(())));
        for at in 0..8 * label.len() {
            let mut flipped = label.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            assert_eq!(is(&flipped, DISK), Err(Wrong::Label), "bit {at}");
        }
        assert_eq!(is(&label, [6; 16]), Err(Wrong::OtherDisk(u128::from_be_bytes(DISK))));
        assert_eq!(is(&[0; LABEL_BYTES], DISK), Err(Wrong::Label));
        assert_eq!(is(&to_bytes(*b"ANOTHER!", DISK), DISK), Err(Wrong::Label));
    }
}
