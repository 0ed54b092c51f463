//! Real file systems, made by mkfs.vfat and mkfs.exfat: found for what they are,
//! and free where the tools say so.

use crate::tool::{figure, made, probed, run};
use quietus_core::base::units::{Addr, Extent};
use quietus_detect::formats::format::{Format, Kind, Probe, Prober};
use quietus_detect::formats::{exfat, fat};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn read(path: &Path, at: Extent<Addr>) -> Vec<u8> {
    let mut bytes = vec![0; at.len as usize];
    File::open(path).unwrap().read_exact_at(&mut bytes, at.start.0).unwrap();
    bytes
}

fn found(prober: Prober, path: &Path) -> Box<dyn Format> {
    match probed(prober, path.metadata().unwrap().len(), |at| read(path, at)) {
        Probe::Is(format) => format,
        other => panic!("{}: {other:?}", path.display()),
    }
}

/// Bytes that the map has in use, and free.
fn shown(format: &dyn Format, path: &Path) -> (u64, u64) {
    let bytes = u64::from(format.block_bytes());
    let (mut used, mut free) = (0, 0);
    for maps in format.survey(Kind::Map) {
        let at = Extent::new(u64::from(maps.start) * bytes, u64::from(maps.end - maps.start) * bytes);
        for part in format.map(at, &read(path, at)).unwrap() {
            assert!(part.blocks.clone().all(|block| format.kind(block) != Kind::Geometry));
            let sum = if part.allocated { &mut used } else { &mut free };
            *sum += part.blocks.len() as u64 * bytes;
        }
    }
    (used, free)
}

/// Clusters in use and in all, as fsck.vfat prints them at the end of a line.
fn told(path: &Path) -> (u64, u64) {
    let printed = run("fsck.vfat", &["-n", path.to_str().unwrap()]);
    let counts = printed.trim().rsplit_once(", ").unwrap().1;
    let (used, all) = counts.trim_end_matches(" clusters").split_once('/').unwrap();
    (used.parse().unwrap(), all.parse().unwrap())
}

/// Returns how many bytes a block has.
fn check(name: &str, kib: u64, args: &[&str], width: &str) -> u32 {
    let path = made("mkfs.vfat", name, kib, args);
    let format = found(fat::probe, &path);
    assert_eq!((format.name(), format.was_clean()), (width, true), "{name}");
    let cluster = figure(&*format, "bytes in a cluster");
    let (used, free) = shown(&*format, &path);
    let (told_used, told_all) = told(&path);
    assert_eq!((used / cluster, (used + free) / cluster), (told_used, told_all), "{name}");
    assert_eq!(figure(&*format, "clusters"), told_all);
    format.block_bytes()
}

#[test]
fn fat_is_found_as_mkfs_makes_it() {
    check("floppy", 1440, &[], "fat12");
    check("fat12", 8 << 10, &["-F", "12"], "fat12");
    check("fat16", 64 << 10, &[], "fat16");
    check("fat16.large", 2000 << 10, &["-F", "16"], "fat16");
    assert_eq!(check("fat32", 600 << 10, &[], "fat32"), 4096, "mkfs aligns its clusters");
    check("fat32.small", 64 << 10, &["-F", "32", "-s", "1"], "fat32");
    check("fat16.odd", 64 << 10, &["-F", "16", "-a", "-R", "3"], "fat16");
    check("fat12.one", 1440, &["-f", "1"], "fat12");
    check("fat32.sectors", 600 << 10, &["-F", "32", "-S", "4096"], "fat32");
}

#[test]
fn exfat_is_found_as_mkfs_makes_it() {
    for (name, kib, args) in [("exfat", 64 << 10, &[][..]), ("exfat.large", 4 << 20, &["-c", "4096"])] {
        let path = made("mkfs.exfat", name, kib, args);
        let format = found(exfat::probe, &path);
        assert_eq!((format.name(), format.was_clean(), format.block_bytes()), ("exfat", true, 4096));
        let (used, free) = shown(&*format, &path);
        let cluster = figure(&*format, "bytes in a cluster");
        assert_eq!((used + free) / cluster, figure(&*format, "clusters"));
        // The bitmap, the table of upper-case letters (5,836 bytes), the root directory.
        let bitmap = figure(&*format, "clusters").div_ceil(8).div_ceil(cluster);
        assert_eq!(used / cluster, bitmap + 5836_u64.div_ceil(cluster) + 1, "{name}");
    }
}
