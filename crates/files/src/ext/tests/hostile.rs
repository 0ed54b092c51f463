//! Images that lie: each answer is an error or content, after a bounded number of reads.

use super::memory::{EXT2, EXT4, Memory, Sound};
use super::*;
use crate::Owner;
use quietus_core::base::units::{Addr, Extent};
use std::collections::BTreeSet;

/// Asks everything of every file that can be reached. Errors are answers, too.
fn look(source: &mut Memory) -> Result<(), Error> {
    source.reads = 0;
    let mut volume = open(source)?;
    look_at_owners(source, &mut *volume);
    let (mut seen, mut folders) = (BTreeSet::new(), vec![volume.root()]);
    while let Some(folder) = folders.pop() {
        let mut entries = Vec::new();
        let _ = volume.list(source, folder, &mut |entry| {
            entries.push(entry);
            entries.len() < 200
        });
        let _ = volume.extended(source, folder);
        entries.retain(|entry| seen.insert(entry.file));
        for entry in entries {
            assert!(!entry.name.is_empty() && !entry.name.contains(&b'/') && !entry.name.contains(&0));
            match volume.attributes(source, entry.file).map(|it| it.kind) {
                Ok(Kind::Folder) if seen.len() < 200 => folders.push(entry.file),
                Ok(_) => look_at(source, &mut *volume, entry.file),
                Err(_) => {}
            }
        }
    }
    Ok(())
}

fn look_at_owners(source: &mut Memory, volume: &mut dyn Volume) {
    let (root, bytes) = (volume.root(), source.bytes());
    let owners = volume.owners().expect("ext says who has what");
    let mut note = |_: Owner, extent: Extent<Addr>| {
        assert!(extent.len > 0, "an owner has something");
    };
    for roll in owners.rolls(source).unwrap_or_default().into_iter().take(300) {
        let _ = owners.roll(source, roll, &mut note);
    }
    let _ = owners.owned(source, root, &mut |_| {});
    assert!(owners.moved().iter().all(|it| it.to.0 < bytes), "a copy lies on the disk");
}

fn look_at(source: &mut Memory, volume: &mut dyn Volume, file: FileId) {
    let _ = volume.extended(source, file);
    let _ = volume.link(source, file);
    let mut end = 0;
    let told = volume.runs(source, file, &mut |run| {
        assert!(run.at >= end && run.bytes > 0, "{run:?} behind {end}");
        end = run.at + run.bytes;
        true
    });
    let size = volume.attributes(source, file).map_or(0, |it| it.bytes);
    assert!(told.is_err() || end <= size, "{end} of {size}");
    for at in [0, size / 2, size.saturating_sub(3000), u64::MAX - 10] {
        let read = volume.read(source, file, at, 70_000).unwrap_or_default();
        assert!(read.len() as u64 <= size.saturating_sub(at).min(70_000));
    }
}

/// Changes one to four bytes of metadata at a time.
fn mutate(options: &str, seed: u64) {
    let sound = Sound::new(options);
    mutate_at(&sound, &sound.metadata(0..sound.bytes.len() - 2), seed);
}

fn mutate_at(sound: &Sound, filled: &[usize], seed: u64) {
    let mut source = Memory { bytes: sound.bytes.clone(), reads: 0 };
    look(&mut source).unwrap();
    let random = noise(seed, 3000 * 32);
    for trial in random.chunks_exact(32) {
        let word = |n: usize| usize::from_le_bytes(trial[n * 6..n * 6 + 8].try_into().unwrap());
        let changed: Vec<usize> =
            (0..1 + word(4) % 4).map(|n| filled[word(n) / 8 % filled.len()] + word(n) % 3).collect();
        for at in &changed {
            source.bytes[*at] = trial[31 - at % 4];
        }
        let _ = look(&mut source);
        changed.iter().for_each(|at| source.bytes[*at] = sound.bytes[*at]);
    }
}

#[test]
fn changed_bytes_of_an_ext4_cause_no_panic() {
    mutate(EXT4, 1);
}

#[test]
fn changed_bytes_of_an_ext2_cause_no_panic() {
    mutate(EXT2, 2);
}

#[test]
fn changed_bytes_of_a_log_cause_no_panic() {
    for (log, seed) in [("jo", 3), ("jo -c -v 2", 4)] {
        let mut sound = Sound::with_log(EXT4, log);
        let first = sound.number("bmap <8> 0") * 1024;
        mutate_at(&sound, &sound.metadata(first..first + 8 * 1024), seed);
    }
}

