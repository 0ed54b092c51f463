//! Authenticated encryption of what has cells in it, pages of the key tree and sectors of the log: ChaCha20-Poly1305 (RFC 8439, section 2.8).

use crate::base::cell::Cell;
use crate::base::memory::wipe_stack;
use chacha20poly1305::{AeadInPlace, ChaCha20Poly1305, KeyInit};

pub(super) const NONCE_BYTES: usize = 12;
pub(super) const TAG_BYTES: usize = 16;

/// What content is sealed or opened with.
#[derive(Clone, Copy)]
pub(super) struct Seal<'a> {
    /// The key.
    pub(super) cell: &'a Cell,
    /// A number that no other content under this cell has.
    pub(super) nonce: [u8; NONCE_BYTES],
    /// What the content belongs to, which the tag covers.
    pub(super) associated: &'a [u8],
}

impl Seal<'_> {
    /// Turns `content` into ciphertext, in place; its tag.
    pub(super) fn seal(self, content: &mut [u8]) -> [u8; TAG_BYTES] {
        let tag = self.encrypt(content);
        wipe_stack();
        tag
    }

    /// Turns ciphertext back into content, in place; whether the tag is right. Otherwise the ciphertext stays as it is.
    pub(super) fn open(self, tag: [u8; TAG_BYTES], content: &mut [u8]) -> bool {
        let is_right = self.decrypt(tag, content);
        wipe_stack();
        is_right
    }

    /// The state of the cipher has the key, and lies on the stack from here on.
    #[inline(never)]
    fn encrypt(self, content: &mut [u8]) -> [u8; TAG_BYTES] {
        let cipher = ChaCha20Poly1305::new(self.cell.bytes().into());
        let tag = cipher.encrypt_in_place_detached(&self.nonce.into(), self.associated, content);
        tag.expect("the content is shorter than 256 GiB").into()
    }

    /// As for [`Seal::encrypt`].
    #[inline(never)]
    fn decrypt(self, tag: [u8; TAG_BYTES], content: &mut [u8]) -> bool {
        let cipher = ChaCha20Poly1305::new(self.cell.bytes().into());
        cipher.decrypt_in_place_detached(&self.nonce.into(), self.associated, content, &tag.into()).is_ok()
    }
}

#[cfg(test)]
mod vectors;
