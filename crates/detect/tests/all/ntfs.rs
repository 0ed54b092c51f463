//! Real file systems, made by mkntfs and filled by ntfscp: found for what they
//! are, free where the bitmap says so, and named as ntfsinfo and ntfscluster have it.

use crate::disk::bench::Bench;
use crate::tool::{self, figure, run};
use quietus_core::base::units::{Addr, Extent};
use quietus_core::watch::{Observation, Scope, Verdict};
use quietus_detect::Disk;
use quietus_detect::formats::format::{Block, Change, Format, Geometry, Kind, Probe};
use quietus_detect::formats::ntfs;
use quietus_detect::rules::options::Options;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A file system of `mib`.
fn made(name: &str, mib: u64, args: &[&str]) -> PathBuf {
    tool::made("mkntfs", name, mib << 10, &[&["-q", "-F", "-f"], args].concat())
}

/// Copies a file of `kib` into the image.
fn copied(image: &Path, name: &str, kib: usize) {
    let source = image.with_file_name(format!("{}.{name}", image.file_name().unwrap().to_str().unwrap()));
    std::fs::write(&source, vec![b'q'; kib << 10]).unwrap();
    run("ntfscp", &["-q", image.to_str().unwrap(), source.to_str().unwrap(), name]);
}

fn found(bytes: &[u8]) -> Box<dyn Format> {
    let read = |at: Extent<Addr>| bytes[at.start.0 as usize..at.end() as usize].to_vec();
    match tool::probed(ntfs::probe, bytes.len() as u64, read) {
        Probe::Is(format) => format,
        other => panic!("{other:?}"),
    }
}

fn content<'a>(format: &dyn Format, bytes: &'a [u8], block: Block) -> &'a [u8] {
    let len = format.block_bytes() as usize;
    &bytes[block as usize * len..(block as usize + 1) * len]
}

/// The blocks that all records of `$MFT` name.
fn named(format: &dyn Format, bytes: &[u8]) -> BTreeSet<Block> {
    let mut named = BTreeSet::new();
    for block in format.survey(Kind::Inodes).into_iter().flatten() {
        let content = content(format, bytes, block);
        assert_eq!(format.unknown(block, content), None);
        for change in format.pointers(block, format.kind(block), content) {
            let Change::Linked(link) = change else { panic!("{change:?}") };
            assert!(link.blocks.clone().all(|it| named.insert(it)), "twice: {link:?}");
        }
    }
    named
}

/// The blocks that the bitmap has in use.
fn used(format: &dyn Format, bytes: &[u8]) -> BTreeSet<Block> {
    let mut used = BTreeSet::new();
    let len = u64::from(format.block_bytes());
    for block in format.survey(Kind::Map).into_iter().flatten() {
        let at = Extent::new(u64::from(block) * len, len);
        for shown in format.map(at, content(format, bytes, block)).unwrap() {
            assert!(shown.blocks.end <= format.blocks());
            used.extend(shown.blocks.filter(|_| shown.allocated));
        }
    }
    used
}

/// Free clusters, as ntfsinfo counts them.
fn told_free(image: &Path) -> u64 {
    let printed = run("ntfsinfo", &["-f", "-m", image.to_str().unwrap()]);
    let line = printed.lines().find(|it| it.contains("Free Clusters")).unwrap();
    line.split(&[':', '('][..]).nth(1).unwrap().trim().parse().unwrap()
}

/// The clusters of a file, as ntfscluster has them.
fn told_clusters(image: &Path, file: &str) -> Vec<u64> {
    let printed = run("ntfscluster", &["-f", "-F", file, image.to_str().unwrap()]);
    let runs = printed.lines().filter_map(|line| {
        let numbers: Vec<i64> = line.split_whitespace().filter_map(|it| it.parse().ok()).collect();
        (numbers.len() == 3 && numbers[1] >= 0).then(|| numbers[1]..numbers[1] + numbers[2])
    });
    runs.flatten().map(|it| it as u64).collect()
}

