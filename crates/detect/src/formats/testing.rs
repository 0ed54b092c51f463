//! What the tests of all formats share.

use crate::formats::format::{Block, Change, Contents, Format, Kind, Probe, Prober};
use std::collections::BTreeMap;

pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// A field that lies: what it says, its name, where it lies, how many bytes it has, and their value.
pub(crate) type FieldLie = (&'static str, &'static str, usize, usize, u64);

/// Checks that `sound` is not `refused`, and that for each lie in it the field is what a refusal names.
pub(crate) fn lies_are_named(sound: &[u8], refused: impl Fn(&[u8]) -> Option<String>, lies: &[FieldLie]) {
    assert_eq!(refused(sound), None);
    for (what, field, at, len, value) in lies {
        let mut bytes = sound.to_vec();
        bytes[*at..at + len].copy_from_slice(&value.to_le_bytes()[..*len]);
        assert_eq!(refused(&bytes).as_deref(), Some(*field), "{what}");
    }
}

impl Probe {
    pub(crate) fn found(self) -> Box<dyn Format> {
        match self {
            Self::Is(format) => format,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn refusal(self) -> String {
        match self {
            Self::Refused(reason) => reason.0,
            other => panic!("{other:?}"),
        }
    }
}

/// The result of `prober` on a disk of `disk_bytes` that begins with `disk`, once it has read all that it asks for.
pub(crate) fn probed(prober: Prober, disk_bytes: u64, disk: &[u8]) -> Probe {
    let mut contents = Contents::default();
    loop {
        match prober(disk_bytes, &contents) {
            Probe::Needs(extents) => extents.into_iter().for_each(|it| {
                assert!(contents.get(it).is_none(), "asked for twice");
                contents.insert(it.start, disk[it.start.0 as usize..it.end() as usize].to_vec());
            }),
            found => return found,
        }
    }
}

/// Numbers from a seed.
pub(crate) struct Dice(pub u64);

impl Dice {
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(limit)) as u32
    }

    pub(crate) fn bytes(&mut self, len: u32) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }

    /// `bytes` with some of them replaced.
    pub(crate) fn spoil(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        for _ in 0..=self.below(6) {
            let at = self.below(bytes.len() as u32) as usize;
            bytes[at] = [0, 1, 0x7F, 0xFF, self.below(256) as u8][self.below(5) as usize];
        }
        bytes
    }
}

/// Number of links of each block, by its kind.
pub(crate) type Counts = BTreeMap<(Block, Kind), i64>;

/// Adds every single link in `changes`, and subtracts those that are unlinked.
pub(crate) fn count(changes: &[Change], counts: &mut Counts) {
    for change in changes {
        let (link, by) = match change {
            Change::Unlinked(link) => (link, -1),
            Change::Linked(link) => (link, 1),
        };
        link.blocks.clone().for_each(|block| *counts.entry((block, link.kind)).or_default() += by);
    }
    counts.retain(|_, count| *count != 0);
}

/// Checks that `block`, which has one of `contents` after the other, has linked in the end what its last content
/// shows, and that the way back unlinks all of it.
pub(crate) fn history_cancels(format: &dyn Format, block: Block, kind: Kind, contents: &[Vec<u8>]) {
    let (mut names, mut once) = (Counts::new(), Counts::new());
    let zeros = vec![0; contents[0].len()];
    let mut content = &zeros;
    for next in contents {
        count(&format.diff(block, kind, content, next), &mut names);
        assert!(names.values().all(|count| *count > 0), "unlinked more often than linked");
        content = next;
    }
    count(&format.pointers(block, kind, content), &mut once);
    assert_eq!(names, once, "a history and a single look differ");
    assert!(once.keys().all(|(block, _)| *block < format.blocks()));
    count(&format.diff(block, kind, content, &zeros), &mut names);
    assert_eq!(names, Counts::new());
}
