//! Parts that are forgotten as one: the versions of blocks that lie anywhere, each part with the epochs that show its own.

use crate::base::units::{Addr, EpochRange, Extent, Part, Scope, Set, SetId};
use std::sync::Arc;

/// Most parts in one set: the journal has them until all are forgotten.
pub const PARTS_MAX: usize = 8192;

/// The parts of a set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parts {
    id: SetId,
    all: Vec<Part>,
    /// Bytes of the longest part.
    longest: u64,
}

impl Parts {
    /// The parts `all`, in the order of their blocks' starts, and then of their epochs. Whether they are in order is for the reader of
    /// a request, or of a journal, to check: [`Parts::are_sorted`].
    #[must_use]
    pub fn new(id: SetId, all: Vec<Part>) -> Self {
        let longest = all.iter().map(|part| part.blocks.len).max().unwrap_or(0);
        Self { id, all, longest }
    }

    /// The parts.
    #[must_use]
    pub fn all(&self) -> &[Part] {
        &self.all
    }

    /// The name of the set; `None` if it has no part.
    #[must_use]
    pub fn set(&self) -> Option<Set> {
        let from = self.all.iter().map(|part| part.epochs.from).min()?;
        let to = self.all.iter().map(|part| part.epochs.to).max()?;
        Some(Set { id: self.id, epochs: EpochRange { from, to } })
    }

    /// Whether each part comes after the one before: its blocks begin later, or they begin with the same one, and its epochs are
    /// later.
    #[must_use]
    pub fn are_sorted(&self) -> bool {
        let key = |part: &Part| (part.blocks.start, part.epochs.from, part.epochs.to);
        self.all.is_sorted_by(|one, next| key(one) < key(next))
    }

    /// The parts that have blocks of `extent`.
    fn overlapping(&self, extent: Extent<Addr>) -> &[Part] {
        let first =
            self.all.partition_point(|it| it.blocks.start.0.saturating_add(self.longest) <= extent.start.0);
        let end = self.all.partition_point(|it| it.blocks.start.0 < extent.end());
        self.all.get(first..end).unwrap_or_default()
    }
}

/// A scope that is to be forgotten, and the parts of a set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forget {
    scope: Scope,
    /// Of a set.
    parts: Option<Arc<Parts>>,
}

impl From<Scope> for Forget {
    /// # Panics
    /// If the scope is that of a set, whose parts it does not have.
    fn from(scope: Scope) -> Self {
        assert!(!matches!(scope, Scope::Set(_)), "a set is forgotten with its parts");
        Self { scope, parts: None }
    }
}

impl Forget {
    /// The forget of a set; `None` if it has no part.
    #[must_use]
    pub fn set(parts: Arc<Parts>) -> Option<Self> {
        Some(Self { scope: Scope::Set(parts.set()?), parts: Some(parts) })
    }

    /// The scope.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The parts of a set; empty for another scope.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        self.parts.as_ref().map_or(&[], |parts| parts.all())
    }

    /// The scopes of single extents that are forgotten, by their number: each part of a set, or the scope itself. `None` behind the last,
    /// and for epochs as a whole.
    #[must_use]
    pub fn nth(&self, n: usize) -> Option<Scope> {
        match self.scope {
            Scope::Epochs(_) => None,
            Scope::Chain { .. } | Scope::Shown(_) => Some(self.scope).filter(|_| n == 0),
            Scope::Set(_) => self.parts().get(n).copied().map(Scope::Shown),
        }
    }

    /// The parts that may have blocks of `extent`, of a forget of what single epochs show.
    pub fn overlapping(&self, extent: Extent<Addr>) -> &[Part] {
        match (&self.scope, &self.parts) {
            (Scope::Shown(part), _) => std::slice::from_ref(part),
            (Scope::Set(_), Some(parts)) => parts.overlapping(extent),
            _ => &[],
        }
    }

    /// Whether blocks that are forgotten, other than those of whole epochs, overlap with what `overlaps`.
    pub fn any_blocks(&self, overlaps: impl Fn(Extent<Addr>) -> bool) -> bool {
        self.scope.blocks().is_some_and(&overlaps) || self.parts().iter().any(|part| overlaps(part.blocks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::Epoch;

    fn part(blocks: (u64, u64), epochs: (u64, u64)) -> Part {
        let epochs = EpochRange { from: Epoch(epochs.0), to: Epoch(epochs.1) };
        Part { epochs, blocks: Extent::new(blocks.0, blocks.1) }
    }

    #[test]
    fn the_parts_that_an_extent_meets_are_found_among_those_that_overlap() {
        let all =
            vec![part((0, 100), (1, 1)), part((10, 5), (2, 3)), part((10, 5), (4, 5)), part((40, 5), (1, 9))];
        let parts = Parts::new(SetId([1; 8]), all.clone());
        assert!(parts.are_sorted());
        assert_eq!(parts.set().unwrap().epochs, EpochRange { from: Epoch(1), to: Epoch(9) });
        for start in 0..120 {
            for len in 1..20 {
                let extent = Extent::new(start, len);
                let meets = |it: &&Part| it.blocks.overlaps(extent);
                let found: Vec<_> = parts.overlapping(extent).iter().filter(meets).collect();
                assert_eq!(found, all.iter().filter(meets).collect::<Vec<_>>(), "{extent:?}");
            }
        }
        let wrong = [all[1], all[0]];
        assert!(!Parts::new(SetId([1; 8]), wrong.to_vec()).are_sorted());
        assert!(!Parts::new(SetId([1; 8]), vec![all[0]; 2]).are_sorted(), "a part is named once");
        assert_eq!(Forget::set(Arc::new(Parts::new(SetId([1; 8]), Vec::new()))), None);
    }
}
