//! Versions that lie together: what was written at once is a few of these, however much that was.

use crate::base::units::{BLOCK_BYTES, Block, Epoch, Extent, Pos, Slot};
use crate::store::versions::index::key::{NUMBER, NUMBER_MAX, number};
use crate::store::versions::positions::in_slot;
use std::ops::Range;

/// Bytes of a length.
pub(in super::super) const LEN: usize = 2;
/// Most versions in a span.
const LEN_MAX: u64 = u16::MAX as u64;

/// The slot of a version that was forgotten while epochs are kept that showed it, a *tombstone*, is greater by this. So a disk has fewer
/// slots.
const TOMBSTONE: u64 = 1 << (8 * NUMBER - 1);

/// The tombstone of a version that lay in `slot`.
pub(in super::super) fn tombstone(slot: Slot) -> Slot {
    assert!(slot.0 < TOMBSTONE - 1, "no tombstone is made of another one, or of the end of a block");
    Slot(slot.0 + TOMBSTONE)
}

/// Whether it is a tombstone that has this slot.
pub(in super::super) fn is_tombstone(slot: Slot) -> bool {
    (TOMBSTONE..NUMBER_MAX).contains(&slot.0)
}

/// A version that has died.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(in super::super) struct Dead {
    pub(in super::super) born: Epoch,
    pub(in super::super) block: Block,
    pub(in super::super) slot: Slot,
}

/// Versions of neighbouring blocks, born in one epoch, in neighbouring slots: at least one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Span {
    pub(in super::super) first: Dead,
    /// How many versions.
    pub(in super::super) len: u64,
}

impl Span {
    pub(in super::super) fn of(first: Dead) -> Self {
        Self { first, len: 1 }
    }

    /// The span whose length is in `bytes`, as [`Span::len_bytes`] made them.
    pub(in super::super) fn with_len(first: Dead, bytes: &[u8]) -> Self {
        Self { first, len: bytes.iter().fold(0, |len, byte| len << 8 | u64::from(*byte)) }
    }

    /// The versions of an entry of the tree of what is owed.
    pub(in super::super) fn owed(key: &[u8], value: &[u8]) -> Self {
        let (block, born) = (Block(number(value, 0)), Epoch(number(value, 1)));
        Self::with_len(Dead { slot: Slot(number(key, 0)), block, born }, &value[2 * NUMBER..])
    }

    /// The versions of an entry of a run of the dead.
    pub(in super::super) fn dead(key: &[u8], value: &[u8]) -> Self {
        let (born, block) = (Epoch(number(key, 1)), Block(number(key, 2)));
        Self::with_len(Dead { born, block, slot: Slot(number(value, 0)) }, &value[NUMBER..])
    }

    pub(in super::super) fn len_bytes(self) -> [u8; LEN] {
        u16::try_from(self.len).expect("a span has a length of two bytes").to_be_bytes()
    }

    /// How many of the versions have content: all, or they are tombstones.
    pub(in super::super) fn stored(self) -> u64 {
        if is_tombstone(self.first.slot) { 0 } else { self.len }
    }

    /// Each version, in order.
    pub(in super::super) fn each(self) -> impl Iterator<Item = Dead> {
        (0..self.len).map(move |n| self.nth(n))
    }

    fn nth(self, n: u64) -> Dead {
        assert!(n <= self.len, "a version is one of the span, or the next one");
        let Dead { born, block, slot } = self.first;
        Dead { born, block: Block(block.0 + n), slot: Slot(slot.0 + n) }
    }

    /// The slots, in order.
    pub(in super::super) fn slots(self) -> Range<Slot> {
        self.first.slot..Slot(self.first.slot.0 + self.len)
    }

    /// Whether `version` is one of these.
    pub(in super::super) fn has(self, version: Dead) -> bool {
        version.slot.0.checked_sub(self.first.slot.0).is_some_and(|n| n < self.len && self.nth(n) == version)
    }

    /// Both as one span, if `next` goes on where this one ends.
    pub(in super::super) fn joined(self, next: Self) -> Option<Self> {
        let len = self.len + next.len;
        (self.nth(self.len) == next.first && len <= LEN_MAX).then_some(Self { len, ..self })
    }

