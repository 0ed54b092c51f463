use crate::formats::jbd2::checksum::{crc32c, with_hole};
use crate::formats::jbd2::record::*;
use crate::formats::jbd2::tests::{header, put};
use crate::formats::testing::Dice;

const BLOCK: usize = 1024;
const SEED: u32 = 0x1234_5678;

fn records(is_64bit: bool, checksums: Checksums) -> Records {
    Records { block_bytes: BLOCK as u32, is_64bit, checksums }
}

fn tailed(mut block: Vec<u8>) -> Vec<u8> {
    let checksum = with_hole(SEED, &block, BLOCK - TAIL_BYTES);
    put(&mut block, BLOCK - TAIL_BYTES, checksum);
    block
}

fn blocks(records: Records, block: &[u8]) -> Option<Vec<(u64, bool)>> {
    match records.read(block)?.kind {
        RecordKind::Descriptor(tags) => Some(tags.iter().map(|tag| (tag.block, tag.is_escaped)).collect()),
        _ => None,
    }
}

/// Words behind a header: where, and the value.
type Words<'a> = &'a [(usize, u32)];

#[test]
fn tags_take_as_many_bytes_as_their_sort() {
    let (v2, v3) = (Checksums::V2 { seed: SEED }, Checksums::V3 { seed: SEED });
    let same = TAG_SAME_UUID;
    let last = same | TAG_LAST;
    let plain: Words<'_> = &[(0, 40), (24, 50), (28, same | TAG_ESCAPE), (32, 60), (36, last)];
    let wide: Words<'_> = &[(0, 40), (4, same), (8, 3), (12, 41), (16, last)];
    let second: Words<'_> = &[(0, 40), (4, same), (10, 41), (14, last)];
    let wide_second: Words<'_> = &[(0, 40), (4, same), (14, 41), (18, last)];
    let third: Words<'_> = &[(0, 40), (4, same), (8, 7), (16, 41), (20, last), (24, 7)];
    let two = [(40, false), (41, false)];
    for (what, is_64bit, checksums, words, expected) in [
        ("eight bytes", false, Checksums::No, plain, &[(40, false), (50, true), (60, false)][..]),
        ("an upper half", true, Checksums::No, wide, &[(3 << 32 | 40, false), (41, false)]),
        ("two bytes more", false, v2, second, &two),
        ("two bytes more, and an upper half", true, v2, wide_second, &two),
        ("sixteen bytes, without the upper half", false, v3, third, &two),
        ("sixteen bytes", true, v3, third, &[(7 << 32 | 40, false), (7 << 32 | 41, false)]),
    ] {
        let mut block = header(DESCRIPTOR, 9);
        words.iter().for_each(|(at, word)| put(&mut block, HEADER_BYTES + at, *word));
        let block = if checksums.are_on() { tailed(block) } else { block };
        let records = records(is_64bit, checksums);
        assert_eq!(blocks(records, &block).as_deref(), Some(expected), "{what}");
        assert_eq!(records.read(&block).unwrap().tid, Tid(9), "{what}");
    }
}

#[test]
fn a_descriptor_without_a_last_tag_is_full() {
    let mut block = header(DESCRIPTOR, 9);
    for at in (12..BLOCK - 8).step_by(8) {
        put(&mut block, at, 40);
        put(&mut block, at + 4, TAG_SAME_UUID);
    }
    let found = blocks(records(false, Checksums::No), &block).unwrap();
    assert_eq!(found.len(), (BLOCK - HEADER_BYTES) / 8);
}

#[test]
fn a_descriptor_with_a_wrong_checksum_is_none() {
    let v3 = records(false, Checksums::V3 { seed: SEED });
    let mut block = header(DESCRIPTOR, 9);
    put(&mut block, 16, TAG_SAME_UUID | TAG_LAST);
    let mut block = tailed(block);
    assert!(v3.read(&block).is_some());
    block[12] ^= 1;
    assert_eq!(v3.read(&block), None);
}

#[test]
fn a_revoke_block_says_how_much_of_it_is_used() {
    let plain = records(false, Checksums::No);
    let mut block = header(REVOKE, 3);
    put(&mut block, 12, 16 + 8);
    assert_eq!(plain.read(&block), Some(Record { tid: Tid(3), kind: RecordKind::Revoke }));
    for lie in [0, 15, BLOCK as u32 + 1] {
        put(&mut block, 12, lie);
        assert_eq!(plain.read(&block), None, "{lie}");
    }
}

#[test]
fn a_commit_block_has_its_checksum_in_its_head() {
    let v2 = records(false, Checksums::V2 { seed: SEED });
    let mut block = header(COMMIT, 3);
    assert_eq!(v2.read(&block), None);
    let checksum = with_hole(SEED, &block, COMMIT_CHECKSUM_AT);
    put(&mut block, COMMIT_CHECKSUM_AT, checksum);
    assert_eq!(v2.read(&block), Some(Record { tid: Tid(3), kind: RecordKind::Commit }));
    block[0x30] ^= 1;
    assert_eq!(v2.read(&block), None);
    assert!(records(false, Checksums::No).read(&block).is_some());
}

#[test]
fn other_blocks_are_not_the_logs_own() {
    let plain = records(false, Checksums::No);
    assert_eq!(plain.read(&[0; BLOCK]), None);
    assert_eq!(plain.read(&header(4, 3)), None);
    assert_eq!(plain.read(&header(COMMIT, 3)[..512]), None);
}

#[test]
fn a_copy_is_restored_if_its_checksum_is_right() {
    let copy = [7; BLOCK];
    let crc = crc32c(crc32c(SEED, &5_u32.to_be_bytes()), &copy);
    for (checksums, right) in
        [(Checksums::V2 { seed: SEED }, crc & 0xFFFF), (Checksums::V3 { seed: SEED }, crc)]
    {
        let records = records(false, checksums);
        let tag = Tag { block: 1, is_escaped: false, checksum: right };
        assert_eq!(records.restored(Tid(5), &tag, &copy).as_deref(), Some(&copy[..]));
        assert_eq!(records.restored(Tid(6), &tag, &copy), None);
        let tag = Tag { checksum: right ^ 1, ..tag };
        assert_eq!(records.restored(Tid(5), &tag, &copy), None);
    }
}

#[test]
fn an_escaped_copy_gets_the_magic_number_back() {
    let tag = Tag { block: 1, is_escaped: true, checksum: 0 };
    let restored = records(false, Checksums::No).restored(Tid(5), &tag, &[0; BLOCK]).unwrap();
    assert_eq!(restored[..4], MAGIC.to_be_bytes());
    assert!(restored[4..].iter().all(|byte| *byte == 0));
}

#[test]
fn no_block_makes_it_panic() {
    let mut dice = Dice(7);
    let mut random = |below: usize| dice.below(below as u32) as usize;
    for _ in 0..2000 {
        let mut block = header([DESCRIPTOR, REVOKE, COMMIT][random(3)], 3);
        (0..40).for_each(|_| block[12 + random(BLOCK - 12)] = random(256) as u8);
        let checksums =
            [Checksums::No, Checksums::V2 { seed: SEED }, Checksums::V3 { seed: SEED }][random(3)];
        let records = records(random(2) == 0, checksums);
        if let Some(tags) = blocks(records, &tailed(block)) {
            assert!(tags.len() <= BLOCK / 8);
        }
    }
}
