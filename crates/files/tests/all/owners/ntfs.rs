//! NTFS: as ntfscluster and the bitmap say it.

use super::{Said, checked, owned, said};
use crate::image::Image;
use crate::ntfs::mounted::{fill_all, mounted, set};
use crate::ntfs::records::{EXTENSION, KEPT, change, split_large, split_mft};
use crate::ntfs::{attribute, filled, open, record};
use crate::tool::{run, worked};
use crate::tree::at;
use quietus_core::base::units::Addr;
use quietus_files::{Error, FileId, Owner, Roll, Volume};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Type of the attributes with content, and the first record that is not the system's.
const DATA: &str = "[0x80]";
const FIRST_USER_RECORD: u64 = 24;

fn cluster_bytes(image: &Image) -> u64 {
    match image.bytes[0x0D] {
        shift @ 0xF4.. => 512 << shift.wrapping_neg(),
        sectors => u64::from(sectors) * image.u16(0x0B),
    }
}

/// Who has which clusters, by what ntfscluster prints of each attribute of each record.
fn by_ntfscluster(name: &str, volume: &mut dyn Volume, image: &mut Image, clusters: u64) -> Said {
    let range = format!("0-{}", clusters - 1);
    let printed =
        worked(&format!("{name}.printed"), image, |path| run("ntfscluster", &["-v", "-c", &range, path], ""));
    let mut truth = Said::new();
    let (mut file, mut is_data) = (FileId { number: 0, generation: 0 }, false);
    for line in String::from_utf8_lossy(&printed).lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["Inode:", number] => file = volume.file(image, number.parse().unwrap()).unwrap(),
            [kind] if kind.starts_with('[') => is_data = kind == DATA,
            [_, run, _] if line.starts_with("\t\t") && run != "LCN" => {
                let Some((from, to)) = run.split_once('-') else { continue };
                let (Ok(from), Ok(to)) = (from.parse::<u64>(), to.parse::<u64>()) else { continue };
                let is_content = is_data && file.number >= FIRST_USER_RECORD;
                let owner = if is_content { Owner::File(file) } else { Owner::System };
                (from..=to).for_each(|n| {
                    truth.entry(n).or_default().insert(owner);
                });
            }
            _ => {}
        }
    }
    truth
}

/// Compares each cluster with what ntfscluster and the bitmap say.
fn check(name: &str, image: &mut Image) -> Said {
    let (mut volume, cluster_bytes) = (open(image), cluster_bytes(image));
    let mut said = checked(&mut *volume, image, cluster_bytes);
    let clusters = image.u32(0x28) * image.u16(0x0B) / cluster_bytes;
    // The copy of the boot sector lies behind.
    said.retain(|n, _| *n < clusters);
    let truth = by_ntfscluster(name, &mut *volume, image, clusters);
    let bitmap = volume.file(image, 6).unwrap();
    let bits = volume.read(image, bitmap, 0, usize::MAX >> 1).unwrap();
    for n in 0..clusters {
        let (own, is_used) = (said.get(&n), bits[n as usize / 8] & 1 << (n % 8) != 0);
        assert_eq!(own, truth.get(&n), "{name}: cluster {n}");
        assert_eq!(own.is_some(), is_used, "{name}: cluster {n}: {own:?}");
    }
    let files = said.values().flatten().collect::<BTreeSet<_>>().len();
    assert!(files > 2 && said.len() > 50, "{name}: {files} owners of {} clusters", said.len());
    said
}

#[test]
fn each_cluster_has_the_owner_that_ntfscluster_finds() {
    for (cluster, mib) in [("512", 8), ("4096", 8), ("65536", 32)] {
        let name = format!("owners.ntfs.{cluster}");
        let (mut image, _) = filled(&name, mib, cluster, "512");
        let said = check(&name, &mut image);
        let mut volume = open(&mut image);
        let small = at(&mut *volume, &mut image, "/small");
        let streams = said.values().filter(|it| it.contains(&Owner::File(small))).count() as u64;
        let bytes = cluster.parse::<u64>().unwrap();
        assert_eq!(
            streams,
            60_000_u64.div_ceil(bytes) + 70_000_u64.div_ceil(bytes),
            "streams with a name count"
        );
    }
}

