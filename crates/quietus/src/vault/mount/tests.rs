//! The parts of the tree that need no vault.

use super::tree::Key;
use quietus_vault::tree::{Kind, Metadata, Node, Recipe};

#[test]
fn names_of_one_file_have_one_number_within_their_snapshot_alone() {
    let node = |name: &[u8], hard_link| {
        let metadata = Metadata { hard_link, ..Metadata::default() };
        Node { name: name.into(), metadata, kind: Kind::File(Recipe::default()) }
    };
    let file = Key::of(2, Some(2), &node(b"x", Some(0)));
    assert_eq!(Key::of(5, Some(2), &node(b"y", Some(0))), file);
    assert_ne!(Key::of(3, Some(3), &node(b"x", Some(0))), file);
    assert_ne!(Key::of(2, Some(2), &node(b"x", None)), Key::of(5, Some(2), &node(b"x", None)));
}
