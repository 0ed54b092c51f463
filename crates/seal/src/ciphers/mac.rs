//! HMAC and HKDF with SHA-256 (RFC 2104, RFC 5869).

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

/// A keyed hash, its key expanded once.
pub(crate) struct Mac(Hmac<Sha256>);

impl Mac {
    pub(crate) fn new(key: &[u8; 32]) -> Mac {
        Mac(Hmac::new_from_slice(key).expect("HMAC takes a key of any length"))
    }

    /// The hash of the parts, one after the other.
    pub(crate) fn of(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut state = self.0.clone();
        parts.iter().for_each(|part| state.update(part));
        state.finalize().into_bytes().into()
    }

    /// The first half of the hash.
    pub(crate) fn half(&self, parts: &[&[u8]]) -> [u8; 16] {
        *self.of(parts).first_chunk().expect("a hash has 32 bytes")
    }
}

/// `N` bytes of key from a secret of high entropy, for one use, which `purpose` names.
pub(crate) fn derive<const N: usize>(secret: &[&[u8]], salt: &[u8], purpose: &[&[u8]]) -> Zeroizing<[u8; N]> {
    let secret = Zeroizing::new(secret.concat());
    let mut key = Zeroizing::new([0; N]);
    Hkdf::<Sha256>::new(Some(salt), &secret)
        .expand_multi_info(purpose, &mut *key)
        .expect("no key is longer than 255 hashes");
    key
}