#[test]
fn an_image_that_is_cut_off_causes_no_panic() {
    let sound = Sound::new(EXT4);
    for kib in [0, 1, 2, 3, 5, 10, 40, 100, 1000, 2000] {
        let bytes = sound.bytes[..kib * 1024].to_vec();
        let _ = look(&mut Memory { bytes, reads: 0 });
    }
}

#[test]
fn each_field_of_the_superblock_that_lies_is_named() {
    let sound = Sound::new(EXT4);
    for (at, bytes, expected) in [
        (0x0, 0_u32, "s_inodes_count 0"),
        (0x4, 0, "s_blocks_count 0"),
        (0x14, 2, "s_first_data_block 2"),
        (0x18, 7, "s_log_block_size 7"),
        (0x1C, 31, "s_log_cluster_size 31"),
        (0x20, 0, "s_blocks_per_group 0"),
        (0x28, 0, "s_inodes_per_group 0"),
        (0x28, 8193, "s_inodes_per_group 8193"),
        (0x4C, 2, "s_rev_level 2"),
        (0x58, 100, "s_inode_size 100"),
        (0x58, 2048, "s_inode_size 2048"),
        (0xFC, 33 << 16, "s_desc_size 33"),
        (0x60, 0x1, "`compression`"),
        (0x60, 0x1000, "`dirdata`"),
        (0x60, 0x40_0000, "`FEATURE_I22`"),
        (0x60, 0x8, "external journal"),
        (0x38, 0, "s_magic"),
    ] {
        let mut bytes_of = sound.bytes.clone();
        bytes_of[1024 + at..1024 + at + 4].copy_from_slice(&bytes.to_le_bytes());
        let error = look(&mut Memory { bytes: bytes_of, reads: 0 }).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn each_field_of_an_inode_that_lies_is_named() {
    let mut sound = Sound::new(EXT4);
    let inode = sound.inode_at("file");
    for (at, bytes, expected) in [
        (0x0, 0_u32, "i_mode 0o0 "),
        (0x1A, 0, "i_links_count 0"),
        (0x6C, 1 << 31, "i_size 9223372036854778808 is 2^63"),
        (0x80, 130, "i_extra_isize 130"),
        (0x80, 30, "i_extra_isize 30"),
    ] {
        let error = sound.error(inode + at, &bytes.to_le_bytes(), "file", |volume, source, file| {
            volume.attributes(source, file)
        });
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let error = sound.error(inode + 0x6C, &(1_u32 << 30).to_le_bytes(), "file", |volume, source, file| {
        volume.read(source, file, 0, 1)
    });
    assert!(error.contains("i_size 4611686018427390904 exceeds 4294967296 blocks"), "{error}");
}

#[test]
fn each_field_of_a_tree_of_extents_that_lies_is_named() {
    let mut sound = Sound::new(EXT4);
    let (file, islands) = (sound.inode_at("file"), sound.inode_at("islands"));
    for (path, at, bytes, expected) in [
        ("file", file + 0x28, 0_u32, "eh_magic 0x0"),
        ("file", file + 0x2A, 4 << 16 | 5, "eh_entries 5 of 4"),
        ("file", file + 0x2C, 5, "eh_max 5 where 4 fit"),
        ("file", file + 0x2E, 6, "eh_depth 6 of the root"),
        ("file", file + 0x38, 0, "ee_len 0"),
        ("file", file + 0x3C, u32::MAX, "pointer to blocks 4294967295+3 of 3072"),
        ("islands", islands + 0x2A, 4 << 16, "eh_entries 0 of 4"),
        ("islands", islands + 0x34, u32::MAX, "ei_block 4294967295 not within 0.."),
        ("islands", islands + 0x40, 9, "ee_block 12, ee_len 1 not within 9..9"),
        ("islands", islands + 0x38, 0, "pointer to blocks 0+1"),
        ("islands", islands + 0x38, 1, "eh_magic"),
    ] {
        let error = sound.error(at, &bytes.to_le_bytes(), path, |volume, source, file| {
            volume.runs(source, file, &mut |_| true)
        });
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn a_tree_that_contains_itself_ends() {
    let mut sound = Sound::new(EXT4);
    let islands = sound.inode_at("islands");
    let root = &sound.bytes[islands + 0x28..islands + 0x64];
    let leaf = u32::from_le_bytes(root[16..20].try_into().unwrap());
    // The leaf becomes a copy of the root, with itself below.
    let copy = [&root[..12], &0_u32.to_le_bytes(), &leaf.to_le_bytes(), &[0; 4]].concat();
    let error = sound.error(leaf as usize * 1024, &copy, "islands", |volume, source, file| {
        volume.runs(source, file, &mut |_| true)
    });
    assert!(error.contains("eh_depth 1 at depth 0"), "{error}");
}

#[test]
fn pointers_to_themselves_end() {
    let mut sound = Sound::new(EXT2);
    let large = sound.inode_at("large");
    let double = u32::from_le_bytes(sound.bytes[large + 0x28 + 52..large + 0x28 + 56].try_into().unwrap());
    assert_ne!(double, 0);
    sound.bytes[large + 4..large + 8].copy_from_slice(&u32::MAX.to_le_bytes());
    sound.bytes[large + 0x28 + 56..large + 0x28 + 60].copy_from_slice(&double.to_le_bytes());
    let pointers = double.to_le_bytes().repeat(256);
    let error = sound.error(double as usize * 1024, &pointers, "large", |volume, source, file| {
        volume.runs(source, file, &mut |_| true)
    });
    assert!(error.contains("more blocks than s_blocks_count"), "{error}");
}

#[test]
fn an_entry_that_lies_is_named_and_other_blocks_are_listed() {
    let mut sound = Sound::new(EXT2);
    let block = sound.number("bmap sub 0") * 1024;
    for (at, bytes, expected) in [
        (4, 0_u16, "rec_len 0, name_len 1 at byte 0"),
        (4, 8, "rec_len 8, name_len 1 at byte 0"),
        (4, 13, "rec_len 13, name_len 1 at byte 0"),
        (4, 1028, "rec_len 1028, name_len 1 at byte 0"),
        (6, 0x2FF, "rec_len 12, name_len 255 at byte 0"),
        (4, 1020, "an entry at byte 1020 is cut off"),
    ] {
        let mut count = 0;
        let error = sound.error(block + at, &bytes.to_le_bytes(), "sub", |volume, source, file| {
            volume.list(source, file, &mut |_| {
                count += 1;
                true
            })
        });
        assert!(error.contains(expected), "{expected}: {error}");
        assert!((1..40).contains(&count), "{count} entries behind the damage");
    }
}

#[test]
fn an_entry_of_an_impossible_inode_is_an_error_of_that_file() {
    let mut sound = Sound::new(EXT2);
    let block = sound.number("bmap / 0") * 1024;
    let at = sound.bytes[block..block + 1024].windows(4).position(|it| it == b"file").unwrap() + block - 8;
    let error = sound
        .error(at, &70_000_u32.to_le_bytes(), "file", |volume, source, file| volume.attributes(source, file));
    assert!(error.contains("inode 70000: number beyond 1..="), "{error}");
}

#[test]
fn each_field_of_an_attribute_that_lies_is_named() {
    let mut sound = Sound::new(EXT2);
    let inode = sound.inode_at("file");
    let block =
        u32::from_le_bytes(sound.bytes[inode + 0x68..inode + 0x6C].try_into().unwrap()) as usize * 1024;
    for (at, bytes, expected) in [
        (0x0, 0_u32, "h_magic 0x0"),
        (0x8, 2, "h_blocks 2"),
        (0x20, 0x1FF, "e_name_len 255"),
        (0x22, 2000, "e_value_offs 2000"),
        (0x28, 65_537, "e_value_size 65537"),
        (0x28, 2000, "e_value_size 2000"),
        (0x24, 70_000, "inode 70000"),
        (0x24, 2, "inode 2: i_size"),
    ] {
        let error = sound.error(block + at, &bytes.to_le_bytes(), "file", |volume, source, file| {
            volume.extended(source, file)
        });
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn a_link_of_an_impossible_length_is_named() {
    let mut sound = Sound::new(EXT2);
    for (path, size) in [("short", 61_u32), ("short", 0), ("long", 1025)] {
        let inode = sound.inode_at(path);
        let error = sound
            .error(inode + 4, &size.to_le_bytes(), path, |volume, source, file| volume.link(source, file));
        assert!(error.contains(&format!("i_size {size} of a link")), "{error}");
    }
}
