//! Merging the part in memory with the sorted part.

use std::cmp::Ordering;

use super::IndexEntry;

/// The entries of `recent` and of `part`, both sorted, in order. Where both have a chunk, the recent entry
/// counts. An error of the part comes through, and ends the order.
pub fn merge<E>(
    recent: impl Iterator<Item = IndexEntry>,
    part: impl Iterator<Item = Result<IndexEntry, E>>,
) -> impl Iterator<Item = Result<IndexEntry, E>> {
    let (mut recent, mut part) = (recent.peekable(), part.peekable());
    std::iter::from_fn(move || {
        let order = match (recent.peek(), part.peek()) {
            (Some(recent), Some(Ok(old))) => recent.fingerprint.cmp(&old.fingerprint),
            (_, Some(_)) => Ordering::Greater,
            (_, None) => Ordering::Less,
        };
        if order == Ordering::Equal {
            part.next();
        }
        match order {
            Ordering::Greater => part.next(),
            Ordering::Equal | Ordering::Less => recent.next().map(Ok),
        }
    })
}
