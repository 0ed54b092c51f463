//! Sealing and opening blocks with the keys of one session.

use crate::aon::{self, Aon};
use crate::ciphers::mac::derive;
use crate::ciphers::random::Random;
use crate::ciphers::wrap::Wrap;
use crate::ciphers::xts::Xts;
use crate::random_key::{self, Folded};
use crate::seal::Seal;
use crate::units::{Bound, Context, DiskId, Generation, Session};
use aes::{Aes128Enc, Aes256Enc};
use quietus_core::base::memory;
use quietus_core::base::units::{Block, Epoch};
use quietus_core::media::sealing::Stub;
use std::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Longest block, in bytes.
pub const BLOCK_BYTES_MAX: usize = 64 << 10;
/// The stub of the seals that have none.
const NO_STUB: [u8; 0] = [];

/// A master key: 32 random bytes, from which the keys of all sessions of a generation follow.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct MasterKey([u8; 32]);

/// The keys of one session, for one seal.
pub struct Sealer {
    keys: Keys,
    session: Session,
    generation: Generation,
}

/// The keys of each seal. Every part wipes itself.
enum Keys {
    None,
    AesXts(Box<Xts>),
    Aon2005(Box<Aon<Aes128Enc>>),
    Aon(Box<Aon<Aes256Enc>>),
    RandomKey(Box<Wrap>, Folded),
}

/// A length that no block has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("cannot seal {bytes} bytes; a block has a multiple of 16 bytes, and at most {BLOCK_BYTES_MAX}")]
pub struct BadLength {
    /// The bytes that were given.
    pub bytes: usize,
}

/// Why a block was not opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// No block has this length.
    #[error(transparent)]
    Length(#[from] BadLength),
    /// The stub belongs to another seal.
    #[error("a stub of {found} bytes does not belong to {seal}, whose stubs have {}", .seal.stub_bytes())]
    Stub {
        /// The seal of this session.
        seal: Seal,
        /// The bytes of the stub.
        found: usize,
    },
    /// Ciphertext, stub or context is not what was sealed.
    #[error(
        "block {} of epoch {} cannot be opened: its stub was destroyed, or its data, stub or place was altered; \
         restore it from a backup if it was not forgotten",
        .block.0, .born.0
    )]
    Unauthentic {
        /// The block.
        block: Block,
        /// The epoch in which it was written.
        born: Epoch,
    },
}

impl MasterKey {
    /// The key of these bytes, which must be random. The caller wipes its own copy.
    #[must_use]
    pub fn new(bytes: &[u8; 32]) -> MasterKey {
        MasterKey(*bytes)
    }

