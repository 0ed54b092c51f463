//! What lies below unwritten extents of real file systems.

use crate::ext2::image::{Image, blocks};
use crate::ext2::watching::{Scene, place};
use quietus_core::watch::{Observer, WaitsFor};
use quietus_detect::formats::format::Format;
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
    for entry in root.chunks_exact_mut(12).skip(1).take(usize::from(root_entries(&image, &*format))) {
        entry[5] |= 0x80;
    }
    Prepared { image, file, table, emptied }
}

fn root_entries(image: &Image, format: &dyn Format) -> u8 {
    let (table, at, _) = image.place_of(format, FILE);
    image.block(format, table)[at + 0x28 + 2]
}

/// The superblock says that it is in use, or whole.
fn mount(scene: &mut Scene, in_use: bool) {
    let mut bytes = scene.image.at(place(1)).to_vec();
    bytes[0x3A] = u8::from(!in_use);
    bytes[0x34] += u8::from(in_use);
    scene.write(place(1), Some(&bytes));
}

fn of_file(prepared: &BTreeSet<u32>, dead: BTreeSet<u32>) -> BTreeSet<u32> {
    dead.intersection(prepared).copied().collect()
}

#[test]
fn what_a_file_gave_up_in_place_dies_after_activity_but_for_what_was_written_since() {
    let Prepared { image, file, table, emptied } = prepared("given_up");
    let format = image.ext2();
    let mut scene = Scene::new(image);
    scene.dead(&*format);
    mount(&mut scene, true);
    scene.write(place(table), Some(&emptied));
    assert_eq!(of_file(&file, scene.dead(&*format)), BTreeSet::new(), "an owner's write may be on its way");
    let named: u64 = scene.watch.waiting().filter(|it| it.0 == WaitsFor::Content).map(|it| it.1.len).sum();
    assert_eq!(named, 300 << 10);
    // As Linux does with a page of a swap file: the extent stays as it is.
    let paged = *file.first().unwrap();
    scene.write(place(paged), Some(&[9; 1024]));
    scene.be_active();
    let mut expected = file.clone();
    expected.remove(&paged);
    assert_eq!(of_file(&file, scene.dead(&*format)), expected);
    scene.be_active();
    assert_eq!(scene.dead(&*format), BTreeSet::new(), "what was written stays");
}

#[test]
fn what_a_file_gave_up_in_place_dies_at_the_unmount() {
    let Prepared { image, file, table, emptied } = prepared("given_up_unmounted");
    let format = image.ext2();
    let mut scene = Scene::new(image);
    scene.dead(&*format);
    mount(&mut scene, true);
    scene.write(place(table), Some(&emptied));
    mount(&mut scene, false);
    scene.settle();
    assert_eq!(of_file(&file, scene.dead(&*format)), file);
}

#[test]
fn an_owner_that_says_that_it_has_written_after_all_keeps_its_content() {
    let Prepared { image, file, table, emptied } = prepared("written_after_all");
    let format = image.ext2();
    let written = image.block(&*format, table);
    let mut scene = Scene::new(image);
    scene.dead(&*format);
    mount(&mut scene, true);
    scene.write(place(*file.first().unwrap()), Some(&[9; 1024]));
    scene.write(place(table), Some(&emptied));
    scene.wait(1000);
    scene.write(place(table), Some(&written));
    scene.be_active();
    assert_eq!(of_file(&file, scene.dead(&*format)), BTreeSet::new());
}

#[test]
fn below_extents_that_were_unwritten_before_an_attach_in_use_nothing_dies() {
    let Prepared { mut image, file, table, emptied } = prepared("unwritten_before");
    image.bytes[table as usize * 1024..][..1024].copy_from_slice(&emptied);
    (image.bytes[1024 + 0x3A], image.bytes[1024 + 0x34]) = (0, 1);
    let format = image.ext2();
    let mut scene = Scene::new(image);
    // The inode is written for another reason.
    let mut touched = emptied;
    let (_, at, _) = scene.image.place_of(&*format, FILE);
    touched[at + 0x8] ^= 1;
    scene.write(place(table), Some(&touched));
    scene.be_active();
    assert_eq!(of_file(&file, scene.dead(&*format)), BTreeSet::new());
    mount(&mut scene, false);
    scene.settle();
    assert_eq!(of_file(&file, scene.dead(&*format)), file, "nothing pages to a file that is not mounted");
}

#[test]
fn at_a_whole_file_system_what_lies_below_unwritten_extents_is_dead_and_a_restart_knows_that() {
    let Prepared { mut image, file, table, emptied } = prepared("unwritten_whole");
    image.bytes[table as usize * 1024..][..1024].copy_from_slice(&emptied);
    let format = image.ext2();
    let mut scene = Scene::new(image);
    scene.restart();
    assert_eq!(of_file(&file, scene.dead(&*format)), file);
}
