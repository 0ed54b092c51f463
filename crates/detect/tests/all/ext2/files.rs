//! The names in inodes, compared with debugfs, file by file; and the effect of tools on a file
//! system, seen in its superblock.

use crate::ext2::image::{Image, blocks, check_owners, exit, ranges, run};
use quietus_core::base::units::Extent;
use quietus_detect::formats::format::{Change, Geometry, Kind, Probe};
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A file with a block's worth of data at each of these places, holes between.
fn source(name: &str, places_kib: &[u64]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    let file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
    for place in places_kib {
        file.write_all_at(&[0xA5; 3000], place * 1024).unwrap();
    }
    path
}

/// An image with files of every sort, and their inodes.
fn filled(name: &str, kib: u32, args: &[&str]) -> (Image, Vec<u32>) {
    let mut image = Image::new(name, kib, args);
    let direct = source(&format!("{name}.direct"), &[0, 5]);
    let single = source(&format!("{name}.single"), &[0, 40, 100, 200]);
    let double = source(&format!("{name}.double"), &[0, 3, 300, 9000, 50_000]);
    let triple = source(&format!("{name}.triple"), &[0, 70_000, 70_003, 1_000_000, 5_000_000]);
    let mut script = String::new();
    for (file, path) in [("direct", &direct), ("single", &single), ("double", &double), ("triple", &triple)] {
        script += &format!("write {} {file}\n", path.display());
    }
    script += "mkdir folder\ncd folder\nmkdir inner\nmknod pipe p\nmknod disk b 8 1\n";
    (0..90).for_each(|n| script += &format!("symlink a_name_that_is_long_enough_to_fill_a_folder_{n} {n}\n"));
    script += &format!("cd /\nsymlink short {}\nsymlink long {}\n", "x".repeat(59), "y".repeat(200));
    script += &format!("ea_set direct user.note {}\n", "z".repeat(300));
    image.debugfs(&script);
    let names = "/ direct single double triple folder folder/inner folder/pipe folder/disk short long";
    let inodes = names.split(' ').map(|name| image.inode_of(name)).collect();
    (image, inodes)
}

fn debugfs(image: &Image, command: &str) -> String {
    run("debugfs", &["-R", command, image.path.to_str().unwrap()])
}

/// The block of extended attributes, or 0.
fn attributes_of(image: &Image, inode: u32) -> u32 {
    let printed = debugfs(image, &format!("stat <{inode}>"));
    printed.split("File ACL: ").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap()
}

fn check(image: &Image, inodes: &[u32]) {
    let format = image.ext2();
    for inode in inodes {
        let status = debugfs(image, &format!("stat <{inode}>"));
        // debugfs takes the number of a device, and text, for blocks.
        let is_text = status.contains("Fast link dest") || status.contains("inline data");
        let has_none = status.contains("Type: block special") || is_text;
        let printed = debugfs(image, &format!("blocks <{inode}>")).replace('\n', " ");
        let mut expected = if has_none { BTreeSet::new() } else { ranges(&printed) };
        expected.extend(Some(attributes_of(image, *inode)).filter(|block| *block != 0));
        let found = blocks(&image.links_of(&*format, *inode));
        assert_eq!(found, expected, "inode {inode} of {}", image.path.display());
    }
    check_owners(image, &*format, image.cluster_blocks());
}

macro_rules! files {
    ($($name:ident: $kib:expr, $($arg:expr)*;)*) => {
        $(#[test]
        fn $name() {
            let (image, inodes) = filled(stringify!($name), $kib, &[$($arg),*]);
            image.fsck();
            check(&image, &inodes);
        })*
    };
}

