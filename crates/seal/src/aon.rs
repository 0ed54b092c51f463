//! All or nothing: figure 1 of the paper. The data is encrypted (under K) and hashed (under M); the
//! hash t encrypts it again, and t plus the sum of all blocks of the result is the stub. Any 16
//! missing bytes of ciphertext or stub hide t, and without t the first ciphertext is lost.

use crate::ciphers::ctr;
use crate::ciphers::mac::Mac;
use crate::units::Bound;
use aes::cipher::{BlockCipherEncrypt, BlockSizeUser, KeyInit, KeySizeUser, consts::U16};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

/// Bytes of t, and so of what a stub holds at least.
pub(crate) const TAG_BYTES: usize = 16;

/// The keys of one session. `C` is the cipher of both encryptions.
pub(crate) struct Aon<C> {
    first: C,
    mac: Mac,
    /// The bytes behind t in the key of the second encryption, where that is longer than t.
    rest: Zeroizing<[u8; 16]>,
}

/// The two encryptions of a block, as its counters name them.
#[derive(Clone, Copy)]
enum Pass {
    First = 0,
    Second = 1,
}

impl<C> Aon<C>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + KeySizeUser,
{
    pub(crate) fn new(first: &[u8], rest: Zeroizing<[u8; 16]>, hashing: &[u8; 32]) -> Aon<C> {
        let first = C::new_from_slice(first).expect("K has the size of the cipher's key");
        Aon { first, mac: Mac::new(hashing), rest }
    }

    /// Seals `data`, and the postfix after it, both in place; returns the sum that hides t.
    pub(crate) fn seal(&self, bound: &Bound, data: &mut [u8], postfix: &mut [u8]) -> [u8; TAG_BYTES] {
        encrypt(&self.first, bound, Pass::First, data, postfix);
        let mut tag = Zeroizing::new(self.mac.half(&[bound.bytes(), data, postfix]));
        encrypt(&self.second(&tag), bound, Pass::Second, data, postfix);
        ctr::xor(&mut *tag, &ctr::fold::<TAG_BYTES>(data));
        ctr::xor(&mut *tag, postfix);
        *tag
    }

    /// Opens `data` in place. Whatever is not authentic becomes zeros.
    pub(crate) fn open(
        &self,
        bound: &Bound,
        data: &mut [u8],
        postfix: &mut [u8],
        sum: [u8; TAG_BYTES],
    ) -> bool {
        let mut tag = Zeroizing::new(sum);
        ctr::xor(&mut *tag, &ctr::fold::<TAG_BYTES>(data));
        ctr::xor(&mut *tag, postfix);
        encrypt(&self.second(&tag), bound, Pass::Second, data, postfix);
        let found = Zeroizing::new(self.mac.half(&[bound.bytes(), data, postfix]));
        if !bool::from(found.ct_eq(&*tag)) {
            data.zeroize();
            return false;
        }
        encrypt(&self.first, bound, Pass::First, data, postfix);
        true
    }

    /// The cipher under t.
    fn second(&self, tag: &[u8; TAG_BYTES]) -> C {
        let mut key = Zeroizing::new([0; 32]);
        key[..16].copy_from_slice(tag);
        key[16..].copy_from_slice(&*self.rest);
        C::new_from_slice(&key[..C::key_size()]).expect("the key has the size of the cipher's key")
    }
}

/// One encryption of the data and the postfix after it, which is its own inverse.
fn encrypt<C>(cipher: &C, bound: &Bound, pass: Pass, data: &mut [u8], postfix: &mut [u8])
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    let blocks = u32::try_from(data.len() / 16).expect("a block is short");
    ctr::apply(cipher, counter(bound, pass, 0), data);
    ctr::apply(cipher, counter(bound, pass, blocks), postfix);
}

/// The counter of one AES block: slot, sequence, pass, and the number within the block.
fn counter(bound: &Bound, pass: Pass, number: u32) -> [u8; 16] {
    let mut counter = [0; 16];
    counter[..8].copy_from_slice(&bound.slot().to_be_bytes());
    counter[8..12].copy_from_slice(&bound.sequence().to_be_bytes());
    counter[12..].copy_from_slice(&number.to_be_bytes());
    counter[12] = pass as u8;
    counter
}
