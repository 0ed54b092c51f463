//! The death ledger: what must be destroyed, and why.

use crate::extents::{ExtentMap, Value};
use crate::units::{Addr, Extent, Millis};
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

    /// Whether an erase task is due for it without any further write.
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

/// Entries that one event looks at to find the oldest again.
const REVIEW_MAX: usize = 32;

type Entries = ExtentMap<Addr, Obligation>;

/// What must be destroyed. Deaths of one byte merge: dead five times, it is
/// destroyed once.
///
/// Each kind of obligation has a table of its own, so that how much there is of
/// one, and where its first one is, takes no look at the others.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    dead: Entries,
    scour: Entries,
    suspicious: Entries,
    overwritten: Overwritten,
    age: Age,
}

/// Dead bytes that the guest wrote over, where the new content is itself the pass: live again
/// to every reader, and owed until a sync. Memory alone knows; to the journal they are dead.
#[derive(Clone, Debug, Default)]
struct Overwritten {
    /// No sync began since.
    unsynced: Entries,
    /// A sync is under way that began after them.
    syncing: Entries,
}

impl Ledger {
    /// How many entries it has: what was overwritten takes two in the journal.
    #[must_use]
    pub fn len(&self) -> usize {
        self.dead.len() + self.scour.len() + self.suspicious.len() + 2 * self.overwritten_len()
    }

