//! Deterministic authenticated encryption, which repeated nonces do not break: the SIV construction
//! (Rogaway and Shrimpton, *A Provable-Security Treatment of the Key-Wrap Problem*, EUROCRYPT 2006)
//! with HMAC-SHA-256 as its hash and AES-256 in counter mode as its cipher.
//!
//! AES-256-GCM-SIV has the same sizes, but its tag does not commit to the key: with the keys known,
//! one ciphertext can be made that opens under two of them. A truncated HMAC-SHA-256 commits to the
//! keys, the header and the payload, up to a collision (2⁶⁴ steps for 16 bytes), and needs no room.

use crate::ciphers::ctr;
use crate::ciphers::mac::Mac;
use aes::Aes256Enc;
use aes::cipher::KeyInit;
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// Bytes of the two keys.
pub(crate) const KEY_BYTES: usize = 64;

/// The ciphertext, its tag or its header is not what was sealed.
pub(crate) struct Unauthentic;

/// Both keys, expanded.
pub(crate) struct Siv {
    mac: Mac,
    cipher: Box<Aes256Enc>,
}

impl Siv {
    /// The first half of the keys hashes, the second encrypts.
    pub(crate) fn new(keys: &[u8; KEY_BYTES]) -> Siv {
        let (halves, _) = keys.as_chunks::<32>();
        Siv { mac: Mac::new(&halves[0]), cipher: Box::new(Aes256Enc::new((&halves[1]).into())) }
    }

    /// Encrypts the payload in place, and returns its tag.
    pub(crate) fn seal(&self, header: &[u8], payload: &mut [u8]) -> [u8; 16] {
        let tag = self.tag(header, payload);
        ctr::apply(&*self.cipher, tag, payload);
        tag
    }

    /// Decrypts the payload in place. Whatever is not authentic becomes zeros.
    pub(crate) fn open(&self, header: &[u8], payload: &mut [u8], tag: &[u8; 16]) -> Result<(), Unauthentic> {
        ctr::apply(&*self.cipher, *tag, payload);
        if self.tag(header, payload).ct_eq(tag).into() {
            return Ok(());
        }
        payload.zeroize();
        Err(Unauthentic)
    }

    /// The length of the header at the end makes the hashed bytes unambiguous.
    fn tag(&self, header: &[u8], payload: &[u8]) -> [u8; 16] {
        let length = u32::try_from(header.len()).expect("headers are short").to_le_bytes();
        self.mac.half(&[header, payload, &length])
    }
}
