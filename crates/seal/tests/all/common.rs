//! What the tests share.
#![allow(dead_code)]

use quietus_seal::{
    Block, Context, DiskId, Epoch, Generation, MasterKey, Random, Seal, Sealer, Sequence, Session, Slot,
};

/// The seals that refuse what was altered.
pub fn authentic() -> impl Iterator<Item = Seal> {
    Seal::ALL.into_iter().filter(|seal| seal.dies_with_stub())
}

/// Bytes that are handed out in order, for one seal. More must not be asked for.
pub struct Scripted<'a>(pub &'a [u8]);

impl Random for Scripted<'_> {
    fn fill(&mut self, out: &mut [u8]) {
        let (now, later) = self.0.split_at(out.len());
        out.copy_from_slice(now);
        self.0 = later;
    }
}

pub const DISK: DiskId = DiskId([0xd1; 16]);
pub const SESSION: Session = Session([0x5e; 16]);
pub const GENERATION: Generation = Generation(2);

pub fn master() -> MasterKey {
    MasterKey::new(&[0x4b; 32])
}

pub fn sealer(seal: Seal) -> Sealer {
    Sealer::new(seal, &master(), GENERATION, DISK, SESSION)
}

pub fn context() -> Context {
    Context { block: Block(77), born: Epoch(3), slot: Slot(1234), sequence: Sequence(9) }
}

/// A block whose neighbouring parts all differ.
pub fn block(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from((at * at + at / 256) % 251).unwrap()).collect()
}
