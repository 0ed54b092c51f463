//! Every layout that mke2fs makes: where metadata lies, what the maps say.

use crate::ext2::image::{Image, check_owners, free, ranges};
use quietus_detect::formats::format::{Format, Kind};
use std::collections::{BTreeMap, BTreeSet};

/// The kind of each block, by dumpe2fs; blocks that it does not name are data.
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
    let number = |name: &str| {
        let value = dump.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        value.trim().parse::<u32>().unwrap()
    };
    let is_wide = dump.lines().any(|line| line.starts_with("Group descriptor size:"));
    let descriptor_bytes = if is_wide { number("Group descriptor size:") } else { 32 };
    let groups = number("Block size:") / descriptor_bytes;
    let has_meta_bg = |line: &str| line.starts_with("Filesystem features") && line.contains("meta_bg");
    group == 0 || dump.lines().any(has_meta_bg) && group.is_multiple_of(groups)
}

/// dumpe2fs names a cluster by its first block.
fn free_by(dump: &str, format: &dyn Format, cluster_blocks: u32) -> BTreeSet<u32> {
    let lines = dump.lines().filter_map(|line| line.strip_prefix("  Free blocks: "));
    let firsts = lines.flat_map(ranges).filter(|block| block.is_multiple_of(cluster_blocks));
    let all = firsts.flat_map(|block| block..block + cluster_blocks);
    all.filter(|block| *block < format.blocks()).collect()
}

fn check(image: &Image) {
    let (format, dump) = (image.ext2(), image.dumpe2fs());
    check_kinds(&*format, &dump);
    for piece_bytes in [512, 1024, 1 << 20] {
        let expected = free_by(&dump, &*format, image.cluster_blocks());
        assert_eq!(free(image, &*format, piece_bytes), expected, "{}", image.path.display());
    }
    check_owners(image, &*format, image.cluster_blocks());
    assert!(!image.links(&*format).is_empty(), "there is a folder at least");
}

fn check_kinds(format: &dyn Format, dump: &str) {
    let mut expected = kinds(dump);
    let groups = dump.lines().filter_map(group_of).count();
    assert_eq!(expected.values().filter(|kind| **kind == Kind::Map).count(), groups);
    if format.block_bytes() == 1024 {
        expected.insert(0, Kind::Fixed);
    }
    let mmp = dump.lines().find_map(|line| line.strip_prefix("MMP block number:"));
    expected.extend(mmp.map(|block| (block.trim().parse().unwrap(), Kind::Fixed)));
    for block in 0..format.blocks() {
        let (kind, expected) = (format.kind(block), expected.get(&block).copied().unwrap_or(Kind::Data));
        assert_eq!(kind, expected, "block {block}\n{dump}");
    }
    for kind in [Kind::Geometry, Kind::Map, Kind::Inodes, Kind::Fixed] {
        let all: Vec<u32> = (0..format.blocks()).filter(|block| format.kind(*block) == kind).collect();
        assert_eq!(format.survey(kind).into_iter().flatten().collect::<Vec<_>>(), all);
    }
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
    ext4_of_debian_12: 300_000, "-b" "4096" "-I" "256" "-O" "sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize";
    ext4_of_debian_13: 300_000, "-b" "4096" "-I" "256" "-O" "sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr,extent,huge_file,flex_bg,metadata_csum,metadata_csum_seed,64bit,dir_nlink,extra_isize";
    ext4_of_red_hat: 300_000, "-b" "4096" "-I" "256" "-O" "sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr,extent,huge_file,flex_bg,uninit_bg,64bit,dir_nlink,extra_isize";
    ext4_in_blocks_of_1_kib: 100_000, "-b" "1024" "-O" "extent,flex_bg,metadata_csum,64bit,sparse_super,resize_inode";
    ext4_in_blocks_of_2_kib: 100_000, "-b" "2048" "-O" "extent,flex_bg,metadata_csum,sparse_super,resize_inode";
    ext4_in_blocks_of_64_kib: 200_000, "-b" "65536" "-O" "extent,flex_bg,metadata_csum,64bit";
    maps_never_written: 100_000, "-b" "1024" "-g" "1024" "-O" "extent,uninit_bg,sparse_super" "-E" "lazy_itable_init=1";
    maps_never_written_in_packed_groups: 100_000, "-b" "1024" "-g" "1024" "-G" "64" "-O" "extent,flex_bg,metadata_csum,sparse_super,64bit" "-E" "lazy_itable_init=1";
    maps_never_written_without_extents: 100_000, "-b" "1024" "-g" "1024" "-O" "uninit_bg";
    wide_meta_bg: 100_000, "-b" "1024" "-g" "512" "-O" "extent,meta_bg,^resize_inode,64bit,metadata_csum";
    meta_bg_in_packed_groups: 100_000, "-b" "4096" "-g" "512" "-O" "extent,meta_bg,flex_bg,^resize_inode,64bit,metadata_csum";
    larger_descriptors: 100_000, "-b" "1024" "-O" "extent,64bit,flex_bg" "-E" "desc_size=256";
    clusters_of_64_kib: 100_000, "-b" "4096" "-C" "65536" "-O" "extent,bigalloc,flex_bg,metadata_csum,64bit";
    clusters_in_blocks_of_1_kib: 100_000, "-b" "1024" "-C" "16384" "-O" "extent,bigalloc";
    clusters_in_small_groups: 100_000, "-b" "1024" "-C" "8192" "-g" "4096" "-O" "extent,bigalloc,uninit_bg,sparse_super";
    clusters_and_meta_bg: 100_000, "-b" "1024" "-C" "4096" "-g" "4096" "-O" "extent,bigalloc,meta_bg,^resize_inode,64bit,metadata_csum";
    mounted_once_only: 40_000, "-b" "1024" "-O" "mmp,extent,flex_bg";
    ext4_sparse_super2: 100_000, "-b" "1024" "-O" "extent,sparse_super2,metadata_csum,flex_bg";
    inline_content_and_large_attributes: 40_000, "-b" "1024" "-I" "256" "-O" "inline_data,ea_inode,extent,metadata_csum";
}

/// Linux keeps orphans in a file only where there is a journal.
#[test]
fn orphans_and_journals_lie_in_files() {
    let features = "orphan_file,has_journal,extent,flex_bg,metadata_csum";
    let mut image = Image::new("orphan_file", 40_000, &["-b", "1024", "-O", features]);
    image.debugfs("feature -has_journal\n");
    check(&image);
    let named = image.links_of(&*image.ext2(), 8);
    assert!(named.iter().map(|link| link.blocks.len()).sum::<usize>() >= 1024, "the journal: {named:?}");
}
