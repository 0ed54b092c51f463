//! Content to be destroyed, by the place where it lies.
//!
//! A dead address that is written again gets another place, where a store can give it one. Then no address names
//! the old content any more: this table says what is owed there, why, and which address named the place.

pub mod journal;
pub mod ledger;
pub mod receipts;
use crate::base::extents::{ExtentMap, Value};
use crate::base::units::{Addr, Extent, Millis, Pos};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::owed::ledger::Cause;

/// Content that is owed at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwedContent {
    /// The address minus the place: the same for all bytes of the entry.
    shift: u64,
    /// Why the content died.
    pub cause: Cause,
    /// When the obligation arose.
    pub since: Millis,
    /// Whether the content was plain: its place is given back without passes.
    pub is_plain: bool,
}

impl OwedContent {
    /// The entry of sensitive content that begins at place `from`, and whose first byte was at `address`.
    #[must_use]
    pub fn new(from: Pos, address: Addr, cause: Cause, since: Millis) -> Self {
        Self { shift: address.0.wrapping_sub(from.0), cause, since, is_plain: false }
    }

    /// The address of `place`, a part of the entry.
    #[must_use]
    pub fn address(&self, place: Extent<Pos>) -> Extent<Addr> {
        Extent::new(place.start.0.wrapping_add(self.shift), place.len)
    }
}

impl Value for OwedContent {
    fn merged(&self, next: &Self) -> Option<Self> {
        let since = self.since.min(next.since);
        let is_alike = (self.shift, self.cause, self.is_plain) == (next.shift, next.cause, next.is_plain);
        is_alike.then_some(Self { since, ..*self })
    }
}

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct Owed {
    /// The entries on the data medium.
    data: ExtentMap<Pos, OwedContent>,
    /// The entries in the base, where nothing is destroyed: the base must only not show there.
    base: ExtentMap<Pos, OwedContent>,
    /// A time that no entry is older than.
    oldest: Option<Millis>,
}

impl Owed {
    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.data.len() + self.base.len()
    }

    /// Whether nothing is owed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.data.is_empty() && self.base.is_empty()
    }

    /// A time that no entry is older than; `None` if there is no entry.
    #[must_use]
    pub fn oldest(&self) -> Option<Millis> {
        self.oldest.filter(|_| !self.is_empty())
    }

    /// Bytes that are to be destroyed.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.data.bytes()
    }

    /// The entries on the data medium.
    #[must_use]
    pub fn data(&self) -> &ExtentMap<Pos, OwedContent> {
        &self.data
    }

    /// All entries, each with its place.
    pub fn iter(&self) -> impl Iterator<Item = (Place, &OwedContent)> {
        let data = self.data.iter().map(|(extent, it)| (Place { on: MediumId::Data, extent }, it));
        data.chain(self.base.iter().map(|(extent, it)| (Place { on: MediumId::Base, extent }, it)))
    }

    /// Adds `content`, owed at `place`.
    pub fn insert(&mut self, place: Place, content: OwedContent) {
        self.oldest = Some(self.oldest().map_or(content.since, |oldest| oldest.min(content.since)));
        self.on(place).insert(place.extent, content);
    }

    /// Removes everything owed at `place`.
    pub fn remove(&mut self, place: Place) {
        self.on(place).remove(place.extent);
    }

    /// Removes the entries beyond `end`, where the data medium ends: a power cut undid the growth of the
    /// medium, which was not durable.
    pub fn forget_beyond(&mut self, end: u64) {
        self.data.remove(Extent::between(end, u64::MAX));
        assert!(self.data.iter_from(end).next().is_none(), "nothing is owed beyond the end of the medium");
    }

    fn on(&mut self, place: Place) -> &mut ExtentMap<Pos, OwedContent> {
        let is_content = matches!(place.on, MediumId::Data | MediumId::Base);
        assert!(is_content, "{place:?} holds content of the disk");
        if place.on == MediumId::Base { &mut self.base } else { &mut self.data }
    }
}

/// How far the keys of a disk had come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct KeysPosition {
    /// The number of the last purge.
    pub purge: u32,
    /// How many sectors the log has had since.
    pub log: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lay_side_by_side_is_one_entry_and_knows_its_addresses() {
        let mut owed = Owed::default();
        let place = |start| Place { on: MediumId::Data, extent: Extent::new(start, 10) };
        let content =
            |start, address, since| OwedContent::new(Pos(start), Addr(address), Cause::Trim, Millis(since));
        owed.insert(place(100), content(100, 20, 7));
        owed.insert(place(110), content(110, 30, 5));
        owed.insert(place(120), content(120, 90, 6));
        let found: Vec<_> =
            owed.data().iter().map(|(it, content)| (content.address(it), content.since.0)).collect();
        assert_eq!(found, [(Extent::new(20, 20), 5), (Extent::new(90, 10), 6)]);
        owed.remove(place(105));
        let found: Vec<_> = owed.data().iter().map(|(it, content)| content.address(it)).collect();
        assert_eq!(found, [Extent::new(20, 5), Extent::new(35, 5), Extent::new(90, 10)]);
        owed.forget_beyond(118);
        assert_eq!((owed.bytes(), owed.len()), (8, 2));
    }
}
