//! Marks where a guest means harm, or knows no measure.

use super::*;

/// The image of [`ext2`], in which `script` was carried out by debugfs.
fn changed(name: &str, is_marked: bool, script: &str) -> Scene {
    let mut image = ext2(name, is_marked);
    image.debugfs(script);
    Scene::with(image, marked())
}

const ATTRIBUTES_AT: usize = 0x68;

#[test]
fn a_mark_that_is_set_and_cleared_a_hundred_times_is_never_forgotten_and_costs_nothing_more() {
    let mut scene = changed("toggled", false, "");
    let mut figures = Vec::new();
    for _ in 0..100 {
        scene.rewrite("secret", |inode| inode[FLAGS_AT] ^= 1);
        figures.push(["marked inodes", "marked blocks"].map(|name| scene.figure(name)));
    }
    assert!(figures.windows(2).all(|it| it[0] == it[1]), "{figures:?}");
    scene.secret_blocks();
    scene.restart();
    assert_eq!(["marked inodes", "marked blocks"].map(|name| scene.figure(name)), figures[0]);
}

#[test]
fn a_file_that_is_linked_from_everywhere_is_marked_by_one_link_and_stays_so_without_it() {
    let links: String = (0..300).map(|n| format!("link open secret/l{n}\nlink open o{n}\n")).collect();
    let mut scene = changed("linked", true, &format!("mkdir other\n{links}link open other/one\n"));
    scene.is("open", Class::Sensitive);
    assert_eq!(scene.figure("marked inodes"), 6);
    let folder: Vec<u32> = scene.of("secret").into_iter().collect();
    for block in folder {
        // A folder without any entry.
        let mut empty = vec![0; 1024];
        empty[4..6].copy_from_slice(&1024_u16.to_le_bytes());
        scene.write(place(block), Some(&empty));
        scene.settle();
    }
    scene.is("open", Class::Sensitive);
    scene.is("secret/one", Class::Sensitive);
}

#[test]
fn holes_of_sparse_files_and_targets_within_inodes_name_no_block() {
    let target = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"; // letters that would be pointers
    let mut scene = changed("sparse", true, &format!("symlink secret/short {target}\n"));
    let before = scene.figure("marked blocks");
    // Only the first and the last direct block are left, and two levels of pointers to nothing.
    scene.rewrite("secret/one", |inode| inode[0x28 + 4..0x28 + 11 * 4].fill(0));
    let open = scene.of("open");
    scene.pass(*open.last().unwrap());
    assert_eq!(scene.figure("marked blocks"), before - 10);
    assert_eq!(scene.figure("marked inodes"), 6);
    assert_eq!(scene.class(*open.first().unwrap()), Class::Plain);
    assert_eq!(scene.class(0), Class::Plain, "a hole is no name of block 0");
}

#[test]
fn attributes_that_a_marked_file_shares_stay_sensitive_when_only_the_other_file_has_them() {
    let mut scene = Scene::with(ext2("shared-attributes", true), marked());
    let (table, at, _) = scene.place_of("secret/one");
    let pointer = scene.image.at(place(table))[at + ATTRIBUTES_AT..][..4].to_vec();
    let shared = u32::from_le_bytes(pointer.clone().try_into().unwrap());
    assert_eq!(scene.class(shared), Class::Sensitive);
    scene.rewrite("open", |inode| inode[ATTRIBUTES_AT..][..4].copy_from_slice(&pointer));
    scene.rewrite("secret/one", |inode| inode.fill(0));
    assert_eq!(scene.class(shared), Class::Sensitive);
    let active = *scene.of("open").last().unwrap();
    scene.pass(active);
    assert_eq!(scene.class(shared), Class::Sensitive, "its values are the marked file's");
    scene.rewrite("open", |inode| inode[ATTRIBUTES_AT..][..4].fill(0));
    scene.frees(shared);
    assert!(
        scene.watch.waiting().any(|(_, extent)| extent.overlaps(place(shared))),
        "it has to be destroyed"
    );
}

#[test]
fn a_mark_on_the_root_covers_all_that_is_named_and_takes_nothing_from_unnamed_content() {
    let mut scene = changed("root", false, "set_inode_field <2> flags 1\n");
    for path in SECRET.into_iter().chain(["open", "lost+found"]) {
        scene.is(path, Class::Sensitive);
    }
    let named = scene.figure("marked blocks");
    let all: BTreeSet<u32> = (0..scene.format.blocks()).collect();
    let sensitive = all.iter().filter(|block| scene.class(**block) == Class::Sensitive).count() as u64;
    assert!(sensitive >= named && sensitive < named + 10, "{sensitive} of {named}, and tables of inodes");
    let free = free(&scene.image, &*scene.format, 1 << 20);
    assert_eq!(scene.classes(&free), BTreeSet::from([Class::Unsettled]));
}

#[test]
fn folders_that_name_their_parents_are_followed_once() {
    let script =
        "link secret secret/deep/up\nlink secret/deep secret/again\nset_inode_field secret/deep flags 1\n";
    let mut scene = changed("loops", true, script);
    assert_eq!(scene.figure("marked inodes"), 5);
    scene.secret_blocks();
    scene.rewrite("secret", |inode| inode.fill(0));
    assert_eq!(scene.figure("marked inodes"), 4, "what is left of the loop stays marked");
}
