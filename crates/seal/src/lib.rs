//! Sealing: encryption that turns a block into as many bytes of ciphertext and a short *stub*, so
//! that destroying the stub destroys the block, also for one who is given every key afterwards.
//!
//! The model is that of Peterson, Burns, Herring, Stubblefield and Rubin, *Secure Deletion for a
//! Versioning File System* (FAST 2005), section 3. [`Seal`] lists the ways, [`Sealer`] does them,
//! and [`Generator`] makes the fresh keys. [`keys`] keeps the master keys, and [`DiskSealer`] seals with
//! them for a disk. [`SectorCipher`] is for a disk whose blocks lie in their places, under cells. The formats, byte by byte, with
//! test vectors: `docs/formats/sealing.md` and `docs/formats/keys.md`.
//!
//! This crate does no I/O and has no clock, no thread and no entropy of its own: random bytes come
//! from the caller through [`Random`].
//!
//! Secrets are wiped when they are dropped: the keys that this crate holds, and what it buffers of
//! them. Copies that a cipher leaves in registers or on the stack during a call are out of its reach.
#![forbid(unsafe_code)]

mod aon;
mod cipher;
mod ciphers;
mod disk;
pub mod keys;
mod random_key;
mod seal;
mod sealer;
mod units;

pub use crate::ciphers::random::{Generator, Random, SEED_BYTES};
pub use cipher::SectorCipher;
pub use disk::{DiskSealer, NoSession};
pub use quietus_core::base::units::{Block, Epoch, Slot};
pub use quietus_core::media::sealing::Stub;
pub use seal::{Seal, UnknownSeal};
pub use sealer::{BLOCK_BYTES_MAX, BadLength, MasterKey, OpenError, Sealer};
pub use units::{Context, DiskId, Generation, Sequence, Session};
