//! What an attacker can open who has all sectors that there ever were, and what the medium of the root may hold.

use super::media::{Cell, Media, Sector};
use std::collections::BTreeSet;

/// All cells that follow from the cells `from`, with all sectors that were ever `seen`.
pub(super) fn closure(seen: &BTreeSet<Sector>, from: impl IntoIterator<Item = Cell>) -> BTreeSet<Cell> {
    let mut known: BTreeSet<Cell> = from.into_iter().collect();
    let mut sealed: Vec<&Sector> = seen.iter().filter(|it| !matches!(it, Sector::Content { .. })).collect();
    loop {
        let before = sealed.len();
        sealed.retain(|it| {
            let opens = it.under().is_some_and(|under| known.contains(&under));
            if opens {
                known.extend(it.cells());
            }
            !opens
        });
        if sealed.len() == before {
            return known;
        }
    }
}

/// The cells of all top pages that the medium of the root may tell.
pub(super) fn roots(media: &Media) -> impl Iterator<Item = Cell> {
    media.roots.iter().flat_map(|it| it.may_hold.iter().flatten()).map(|it| it.top)
}

/// The contents that an attacker can open now.
pub(super) fn opens(media: &Media) -> BTreeSet<u32> {
    let known = closure(&media.seen, roots(media));
    let contents = media.seen.iter().filter_map(|it| match it {
        Sector::Content { under, content } if known.contains(under) => Some(*content),
        _ => None,
    });
    contents.collect()
}
