//! Disks with partitions, above file systems that the standard tools made.

pub mod bench;

use bench::{Bench, ext2, mbr, partitioned, range};
use quietus_core::base::units::{Addr, Extent};
use quietus_core::watch::{Observation, WaitsFor};

/// Where the first partition begins on an old disk: not at a multiple of 4 KiB.
const FIRST: usize = 63;
const SECOND: usize = 4096;

/// A disk with two file systems, and the first of them.
fn two(name: &str) -> (Vec<u8>, Vec<u8>) {
    let first = ext2(&format!("{name}-1"), 1024, &["-b", "1024"]);
    let second = ext2(&format!("{name}-2"), 2048, &["-b", "4096"]);
    (partitioned(8192, &[(FIRST, &first), (SECOND, &second)]), first)
}

/// The watcher of such a disk, once it knows it.
fn known(name: &str) -> Bench {
    let mut bench = Bench::disk(two(name).0);
    bench.dead();
    bench
}

fn shifted(extents: &[Extent<Addr>], sectors: usize) -> Vec<Extent<Addr>> {
    let shift = sectors as u64 * 512;
    extents.iter().map(|it| Extent::new(it.start.0 + shift, it.len)).collect()
}

fn states(bench: &Bench) -> Vec<String> {
    bench.status().parts.iter().map(|part| part.watch.state.clone()).collect()
}

fn file_systems(bench: &Bench) -> Vec<Option<String>> {
    bench.status().parts.iter().map(|part| part.watch.file_system.clone()).collect()
}

#[test]
fn the_status_tells_of_each_partition() {
    let bench = known("alone");
    let status = bench.status();
    assert_eq!((status.file_system, status.state.as_str()), (None, "watching 2 of 2 partitions (MBR)"));
    let ext2 = || Some("ext2".to_string());
    assert_eq!(file_systems(&bench), [ext2(), ext2()]);
    let places: Vec<_> = status.parts.iter().map(|it| (it.number, it.start_bytes, it.len_bytes)).collect();
    assert_eq!(places, [(1, 63 * 512, 1 << 20), (2, 2 << 20, 2 << 20)]);
}

#[test]
fn verdicts_come_from_each_partition_in_turn() {
    let (disk, ..) = two("turn");
    let mut bench = Bench::disk(disk);
    bench.wait(1000);
    bench.wait(1000);
    bench.prove();
    let second = |extent: &Extent<Addr>| extent.start.0 >= SECOND as u64 * 512;
    let sides: Vec<_> = bench.verdicts().iter().take(2).map(|(extent, _)| second(extent)).collect();
    assert_ne!(sides[0], sides[1]);
}

#[test]
fn a_disk_without_partitions_is_watched_as_before() {
    let whole = ext2("whole", 1024, &["-b", "1024"]);
    let (mut disk, mut watch) = (Bench::disk(whole.clone()), Bench::watch(whole));
    let dead = disk.dead();
    assert!(!dead.is_empty());
    assert_eq!(dead, watch.dead());
    assert_eq!(disk.status(), watch.status());
}

/// Numbers without order (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// A disk with two partitions of 512 KiB that touch, and each of them alone.
struct Trio {
    disk: Bench,
    alone: [(usize, Bench); 2],
}

impl Trio {
    fn new(seed: u64) -> Self {
        let first = ext2(&format!("trio-{seed}-1"), 512, &["-b", "1024"]);
        let second = ext2(&format!("trio-{seed}-2"), 512, &["-b", "1024", "-r", "0"]);
        let second_at = FIRST + first.len() / 512;
        let disk = partitioned(1100, &[(FIRST, &first), (second_at, &second)]);
        let alone = [(FIRST, Bench::watch(first)), (second_at, Bench::watch(second))];
        let mut trio = Self { disk: Bench::disk(disk), alone };
        trio.wait(0);
        trio
    }

    fn wait(&mut self, ms: u64) {
        self.disk.wait(ms);
        self.alone.iter_mut().for_each(|(_, bench)| bench.wait(ms));
    }

