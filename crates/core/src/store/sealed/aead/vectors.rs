//! The vectors of `docs/formats/keytree.md` and `topcell.md`, read from the documents themselves. `lab/lib/test_keytree.py` checks the same
//! vectors with an implementation of its own.

use crate::base::cell::Cell;
use crate::store::sealed::layout::{Layout, PageId};
use crate::store::sealed::log::{EntryKind, LogEntry, LogWriter, replay};
use crate::store::sealed::page::{Entry, Page};
use crate::store::sealed::root;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The fields of one vector.
struct Vector(BTreeMap<&'static str, &'static str>);

impl Vector {
    fn text(&self, field: &str) -> &str {
        self.0.get(field).unwrap_or_else(|| panic!("{field} is missing in {:?}", self.0))
    }

    fn number<N: TryFrom<u64>>(&self, field: &str) -> N {
        let number = self.text(field).parse().ok().and_then(|number: u64| N::try_from(number).ok());
        number.unwrap_or_else(|| panic!("{field} is no such number in {:?}", self.0))
    }

    fn array<const N: usize>(&self, field: &str) -> [u8; N] {
        let hex = self.text(field);
        assert_eq!(hex.len(), 2 * N, "the length of {field}");
        std::array::from_fn(|n| u8::from_str_radix(&hex[2 * n..][..2], 16).expect("it is hexadecimal"))
    }

    fn cell(&self, field: &str) -> Cell {
        Cell::from_bytes(&self.array::<32>(field)).expect("a cell")
    }

    fn layout(&self) -> Layout {
        Layout::new(self.array("disk"), self.number("size"))
    }

    /// Compares the first 64 bytes of `bytes` and the checksum of all.
    fn check(&self, bytes: &[u8]) {
        assert_eq!(self.text("starts"), printed(&bytes[..64]), "{:?}", self.0);
        assert_eq!(self.text("crc32c"), printed(&crc32c::crc32c(bytes).to_le_bytes()), "{:?}", self.0);
    }
}

/// The vectors of a kind: the blocks that begin with ```` ```vector KIND ````.
fn vectors(kind: &str) -> Vec<Vector> {
    let documents = [
        include_str!("../../../../../../docs/formats/keytree.md"),
        include_str!("../../../../../../docs/formats/topcell.md"),
    ];
    let opening = format!("```vector {kind}\n");
    let blocks = documents.into_iter().flat_map(|document| document.split(&opening).skip(1));
    let blocks = blocks.map(|rest| rest.split("```").next().expect("a first part"));
    let found: Vec<_> = blocks
        .map(|block| Vector(block.lines().filter_map(|line| line.split_once(" = ")).collect()))
        .collect();
    assert!(!found.is_empty(), "the documents have no vector {kind}");
    found
}

fn printed(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("text has room");
        text
    })
}

#[test]
fn cells_are_derived_as_documented() {
    for vector in vectors("derived") {
        let child = vector.cell("cell").child(vector.number("number"));
        assert_eq!(printed(child.bytes()), vector.text("child"));
    }
}

#[test]
fn pages_have_the_documented_bytes() {
    for vector in vectors("page") {
        let (layout, under) = (vector.layout(), vector.cell("under"));
        let id = PageId { level: vector.number("level"), index: vector.number("index") };
        let mut page = Page::derived(&vector.cell("seed"), vector.number("birth"));
        for n in (0..vector.number("stored")).map(|n: u64| n as usize) {
            page.set(n, &Entry { is_stored: true, ..page.entry(n) });
        }
        page.set_log_cell(&vector.cell("log"));
        let bytes = page.seal(&under, &layout, id);
        vector.check(&bytes);
        assert!(Page::open(&under, &layout, id, &bytes).is_some());
        for side in 0..2 {
            let at = layout.side(id, side).extent.start.0;
            assert_eq!(vector.number::<u64>(["at", "at other"][usize::from(side)]), at);
        }
    }
}

#[test]
fn sectors_of_the_log_have_the_documented_bytes() {
    for vector in vectors("log") {
        let (layout, cell, purge) = (vector.layout(), vector.cell("cell"), vector.number("purge"));
        let kind = match vector.text("kind") {
            "active" => EntryKind::Active,
            "prepared" => EntryKind::Prepared,
            other => panic!("unknown kind {other}"),
        };
        let entry = LogEntry {
            first: vector.number("first"),
            count: vector.number("count"),
            kind,
            seed: vector.cell("seed"),
        };
        let mut writer = LogWriter::new(cell.clone(), &layout, purge);
        // The sector of the vector is the second one: a sector of the same entry is before it.
        let nonces = [vector.array("nonce before"), vector.array("nonce")];
        let written = nonces.map(|nonce| writer.append(std::slice::from_ref(&entry), &mut || nonce));
        vector.check(&written[1].1);
        assert_eq!(vector.number::<u64>("at"), written[1].0.extent.start.0);
        let half = [&written[0].1[..], &written[1].1].concat();
        assert_eq!(replay(&half, &cell, &layout, purge).0, [entry.clone(), entry]);
    }
}

#[test]
fn slots_of_the_root_have_the_documented_bytes() {
    for vector in vectors("slot") {
        let purge = vector.number("purge");
        let bytes = root::slot_bytes(vector.array("disk"), purge, &vector.cell("cell"));
        assert_eq!(printed(&bytes[..40]), vector.text("starts"));
        assert_eq!(vector.number::<u64>("at"), root::slot_place(root::slot_of(purge)).extent.start.0);
    }
}
