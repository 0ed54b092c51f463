//! What is nothing but zeros.

/// Whether `bytes` are nothing but zeros; as fast as they can be read.
#[must_use]
pub fn is_zeros(bytes: &[u8]) -> bool {
    // Without a branch for each byte, and with one every now and then.
    bytes.chunks(256).all(|chunk| chunk.iter().fold(0, |any, byte| any | byte) == 0)
}

#[cfg(test)]
mod tests {
    use crate::base::zeros::*;

    #[test]
    fn zeros_are_told_from_all_else_wherever_it_is() {
        for len in [0, 1, 255, 256, 257, 4096] {
            let mut bytes = vec![0; len];
            assert!(is_zeros(&bytes));
            for at in 0..len {
                bytes[at] = 1;
                assert!(!is_zeros(&bytes), "{at} of {len}");
                bytes[at] = 0;
            }
        }
    }
}
