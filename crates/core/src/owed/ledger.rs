//! The death ledger: what must be destroyed, and why.

use crate::base::extents::{ExtentMap, Value};
use crate::base::units::{Addr, Extent, Millis};
use crate::watch::Class;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why bytes are dead: who declared or inferred it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
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
    /// The owner asked to destroy what lies below the content.
    ConservativeOverwrite = 4,
    /// The bytes were on the medium before the disk was created there.
    Creation = 5,
    /// The file system's allocation map shows the block free.
    Map = 6,
    /// The block may have content of a file that is gone.
    Generation = 7,
    /// The last epoch that showed the content was forgotten. No obligation has this cause.
    Forget = 8,
}

impl Cause {
    /// All causes of obligations, in the order of their numbers in the formats.
    pub const ALL: [Self; 8] = [
        Self::Trim,
        Self::WriteZeroes,
        Self::ZeroBlock,
        Self::Purge,
        Self::ConservativeOverwrite,
        Self::Creation,
        Self::Map,
        Self::Generation,
    ];

    /// The name, as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Trim => "trim",
            Self::WriteZeroes => "write-zeroes",
            Self::ZeroBlock => "zero-block",
            Self::Purge => "purge",
            Self::ConservativeOverwrite => "conservative-overwrite",
            Self::Creation => "creation",
            Self::Map => "map",
            Self::Generation => "generation",
            Self::Forget => "forget",
        }
    }

    /// The cause with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// How some bytes are to be destroyed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// Shred: the bytes are dead, and read as zeros. With `no_hole` the zeros are themselves data, and keep
    /// their space.
    Shred {
        /// Keep the space allocated.
        no_hole: bool,
    },
    /// Free: the bytes are dead, and read as zeros; what they held was plain ([`Class::Plain`]), so their space is
    /// given back without passes. Known in memory only: to the journal the bytes are to be shredded.
    Free {
        /// Keep the space allocated.
        no_hole: bool,
    },
    /// Overwrite conservatively: content below the present one may be dead.
    ConservativeOverwrite,
    /// Destroy before the next write: the bytes were overwritten conservatively, and the content that was
    /// kept may itself be dead.
    Suspicious,
}

impl Due {
    /// Whether the bytes are dead, and so read as zeros.
    #[must_use]
    pub fn is_dead(self) -> bool {
        matches!(self, Self::Shred { .. } | Self::Free { .. })
    }

    /// Whether nothing has to be destroyed.
    #[must_use]
    pub fn is_plain(self) -> bool {
        matches!(self, Self::Free { .. })
    }

    /// Whether the zeros that dead bytes read as are data, and keep their space.
    #[must_use]
    pub fn keeps_space(self) -> bool {
        matches!(self, Self::Shred { no_hole: true } | Self::Free { no_hole: true })
    }

    /// Class of the content that is owed.
    #[must_use]
    pub fn class(self) -> Class {
        if self.is_plain() { Class::Plain } else { Class::Sensitive }
    }

    /// How bytes are to be destroyed that are `self` already, and now `next` too: what is owed is never
    /// forgotten, and a plain death never makes a sensitive one of the same bytes plain.
    #[must_use]
    pub fn and(self, next: Self) -> Self {
        let no_hole = self.keeps_space() || next.keeps_space();
        let both = match (self, next) {
            (Self::Free { .. }, Self::Free { .. }) => Self::Free { no_hole },
            (Self::Free { .. } | Self::Shred { .. }, _) | (_, Self::Free { .. }) => Self::Shred { no_hole },
            (_, next) => next,
        };
        assert!(self.is_plain() && next.is_plain() || !both.is_plain(), "a sensitive death stays sensitive");
        assert!(both.is_dead() || !self.is_dead() && !next.is_dead(), "what is dead stays dead");
        both
    }
}

/// An entry of the ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Obligation {
    /// How the bytes are to be destroyed.
    pub due: Due,
    /// Why the bytes are dead.
    pub cause: Cause,
    /// When the obligation arose.
    pub since: Millis,
}

impl Obligation {
    /// Whether the bytes are dead, and so read as zeros.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.due.is_dead()
    }

    /// Whether the obligation needs an erase task even without a further write.
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

