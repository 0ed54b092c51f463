//! Random bytes: the trait through which they come in, and a generator that needs no system call
//! for each key.

use crate::ciphers::ctr;
use crate::ciphers::ctr::wipe;
use crate::ciphers::mac::Mac;
use aes::Aes256Enc;
use aes::cipher::KeyInit;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Bytes of a seed.
pub const SEED_BYTES: usize = 32;
/// Bytes that one refill gives out: 31 keys. With the next key they are one batch of the cipher.
const POOL_BYTES: usize = 992;

/// A source of bytes that cannot be predicted.
pub trait Random {
    /// Fills `out`.
    fn fill(&mut self, out: &mut [u8]);
}

/// A generator with fast key erasure (D. J. Bernstein, *Fast-key-erasure random-number
/// generators*, 2017): each refill encrypts zeros under the key (AES-256 in counter mode); the first
/// 32 bytes of the result are the next key, and the rest is given out once and wiped. One who reads
/// its memory learns nothing of what was given out before.
///
/// Copies of a process or of a virtual machine continue with the same bytes until they are
/// reseeded: reseed after a fork, and for each session.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Generator {
    key: [u8; SEED_BYTES],
    pool: [u8; POOL_BYTES],
    /// How much of the pool was given out.
    used: usize,
}

impl Generator {
    /// A generator of the bytes that follow from the seed, which must stay secret.
    #[must_use]
    pub fn new(seed: &[u8; SEED_BYTES]) -> Generator {
        Generator { key: *seed, pool: [0; POOL_BYTES], used: POOL_BYTES }
    }

    /// A generator whose seed `random` draws.
    pub fn seeded_by(random: &mut impl Random) -> Generator {
        let mut seed = Zeroizing::new([0; SEED_BYTES]);
        random.fill(&mut *seed);
        Generator::new(&seed)
    }

    /// Mixes a seed in. What comes next is unpredictable if the seed or the state before it was.
    pub fn reseed(&mut self, seed: &[u8; SEED_BYTES]) {
        self.key = Mac::new(&self.key).of(&[seed]);
        self.pool.zeroize();
        self.used = POOL_BYTES;
    }

    fn refill(&mut self) {
        let mut stream = [0; SEED_BYTES + POOL_BYTES];
        ctr::apply(&Aes256Enc::new((&self.key).into()), [0; 16], &mut stream);
        self.key.copy_from_slice(&stream[..SEED_BYTES]);
        self.pool.copy_from_slice(&stream[SEED_BYTES..]);
        self.used = 0;
        wipe(&mut stream);
    }
}

impl Random for Generator {
    fn fill(&mut self, out: &mut [u8]) {
        let mut rest = out;
        while !rest.is_empty() {
            if self.used == POOL_BYTES {
                self.refill();
            }
            let count = rest.len().min(POOL_BYTES - self.used);
            let (now, later) = rest.split_at_mut(count);
            let given = &mut self.pool[self.used..][..count];
            now.copy_from_slice(given);
            wipe(given);
            self.used += count;
            rest = later;
        }
    }
}

#[cfg(test)]
mod tests;
