//! The parts of the tree that need no vault.

use super::cache::Cache;
use super::inodes::{Inodes, ROOT};
use quietus_vault::tree::{Kind, Metadata, Node, Recipe};
use std::rc::Rc;

fn node(name: &[u8], hard_link: Option<u64>) -> Rc<Node> {
    let metadata = Metadata { hard_link, ..Metadata::default() };
    Rc::new(Node { name: name.into(), metadata, kind: Kind::File(Recipe::default()) })
}

fn inodes() -> Inodes {
    let kind = Kind::Folder(Recipe::default());
    Inodes::new(Node { name: Vec::new(), metadata: Metadata::default(), kind })
}

#[test]
fn a_name_keeps_its_number_until_the_kernel_has_forgotten_all_of_its_lookups() {
    let mut inodes = inodes();
    let first = inodes.look_up(ROOT, Some(ROOT), &node(b"a", None));
    assert_eq!(inodes.look_up(ROOT, Some(ROOT), &node(b"a", None)), first);
    let other = inodes.look_up(ROOT, Some(ROOT), &node(b"b", None));
    assert_ne!(other, first);
    inodes.forget(first, 1);
    assert!(inodes.get(first).is_some());
    inodes.forget(first, 1);
    assert!(inodes.get(first).is_none() && inodes.get(other).is_some());
    assert_ne!(inodes.look_up(ROOT, Some(ROOT), &node(b"a", None)), first, "a number has two meanings");
    for number in 0..100 {
        inodes.forget(number, u64::MAX);
    }
    assert_eq!(inodes.len(), (1, 0), "all but the root is forgotten");
}

#[test]
fn names_of_one_file_have_one_number_within_their_snapshot_alone() {
    let mut inodes = inodes();
    let [one, other] = [b"1-a", b"2-a"].map(|name| inodes.look_up(ROOT, None, &node(name, None)));
    let file = inodes.look_up(one, Some(one), &node(b"x", Some(0)));
    assert_eq!(inodes.look_up(one, Some(one), &node(b"y", Some(0))), file);
    assert_ne!(inodes.look_up(other, Some(other), &node(b"x", Some(0))), file);
    assert_eq!(inodes.get(file).map(|it| it.snapshot), Some(one));
}

#[test]
fn a_cache_keeps_what_was_used_last_within_its_weight() {
    let mut cache = Cache::new(10);
    for key in 0..3 {
        cache.keep(key, key * 100, 3);
    }
    assert_eq!(cache.get(&0).as_deref(), Some(&0));
    cache.keep(3, 300, 3);
    let there =
        |cache: &mut Cache<i32, i32>| (0..9).filter(|key| cache.get(key).is_some()).collect::<Vec<_>>();
    assert_eq!(there(&mut cache), [0, 2, 3]);
    cache.keep(7, 700, 50);
    assert_eq!(there(&mut cache), [7], "one that is too heavy is kept alone");
    cache.keep(8, 800, 1);
    assert_eq!(there(&mut cache), [8]);
}