    /// The whole content of an extent is shifted by a bit, or copied from
    /// elsewhere on the disk, or trimmed: on the disk, and on each alone.
    fn change(&mut self, random: &mut Random) {
        let len = (1 + random.below(24)) * 512;
        let at = (FIRST as u64 + random.below(2049 - len / 512)) * 512;
        let extent = Extent::new(at, len);
        let sort = random.below(16);
        let mut bytes = self.disk.bytes[range(extent)].to_vec();
        bytes[random.below(len) as usize] ^= 1 << random.below(8);
        let told = if sort == 0 { self.disk.trim(extent) } else { self.disk.write(at, &bytes) };
        let mut expected = [Vec::new(), Vec::new()];
        for (sectors, bench) in &mut self.alone {
            let place = Extent::new(*sectors as u64 * 512, bench.bytes.len() as u64);
            let Some(inner) = extent.inside(place) else { continue };
            let from = (*sectors as u64 * 512 + inner.start.0 - at) as usize;
            let part = &bytes[from..from + inner.len as usize];
            let told = if sort == 0 { bench.trim(inner) } else { bench.write(inner.start.0, part) };
            for (all, more) in expected.iter_mut().zip(told) {
                all.extend(shifted(&more, *sectors));
            }
        }
        assert_eq!(told, expected);
    }

    fn compare(&mut self) -> usize {
        self.disk.prove();
        let mut found = self.disk.verdicts();
        let mut expected = Vec::new();
        for (sectors, bench) in &mut self.alone {
            bench.prove();
            let shift = *sectors as u64 * 512;
            let verdicts = bench.verdicts().into_iter();
            expected.extend(verdicts.map(|(it, verdict)| (Extent::new(it.start.0 + shift, it.len), verdict)));
        }
        found.sort_by_key(|(extent, _)| *extent);
        expected.sort_by_key(|(extent, _)| *extent);
        assert_eq!(found, expected);
        found.len()
    }
}

#[test]
fn whatever_is_written_partitions_are_watched_as_if_they_were_disks() {
    let (mut verdicts, mut watched) = (0, 0);
    for seed in 1..=4 {
        let (mut trio, mut random) = (Trio::new(seed), Random(0x9E37_79B9_7F4A_7C15 >> seed));
        for step in 0..400 {
            trio.change(&mut random);
            trio.wait(random.below(300));
            if step % 8 == 0 {
                verdicts += trio.compare();
            }
            let states = trio.alone.iter().map(|(_, bench)| bench.status());
            assert!(states.clone().eq(trio.disk.status().parts.into_iter().map(|it| it.watch)));
            watched += states.filter(|it| it.file_system.is_some()).count();
        }
    }
    assert!(verdicts > 50 && watched > 1000, "{verdicts} verdicts, {watched} times watching");
}

#[test]
fn a_partition_that_stays_keeps_what_is_known_of_it_and_one_that_grows_is_looked_at_again() {
    let mut bench = known("stays");
    let before = bench.status().parts[1].clone();
    bench.write(0, &mbr(&[(FIRST, 1000), (SECOND, 4096)]));
    assert_eq!(bench.status().state, "the partition table is being changed");
    bench.wait(1000);
    let status = bench.status();
    assert_eq!(status.parts[1], before);
    assert_eq!(status.parts[0].watch.file_system, None, "it ends beyond its partition now");
    assert_eq!(status.parts[0].watch.state, "the file system ends beyond the disk");
    bench.write(0, &mbr(&[(FIRST, 2048), (SECOND, 8192)]));
    bench.wait(1000);
    assert_eq!(file_systems(&bench)[1].as_deref(), Some("ext2"));
    assert_eq!(bench.status().parts[1].len_bytes, 4 << 20);
}

#[test]
fn nothing_is_called_dead_while_the_table_changes() {
    let (disk, ..) = two("uncertain");
    let mut bench = Bench::disk(disk.clone());
    bench.wait(1000);
    bench.wait(1000);
    bench.prove();
    bench.write(0, &[0; 512]);
    assert_eq!(bench.verdicts(), []);
    bench.write(0, &disk[..512]);
    assert_eq!(bench.verdicts(), []);
    bench.wait(1000);
    assert_ne!(bench.verdicts(), []);
}

