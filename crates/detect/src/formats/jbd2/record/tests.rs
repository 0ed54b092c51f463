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

#[test]
fn tags_of_the_first_sort_take_eight_bytes() {
    let mut block = header(DESCRIPTOR, 9);
    put(&mut block, 12, 40);
    put(&mut block, 20 + 16, 50);
    put(&mut block, 24 + 16, TAG_SAME_UUID | TAG_ESCAPE);
    put(&mut block, 28 + 16, 60);
    put(&mut block, 32 + 16, TAG_SAME_UUID | TAG_LAST);
    let plain = records(false, Checksums::No);
    assert_eq!(blocks(plain, &block), Some(vec![(40, false), (50, true), (60, false)]));
    assert_eq!(plain.read(&block).unwrap().tid, Tid(9));
}

#[test]
fn tags_of_64_bits_have_an_upper_half() {
    let mut block = header(DESCRIPTOR, 9);
    put(&mut block, 12, 40);
    put(&mut block, 16, TAG_SAME_UUID);
    put(&mut block, 20, 3);
    put(&mut block, 24, 41);
    put(&mut block, 28, TAG_SAME_UUID | TAG_LAST);
    assert_eq!(blocks(records(true, Checksums::No), &block), Some(vec![(3 << 32 | 40, false), (41, false)]));
}

#[test]
fn tags_of_the_second_sort_take_two_bytes_more() {
    let mut block = header(DESCRIPTOR, 9);
    put(&mut block, 12, 40);
    put(&mut block, 16, TAG_SAME_UUID);
    block[22..26].copy_from_slice(&41_u32.to_be_bytes());
    block[26..30].copy_from_slice(&(TAG_SAME_UUID | TAG_LAST).to_be_bytes());
    let csum = records(false, Checksums::V2 { seed: SEED });
    assert_eq!(blocks(csum, &tailed(block)), Some(vec![(40, false), (41, false)]));
    let mut block = header(DESCRIPTOR, 9);
    put(&mut block, 12, 40);
    put(&mut block, 16, TAG_SAME_UUID);
    block[26..30].copy_from_slice(&41_u32.to_be_bytes());
    block[30..34].copy_from_slice(&(TAG_SAME_UUID | TAG_LAST).to_be_bytes());
    let csum = records(true, Checksums::V2 { seed: SEED });
    assert_eq!(blocks(csum, &tailed(block)), Some(vec![(40, false), (41, false)]));
}

#[test]
fn tags_of_the_third_sort_take_sixteen_bytes() {
    let mut block = header(DESCRIPTOR, 9);
    for (n, (number, flags)) in [(40, TAG_SAME_UUID), (41, TAG_SAME_UUID | TAG_LAST)].into_iter().enumerate()
    {
        put(&mut block, 12 + 16 * n, number);
        put(&mut block, 16 + 16 * n, flags);
        put(&mut block, 20 + 16 * n, 7);
    }
    let v3 = Checksums::V3 { seed: SEED };
    let block = tailed(block);
    assert_eq!(blocks(records(false, v3), &block), Some(vec![(40, false), (41, false)]));
    assert_eq!(blocks(records(true, v3), &block), Some(vec![(7 << 32 | 40, false), (7 << 32 | 41, false)]));
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