/// All that the tools say of `image` is what is read.
fn check(image: &Path, files: &[&str]) {
    let bytes = std::fs::read(image).unwrap();
    let format = found(&bytes);
    assert_eq!(format.name(), "ntfs");
    let (named, used) = (named(&*format, &bytes), used(&*format, &bytes));
    assert_eq!(named, used, "what records name is what the bitmap has in use");
    let blocks = figure(&*format, "bytes in a cluster") / u64::from(format.block_bytes());
    assert_eq!(told_free(image), figure(&*format, "clusters") - used.len() as u64 / blocks);
    for file in files {
        let clusters = told_clusters(image, file);
        assert!(!clusters.is_empty(), "{file}");
        for block in clusters.into_iter().flat_map(|it| it * blocks..(it + 1) * blocks) {
            assert!(named.contains(&(block as Block)), "{file} has block {block}");
            assert_eq!(format.kind(block as Block), Kind::Data);
        }
    }
}

#[test]
fn what_mkntfs_and_ntfscp_make_is_read_as_the_tools_read_it() {
    let sorts: [(&str, u64, &[&str]); 6] = [
        ("ntfs.plain", 64, &[]),
        ("ntfs.4k", 64, &["-c", "4096"]),
        ("ntfs.1k", 16, &["-c", "1024"]),
        ("ntfs.64k", 64, &["-c", "65536"]),
        ("ntfs.2m", 192, &["-c", "2097152"]),
        ("ntfs.sectors", 64, &["-s", "4096", "-c", "4096"]),
    ];
    for (name, mib, args) in sorts {
        let image = made(name, mib, args);
        check(&image, &[]);
        copied(&image, "one", 700);
        copied(&image, "two", 5);
        copied(&image, "three", 4096);
        check(&image, &["one", "two", "three"]);
    }
}

#[test]
fn mft_grows_while_it_is_watched() {
    let image = made("ntfs.grows", 32, &["-c", "4096"]);
    let before = std::fs::read(&image).unwrap();
    (0..70).for_each(|n| copied(&image, &format!("file{n}"), 5));
    let after = std::fs::read(&image).unwrap();
    let (mut format, now) = (found(&before), found(&after));
    let first = format.survey(Kind::Inodes)[0].start;
    assert!(now.survey(Kind::Inodes).iter().map(|it| it.len()).sum::<usize>() > 10, "it has grown");
    let [old, new] = [&before, &after].map(|bytes| content(&*format, bytes, first));
    assert_eq!(format.geometry(first, old, new), Geometry::Same);
    assert!(format.learn(first, new));
    assert_eq!(format.survey(Kind::Inodes), now.survey(Kind::Inodes));
    check(&image, &["file0", "file69"]);
}

fn watched(bytes: Vec<u8>, eager: bool) -> Bench {
    let options = Options { eager, settle_ms: 5000, ..Options::default() };
    let disk = Disk::new(bytes.len() as u64, vec![ntfs::probe], options);
    let mut bench = Bench::of(Box::new(disk), bytes);
    bench.clients = 1;
    bench.wait(2000);
    bench.wait(2000);
    bench
}

impl Bench {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.write(at as u64, bytes);
        self.read();
    }

    /// `block` is written as it is in `other`.
    fn put_as(&mut self, other: &[u8], block: Block) {
        let at = block as usize * 4096;
        self.put(at, &other[at..at + 4096]);
    }

    /// The guest is active for so many seconds.
    fn be_active(&mut self, seconds: usize) {
        let end = self.bytes.len() - 4096;
        for _ in 0..seconds * 2 {
            self.wait(500);
            let last = self.bytes[end..].to_vec();
            self.put(end, &last);
        }
    }

    /// The blocks that are called dead.
    fn blocks_dead(&mut self) -> BTreeSet<Block> {
        let mut dead = BTreeSet::new();
        self.observe(Observation::Cut);
        self.observe(Observation::Proven);
        let scope = Scope { layers: false, all: true, is_busy: &|_| false };
        while let Some((at, verdict)) = self.watcher.verdict(scope) {
            assert_eq!(verdict, Verdict::Dead);
            dead.extend((at.start.0 / 4096) as Block..(at.end() / 4096) as Block);
        }
        dead
    }
}