#[test]
fn each_cluster_of_files_that_a_mount_made_has_the_owner_that_ntfscluster_finds() {
    let fill = |folder: &Path| {
        fill_all(folder);
        fs::create_dir(folder.join("packed")).unwrap();
        set(&folder.join("packed"), "attrib_be", "0x00000800");
        fs::write(folder.join("packed/letters"), "letters".repeat(30_000)).unwrap();
        fs::write(folder.join("gone"), vec![7; 100_000]).unwrap();
        (0..300).for_each(|n| fs::write(folder.join(format!("below/name {n}")), b"").unwrap());
        fs::remove_file(folder.join("gone")).unwrap();
        fs::remove_file(folder.join("b")).unwrap();
    };
    for cluster in ["512", "4096"] {
        let name = format!("owners.ntfs.mounted.{cluster}");
        let Some(mut image) = mounted(&name, cluster, fill) else { return };
        let said = check(&name, &mut image);
        let mut volume = open(&mut image);
        for path in ["/a", "/packed/letters"] {
            let file = Owner::File(at(&mut *volume, &mut image, path));
            assert!(said.values().filter(|it| it.contains(&file)).count() > 3, "{path}");
        }
    }
}

#[test]
fn clusters_that_two_files_share_are_told_with_both_and_a_deleted_file_has_none() {
    let (mut image, _) = filled("owners.ntfs.shared", 8, "4096", "512");
    let mut volume = open(&mut image);
    let large = at(&mut *volume, &mut image, "/large");
    let other = at(&mut *volume, &mut image, "/a file that fills the folder 05");
    let expected = owned(&mut *volume, &mut image, large, 4096).unwrap();
    assert_eq!(expected.len(), 49);
    let (from, to) = (record(&image, large.number), record(&image, other.number));
    let bytes = image.bytes[from.start as usize..from.end as usize].to_vec();
    image.put(to.start, &bytes);
    let said = checked(&mut *volume, &mut image, 4096);
    let both = BTreeSet::from([Owner::File(large), Owner::File(other)]);
    assert!(expected.iter().all(|n| said[n] == both));
    image.bytes[from.start as usize + 0x16] = 0;
    let said = checked(&mut *volume, &mut image, 4096);
    assert!(expected.iter().all(|n| said[n] == BTreeSet::from([Owner::File(other)])));
    assert_eq!(owned(&mut *volume, &mut image, large, 4096), Ok(BTreeSet::new()));
    let earlier = FileId { generation: other.generation + 1, ..other };
    assert_eq!(owned(&mut *volume, &mut image, earlier, 4096), Ok(BTreeSet::new()));
    assert_eq!(
        owned(&mut *volume, &mut image, FileId { number: 1 << 40, generation: 1 }, 4096),
        Ok(BTreeSet::new())
    );
}

#[test]
fn space_behind_the_size_counts_and_encrypted_content_too() {
    let (mut image, _) = filled("owners.ntfs.size", 8, "4096", "512");
    let mut volume = open(&mut image);
    let large = at(&mut *volume, &mut image, "/large");
    let expected = owned(&mut *volume, &mut image, large, 4096).unwrap();
    let data = attribute(&image, large.number, 0x80);
    image.put(data + 0x0C, &0x4000_u16.to_le_bytes());
    [0x30, 0x38].iter().for_each(|at| image.put(data + at, &5_u64.to_le_bytes()));
    checked(&mut *volume, &mut image, 4096);
    assert_eq!(owned(&mut *volume, &mut image, large, 4096), Ok(expected));
}