files! {
    files_in_blocks_of_1_kib: 20_000, "-b" "1024" "-I" "128" "-O" "ext_attr";
    files_in_blocks_of_2_kib: 20_000, "-b" "2048" "-I" "256" "-O" "large_file,filetype";
    files_in_blocks_of_4_kib: 40_000, "-b" "4096" "-I" "256" "-O" "large_file,filetype,sparse_super";
    files_in_blocks_of_64_kib: 200_000, "-b" "65536" "-I" "128" "-O" "large_file";
    files_of_revision_0: 20_000, "-b" "1024" "-r" "0";
    files_in_small_groups: 20_000, "-b" "1024" "-g" "512" "-O" "meta_bg,^resize_inode";
    extents_in_blocks_of_1_kib: 20_000, "-b" "1024" "-I" "128" "-O" "ext_attr,extent,metadata_csum";
    extents_in_blocks_of_4_kib: 40_000, "-b" "4096" "-I" "256" "-O" "extent,64bit,flex_bg,metadata_csum,large_file,filetype,huge_file";
    extents_in_blocks_of_64_kib: 200_000, "-b" "65536" "-I" "256" "-O" "extent,64bit,flex_bg,uninit_bg,large_file";
    extents_in_clusters: 60_000, "-b" "1024" "-C" "8192" "-O" "extent,bigalloc,metadata_csum,ext_attr";
    extents_and_inline_content: 40_000, "-b" "1024" "-I" "256" "-O" "extent,inline_data,metadata_csum,ext_attr";
    pointers_in_groups_with_checksums: 20_000, "-b" "1024" "-g" "1024" "-O" "uninit_bg,ext_attr";
}

/// A file in as many extents as it has pieces, by the standard tools.
#[test]
fn trees_of_extents_are_followed_to_every_depth() {
    let mut image =
        Image::new("deep", 40_000, &["-b", "1024", "-I", "256", "-O", "extent,metadata_csum,ext_attr"]);
    let places: Vec<u64> = (0..4000).map(|n| n * 7).collect();
    let path = source("deep.source", &places);
    image.debugfs(&format!("write {} deep\n", path.display()));
    image.fsck();
    let inode = image.inode_of("deep");
    check(&image, &[2, inode]);
    let links = image.links_of(&*image.ext2(), inode);
    for level in [0x11, 0x12] {
        assert!(links.iter().any(|link| link.kind == Kind::Pointers(level)), "{level:#x}");
    }
    assert!(blocks(&links).len() > 4000);
}

#[test]
fn an_extent_that_is_not_written_yet_is_named() {
    let mut image = Image::new("unwritten", 20_000, &["-b", "1024", "-I", "256", "-O", "extent"]);
    let path = source("unwritten.source", &[0]);
    image.debugfs(&format!("write {} file\nfallocate file 0 499\n", path.display()));
    let inode = image.inode_of("file");
    assert!(debugfs(&image, &format!("dump_extents <{inode}>")).contains("Uninit"));
    assert!(blocks(&image.links_of(&*image.ext2(), inode)).len() >= 500);
    check(&image, &[inode]);
}

#[test]
fn every_level_of_pointers_is_met() {
    let (image, inodes) = filled("levels", 20_000, &["-b", "1024", "-I", "128", "-O", "ext_attr"]);
    let links = image.links_of(&*image.ext2(), inodes[4]);
    for level in 1..=3 {
        assert!(links.iter().any(|link| link.kind == Kind::Pointers(level)), "{level}");
    }
    assert!(blocks(&links).len() > 12);
    assert_ne!(attributes_of(&image, inodes[1]), 0);
}

#[test]
fn a_deleted_file_that_keeps_its_pointers_names_nothing() {
    let (mut image, inodes) = filled("deleted", 20_000, &["-b", "1024"]);
    let (format, inode) = (image.ext2(), inodes[3]);
    let before = image.links_of(&*format, inode);
    assert!(before.len() > 5);
    let (block, ..) = image.place_of(&*format, inode);
    let old = image.block(&*format, block);
    image.debugfs(&format!(
        "set_inode_field <{inode}> links_count 0\nset_inode_field <{inode}> dtime 20200101\n"
    ));
    assert!(debugfs(&image, &format!("blocks <{inode}>")).split_whitespace().count() > 5, "they are gone");
    assert_eq!(image.links_of(&*format, inode), []);
    let changes = format.diff(block, Kind::Inodes, &old, &image.block(&*format, block));
    assert!(!changes.is_empty());
    assert!(changes.iter().all(|change| matches!(change, Change::Unlinked(link) if before.contains(link))));
}