    /// A fresh key.
    pub fn generate(random: &mut impl Random) -> MasterKey {
        let mut key = MasterKey([0; 32]);
        random.fill(&mut key.0);
        key
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey")
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer")
            .field("seal", &self.seal())
            .field("session", &self.session)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

impl Sealer {
    /// The keys of a session of a disk. The session's bytes must never have been another session's under the
    /// same master key.
    #[must_use]
    pub fn new(
        seal: Seal,
        master: &MasterKey,
        generation: Generation,
        disk: DiskId,
        session: Session,
    ) -> Sealer {
        let keys = Keys::new(seal, master, &[disk.0, session.0]);
        Sealer { keys, session, generation }
    }

    /// Keeps the keys from being swapped out, as far as the program does that.
    pub(crate) fn keep_in_memory(&self) {
        match &self.keys {
            Keys::None => {}
            Keys::AesXts(keys) => memory::keep(&**keys),
            Keys::Aon2005(keys) => memory::keep(&**keys),
            Keys::Aon(keys) => memory::keep(&**keys),
            Keys::RandomKey(keys, _) => memory::keep(&**keys),
        }
    }

    /// How this session seals.
    #[must_use]
    pub fn seal(&self) -> Seal {
        match self.keys {
            Keys::None => Seal::None,
            Keys::AesXts(_) => Seal::AesXts,
            Keys::Aon2005(_) => Seal::Aon2005,
            Keys::Aon(_) => Seal::Aon,
            Keys::RandomKey(_, Folded::No) => Seal::RandomKey,
            Keys::RandomKey(_, Folded::Yes) => Seal::RAon,
        }
    }

    /// Turns `data` into ciphertext, in place, and returns its stub. The sequence of the context
    /// must be new in this session.
    ///
    /// # Errors
    /// If no block has this length. Then `data` is untouched.
    pub fn close(
        &self,
        context: &Context,
        data: &mut [u8],
        random: &mut impl Random,
    ) -> Result<Stub, BadLength> {
        check(data)?;
        let bound = self.bound(context);
        Ok(match &self.keys {
            Keys::None => NO_STUB.into(),
            Keys::AesXts(keys) => {
                keys.encrypt(unit(&bound), 0, data);
                NO_STUB.into()
            }
            Keys::Aon2005(keys) => keys.seal(&bound, data, &mut []).into(),
            Keys::Aon(keys) => {
                let mut postfix = [0; aon::TAG_BYTES];
                random.fill(&mut postfix);
                let sum = keys.seal(&bound, data, &mut postfix);
                [postfix, sum].as_flattened().into()
            }
            Keys::RandomKey(wrap, folded) => random_key::seal(wrap, *folded, &bound, data, random).into(),
        })
    }

    /// Turns ciphertext back into data, in place.
    ///
    /// # Errors
    /// If the ciphertext, the stub or the context is not what was sealed; then `data` is zeros.
    /// If a length is wrong; then `data` is untouched. The seals `none` and `aes-xts` notice
    /// nothing but lengths.
    pub fn open(&self, context: &Context, data: &mut [u8], stub: &[u8]) -> Result<(), OpenError> {
        check(data)?;
        let bound = self.bound(context);
        let wrong = OpenError::Stub { seal: self.seal(), found: stub.len() };
        let opened = match &self.keys {
            Keys::None => stub.is_empty().then_some(true),
            Keys::AesXts(keys) => stub.is_empty().then(|| {
                keys.decrypt(unit(&bound), 0, data);
                true
            }),
            Keys::Aon2005(keys) => stub.try_into().ok().map(|sum| keys.open(&bound, data, &mut [], sum)),
            Keys::Aon(keys) => match stub.as_chunks::<{ aon::TAG_BYTES }>() {
                ([postfix, sum], []) => Some(keys.open(&bound, data, &mut { *postfix }, *sum)),
                _ => None,
            },
            Keys::RandomKey(wrap, folded) => {
                stub.try_into().ok().map(|stub| random_key::open(wrap, *folded, &bound, data, stub))
            }
        };
        let unauthentic = OpenError::Unauthentic { block: context.block, born: context.born };
        if opened.ok_or(wrong)? { Ok(()) } else { Err(unauthentic) }
    }

    fn bound(&self, context: &Context) -> Bound {
        Bound::new(context, self.generation)
    }
}

impl Keys {
    fn new(seal: Seal, master: &MasterKey, salt: &[[u8; 16]; 2]) -> Keys {
        match seal {
            Seal::None => Keys::None,
            Seal::AesXts => Keys::AesXts(Box::new(Xts::new(&expand(seal, master, salt)))),
            Seal::Aon2005 => {
                let keys = expand::<48>(seal, master, salt);
                let hashing = keys.last_chunk().expect("48 bytes");
                Keys::Aon2005(Box::new(Aon::new(&keys[..16], Zeroizing::default(), hashing)))
            }
            Seal::Aon => {
                let keys = expand::<80>(seal, master, salt);
                let rest = Zeroizing::new(keys[32..48].try_into().expect("16 bytes"));
                let hashing = keys.last_chunk().expect("80 bytes");
                Keys::Aon(Box::new(Aon::new(&keys[..32], rest, hashing)))
            }
            Seal::RandomKey => Keys::RandomKey(Box::new(Wrap::new(&expand(seal, master, salt))), Folded::No),
            Seal::RAon => Keys::RandomKey(Box::new(Wrap::new(&expand(seal, master, salt))), Folded::Yes),
        }
    }
}

/// `N` bytes of key for a seal; the salt is the disk and the session.
fn expand<const N: usize>(seal: Seal, master: &MasterKey, salt: &[[u8; 16]; 2]) -> Zeroizing<[u8; N]> {
    derive(&[&master.0], salt.as_flattened(), &[b"quietus seal 1 ", seal.name().as_bytes()])
}

/// The number of a data unit of XTS: no two seals of a session have the same.
fn unit(bound: &Bound) -> u128 {
    u128::from(bound.sequence()) << 64 | u128::from(bound.slot())
}

fn check(data: &[u8]) -> Result<(), BadLength> {
    let bytes = data.len();
    if bytes == 0 || !bytes.is_multiple_of(16) || bytes > BLOCK_BYTES_MAX {
        return Err(BadLength { bytes });
    }
    Ok(())
}