#[test]
fn a_file_system_within_another_does_not_count_before_its_head_is_written() {
    // An image in a file of the second partition, where a new one would begin.
    let (mut disk, first) = two("within");
    let inner_at = SECOND + 2048;
    disk[inner_at * 512..][..first.len()].copy_from_slice(&first);
    let mut bench = Bench::disk(disk);
    bench.dead();
    bench.write(0, &mbr(&[(FIRST, 2048), (inner_at, 2048)]));
    let inner = |extent: &Extent<Addr>| extent.start.0 >= inner_at as u64 * 512;
    assert!(!bench.dead().iter().any(inner));
    assert!(
        states(&bench)[1].contains("counts once its superblock or boot sector is written"),
        "{:?}",
        states(&bench)
    );
    bench.write(inner_at as u64 * 512 + 1024, &first[1024..2048]);
    bench.wait(1000);
    assert_eq!(file_systems(&bench)[1].as_deref(), Some("ext2"));
}

#[test]
fn what_a_partition_leaves_that_shrinks_or_goes_is_named_until_another_takes_it() {
    let mut bench = known("leaves");
    let left = |bench: &Bench| {
        let waiting = bench.watcher.waiting().filter(|it| it.0 == WaitsFor::Owner);
        waiting.map(|(_, it)| (it.start.0 as usize / 512, it.end() as usize / 512)).collect::<Vec<_>>()
    };
    for (table, expected) in [
        (&[(FIRST, 2048), (SECOND, 4096)][..], &[][..]),
        (&[(FIRST, 1000), (SECOND, 4096)], &[(FIRST + 1000, FIRST + 2048)]),
        (&[(FIRST, 1000)], &[(FIRST + 1000, FIRST + 2048), (SECOND, SECOND + 4096)]),
        (
            &[(FIRST, 1000), (SECOND + 100, 50)],
            &[(FIRST + 1000, FIRST + 2048), (SECOND, SECOND + 100), (SECOND + 150, SECOND + 4096)],
        ),
        (&[(FIRST, 2048), (SECOND, 4096)], &[]),
    ] {
        bench.write(0, &mbr(table));
        bench.wait(1000);
        assert_eq!(left(&bench), expected, "{table:?}");
    }
}

#[test]
fn a_table_that_comes_ends_what_was_watched_below_the_whole_disk() {
    let mut bench = Bench::disk(ext2("comes", 8192, &["-b", "1024"]));
    bench.dead();
    assert_eq!(bench.status().file_system.as_deref(), Some("ext2"));
    bench.write(0, &mbr(&[(2048, 2048)]));
    assert_eq!(bench.dead(), []);
    assert!(bench.status().state.contains("a file system of its own"), "{}", bench.status().state);
    // As wipefs does.
    bench.write(1024 + 0x38, &[0; 2]);
    bench.wait(1000);
    assert_eq!(bench.status().state, "watching 0 of 1 partitions (MBR)");
}

#[test]
fn a_signature_that_comes_ends_and_that_goes_begins_the_watch() {
    let mut bench = known("signature");
    let at = (FIRST * 512 + 4096) as u64;
    let old = bench.bytes[at as usize..][..4].to_vec();
    bench.write(at, &[0xFC, 0x4E, 0x2B, 0xA9]);
    bench.wait(1000);
    assert_eq!(states(&bench)[0], "it is a member of an md array");
    bench.write(at, &old);
    bench.wait(1000);
    assert_eq!(file_systems(&bench)[0].as_deref(), Some("ext2"));
}

#[test]
fn what_was_known_of_each_partition_is_known_again() {
    let bench = known("view");
    let view = bench.watcher.view().expect("both are known");
    let mut again = Bench::disk(bench.bytes.clone());
    again.watcher.restore(view.clone());
    again.read();
    assert_eq!(again.dead(), [], "it was dead, and said so, before");
    let live = |bench: &Bench| {
        let parts = bench.status().parts;
        parts
            .iter()
            .map(|it| it.watch.figures.iter().find(|it| it.0 == "live").unwrap().1)
            .collect::<Vec<_>>()
    };
    assert_eq!(live(&again), live(&bench));
    // A view that is cut off, or begins otherwise, is ignored.
    for broken in [&view[..view.len() - 1], &view[1..], &[]] {
        let mut cold = Bench::disk(bench.bytes.clone());
        cold.watcher.restore(broken.to_vec());
        assert_ne!(cold.dead(), []);
    }
}