/// The obligations by address. Deaths of one byte merge: a byte that died five times is destroyed once.
///
/// Each kind of obligation has a table of its own, so that its size and its first entry are known without
/// reading the others.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    dead: Entries,
    conservative: Entries,
    suspicious: Entries,
    overwritten: Overwritten,
    age: Age,
}

/// Dead bytes that the guest wrote over, where the new content is itself the pass: live again to every
/// reader, and owed until a sync. Known in memory only; to the journal the bytes are dead.
#[derive(Clone, Debug, Default)]
struct Overwritten {
    /// Bytes written after the last sync began.
    unsynced: Entries,
    /// Bytes that the sync under way covers.
    syncing: Entries,
}

impl Ledger {
    /// The number of entries. Bytes that were written over take two each in the journal.
    #[must_use]
    pub fn len(&self) -> usize {
        self.dead.len() + self.conservative.len() + self.suspicious.len() + 2 * self.overwritten_len()
    }

    /// Whether nothing is owed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dead.is_empty()
            && self.conservative.is_empty()
            && self.suspicious.is_empty()
            && !self.has_overwritten()
    }

    /// Whether an obligation needs an erase task even without a further write.
    #[must_use]
    pub fn has_queued(&self) -> bool {
        self.queued_len() > 0
    }

    /// How many entries call for an erase task without any further write.
    #[must_use]
    pub fn queued_len(&self) -> usize {
        self.dead.len() + self.conservative.len()
    }

    /// The dead bytes.
    #[must_use]
    pub fn dead(&self) -> &ExtentMap<Addr, Obligation> {
        &self.dead
    }

    /// The bytes to be overwritten conservatively.
    #[must_use]
    pub fn conservative(&self) -> &ExtentMap<Addr, Obligation> {
        &self.conservative
    }

    /// The suspicious bytes.
    #[must_use]
    pub fn suspicious(&self) -> &ExtentMap<Addr, Obligation> {
        &self.suspicious
    }

    /// Whether dead bytes were written over, and no sync has ended since.
    #[must_use]
    pub fn has_overwritten(&self) -> bool {
        !self.overwritten.unsynced.is_empty() || !self.overwritten.syncing.is_empty()
    }

    /// Whether dead bytes were written over since the last sync began.
    #[must_use]
    pub fn has_unsynced(&self) -> bool {
        !self.overwritten.unsynced.is_empty()
    }

    /// The number of bytes that were written over and are still owed.
    #[must_use]
    pub fn overwritten_bytes(&self) -> u64 {
        self.overwritten.unsynced.bytes() + self.overwritten.syncing.bytes()
    }

    /// The number of entries for those bytes.
    #[must_use]
    pub fn overwritten_len(&self) -> usize {
        self.overwritten.unsynced.len() + self.overwritten.syncing.len()
    }

    /// The bytes within `extent` that were written over, ascending.
    pub fn overwritten_within(
        &self,
        extent: Extent<Addr>,
    ) -> impl Iterator<Item = (Extent<Addr>, &Obligation)> {
        let Overwritten { unsynced, syncing } = &self.overwritten;
        merged(unsynced.within(extent), syncing.within(extent))
    }

    /// Notes that the guest has written over `extent`: dead bytes there are live, and owed until a sync. Suspicious ones are owed like
    /// them: where a write must not go over such bytes, there are none.
    pub fn overwrite(&mut self, extent: Extent<Addr>) {
        let all = |it: &Self| it.dead.bytes() + it.suspicious.bytes() + it.overwritten.unsynced.bytes();
        let bytes = all(self);
        let over: Vec<_> = merged(self.dead.within(extent), self.suspicious.within(extent))
            .map(|(part, it)| (part, *it))
            .collect();
        for (part, it) in over {
            self.dead.remove(part);
            self.suspicious.remove(part);
            self.overwritten.unsynced.insert(part, it);
        }
        let left = all(self);
        assert!(left == bytes, "each byte that was written over is still owed, once");
    }

    /// Notes that a sync begins.
    ///
    /// # Panics
    /// If one is under way.
    pub fn begin_sync(&mut self) {
        assert!(self.overwritten.syncing.is_empty(), "one sync at a time");
        self.overwritten.syncing = std::mem::take(&mut self.overwritten.unsynced);
    }

    /// Notes that the sync under way has failed, and that nothing is lost: the next one covers all of it.
    pub fn abort_sync(&mut self) {
        for (run, it) in std::mem::take(&mut self.overwritten.syncing).iter() {
            self.overwritten.unsynced.insert(run, *it);
        }
    }

    /// The bytes that the sync destroyed for good, adjacent ones as one run.
    #[must_use]
    pub fn synced(&self) -> Vec<Extent<Addr>> {
        let mut runs = ExtentMap::<Addr, ()>::default();
        self.overwritten.syncing.iter().for_each(|(run, _)| runs.insert(run, ()));
        assert!(runs.bytes() == self.overwritten.syncing.bytes(), "a sync completes what it began with");
        runs.iter().map(|(run, ())| run).collect()
    }

    /// The bytes that were written over, ascending.
    pub fn overwritten(&self) -> impl Iterator<Item = (Extent<Addr>, &Obligation)> {
        merged(self.overwritten.unsynced.iter(), self.overwritten.syncing.iter())
    }

    /// All entries, ascending, also those of bytes that were written over.
    pub fn all(&self) -> impl Iterator<Item = (Extent<Addr>, &Obligation)> {
        merged(self.iter(), self.overwritten())
    }

    /// All entries except those of bytes that were written over, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (Extent<Addr>, &Obligation)> {
        merged(merged(self.dead.iter(), self.conservative.iter()), self.suspicious.iter())
    }

    /// The obligations within `extent`, ascending, cut to it.
    pub fn within(&self, extent: Extent<Addr>) -> impl Iterator<Item = (Extent<Addr>, &Obligation)> {
        merged(self.queued_within(extent), self.suspicious.within(extent))
    }

    /// The obligations within `extent` that call for an erase task, ascending, cut to it.
    pub fn queued_within(&self, extent: Extent<Addr>) -> impl Iterator<Item = (Extent<Addr>, &Obligation)> {
        merged(self.dead.within(extent), self.conservative.within(extent))
    }

    /// Whether something is owed within `extent`.
    #[must_use]
    pub fn overlaps(&self, extent: Extent<Addr>) -> bool {
        self.within(extent).next().is_some()
    }

    /// Gives `extent` this obligation, which replaces any other.
    pub fn insert(&mut self, extent: Extent<Addr>, obligation: Obligation) {
        self.remove(extent);
        let entries = match obligation.due {
            Due::Shred { .. } | Due::Free { .. } => &mut self.dead,
            Due::ConservativeOverwrite => &mut self.conservative,
            Due::Suspicious => &mut self.suspicious,
        };
        let bytes = entries.bytes();
        entries.insert(extent, obligation);
        assert!(entries.bytes() == bytes + extent.len, "an obligation replaces every other one of its bytes");
        if obligation.is_queued() {
            self.age.note(obligation.since);
        }
    }

    /// Removes all obligations within `extent`.
    pub fn remove(&mut self, extent: Extent<Addr>) {
        let Overwritten { unsynced, syncing } = &mut self.overwritten;
        for entries in [&mut self.dead, &mut self.conservative, &mut self.suspicious, unsynced, syncing] {
            entries.remove(extent);
        }
    }

    /// A time that no obligation is older than; `None` if no obligation calls for an erase task. Older
    /// obligations may have been completed by now.
    #[must_use]
    pub fn oldest(&self) -> Option<Millis> {
        self.age.oldest.filter(|_| self.has_queued())
    }

    /// Looks at some more entries in search of the oldest that is left, at `now`.
    pub fn review(&mut self, now: Millis) {
        let Age { from, so_far, .. } = self.age;
        let (mut from, mut so_far) = (from, if from == 0 { now } else { so_far });
        let mut rest = merged(self.dead.iter_from(from), self.conservative.iter_from(from));
        for _ in 0..REVIEW_MAX {
            let Some((extent, it)) = rest.next() else {
                self.age = Age { oldest: Some(so_far), from: 0, so_far };
                return;
            };
            (from, so_far) = (extent.end(), so_far.min(it.since));
        }
        drop(rest);
        assert!(from > self.age.from, "a walk over the entries goes on");
        (self.age.from, self.age.so_far) = (from, so_far);
    }
}

