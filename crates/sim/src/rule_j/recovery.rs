//! A guest's recovery of a log that was not emptied.

use super::log::{Area, Logged, Tid};
use quietus_detect::format::Block;
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovery {
    /// Blocks that are written to their places.
    pub contents: BTreeMap<Block, Vec<u8>>,
    /// The same as Linux writes it: one transaction after the other.
    pub in_order: Vec<(Block, Vec<u8>)>,
    /// The first transaction that is not there.
    pub next: Tid,
    /// The log said that it is empty.
    pub is_empty: bool,
}

/// Reads the log on `disk`; none: there is no journal.
pub fn recovery(area: Area, disk: &[&[u8]]) -> Option<Recovery> {
    let tail = area.tail(disk.get(area.block(0) as usize)?)?;
    if tail.start == 0 {
        let (contents, in_order) = (BTreeMap::new(), Vec::new());
        return Some(Recovery { contents, in_order, next: tail.tid, is_empty: true });
    }
    let (mut found, mut at) = (Vec::<Logged>::new(), tail.start);
    let mut next = tail.tid;
    while let Some((logged, end)) = area.decode(next, at, |at| disk[area.block(at) as usize]) {
        found.push(logged);
        (next, at) = (next + 1, end);
    }
    let in_order = in_order(&found);
    let contents = in_order.iter().cloned().collect();
    Some(Recovery { contents, in_order, next, is_empty: false })
}

/// Each copy that no revocation covers.
fn in_order(found: &[Logged]) -> Vec<(Block, Vec<u8>)> {
    let mut contents = Vec::new();
    for logged in found {
        let is_revoked = |block| found.iter().any(|it| it.tid >= logged.tid && it.revoked.contains(block));
        let copies = logged.contents.iter().filter(|(block, _)| !is_revoked(block));
        contents.extend(copies.map(|(block, content)| (*block, content.clone())));
    }
    contents
}
