//! Faults of a chip file, for tests.

use quietus_flash::chip::Nature;

/// How often a chip of [`FlashPlace::nature`](super::super::FlashPlace::nature) fails. Blocks die so rarely that a test of some minutes has a few of
/// them.
pub(super) const NATURE: Nature = Nature {
    bad_blocks: 50,
    weak_blocks: 50,
    deaths_in_program: 100_000,
    deaths_in_erase: 2_000,
    stubborn: 8,
};

/// Number of reads of a page of a weak block after which it has one more wrong bit, on average.
pub(super) const WEAK_READS: u64 = 512;

/// A cut of the power that is to come.
#[derive(Clone, Copy, Debug)]
pub struct Fuse {
    /// Number of changes of the chip that go well before.
    pub changes: u64,
    /// What follows when the change behind them is torn. If it returns, the chip does not answer any more.
    pub end: fn(),
}

impl Fuse {
    /// A cut after which the process aborts, as if the machine had lost its power.
    #[must_use]
    pub fn aborting(changes: u64) -> Self {
        Self { changes, end: || std::process::abort() }
    }

    /// Whether the power is cut within the change that begins.
    pub(super) fn burns(&mut self) -> bool {
        let burns = self.changes == 0;
        self.changes = self.changes.saturating_sub(1);
        burns
    }
}