#[test]
fn another_generation_on_the_disk_is_another_owner() {
    let (mut image, inodes) = filled("renewed", 20_000, &["-b", "1024"]);
    let (format, inode) = (image.ext2(), inodes[1]);
    let (block, ..) = image.place_of(&*format, inode);
    let old = image.block(&*format, block);
    image.debugfs(&format!("set_inode_field <{inode}> generation 4711\n"));
    let changes = format.diff(block, Kind::Inodes, &old, &image.block(&*format, block));
    let count = |is: fn(&Change) -> bool| changes.iter().filter(|change| is(change)).count();
    assert!(count(|it| matches!(it, Change::Linked(_))) > 0);
    assert_eq!(count(|it| matches!(it, Change::Linked(_))), count(|it| matches!(it, Change::Unlinked(_))));
}

#[test]
fn bad_blocks_are_named_by_their_inode() {
    let list = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bad.list");
    let bad: Vec<u32> = (9000..9020).collect();
    std::fs::write(&list, bad.iter().map(|block| format!("{block}\n")).collect::<String>()).unwrap();
    let image = Image::new("bad_blocks", 20_000, &["-b", "1024", "-l", list.to_str().unwrap()]);
    check(&image, &[1, 2]);
    assert!(blocks(&image.links_of(&*image.ext2(), 1)).is_superset(&bad.into_iter().collect()));
}

#[test]
fn the_resize_inode_names_one_block_of_pointers() {
    let image = Image::new("resize_inode", 20_000, &["-b", "1024", "-O", "resize_inode,sparse_super"]);
    let links = image.links_of(&*image.ext2(), 7);
    assert_eq!(links.len(), 1, "{links:?}");
    assert_eq!(links[0].kind, Kind::Pointers(2));
}

/// The meaning of a tool's change of the superblock's block.
fn after(name: &str, args: &[&str], tool: impl Fn(&mut Image)) -> Geometry {
    let mut image = Image::new(name, 20_000, args);
    let format = image.ext2();
    let head = 1024 / format.block_bytes();
    let old = image.block(&*format, head);
    tool(&mut image);
    image.reread();
    format.geometry(head, &old, &image.block(&*format, head))
}

