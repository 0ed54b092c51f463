//! The context that a seal is bound to: newtypes, and their encoding as associated data.

use quietus_core::base::units::{Block, Epoch, Slot};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{Immutable, IntoBytes};

/// A disk, or a vault: 16 random bytes drawn at its creation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DiskId(pub [u8; 16]);

/// A session: 16 random bytes, drawn whenever the disk is opened and after 2³² seals. Sequences
/// start at 0 in each, so that no counter needs to be durable and a rolled back disk repeats no sequence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Session(pub [u8; 16]);

/// Number of a master key: 0 is the first, and each rotation adds one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Generation(pub u32);

/// Number of a seal within its session. No sequence is used twice in a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Sequence(pub u32);

/// The context of one sealed block, besides the disk, the session and the generation of the
/// [`Sealer`](crate::Sealer).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Context {
    /// The block's address on the disk.
    pub block: Block,
    /// The epoch in which the block was written.
    pub born: Epoch,
    /// Where its ciphertext lies.
    pub slot: Slot,
    /// The number of this seal within the session.
    pub sequence: Sequence,
}

/// A context as the ciphers see it: 32 bytes, a nonce of AEGIS-256.
#[derive(Clone, Copy, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct Bound {
    block: U64,
    born: U64,
    slot: U64,
    sequence: U32,
    generation: U32,
}

/// Bytes of a context.
const BOUND_BYTES: usize = 32;
const _: () = assert!(size_of::<Bound>() == BOUND_BYTES);

impl Bound {
    pub(crate) fn new(context: &Context, generation: Generation) -> Bound {
        Bound {
            block: context.block.0.into(),
            born: context.born.0.into(),
            slot: context.slot.0.into(),
            sequence: context.sequence.0.into(),
            generation: generation.0.into(),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8; BOUND_BYTES] {
        self.as_bytes().try_into().expect("it has as many bytes")
    }

    pub(crate) fn slot(&self) -> u64 {
        self.slot.get()
    }

    pub(crate) fn sequence(&self) -> u32 {
        self.sequence.get()
    }
}
