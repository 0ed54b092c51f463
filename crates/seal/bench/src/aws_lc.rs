//! AES-256-XTS of aws-lc, by its C interface: the Rust one does not offer it.

use aws_lc_sys as c;
use std::ptr::null;

/// A context for each way, keyed once.
pub struct Xts {
    encrypt: *mut c::EVP_CIPHER_CTX,
    decrypt: *mut c::EVP_CIPHER_CTX,
}

pub enum Way {
    Encrypt,
    Decrypt,
}

impl Xts {
    /// The two keys, which must differ.
    pub fn new(keys: &[u8; 64]) -> Xts {
        // SAFETY: contexts are made here and freed on drop; the keys have the cipher's 64 bytes.
        unsafe {
            let [encrypt, decrypt] = [c::EVP_CIPHER_CTX_new(), c::EVP_CIPHER_CTX_new()];
            let cipher = c::EVP_aes_256_xts();
            let key = keys.as_ptr();
            assert_eq!(
                c::EVP_EncryptInit_ex(encrypt, cipher, null::<c::ENGINE>().cast_mut(), key, null()),
                1
            );
            assert_eq!(
                c::EVP_DecryptInit_ex(decrypt, cipher, null::<c::ENGINE>().cast_mut(), key, null()),
                1
            );
            Xts { encrypt, decrypt }
        }
    }

    /// One data unit, in place.
    pub fn apply(&mut self, way: Way, unit: u64, data: &mut [u8; 4096]) {
        let mut tweak = [0; 16];
        tweak[..8].copy_from_slice(&unit.to_le_bytes());
        let (mut length, none) = (0, null::<c::ENGINE>().cast_mut());
        let (bytes, size) = (data.as_mut_ptr(), 4096);
        // SAFETY: the contexts live; input and output are the same 4,096 bytes, which EVP allows.
        let done = unsafe {
            match way {
                Way::Encrypt => {
                    c::EVP_EncryptInit_ex(self.encrypt, null(), none, null(), tweak.as_ptr())
                        & c::EVP_EncryptUpdate(self.encrypt, bytes, &mut length, bytes, size)
                }
                Way::Decrypt => {
                    c::EVP_DecryptInit_ex(self.decrypt, null(), none, null(), tweak.as_ptr())
                        & c::EVP_DecryptUpdate(self.decrypt, bytes, &mut length, bytes, size)
                }
            }
        };
        assert_eq!((done, length), (1, size));
    }
}

impl Drop for Xts {
    fn drop(&mut self) {
        // SAFETY: both were made by EVP_CIPHER_CTX_new, and neither is used any more.
        unsafe {
            c::EVP_CIPHER_CTX_free(self.encrypt);
            c::EVP_CIPHER_CTX_free(self.decrypt);
        }
    }
}
