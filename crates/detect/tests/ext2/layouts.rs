//! Every layout that mke2fs makes: where metadata lies, what the maps say.

use crate::image::{Image, blocks, free, ranges};
use quietus_detect::format::{Format, Kind};
use std::collections::{BTreeMap, BTreeSet};

/// What each block is for, by dumpe2fs; what it does not name is data.
fn kinds(dump: &str) -> BTreeMap<u32, Kind> {
    let titles = [
        ("Primary superblock at ", Kind::Geometry),
        ("Group descriptors at ", Kind::Geometry),
        ("Group descriptor at ", Kind::Geometry),
        ("Backup superblock at ", Kind::Fixed),
        ("Reserved GDT blocks at ", Kind::Fixed),
        ("Block bitmap at ", Kind::Map),
        ("Inode bitmap at ", Kind::Fixed),
        ("Inode table at ", Kind::Inodes),
    ];
    let (mut found, mut group) = (BTreeMap::new(), 0);
    for line in dump.lines() {
        group = group_of(line).unwrap_or(group);
        for (title, kind) in titles {
            let Some((_, rest)) = line.split_once(title) else { continue };
            let numbers = rest.split([' ', ',']).next().unwrap();
            let is_copy = kind == Kind::Geometry && !is_in_force(dump, group);
            let kind = if is_copy { Kind::Fixed } else { kind };
            found.extend(ranges(numbers).into_iter().map(|block| (block, kind)));
        }
    }
    found
}

/// `Group 3: (Blocks 769-1024)`
fn group_of(line: &str) -> Option<u32> {
    line.strip_prefix("Group ")?.split_once(": (Blocks")?.0.parse().ok()
}

/// Whether the descriptors in this group are not a copy.
fn is_in_force(dump: &str, group: u32) -> bool {
    let bytes = dump.lines().find_map(|line| line.strip_prefix("Block size:")).unwrap();
    let groups = bytes.trim().parse::<u32>().unwrap() / 32;
    group == 0 || is_meta_bg(dump) && group.is_multiple_of(groups)
}

fn free_by(dump: &str) -> BTreeSet<u32> {
    dump.lines().filter_map(|line| line.strip_prefix("  Free blocks: ")).flat_map(ranges).collect()
}

fn is_meta_bg(dump: &str) -> bool {
    dump.lines().any(|line| line.starts_with("Filesystem features") && line.contains("meta_bg"))
}

fn check(image: &Image) {
    let (format, dump) = (image.ext2(), image.dumpe2fs());
    check_kinds(&*format, &dump);
    for piece_bytes in [512, 1024, 1 << 20] {
        assert_eq!(free(image, &*format, piece_bytes), free_by(&dump), "{}", image.path.display());
    }
    check_owners(image, &*format);
}

fn check_kinds(format: &dyn Format, dump: &str) {
    let mut expected = kinds(dump);
    let groups = dump.lines().filter_map(group_of).count();
    assert_eq!(expected.values().filter(|kind| **kind == Kind::Map).count(), groups);
    if format.block_bytes() == 1024 {
        expected.insert(0, Kind::Fixed);
    }
    for block in 0..format.blocks() {
        let (kind, expected) = (format.kind(block), expected.get(&block).copied().unwrap_or(Kind::Data));
        assert_eq!(kind, expected, "block {block}\n{dump}");
    }
    for kind in [Kind::Geometry, Kind::Map, Kind::Inodes, Kind::Fixed] {
        let all: Vec<u32> = (0..format.blocks()).filter(|block| format.kind(*block) == kind).collect();
        assert_eq!(format.survey(kind).into_iter().flatten().collect::<Vec<_>>(), all);
    }
}

/// Whatever is allocated is metadata in its place, or named by an inode.
fn check_owners(image: &Image, format: &dyn Format) {
    let free = free(image, format, 1 << 20);
    let data = |block: &u32| format.kind(*block) == Kind::Data && !free.contains(block);
    let allocated: BTreeSet<u32> = (0..format.blocks()).filter(data).collect();
    assert_eq!(blocks(&image.links(format)), allocated, "{}", image.path.display());
    assert!(!allocated.is_empty(), "there is a folder at least");
}

macro_rules! layouts {
    ($($name:ident: $kib:expr, $($arg:expr)*;)*) => {
        $(#[test]
        fn $name() {
            check(&Image::new(stringify!($name), $kib, &[$($arg),*]));
        })*
    };
}

layouts! {
    blocks_of_1_kib: 40_000, "-b" "1024";
    blocks_of_2_kib: 40_000, "-b" "2048";
    blocks_of_4_kib: 300_000, "-b" "4096";
    blocks_of_8_kib: 40_000, "-b" "8192";
    blocks_of_64_kib: 400_000, "-b" "65536";
    revision_0: 40_000, "-r" "0" "-b" "1024";
    revision_0_of_4_kib: 40_000, "-r" "0" "-b" "4096";
    no_features: 40_000, "-O" "none" "-b" "1024";
    usual: 70_000, "-t" "ext2" "-O" "filetype,sparse_super,large_file,resize_inode,dir_index,ext_attr";
    room_to_grow: 40_000, "-b" "1024" "-O" "resize_inode,sparse_super" "-E" "resize=100000000";
    sparse_super: 100_000, "-b" "1024" "-g" "1024" "-O" "sparse_super";
    sparse_super2: 100_000, "-b" "1024" "-O" "sparse_super2";
    sparse_super2_without_copies: 100_000, "-b" "1024" "-O" "sparse_super2" "-E" "num_backup_sb=0";
    meta_bg: 100_000, "-b" "1024" "-g" "256" "-N" "6400" "-O" "meta_bg,^resize_inode,sparse_super";
    meta_bg_of_4_kib: 300_000, "-b" "4096" "-g" "512" "-O" "meta_bg,^resize_inode";
    flex_bg: 100_000, "-b" "1024" "-O" "flex_bg,sparse_super" "-G" "4";
    inodes_of_256_bytes: 40_000, "-I" "256" "-b" "1024";
    inodes_of_a_block: 40_000, "-I" "1024" "-b" "1024";
    few_inodes: 40_000, "-b" "4096" "-N" "16";
    features_that_change_nothing_here: 40_000, "-b" "1024" "-I" "256" "-O"
        "dir_nlink,extra_isize,huge_file,large_dir,casefold,encrypt,stable_inodes,verity,sparse_super";
    quota_files: 40_000, "-b" "1024" "-I" "256" "-O" "quota,project,sparse_super" "-E" "quotatype=usrquota:grpquota:prjquota";
    ragged_groups: 40_001, "-b" "1024" "-g" "2040";
}