/// An image with a file, and the same without it: its record is not in use, its
/// clusters are free. The file's clusters, the block of its record, and of the map.
fn deleted(name: &str) -> (Vec<u8>, Vec<u8>, BTreeSet<Block>, Block, Block) {
    let image = made(name, 32, &["-c", "4096"]);
    copied(&image, "kept", 100);
    copied(&image, "gone", 200);
    let before = std::fs::read(&image).unwrap();
    let format = found(&before);
    let clusters: BTreeSet<_> = told_clusters(&image, "gone").into_iter().map(|it| it as Block).collect();
    let mut after = before.clone();
    let map = format.survey(Kind::Map)[0].start;
    for cluster in &clusters {
        after[map as usize * 4096 + *cluster as usize / 8] &= !(1 << (cluster % 8));
    }
    let names = |block, content: &[u8]| {
        let named = format.pointers(block, Kind::Inodes, content);
        named.iter().any(|it| matches!(it, Change::Linked(link) if clusters.contains(&link.blocks.start)))
    };
    let has = |block: &Block| names(*block, content(&*format, &before, *block));
    let record = format.survey(Kind::Inodes).into_iter().flatten().find(has).unwrap();
    for at in (0..4).map(|slot| record as usize * 4096 + slot * 1024) {
        if names(record, &[&after[at..at + 1024], &[0; 3072]].concat()) {
            after[at + 0x16] = 0;
        }
    }
    (before, after, clusters, record, map)
}

#[test]
fn a_death_takes_two_witnesses_even_if_eager() {
    for (name, eager) in [("ntfs.two", false), ("ntfs.eager", true)] {
        let (before, after, clusters, record, map) = deleted(name);
        let mut watched = watched(before, eager);
        assert_eq!(watched.status().file_system.as_deref(), Some("ntfs"));
        watched.be_active(12);
        let free = watched.blocks_dead();
        assert!(!free.is_empty() && free.is_disjoint(&clusters), "what was free at the attach has settled");
        watched.put_as(&after, map);
        assert!(watched.blocks_dead().is_empty(), "the record still names them");
        watched.put_as(&after, record);
        assert_eq!(watched.blocks_dead(), clusters);
    }
}

#[test]
fn a_clean_volume_proves_nothing_before_the_guest_was_active() {
    let (before, ..) = deleted("ntfs.attach");
    let mut watched = watched(before, false);
    watched.wait(3_600_000);
    assert!(watched.blocks_dead().is_empty());
}

#[test]
fn one_that_is_refused_is_looked_at_again_wherever_it_is_mended() {
    let mut bytes = std::fs::read(made("ntfs.refused", 192, &["-c", "2097152"])).unwrap();
    let record_6 = found(&bytes).survey(Kind::Inodes)[0].start as usize * 4096 + 6 * 1024;
    assert!(record_6 > 1 << 20);
    bytes[record_6 + 510] ^= 1;
    let mut watched = watched(bytes, false);
    let why =
        "record 6 of $MFT is invalid: a part of it was not written (its update sequence does not match)";
    assert_eq!(watched.status().state, why);
    let mut mended = watched.bytes[record_6..record_6 + 512].to_vec();
    mended[510] ^= 1;
    watched.put(record_6, &mended);
    watched.wait(1000);
    watched.wait(1000);
    assert_eq!(watched.status().file_system.as_deref(), Some("ntfs"));
}

#[test]
fn nothing_dies_while_a_record_is_torn() {
    let (before, after, clusters, record, map) = deleted("ntfs.torn");
    let mut watched = watched(before, false);
    watched.be_active(12);
    watched.blocks_dead();
    let mut torn = after.clone();
    let at = record as usize * 4096;
    let slot = (0..4).find(|slot| torn[at + slot * 1024 + 0x16] == 0).unwrap();
    torn[at + slot * 1024 + 510] ^= 1;
    watched.put_as(&torn, record);
    watched.put_as(&after, map);
    assert!(watched.blocks_dead().is_empty());
    assert!(!watched.watcher.agenda().is_working, "who waits until all is done would wait for ever");
    let state = watched.status().state;
    assert!(
        state.contains("nothing is called dead: record")
            && state.contains("its update sequence does not match"),
        "{state}"
    );
    watched.put_as(&after, record);
    assert_eq!(watched.blocks_dead(), clusters);
    assert_eq!(watched.status().state, "watching it");
}

#[test]
fn what_was_written_lately_dies_with_time_or_the_next_map() {
    let (before, after, clusters, record, map) = deleted("ntfs.lately");
    let mut watched = watched(before, false);
    watched.be_active(12);
    watched.blocks_dead();
    for cluster in &clusters {
        watched.put(*cluster as usize * 4096, &[b'n'; 4096]);
    }
    watched.wait(2000);
    watched.put_as(&after, record);
    watched.put_as(&after, map);
    assert!(watched.blocks_dead().is_empty(), "no order is promised");
    watched.be_active(12);
    assert_eq!(watched.blocks_dead(), clusters);
}
