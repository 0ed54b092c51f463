//! What lies below unwritten extents of real file systems.

use crate::ext2::image::{Image, blocks};
use crate::ext2::watching::{Scene, place};
use quietus_core::watch::{Observer, WaitsFor};
use std::collections::BTreeSet;

/// The only file, of 300 blocks, in one extent or a few.
const FILE: u32 = 12;

/// A file system without a journal, its blocks of the only file, and the block and content of inodes that call these
/// blocks unwritten.
struct Prepared {
    image: Image,
    file: BTreeSet<u32>,
    table: u32,
    emptied: Vec<u8>,
}

fn prepared(name: &str) -> Prepared {
    let mut image = Image::new(name, 20_000, &["-b", "1024", "-I", "128", "-O", "extent"]);
    let source = image.path.with_extension("source");
    std::fs::write(&source, vec![7; 300 << 10]).unwrap();
    image.debugfs(&format!("write {} file\n", source.display()));
    let format = image.ext2();
    let file = blocks(&image.links_of(&*format, FILE));
    assert_eq!(file.len(), 300, "there are no blocks but of data");
    let (table, at, _) = image.place_of(&*format, FILE);
    let mut emptied = image.block(&*format, table);
    let root = &mut emptied[at + 0x28..at + 0x64];
    let entries = usize::from(root[2]);
    root.chunks_exact_mut(12).skip(1).take(entries).for_each(|entry| entry[5] |= 0x80);
    Prepared { image, file, table, emptied }
}

fn of_file(prepared: &BTreeSet<u32>, dead: BTreeSet<u32>) -> BTreeSet<u32> {
    dead.intersection(prepared).copied().collect()
}

#[test]
fn what_a_file_gave_up_in_place_dies_after_activity_but_for_what_was_written_since() {
    let Prepared { image, file, table, emptied } = prepared("given_up");
    let mut scene = Scene::new(image);
    scene.dead();
    scene.change(1, |bytes| (bytes[0x3A], bytes[0x34]) = (0, bytes[0x34] + 1));
    scene.write(place(table), Some(&emptied));
    assert_eq!(of_file(&file, scene.dead()), BTreeSet::new(), "an owner's write may be on its way");
    let named: u64 = scene.watch.waiting().filter(|it| it.0 == WaitsFor::Content).map(|it| it.1.len).sum();
    assert_eq!(named, 300 << 10);
    // As Linux does with a page of a swap file: the extent stays as it is.
    let paged = *file.first().unwrap();
    scene.write(place(paged), Some(&[9; 1024]));
    scene.be_active();
    let mut expected = file.clone();
    expected.remove(&paged);
    assert_eq!(of_file(&file, scene.dead()), expected);
    scene.be_active();
    assert_eq!(scene.dead(), BTreeSet::new(), "what was written stays");
}

#[test]
fn at_a_whole_file_system_what_lies_below_unwritten_extents_is_dead_and_a_restart_knows_that() {
    let Prepared { mut image, file, table, emptied } = prepared("unwritten_whole");
    image.bytes[table as usize * 1024..][..1024].copy_from_slice(&emptied);
    let mut scene = Scene::new(image);
    scene.restart();
    assert_eq!(of_file(&file, scene.dead()), file);
}