fn tool(program: &'static str, args: &'static [&'static str]) -> impl Fn(&mut Image) {
    move |image| {
        run(program, &[args, &[image.path.to_str().unwrap()]].concat());
    }
}

#[test]
fn tools_that_leave_the_layout_leave_the_file_system_clean() {
    let label = tool("tune2fs", &["-L", "label"]);
    assert_eq!(after("labelled", &["-b", "1024"], label), Geometry::Clean);
    let dirty = |image: &mut Image| {
        image.debugfs("dirty\n");
    };
    assert_eq!(after("dirty", &["-b", "4096"], dirty), Geometry::InUse);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dirty.ext2");
    let head = || std::fs::read(&path).unwrap()[..4096].to_vec();
    let mut image = Image { path: path.clone(), bytes: Vec::new() };
    image.reread();
    let (format, old) = (image.ext2(), head());
    assert!(!format.was_clean());
    assert_eq!(exit("e2fsck", &["-f", "-y", path.to_str().unwrap()]).0, Some(1));
    assert_eq!(format.geometry(0, &old, &head()), Geometry::Clean);
}

#[test]
fn tools_that_change_the_layout_make_it_another_file_system() {
    let args = ["-b", "1024", "-O", "resize_inode,sparse_super"];
    let uuid = tool("tune2fs", &["-U", "random"]);
    assert_eq!(after("another_uuid", &args, uuid), Geometry::Changed);
    let journal = tool("tune2fs", &["-j"]);
    assert_eq!(after("journal_added", &args, journal), Geometry::Changed);
    let made_again = tool("mke2fs", &["-q", "-F", "-b", "1024"]);
    assert_eq!(after("made_again", &args, made_again), Geometry::Changed);
    let shrunk = |image: &mut Image| {
        run("resize2fs", &[image.path.to_str().unwrap(), "10M"]);
        image.bytes = std::fs::read(&image.path).unwrap();
    };
    assert_eq!(after("shrunk", &args, shrunk), Geometry::Changed);
}

#[test]
fn a_resized_file_system_is_understood_again() {
    let image = &mut filled("resized", 20_000, &["-b", "1024", "-O", "resize_inode,sparse_super"]).0;
    run("resize2fs", &[image.path.to_str().unwrap(), "100M"]);
    image.reread();
    check(image, &[]);
    assert_eq!(image.ext2().blocks(), 102_400);
}

#[test]
fn a_journal_is_found_where_the_standard_tools_find_it() {
    for (name, args) in [("journal", "has_journal"), ("journal_by_extents", "has_journal,extent,64bit")] {
        let mut image = Image::new(name, 60_000, &["-b", "1024", "-J", "size=8", "-O", args]);
        let format = image.ext2();
        let found: Vec<u32> = format.journal().unwrap().into_iter().flatten().collect();
        let asked = [0, 11, 12, 267, 268, 8191].map(|n| format!("bmap <8> {n}\n")).concat();
        let printed = image.debugfs(&asked);
        let printed: Vec<u32> = printed.lines().filter_map(|line| line.parse().ok()).collect();
        assert_eq!([0, 11, 12, 267, 268, 8191].map(|n: usize| found[n]).to_vec(), printed);
        assert_eq!(found.len(), 8192);
    }
}

#[test]
fn an_external_journal_is_known_as_one() {
    let mut image = Image::new("elsewhere", 20_000, &["-b", "1024"]);
    assert!(!image.ext2().has_external_journal());
    image.debugfs(
        "feature has_journal\nset_super_value journal_dev 2049\nset_super_value journal_uuid random\n",
    );
    let format = image.ext2();
    assert!(format.has_external_journal() && format.journal().is_none());
    assert_eq!(format.name(), "ext3");
    check(&image, &[]);
    let copies: Vec<u64> = image.dumpe2fs().lines().filter_map(copy_at).map(|block| block * 1024).collect();
    assert!(!copies.is_empty(), "mke2fs makes copies of the superblock");
    for at in copies {
        assert!(
            format.is_opened_by(Extent::new(at, 512)) && !format.is_opened_by(Extent::new(at + 1024, 8192))
        );
    }
}

/// `  Backup superblock at 8193, Group descriptors at 8194-8194`
fn copy_at(line: &str) -> Option<u64> {
    line.split_once("Backup superblock at ")?.1.split(',').next()?.parse().ok()
}

/// The features by dumpe2fs, except those that it does not show (`64bit` alone), and those with two
/// names.
fn feature_by_dumpe2fs(image: &Image) -> Option<String> {
    let printed = exit("dumpe2fs", &["-f", "-h", image.path.to_str().unwrap()]).1;
    let line = printed.lines().find_map(|line| line.strip_prefix("Filesystem features:"))?;
    Some(line.trim().replace("extent", "extents"))
}

#[test]
fn refused_features_are_named_as_by_dumpe2fs() {
    let mut image = Image::new("feature_names", 2000, &["-b", "1024", "-O", "none"]);
    let mut count = 0;
    for (at, bit) in [0x5C_u64, 0x60, 0x64].into_iter().flat_map(|at| (0..32).map(move |bit| (at, bit))) {
        let file = std::fs::OpenOptions::new().write(true).open(&image.path).unwrap();
        file.write_all_at(&(1_u32 << bit).to_le_bytes(), 1024 + at).unwrap();
        image.reread();
        let refused = match image.probe() {
            Probe::Refused(reason) => reason.0.contains("feature").then_some(reason),
            _ => None,
        };
        if let (Some(reason), Some(name)) = (refused, feature_by_dumpe2fs(&image)) {
            assert_eq!(reason.0, format!("the feature `{name}` is not understood"));
            count += 1;
        }
        file.write_all_at(&[0; 4], 1024 + at).unwrap();
    }
    assert_eq!(count, 96 - 38);
}
