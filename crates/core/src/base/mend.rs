//! Finding the one wrong byte among bytes that have a CRC-32C.
//!
//! A checksum of 32 bits tells any two bytes of a few thousand that may be wrong, and what they should be, apart with a chance of
//! one in thousands for bytes that are wrong in another way. So a caller checks what comes out by all else that is known.

/// Bits of CRC-32C, reflected.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The change of the checksum by a byte at the end, for each value.
const TABLE: [u32; 256] = {
    let (mut table, mut n) = ([0; 256], 0);
    while n < 256 {
        let (mut crc, mut bit) = (n as u32, 0);
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[n] = crc;
        n += 1;
    }
    table
};

/// By the first byte of an entry of [`TABLE`]: its number. No two entries have the same first byte.
const BACK: [u8; 256] = {
    let (mut back, mut n) = ([0; 256], 0);
    while n < 256 {
        back[(TABLE[n] >> 24) as usize] = n as u8;
        n += 1;
    }
    back
};

/// Mends bytes that do not fit their checksum, if there is exactly one byte of them, or of the checksum, that has to be another.
/// Returns both as they should be.
#[must_use]
pub fn one_byte(bytes: &[u8], crc: u32) -> Option<(Vec<u8>, u32)> {
    let right = crc32c::crc32c(bytes);
    let mut difference = right ^ crc;
    let is_checksum =
        difference != 0 && difference.to_le_bytes().iter().filter(|byte| **byte != 0).count() == 1;
    let mut found = Vec::new();
    // What a wrong byte has changed in the checksum is followed back, byte by byte.
    for at in (0..bytes.len()).rev() {
        let wrong = BACK[(difference >> 24) as usize];
        if wrong != 0 && TABLE[usize::from(wrong)] == difference {
            found.push((at, wrong));
        }
        difference = (difference ^ TABLE[usize::from(wrong)]) << 8 | u32::from(wrong);
    }
    match (&found[..], is_checksum) {
        ([], true) => Some((bytes.to_vec(), right)),
        ([(at, wrong)], false) => {
            let mut mended = bytes.to_vec();
            mended[*at] ^= wrong;
            assert_eq!(crc32c::crc32c(&mended), crc, "mended bytes fit their checksum");
            Some((mended, crc))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::base::mend::*;

    #[test]
    fn any_wrong_byte_of_the_bytes_or_of_the_checksum_is_found_and_two_are_not() {
        let bytes: Vec<u8> = (0..4092_u32).map(|n| (n * 7 + n / 256) as u8).collect();
        let crc = crc32c::crc32c(&bytes);
        for at in (0..bytes.len()).step_by(31) {
            for wrong in [1, 0x80, 0x5a, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= wrong;
                assert_eq!(one_byte(&changed, crc), Some((bytes.clone(), crc)), "byte {at}");
            }
        }
        for bit in 0..32 {
            assert_eq!(one_byte(&bytes, crc ^ 1 << bit), Some((bytes.clone(), crc)));
        }
        assert_eq!(one_byte(&bytes, crc), None, "nothing is wrong");
        let mut changed = bytes.clone();
        (changed[5], changed[900]) = (changed[5] ^ 1, changed[900] ^ 1);
        assert_ne!(one_byte(&changed, crc).map(|it| it.0), Some(bytes));
    }
}