    /// The last `len` versions, or all if these are fewer.
    pub(in super::super) fn last(self, len: u64) -> Self {
        assert!(len > 0, "a span has a version");
        let len = self.len.min(len);
        Self { first: self.nth(self.len - len), len }
    }

    /// The versions in `slots`.
    pub(in super::super) fn within(self, slots: &Range<Slot>) -> Option<Self> {
        let own = self.slots();
        let (start, end) = (own.start.max(slots.start), own.end.min(slots.end));
        let len = end.0.checked_sub(start.0).filter(|len| *len > 0)?;
        Some(Self { first: self.nth(start.0 - own.start.0), len })
    }

    /// The versions of `self` before `part`, and those behind: `part` is a part of it.
    pub(in super::super) fn without(self, part: Self) -> [Option<Self>; 2] {
        let (own, gone) = (self.slots(), part.slots());
        assert!(own.start <= gone.start && gone.end <= own.end, "the part lies in the span");
        let rest = [own.start..gone.start, gone.end..own.end].map(|rest| self.within(&rest));
        let left: u64 = rest.iter().flatten().map(|rest| rest.len).sum();
        assert_eq!(left + part.len, self.len, "each version is in the part or in the rest");
        rest
    }

    /// The versions with each of those together that go on where the one before ends.
    pub(in super::super) fn all_of(versions: impl Iterator<Item = Dead>) -> Vec<Self> {
        let mut spans: Vec<Self> = Vec::new();
        for span in versions.map(Self::of) {
            match spans.last_mut().map(|last| (last.joined(span), last)) {
                Some((Some(both), last)) => *last = both,
                _ => spans.push(span),
            }
        }
        spans
    }
}

/// The bytes of some slots.
pub(in super::super) fn bytes_of(slots: &Range<Slot>) -> Extent<Pos> {
    Extent::between(in_slot(slots.start).extent.start.0, slots.end.0 * BLOCK_BYTES)
}

/// The slots that have these bytes, which are whole slots.
pub(in super::super) fn slots_of(bytes: Extent<Pos>) -> Range<Slot> {
    let are_whole = [bytes.start.0, bytes.len].iter().all(|it| it.is_multiple_of(BLOCK_BYTES));
    assert!(are_whole, "{bytes:?} are whole slots");
    Slot(bytes.start.0 / BLOCK_BYTES)..Slot(bytes.end() / BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use crate::store::versions::index::span::*;

    fn dead(n: u64) -> Dead {
        Dead { born: Epoch(3), block: Block(100 + n), slot: Slot(7 + n) }
    }

    fn span(from: u64, len: u64) -> Span {
        Span { first: dead(from), len }
    }

    #[test]
    fn neighbours_of_one_epoch_are_one_span() {
        let other_slot = Dead { slot: Slot(99), ..dead(3) };
        let other_epoch = Dead { born: Epoch(4), ..dead(5) };
        let all = [dead(0), dead(1), dead(2), other_slot, dead(4), other_epoch, dead(7)];
        let spans = Span::all_of(all.into_iter());
        assert_eq!(spans.iter().map(|span| span.len).collect::<Vec<_>>(), [3, 1, 1, 1, 1]);
        assert!(spans.iter().flat_map(|span| span.each()).eq(all));
    }

    #[test]
    fn a_span_is_as_long_as_its_bytes_can_say_and_no_longer() {
        let full = span(0, LEN_MAX);
        assert_eq!(full.joined(span(LEN_MAX, 1)), None);
        assert_eq!(span(0, LEN_MAX - 1).joined(span(LEN_MAX - 1, 1)), Some(full));
        assert_eq!(Span::with_len(full.first, &full.len_bytes()), full);
    }

    #[test]
    fn parts_of_a_span_are_what_lies_there() {
        let whole = span(0, 10);
        assert_eq!(whole.last(3), span(7, 3));
        assert_eq!(whole.last(30), whole);
        assert_eq!(whole.within(&(Slot(0)..Slot(9))), Some(span(0, 2)));
        assert_eq!(whole.within(&(Slot(17)..Slot(20))), None);
        assert_eq!(whole.without(span(2, 3)), [Some(span(0, 2)), Some(span(5, 5))]);
        assert_eq!(whole.without(whole), [None, None]);
        assert!(whole.has(dead(9)) && !whole.has(dead(10)) && !whole.has(Dead { born: Epoch(2), ..dead(1) }));
    }
}