/// The age of the oldest obligation. Entries come, go and merge, so the answer is only a limit. Walks over all
/// entries, a few at a time, renew it.
#[derive(Clone, Copy, Debug, Default)]
struct Age {
    oldest: Option<Millis>,
    /// Where the walk under way goes on; 0: where it begins.
    from: u64,
    /// The oldest entry that the walk has found so far.
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

/// Numbers by the cause of a death.
mod by_cause {
    use crate::owed::ledger::Cause;
    use serde::{Deserialize, Deserializer, Serializer};
    use std::collections::BTreeMap;

    pub(super) fn serialize<S: Serializer>(numbers: &[u64; 8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Cause::ALL.into_iter().zip(numbers))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u64; 8], D::Error> {
        let named = BTreeMap::<Cause, u64>::deserialize(deserializer)?;
        Ok(Cause::ALL.map(|cause| named.get(&cause).copied().unwrap_or(0)))
    }
}

/// The counters since the disk was created. The unit is bytes unless the comment says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// The number of deaths, by [`Cause`].
    #[serde(with = "by_cause")]
    #[schemars(with = "BTreeMap<Cause, u64>")]
    pub deaths: [u64; 8],
    /// Bytes that died, by [`Cause`].
    #[serde(with = "by_cause")]
    #[schemars(with = "BTreeMap<Cause, u64>")]
    pub dead_bytes: [u64; 8],
    /// Bytes that were freed although dead already.
    pub freed_again_bytes: u64,
    /// Bytes that were freed although they never had data.
    pub freed_unwritten_bytes: u64,
    /// Bytes that were shredded, with a receipt.
    pub destroyed_bytes: u64,
    /// Bytes that were overwritten conservatively, with a receipt.
    pub rewritten_bytes: u64,
    /// The number of receipts; also the number of the next one.
    pub receipts: u64,
    /// Bytes that passes have written.
    pub passed_bytes: u64,
    /// The number of writes that had to wait for an erase task.
    pub revocations: u64,
    /// Bytes of plain content that were freed and not destroyed, with a receipt.
    // A proof that was signed before this counter existed stays as it was signed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub plain_bytes: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The number of fields of [`Counters`].
pub const COUNTERS: usize = 24;

impl Counters {
    /// Notes one death.
    pub fn died(&mut self, cause: Cause, bytes: u64) {
        assert!(cause != Cause::Forget, "a forget gives a receipt, and makes no obligation");
        self.deaths[cause as usize] += 1;
        self.dead_bytes[cause as usize] += bytes;
    }

