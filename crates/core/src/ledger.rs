//! The death ledger: what must be destroyed, and why.

use crate::extents::{ExtentMap, Value};
use crate::units::{Addr, Millis};
use serde::{Deserialize, Serialize};

/// Who said that something is dead.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Cause {
    /// The guest's TRIM.
    Trim = 0,
    /// The guest's WRITE_ZEROES.
    WriteZeroes = 1,
    /// The guest wrote zeros, and zero detection is on.
    ZeroBlock = 2,
    /// The owner's direct call.
    Purge = 3,
    /// The owner asked for what lies below the content.
    Scour = 4,
    /// It was on the medium before the disk was created there.
    Creation = 5,
    /// The file system's allocation map shows it free.
    Map = 6,
    /// It may hold content of a file that is gone.
    Generation = 7,
}

impl Cause {
    /// All of them, in the order of their numbers in the formats.
    pub const ALL: [Self; 8] = [
        Self::Trim,
        Self::WriteZeroes,
        Self::ZeroBlock,
        Self::Purge,
        Self::Scour,
        Self::Creation,
        Self::Map,
        Self::Generation,
    ];

    /// The cause with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// What is to be done with some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// They are dead: shred them, so that they read as zeros. With `no_hole`
    /// the zeros are themselves data: their space is kept.
    Shred {
        /// Keep the space allocated.
        no_hole: bool,
    },
    /// What lies below them may be dead: overwrite them conservatively.
    Scour,
    /// They were overwritten conservatively, and what was kept may itself be
    /// dead: destroy it before the next write.
    Suspicious,
}

/// One entry of the ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Obligation {
    /// What is to be done.
    pub due: Due,
    /// Why.
    pub cause: Cause,
    /// Since when.
    pub since: Millis,
}

impl Obligation {
    /// Whether the bytes are dead, and so read as zeros.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        matches!(self.due, Due::Shred { .. })
    }

    /// Whether an act is waiting to be done, without any further write.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.due != Due::Suspicious
    }
}

impl Value for Obligation {
    fn merged(&self, next: &Self) -> Option<Self> {
        let since = self.since.min(next.since);
        (self.due == next.due && self.cause == next.cause).then_some(Self { since, ..*self })
    }
}

/// What must be destroyed. Deaths of one byte merge: dead five times, it is
/// destroyed once.
pub type Ledger = ExtentMap<Addr, Obligation>;

/// What has been counted since the disk was created. Every figure is bytes,
/// or a number of things where it says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Deaths (a number), by [`Cause`].
    pub deaths: [u64; 8],
    /// Bytes that died, by [`Cause`].
    pub dead_bytes: [u64; 8],
    /// Freed although dead already.
    pub freed_again_bytes: u64,
    /// Freed although they never held data.
    pub freed_unwritten_bytes: u64,
    /// Shredded, with a receipt.
    pub destroyed_bytes: u64,
    /// Overwritten conservatively, with a receipt.
    pub scoured_bytes: u64,
    /// Receipts (a number): the next one has this number.
    pub receipts: u64,
    /// Written in passes.
    pub passed_bytes: u64,
    /// Writes that had to wait for an act (a number).
    pub revocations: u64,
}

/// Numbers that [`Counters`] is made of.
pub const COUNTERS: usize = 23;

impl Counters {
    /// Notes one death.
    pub fn died(&mut self, cause: Cause, bytes: u64) {
        self.deaths[cause as usize] += 1;
        self.dead_bytes[cause as usize] += bytes;
    }

    /// As numbers, in the order of the journal's format.
    #[must_use]
    pub fn to_array(&self) -> [u64; COUNTERS] {
        let mut all = [0; COUNTERS];
        all[..8].copy_from_slice(&self.deaths);
        all[8..16].copy_from_slice(&self.dead_bytes);
        all[16..].copy_from_slice(&[
            self.freed_again_bytes,
            self.freed_unwritten_bytes,
            self.destroyed_bytes,
            self.scoured_bytes,
            self.receipts,
            self.passed_bytes,
            self.revocations,
        ]);
        all
    }

    /// From [`Counters::to_array`].
    #[must_use]
    pub fn from_array(all: [u64; COUNTERS]) -> Self {
        let mut counters = Self::default();
        counters.deaths.copy_from_slice(&all[..8]);
        counters.dead_bytes.copy_from_slice(&all[8..16]);
        [
            counters.freed_again_bytes,
            counters.freed_unwritten_bytes,
            counters.destroyed_bytes,
            counters.scoured_bytes,
            counters.receipts,
            counters.passed_bytes,
            counters.revocations,
        ] = all[16..].try_into().expect("seven numbers are left of the twenty-three");
        counters
    }
}
