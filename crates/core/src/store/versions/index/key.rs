//! The keys and values of the index: numbers of five bytes, big-endian, so that their bytes are in their order.

/// Bytes of a number.
pub(in super::super) const NUMBER: usize = 5;
/// The greatest number.
pub(in super::super) const NUMBER_MAX: u64 = (1 << (8 * NUMBER)) - 1;

/// The bytes of some numbers, one after the other.
///
/// # Panics
/// If a number is greater than [`NUMBER_MAX`], or `BYTES` is not the length of them all.
pub(in super::super) fn pack<const BYTES: usize>(numbers: &[u64]) -> [u8; BYTES] {
    assert!(BYTES == numbers.len() * NUMBER, "each number has {NUMBER} bytes");
    let mut bytes = [0; BYTES];
    for (into, number) in bytes.chunks_exact_mut(NUMBER).zip(numbers) {
        assert!(*number <= NUMBER_MAX, "{number} has more than {NUMBER} bytes");
        into.copy_from_slice(&number.to_be_bytes()[8 - NUMBER..]);
    }
    bytes
}

/// The number at index `n` of these bytes.
pub(in super::super) fn number(bytes: &[u8], n: usize) -> u64 {
    bytes[n * NUMBER..][..NUMBER].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use crate::store::versions::index::key::*;

    #[test]
    fn packed_numbers_are_in_the_order_of_the_numbers() {
        let keys = [[0, 1], [0, 256], [1, 0], [1, NUMBER_MAX], [NUMBER_MAX, 0]];
        let packed = keys.map(|key| pack::<10>(&key));
        assert!(packed.is_sorted());
        for (key, bytes) in keys.iter().zip(packed) {
            assert_eq!(*key, [number(&bytes, 0), number(&bytes, 1)]);
        }
    }
}