    /// Whether nothing is owed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dead.is_empty() && self.scour.is_empty() && self.suspicious.is_empty() && !self.has_overwritten()
    }

    /// Whether an erase task is due for it without any further write.
    #[must_use]
    pub fn has_queued(&self) -> bool {
        !self.dead.is_empty() || !self.scour.is_empty()
    }

    /// Where bytes are dead.
    #[must_use]
    pub fn dead(&self) -> &ExtentMap<Addr, Obligation> {
        &self.dead
    }

    /// Where bytes are to be overwritten conservatively.
    #[must_use]
    pub fn scour(&self) -> &ExtentMap<Addr, Obligation> {
        &self.scour
    }

    /// Where bytes are suspicious.
    #[must_use]
    pub fn suspicious(&self) -> &ExtentMap<Addr, Obligation> {
        &self.suspicious
    }

    /// Whether dead bytes were written over, and no sync has ended since.
    #[must_use]
    pub fn has_overwritten(&self) -> bool {
        !self.overwritten.unsynced.is_empty() || !self.overwritten.syncing.is_empty()
    }

    /// Whether some were since the last sync began.
    #[must_use]
    pub fn has_unsynced(&self) -> bool {
        !self.overwritten.unsynced.is_empty()
    }

    /// How many such bytes there are.
    #[must_use]
    pub fn overwritten_bytes(&self) -> u64 {
        self.overwritten.unsynced.bytes() + self.overwritten.syncing.bytes()
    }

    /// How many entries they are.
    #[must_use]
    pub fn overwritten_len(&self) -> usize {
        self.overwritten.unsynced.len() + self.overwritten.syncing.len()
    }

    /// Where they are within `extent`, ascending.
    pub fn overwritten_within(
        &self,
        extent: Extent<Addr>,
    ) -> impl Iterator<Item = (Extent<Addr>, &Obligation)> {
        let Overwritten { unsynced, syncing } = &self.overwritten;
        merged(unsynced.within(extent), syncing.within(extent))
    }

    /// The guest has written over `extent`: what was dead there is live, and owed until a sync.
    pub fn overwrite(&mut self, extent: Extent<Addr>) {
        let dead: Vec<_> = self.dead.within(extent).map(|(part, it)| (part, *it)).collect();
        for (part, it) in dead {
            self.dead.remove(part);
            self.overwritten.unsynced.insert(part, it);
        }
    }

    /// A sync begins.
    ///
    /// # Panics
    /// If one is under way.
    pub fn begin_sync(&mut self) {
        assert!(self.overwritten.syncing.is_empty(), "one sync at a time");
        self.overwritten.syncing = std::mem::take(&mut self.overwritten.unsynced);
    }

    /// What that sync, which has ended, destroyed for good: neighbours as one.
    #[must_use]
    pub fn synced(&self) -> Vec<Extent<Addr>> {
        let mut runs = ExtentMap::<Addr, ()>::default();
        self.overwritten.syncing.iter().for_each(|(run, _)| runs.insert(run, ()));
        runs.iter().map(|(run, ())| run).collect()
    }

    /// What was overwritten, ascending.
    pub fn overwritten(&self) -> impl Iterator<Item = (Extent<Addr>, &Obligation)> {
        merged(self.overwritten.unsynced.iter(), self.overwritten.syncing.iter())
    }

    /// All entries, ascending, those too.
    pub fn all(&self) -> impl Iterator<Item = (Extent<Addr>, &Obligation)> {
        merged(self.iter(), self.overwritten())
    }

    /// All entries but what was overwritten, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (Extent<Addr>, &Obligation)> {
        merged(merged(self.dead.iter(), self.scour.iter()), self.suspicious.iter())
    }

    /// What lies within `extent`, ascending, cut to it.
    pub fn within(&self, extent: Extent<Addr>) -> impl Iterator<Item = (Extent<Addr>, &Obligation)> {
        merged(self.queued_within(extent), self.suspicious.within(extent))
    }

    /// The same, of what calls for an erase task.
    pub fn queued_within(&self, extent: Extent<Addr>) -> impl Iterator<Item = (Extent<Addr>, &Obligation)> {
        merged(self.dead.within(extent), self.scour.within(extent))
    }

    /// Whether something is owed within `extent`.
    #[must_use]
    pub fn overlaps(&self, extent: Extent<Addr>) -> bool {
        self.within(extent).next().is_some()
    }

    /// Makes `obligation` the one of `extent`, whatever that had before.
    pub fn insert(&mut self, extent: Extent<Addr>, obligation: Obligation) {
        self.remove(extent);
        let entries = match obligation.due {
            Due::Shred { .. } => &mut self.dead,
            Due::Scour => &mut self.scour,
            Due::Suspicious => &mut self.suspicious,
        };
        entries.insert(extent, obligation);
        if obligation.is_queued() {
            self.age.note(obligation.since);
        }
    }

    /// Nothing is owed within `extent` any more.
    pub fn remove(&mut self, extent: Extent<Addr>) {
        let Overwritten { unsynced, syncing } = &mut self.overwritten;
        for entries in [&mut self.dead, &mut self.scour, &mut self.suspicious, unsynced, syncing] {
            entries.remove(extent);
        }
    }

    /// No obligation that calls for an erase task is older than this; none if there is
    /// no such obligation. Some may have been older that are met by now.
    #[must_use]
    pub fn oldest(&self) -> Option<Millis> {
        self.age.oldest.filter(|_| self.has_queued())
    }

    /// Looks at some more entries for the oldest that is left, at `now`.
    pub fn review(&mut self, now: Millis) {
        let Age { from, so_far, .. } = self.age;
        let (mut from, mut so_far) = (from, if from == 0 { now } else { so_far });
        let mut rest = merged(self.dead.iter_from(from), self.scour.iter_from(from));
        for _ in 0..REVIEW_MAX {
            let Some((extent, it)) = rest.next() else {
                self.age = Age { oldest: Some(so_far), from: 0, so_far };
                return;
            };
            (from, so_far) = (extent.end(), so_far.min(it.since));
        }
        drop(rest);
        (self.age.from, self.age.so_far) = (from, so_far);
    }
}

/// How old the oldest obligation is. Entries come and go and merge; so the
/// answer is a limit that is found anew by one walk over all entries after
/// another, a few at a time.
#[derive(Clone, Copy, Debug, Default)]
struct Age {
    oldest: Option<Millis>,
    /// Where the walk under way goes on; 0: where it begins.
    from: u64,
    /// The oldest that it has met.
    so_far: Millis,
}

impl Age {
    fn note(&mut self, since: Millis) {
        self.oldest = Some(self.oldest.map_or(since, |oldest| oldest.min(since)));
        self.so_far = self.so_far.min(since);
    }
}

/// Two ascending lists of disjoint extents as one.
fn merged<'a>(
    one: impl Iterator<Item = (Extent<Addr>, &'a Obligation)>,
    other: impl Iterator<Item = (Extent<Addr>, &'a Obligation)>,
) -> impl Iterator<Item = (Extent<Addr>, &'a Obligation)> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some((first, _)), Some((second, _))) if second.start < first.start => other.next(),
        (None, Some(_)) => other.next(),
        _ => one.next(),
    })
}

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
    /// How many writes had to wait for an erase task.
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
