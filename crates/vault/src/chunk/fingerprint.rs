//! The vault's key, and the keys derived from it.

use crate::Fingerprint;
use crate::units::Class;

/// Bytes of a vault's key.
pub const KEY_BYTES: usize = 32;

/// A vault's secret: without it, fingerprints and the lengths of chunks do not tell what a vault
/// holds.
#[derive(Clone)]
pub struct VaultKey {
    fingerprints: [u8; KEY_BYTES],
    metadata: [u8; KEY_BYTES],
    gear: [u8; KEY_BYTES],
    check: [u8; KEY_BYTES],
}

/// Bytes of the check value of a key.
pub const CHECK_BYTES: usize = 16;

impl VaultKey {
    /// `key` is random.
    pub fn new(key: &[u8; KEY_BYTES]) -> VaultKey {
        let derived = |context| blake3::derive_key(context, key);
        VaultKey {
            fingerprints: derived("quietus vault 1 fingerprints"),
            metadata: derived("quietus vault 1 metadata fingerprints"),
            gear: derived("quietus vault 1 gear table"),
            check: derived("quietus vault 2 check"),
        }
    }

    /// The fingerprint of a chunk: BLAKE3, keyed. Metadata has a key of its own: a file with the same bytes is another
    /// chunk, which names nothing.
    pub fn fingerprint(&self, class: Class, content: &[u8]) -> Fingerprint {
        let key = match class {
            Class::Data | Class::Index | Class::Spill => &self.fingerprints,
            Class::Metadata => &self.metadata,
        };
        Fingerprint(*blake3::keyed_hash(key, content).as_bytes())
    }

    /// The check value that tells whether a key is the vault's. It does not reveal the key.
    pub fn check(&self) -> [u8; CHECK_BYTES] {
        std::array::from_fn(|at| self.check[at])
    }

    /// The 256 numbers that decide where content is cut.
    pub(super) fn gear(&self) -> [u64; 256] {
        let mut bytes = [0; 256 * 8];
        blake3::Hasher::new_keyed(&self.gear).finalize_xof().fill(&mut bytes);
        let (words, _) = bytes.as_chunks::<8>();
        std::array::from_fn(|at| u64::from_le_bytes(words[at]))
    }
}

impl std::fmt::Debug for VaultKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("VaultKey")
    }
}
