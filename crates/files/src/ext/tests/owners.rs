//! Who has which blocks: as the maps of free blocks and `icheck` of debugfs say it.

use super::read_back::list;
use super::*;
use crate::{Owner, Roll};
use quietus_core::base::units::{Addr, Extent};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const SIZE: &str = "24M";

/// By block: who has it, as all rolls say.
fn owners(image: &mut Image, volume: &mut dyn Volume, block_bytes: u64) -> BTreeMap<u64, BTreeSet<Owner>> {
    let owners = volume.owners().expect("ext says who has what");
    let mut all = BTreeMap::<u64, BTreeSet<Owner>>::new();
    let rolls = owners.rolls(image).unwrap();
    assert_eq!(rolls.iter().collect::<BTreeSet<_>>().len(), rolls.len(), "each roll once");
    for roll in rolls {
        let mut note = |owner, extent: Extent<Addr>| {
            for block in extent.start.0 / block_bytes..extent.end() / block_bytes {
                all.entry(block).or_default().insert(owner);
            }
        };
        owners.roll(image, roll, &mut note).unwrap();
    }
    all
}

/// The blocks that are in use by the maps, and the inodes that have them by `icheck`.
fn by_e2fsprogs(
    image: &Path,
    folder: &Folder,
    first: u64,
    blocks: u64,
) -> (BTreeSet<u64>, BTreeMap<u64, u64>) {
    let numbers: Vec<_> = (first..blocks).map(|block| block.to_string()).collect();
    let (mut used, mut inodes) = (BTreeSet::new(), BTreeMap::new());
    for some in numbers.chunks(500) {
        let commands: String = some.iter().map(|block| format!("testb {block}\n")).collect();
        // Free blocks have no inode, which is an answer here.
        let script = folder.path("blocks");
        std::fs::write(&script, format!("{commands}icheck {}\n", some.join(" "))).unwrap();
        let text = run("debugfs", &["-f", &script.display().to_string(), &image.display().to_string()], &[0]);
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("Block ")
                && let Some((block, "marked in use")) = rest.split_once(' ')
            {
                used.insert(block.parse().unwrap());
            } else if let Some((block, inode)) = line.split_once('\t')
                && let (Ok(block), Ok(inode)) = (block.parse(), inode.parse())
            {
                inodes.insert(block, inode);
            }
        }
    }
    (used, inodes)
}

/// Makes a file system with these options, with files of all kinds, some deleted, and looks at each block.
fn check(options: &str) {
    let folder = Folder::new();
    let (files, path) = (folder.path("files"), folder.path("image"));
    let tree = Tree::varied();
    tree.put(&files);
    mkfs(&path, SIZE, options, Some(&files));
    let doomed = tree.files.keys().next().expect("a file").clone();
    let large = folder.path("large");
    std::fs::write(&large, noise(7, 3_000_000)).unwrap();
    let note = "user.note 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let commands = format!(
        "rm {doomed}\nwrite {} large\nea_set large {note}\nfallocate large 3000 3400\n",
        large.display()
    );
    debugfs(&folder, &path, &commands);
    let mut image = Image::new(&path);
    let mut volume = open(&mut image).unwrap();
    let superblock = Superblock::from_bytes(&image.part(SUPERBLOCK_AT, SUPERBLOCK_BYTES)).unwrap();
    let (bytes, first) = (u64::from(superblock.block_bytes()), u64::from(superblock.s_first_data_block));
    let said = owners(&mut image, &mut *volume, bytes);
    let (used, inodes) = by_e2fsprogs(&path, &folder, first, superblock.s_blocks_count);
    assert!(inodes.len() > 500 && used.len() > inodes.len(), "{options}: {} {}", used.len(), inodes.len());
    // `testb` does not know block 0.
    for block in first.max(1)..superblock.s_blocks_count {
        let said: Vec<Owner> = said.get(&block).into_iter().flatten().copied().collect();
        let numbers: Vec<u64> = said
            .iter()
            .filter_map(|it| match it {
                Owner::File(file) => Some(file.number),
                Owner::System => None,
            })
            .collect();
        let what = format!("{options}: block {block}: {said:?}, {:?}", inodes.get(&block));
        match inodes.get(&block) {
            // Pointers, and reserved descriptors, are the file system's own.
            Some(inode) => assert!(said == [Owner::System] || numbers.contains(inode), "{what}"),
            None => assert!(numbers.is_empty(), "{what}"),
        }
        assert!(
            !said.is_empty() || !used.contains(&block) || superblock.cluster_bytes() > bytes,
            "{what}: in use"
        );
        assert!(said.is_empty() || used.contains(&block), "{what}: free");
    }
    // What one file has is what all rolls say of it.
    let root = volume.root();
    let large = list(&mut image, &mut *volume, root);
    let large = large.into_iter().find(|it| it.name == b"large").expect("it was written").file;
    let mut own = BTreeSet::new();
    let owners = volume.owners().unwrap();
    owners
        .owned(&mut image, large, &mut |extent| own.extend(extent.start.0 / bytes..extent.end() / bytes))
        .unwrap();
    let of_large = |set: &BTreeSet<Owner>| set.contains(&Owner::File(large));
    assert_eq!(own, said.iter().filter(|(_, set)| of_large(set)).map(|(block, _)| *block).collect());
    assert!(own.len() as u64 > 3_000_000 / bytes, "{options}: preallocated blocks count");
}

#[test]
fn each_block_of_ext2_has_the_owner_that_icheck_finds() {
    check("-b 1024 -I 128 -O none,filetype,resize_inode,sparse_super,large_file");
}

#[test]
fn each_block_of_ext4_has_the_owner_that_icheck_finds() {
    check(
        "-b 1024 -I 256 -J size=2 -O extents,has_journal,metadata_csum,64bit,ext_attr,huge_file,flex_bg,resize_inode",
    );
    check("-b 4096 -I 256 -N 2000 -J size=4 -O extents,has_journal,uninit_bg,ext_attr,mmp");
}

#[test]
fn each_block_of_rare_layouts_has_the_owner_that_icheck_finds() {
    check("-b 1024 -I 256 -O ^resize_inode,meta_bg,extents,sparse_super2,ext_attr");
}

#[test]
fn a_roll_that_is_no_longer_there_is_an_error_and_no_panic() {
    let folder = Folder::new();
    let path = folder.path("image");
    mkfs(&path, "4M", "-b 1024 -I 128", None);
    let mut image = Image::new(&path);
    let mut volume = open(&mut image).unwrap();
    let owners = volume.owners().unwrap();
    let roll = Roll { number: 1, at: Addr(1 << 62) };
    assert!(owners.roll(&mut image, roll, &mut |_, _| {}).is_err());
}
