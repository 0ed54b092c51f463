//! Pointers, and the difference of two lots of them.

use crate::format::{Block, Change, Kind, Link};

/// A pointer to a block: 0, a hole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Pointer {
    pub block: Block,
    /// 0 to data, else to pointers of that level.
    pub level: u8,
}

impl Pointer {
    /// What is to be found where it leads.
    pub(super) fn kind(self) -> Kind {
        if self.level == 0 { Kind::Data } else { Kind::Pointers(self.level) }
    }
}

/// What changed within one block, each link once for each pointer that is too
/// many on one side. All that is unlinked comes first, so that a block that
/// moves from one owner to another is named in the end.
#[derive(Default)]
pub(super) struct Difference {
    unlinked: Vec<Link>,
    linked: Vec<Link>,
}

impl Difference {
    /// One owner had the pointers `old`, and has `new`.
    pub(super) fn same_owner(&mut self, mut old: Vec<Pointer>, mut new: Vec<Pointer>) {
        if old == new {
            return;
        }
        old.sort_unstable();
        new.sort_unstable();
        join(&mut self.unlinked, without(&old, &new));
        join(&mut self.linked, without(&new, &old));
    }

    /// An owner had the pointers `old`; another one in its place has `new`.
    pub(super) fn another_owner(&mut self, mut old: Vec<Pointer>, mut new: Vec<Pointer>) {
        old.sort_unstable();
        new.sort_unstable();
        join(&mut self.unlinked, old.into_iter());
        join(&mut self.linked, new.into_iter());
    }

    /// The changes.
    pub(super) fn changes(self) -> Vec<Change> {
        let unlinked = self.unlinked.into_iter().map(Change::Unlinked);
        unlinked.chain(self.linked.into_iter().map(Change::Linked)).collect()
    }
}

/// What is in `some` more often than in `others`; both are sorted.
fn without<'a>(some: &'a [Pointer], others: &'a [Pointer]) -> impl Iterator<Item = Pointer> + 'a {
    let mut others = others.iter().peekable();
    some.iter().copied().filter(move |pointer| {
        while others.next_if(|other| *other < pointer).is_some() {}
        others.next_if(|other| *other == pointer).is_none()
    })
}

/// Adds `pointers` of one owner to `links`, consecutive blocks of data as one.
fn join(links: &mut Vec<Link>, pointers: impl Iterator<Item = Pointer>) {
    let first = links.len();
    for pointer in pointers {
        let kind = pointer.kind();
        match links[first..].last_mut() {
            Some(last) if (last.kind, kind, last.blocks.end) == (Kind::Data, Kind::Data, pointer.block) => {
                last.blocks.end += 1;
            }
            _ => links.push(Link { blocks: pointer.block..pointer.block + 1, kind }),
        }
    }
}

#[cfg(test)]
mod tests;