#[test]
fn a_read_that_fails_blinds_only_what_it_was_for() {
    let mut bench = known("fails");
    let extent = Extent::new(SECOND as u64 * 512 + 8192, 4096);
    bench.observe(Observation::Given { extent, content: None });
    bench.wait(1000);
    assert_eq!(file_systems(&bench), [Some("ext2".to_string()), None]);
    assert_eq!(states(&bench)[1], "ext2: metadata could not be read");
}

#[test]
fn what_a_partition_asked_for_arrives_though_the_table_is_read_again_meanwhile() {
    let (disk, ..) = two("meanwhile");
    let expected = Bench::disk(disk.clone()).dead();
    let mut bench = Bench::disk(disk.clone());
    bench.observe(Observation::Tick);
    while bench.status().parts.len() < 2 {
        let extent = bench.watcher.wants().unwrap();
        let content = bench.bytes[range(extent)].to_vec();
        bench.observe(Observation::Given { extent, content: Some(&content) });
    }
    bench.observe(Observation::Tick);
    let under_way: Vec<_> = std::iter::from_fn(|| bench.watcher.wants()).collect();
    assert!(!under_way.is_empty());
    bench.write(0, &disk[..512]);
    bench.wait(1000);
    for extent in under_way {
        let content = bench.bytes[range(extent)].to_vec();
        bench.observe(Observation::Given { extent, content: Some(&content) });
    }
    assert_eq!(bench.dead(), expected);
}

#[test]
fn a_table_that_cannot_be_read_is_looked_for_again_once_it_is_written() {
    let (disk, ..) = two("unread");
    let mut bench = Bench::disk(disk.clone());
    bench.observe(Observation::Tick);
    let extent = bench.watcher.wants().unwrap();
    bench.observe(Observation::Given { extent, content: None });
    bench.read();
    assert_eq!(bench.status().state, "the disk could not be read");
    assert!(!bench.watcher.agenda().is_working);
    bench.write(0, &disk[..512]);
    bench.wait(1000);
    assert_eq!(file_systems(&bench).len(), 2);
}

/// A disk with one partition in use: a free block is written, and its map is written twice. Between
/// the two, so many clients are connected, in turn. Returns how many blocks are unconfirmed, and
/// how many dead.
fn unconfirmed_and_dead(name: &str, clients: usize, between: &[usize]) -> (u64, u64) {
    let mut part = ext2(name, 1024, &["-b", "1024"]);
    part[1024 + 58] = 0;
    let at = (FIRST * 512) as u64;
    let map_at = u64::from(u32::from_le_bytes(part[2048..2052].try_into().unwrap())) << 10;
    let map = part[map_at as usize..][..1024].to_vec();
    let free = (0..1023).find(|bit| map[bit / 8] >> (bit % 8) & 1 == 0).unwrap() as u64 + 1;
    let mut bench = Bench::disk(partitioned(1100, &[(FIRST, &part)]));
    bench.connected(clients);
    // What a client sent to an earlier run of the server has arrived after that.
    (0..4).for_each(|_| bench.wait(1000));
    bench.write(at + (free << 10), &[7; 1024]);
    bench.write(at + map_at, &map);
    for clients in between {
        bench.connected(*clients);
    }
    bench.wait(100);
    bench.write(at + map_at, &map);
    let is_block = |run: Extent<Addr>| run.start.0 % 1024 == at % 1024;
    assert!(bench.watcher.waiting().all(|(_, run)| is_block(run)), "addresses are those of the disk");
    let blocks = |cause| {
        let runs = bench.watcher.waiting().filter(|it| it.0 == cause);
        runs.map(|(_, run)| run.len >> 10).sum()
    };
    (blocks(WaitsFor::Settling), blocks(WaitsFor::Proof))
}

#[test]
fn the_second_map_in_turn_proves_what_the_first_one_does_not() {
    let (unconfirmed, dead) = unconfirmed_and_dead("turn-one", 1, &[]);
    assert!(unconfirmed == 0 && dead > 0, "{unconfirmed} {dead}");
    assert_eq!(unconfirmed_and_dead("turn-two", 2, &[]), (1, dead - 1), "who came with what is not known");
    assert_eq!(unconfirmed_and_dead("turn-again", 1, &[0, 1]), (1, dead - 1));
    assert_eq!(unconfirmed_and_dead("turn-both", 1, &[2, 1]), (1, dead - 1));
}
