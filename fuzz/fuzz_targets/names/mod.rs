//! The links of a block over a history, and of a single look at its end.

use quietus_detect::formats::format::{Change, Format, Kind};
use std::collections::BTreeMap;

/// How many more links each block has than before, by the kind that they give it.
pub type Names = BTreeMap<(u32, Kind), i64>;

/// Counts what a block of a kind links after `new` has replaced `old`. All of it lies in the file system, and `may_be` linked.
pub fn count(
    format: &dyn Format,
    (block, kind): (u32, Kind),
    [old, new]: [&[u8]; 2],
    names: &mut Names,
    may_be: fn(Kind) -> bool,
) {
    for change in format.diff(block, kind, old, new) {
        let (link, by) = match change {
            Change::Unlinked(link) => (link, -1),
            Change::Linked(link) => (link, 1),
        };
        assert!(!link.blocks.is_empty());
        for at in link.blocks {
            assert!(at < format.blocks() && may_be(format.kind(at)));
            *names.entry((at, link.kind)).or_default() += by;
        }
    }
    names.retain(|_, count| *count != 0);
}

/// Checks that a history links what a single look at its end shows, and returns that.
pub fn check(
    format: &dyn Format,
    block: (u32, Kind),
    [old, new]: [&[u8]; 2],
    may_be: fn(Kind) -> bool,
) -> Names {
    let nothing = vec![0; old.len()];
    let (mut history, mut look) = (Names::new(), Names::new());
    count(format, block, [&nothing, old], &mut history, may_be);
    count(format, block, [old, new], &mut history, may_be);
    count(format, block, [&nothing, new], &mut look, may_be);
    assert_eq!(history, look);
    look
}
