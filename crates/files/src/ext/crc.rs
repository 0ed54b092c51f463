//! The CRC-32 of the first form of checksums of journals, which begins with the highest bit.

/// The polynomial of Ethernet, from the highest bit on.
const POLYNOMIAL: u32 = 0x04C1_1DB7;

/// The remainder that each value of the highest byte leaves.
const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let (mut table, mut n) = ([0; 256], 0);
    while n < table.len() {
        let (mut crc, mut bit) = ((n as u32) << 24, 0);
        while bit < 8 {
            crc = crc << 1 ^ if crc >> 31 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[n] = crc;
        n += 1;
    }
    table
}

/// Continues `crc` over `bytes` (`crc32_be` of Linux).
pub(super) fn crc32_be(crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, byte| crc << 8 ^ TABLE[usize::from((crc >> 24) as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of CRC-32/MPEG-2, which is the same.
    #[test]
    fn the_check_value_of_the_catalogue_comes_out() {
        assert_eq!(crc32_be(!0, b"123456789"), 0x0376_E6E7);
    }
}
