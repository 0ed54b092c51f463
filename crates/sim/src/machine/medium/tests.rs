use crate::machine::content::{Tag, fill};
use crate::machine::medium::*;

const SECTOR: u64 = SECTOR_BYTES as u64;

fn medium(sectors: u64) -> SimMedium {
    SimMedium::new(sectors * SECTOR, 2, true, Power::default())
}

fn content(tag: u32, sectors: usize) -> Vec<u8> {
    let mut bytes = vec![0; sectors * SECTOR_BYTES];
    fill(Tag(tag), 0, &mut bytes);
    bytes
}

/// A medium that holds `bytes` durably.
fn holding(bytes: &[u8]) -> SimMedium {
    let medium = medium(bytes.len() as u64 / SECTOR);
    write(&medium, bytes);
    medium.sync().expect("no failure was planned");
    medium
}

fn write(medium: &SimMedium, bytes: &[u8]) {
    medium.write(Pos(0), bytes, false).expect("no failure was planned");
}

fn read(medium: &SimMedium) -> Vec<u8> {
    let mut bytes = vec![0; medium.size() as usize];
    medium.read(Pos(0), &mut bytes).expect("no failure was planned");
    bytes
}

/// Which of the versions each sector holds.
fn versions(medium: &SimMedium, versions: &[&[u8]]) -> Vec<usize> {
    let bytes = read(medium);
    let of = |n: usize| n * SECTOR_BYTES..(n + 1) * SECTOR_BYTES;
    let find = |n| versions.iter().position(|version| version[of(n)] == bytes[of(n)]);
    (0..bytes.len() / SECTOR_BYTES).map(|n| find(n).expect("a sector is whole")).collect()
}

fn fewest_passes(medium: &SimMedium) -> Option<u8> {
    let whole = Extent::new(0, 1 << 20);
    medium.inspect(|remains| remains.iter().filter_map(|(_, it)| it.passes_within(whole)).min())
}

#[test]
fn what_was_synced_survives_a_power_cut_and_the_rest_is_torn() {
    let (first, second) = (content(1, 64), content(2, 64));
    let mut seen = [false; 3];
    for seed in 0..50 {
        let medium = holding(&first);
        write(&medium, &second);
        medium.reseed(seed);
        medium.cut_power();
        let new = versions(&medium, &[&first, &second]).iter().sum::<usize>();
        seen[usize::from(new > 0) + usize::from(new == 64)] = true;
    }
    assert_eq!(seen, [true; 3], "nothing, some and all of the second version");
}

#[test]
fn an_earlier_version_of_a_sector_may_be_the_one_that_stuck() {
    let (nothing, all) = (vec![0; 64 * SECTOR_BYTES], [1, 2, 3].map(|tag| content(tag, 64)));
    let medium = medium(64);
    for version in &all {
        write(&medium, version);
        medium.destage(24);
    }
    medium.cut_power();
    let found = versions(&medium, &[&nothing, &all[0], &all[1], &all[2]]);
    for version in 0..4 {
        assert!(found.contains(&version), "version {version} is in no sector");
    }
}

#[test]
fn a_durable_write_is_durable_and_no_other_is() {
    for seed in 0..20 {
        let medium = medium(2);
        medium.write(Pos(SECTOR), &content(1, 1), false).expect("no failure was planned");
        medium.write(Pos(0), &content(2, 1), true).expect("no failure was planned");
        medium.reseed(seed);
        medium.cut_power();
        assert_eq!(read(&medium)[..SECTOR_BYTES], content(2, 1));
    }
}

#[test]
fn a_cache_folds_passes_and_a_sync_between_keeps_them_apart() {
    for (sync_between, left) in [(false, Some(1)), (true, None)] {
        let medium = holding(&content(1, 1));
        for pattern in [0xaa, 0x55] {
            write(&medium, &[pattern; SECTOR_BYTES]);
            if sync_between {
                medium.sync().expect("no failure was planned");
            }
        }
        medium.sync().expect("no failure was planned");
        assert_eq!(fewest_passes(&medium), left);
    }
}

#[test]
fn a_write_that_never_left_the_cache_leaves_no_trace() {
    let medium = medium(1);
    write(&medium, &content(1, 1));
    write(&medium, &[0; SECTOR_BYTES]);
    medium.sync().expect("no failure was planned");
    assert_eq!(fewest_passes(&medium), None);
}

#[test]
fn a_hole_reads_as_zeros_and_is_no_pass() {
    let medium = holding(&content(1, 4));
    medium.punch(Extent::new(SECTOR, 2 * SECTOR)).expect("no failure was planned");
    medium.sync().expect("no failure was planned");
    assert_eq!(read(&medium)[SECTOR_BYTES..3 * SECTOR_BYTES], [0; 2 * SECTOR_BYTES]);
    assert_eq!(medium.holes(), [Extent::new(SECTOR, 2 * SECTOR)]);
    assert_eq!(fewest_passes(&medium), Some(0));
}

#[test]
fn a_hole_that_was_not_synced_may_be_undone() {
    let undone = (0..20).filter(|seed| {
        let medium = holding(&content(1, 1));
        medium.punch(Extent::new(0, SECTOR)).expect("no failure was planned");
        medium.reseed(*seed);
        medium.cut_power();
        medium.holes().is_empty() && read(&medium) == content(1, 1)
    });
    assert!((1..20).contains(&undone.count()));
}

#[test]
fn zeros_that_keep_their_space_are_no_pass_and_no_hole() {
    let medium = holding(&content(1, 1));
    medium.zero(Extent::new(0, SECTOR)).expect("no failure was planned");
    medium.sync().expect("no failure was planned");
    assert_eq!(read(&medium), [0; SECTOR_BYTES]);
    assert!(medium.holes().is_empty());
    assert_eq!(fewest_passes(&medium), Some(0));
}

#[test]
fn a_sync_that_failed_is_not_made_good_by_the_next_life() {
    let lost = (0..20).filter(|seed| {
        let medium = medium(1);
        medium.reseed(*seed);
        write(&medium, &content(1, 1));
        medium.plan(Fault { kind: FaultKind::Sync, after: 0 });
        medium.sync().expect_err("that was planned");
        assert_eq!(read(&medium), content(1, 1));
        medium.sync().expect_err("one failed before");
        medium.heal();
        medium.sync().expect("only one failure was planned");
        medium.cut_power();
        read(&medium) != content(1, 1)
    });
    assert!((1..20).contains(&lost.count()));
}

#[test]
fn a_write_that_fails_leaves_each_sector_old_or_new() {
    let (first, second) = (content(1, 64), content(2, 64));
    let medium = medium(64);
    write(&medium, &first);
    medium.plan(Fault { kind: FaultKind::Write, after: 1 });
    medium.write(Pos(0), &first, false).expect("the failure comes later");
    medium.write(Pos(0), &second, false).expect_err("that was planned");
    let found = versions(&medium, &[&first, &second]);
    assert!(found.contains(&0) && found.contains(&1));
    assert_eq!(medium.take_fired(), [FaultKind::Write]);
}

#[test]
fn when_the_power_fails_nothing_works_until_it_is_back() {
    let power = Power::default();
    let medium = SimMedium::new(4 * SECTOR, 1, false, power.clone());
    power.light_fuse(2);
    write(&medium, &content(1, 4));
    assert!(power.is_off());
    medium.sync().expect_err("there is no power");
    medium.read(Pos(0), &mut [0; 1]).expect_err("there is no power");
    power.restore();
    medium.sync().expect("the power is back");
}