#[test]
fn a_record_that_extends_a_file_tells_what_that_file_has() {
    let (mut image, file, _) = split_large("owners.ntfs.split");
    let mut volume = open(&mut image);
    let found = checked(&mut *volume, &mut image, 4096);
    let all = owned(&mut *volume, &mut image, file, 4096).unwrap();
    assert_eq!(all.len(), 49);
    assert!(all.iter().all(|n| found[n] == BTreeSet::from([Owner::File(file)])));
    // Without the file no driver uses the record, and what it has stays with the file system.
    let mut without = image.clone();
    change(&mut without, file.number, |bytes| bytes[0x16] = 0);
    let found = said(&mut *volume, &mut without, 4096).unwrap();
    let of = |n: &u64| found.get(n).into_iter().flatten().copied().collect::<Vec<_>>();
    assert!(all.iter().take(KEPT as usize).all(|n| of(n).is_empty()));
    assert!(all.iter().skip(KEPT as usize).all(|n| of(n) == [Owner::System]));
    // A list that leads to another record than it says.
    let mut changed = image.clone();
    change(&mut changed, EXTENSION, |bytes| bytes[0x10] = 99);
    let damaged = Error::Damaged(format!("record {EXTENSION}: sequence_number 99, not 15"));
    assert_eq!(said(&mut *volume, &mut changed, 4096), Err(damaged.clone()));
    assert_eq!(owned(&mut *volume, &mut changed, file, 4096), Err(damaged));
    let mut unused = image.clone();
    change(&mut unused, EXTENSION, |bytes| bytes[0x16] = 0);
    let missing = Error::Missing(format!("record {EXTENSION}"));
    assert_eq!(said(&mut *volume, &mut unused, 4096), Err(missing));
}

#[test]
fn the_records_are_found_where_the_list_of_the_mft_leads() {
    let (mut image, _) = filled("owners.ntfs.mft", 8, "4096", "512");
    let (mut volume, first) = (open(&mut image), record(&image, 0).start / 4096);
    let before = checked(&mut *volume, &mut image, 4096);
    split_mft(&mut image, EXTENSION);
    // What was opened before asks again where the records lie.
    let after = checked(&mut *volume, &mut image, 4096);
    let moved = (6 << 20) / 4096;
    assert_eq!(
        (after.get(&moved), after.get(&(first + KEPT))),
        (Some(&BTreeSet::from([Owner::System])), None)
    );
    let files = |said: Said| -> Vec<_> {
        said.into_iter().filter(|it| it.1 != BTreeSet::from([Owner::System])).collect()
    };
    assert_eq!(files(before), files(after));
}

#[test]
fn what_is_damaged_or_no_longer_there_is_an_error_of_its_roll() {
    let (mut image, _) = filled("owners.ntfs.damaged", 8, "4096", "512");
    let mut volume = open(&mut image);
    let file = at(&mut *volume, &mut image, "/large");
    let end = record(&image, file.number).end as usize;
    image.bytes[end - 1] ^= 1;
    let text = "a part of it was not written (its update sequence does not match)";
    let damaged = Error::Damaged(format!("record {}: {text}", file.number));
    assert_eq!(said(&mut *volume, &mut image, 4096), Err(damaged.clone()));
    assert_eq!(owned(&mut *volume, &mut image, file, 4096), Err(damaged));
    let owners = volume.owners().unwrap();
    let rolls = owners.rolls(&mut image).unwrap();
    let failed = rolls.iter().filter(|it| owners.roll(&mut image, **it, &mut |_, _| {}).is_err());
    assert_eq!(failed.count(), 1);
    for at in [1 << 62, u64::MAX, image.bytes.len() as u64] {
        let roll = Roll { number: rolls[1].number, at: Addr(at) };
        assert!(owners.roll(&mut image, roll, &mut |_, _| {}).is_err(), "{at}");
    }
}