    /// The numbers, in the order of the journal's format.
    #[must_use]
    pub fn to_array(&self) -> [u64; COUNTERS] {
        let mut all = [0; COUNTERS];
        all[..8].copy_from_slice(&self.deaths);
        all[8..16].copy_from_slice(&self.dead_bytes);
        all[16..].copy_from_slice(&[
            self.freed_again_bytes,
            self.freed_unwritten_bytes,
            self.destroyed_bytes,
            self.rewritten_bytes,
            self.receipts,
            self.passed_bytes,
            self.revocations,
            self.plain_bytes,
        ]);
        assert!(Self::from_array(all) == *self, "the counters are read as they are written");
        all
    }

    /// The counters from [`Counters::to_array`].
    #[must_use]
    pub fn from_array(all: [u64; COUNTERS]) -> Self {
        let mut counters = Self::default();
        counters.deaths.copy_from_slice(&all[..8]);
        counters.dead_bytes.copy_from_slice(&all[8..16]);
        [
            counters.freed_again_bytes,
            counters.freed_unwritten_bytes,
            counters.destroyed_bytes,
            counters.rewritten_bytes,
            counters.receipts,
            counters.passed_bytes,
            counters.revocations,
            counters.plain_bytes,
        ] = all[16..].try_into().expect("eight numbers are left of the twenty-four");
        counters
    }
}
