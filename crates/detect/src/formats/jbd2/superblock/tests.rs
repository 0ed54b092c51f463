use crate::formats::jbd2::superblock::*;
use crate::formats::jbd2::tests::put;

const BLOCK: usize = 4096;
const BLOCKS: u32 = 2048;

/// A journal's superblock as mke2fs writes it.
fn fresh() -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    for (at, value) in
        [(0, MAGIC), (4, SUPERBLOCK_V2), (0xC, BLOCK as u32), (0x10, 1024), (0x14, 1), (0x18, 1), (0x40, 1)]
    {
        put(&mut block, at, value);
    }
    block[0x30..0x40].copy_from_slice(b"0123456789abcdef");
    block
}

fn with(at: usize, value: u32) -> Vec<u8> {
    let mut block = fresh();
    put(&mut block, at, value);
    block
}

/// The bit-by-bit definition, without tables.
fn slow_crc32c(crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x82F6_3B78 } else { 0 })
    })
}

fn with_checksums(incompat: u32) -> Vec<u8> {
    let mut block = with(0x28, incompat);
    block[0x50] = CHECKSUM_CRC32C;
    let checksum = slow_crc32c(!0, &block[..size_of::<RawSuperblock>()]);
    put(&mut block, 0xFC, checksum);
    block
}

fn refusal(block: &[u8]) -> String {
    Superblock::from_bytes(block, 0..BLOCKS).unwrap_err().0
}

#[test]
fn a_fresh_journal_is_empty() {
    let found = Superblock::from_bytes(&fresh(), 0..BLOCKS).unwrap();
    let records = Records { block_bytes: BLOCK as u32, is_64bit: false, checksums: Checksums::No };
    assert_eq!(found, Superblock { records, log: 1..1024, s_sequence: Tid(1), s_start: None });
}

#[test]
fn a_journal_in_use_has_a_tail() {
    assert_eq!(Superblock::from_bytes(&with(0x1C, 77), 0..BLOCKS).unwrap().s_start, Some(77));
}

/// A journal that counts its blocks from one ahead of its superblock.
#[test]
fn numbers_are_counted_from_its_own() {
    let numbered = |s_first, s_maxlen, s_start| {
        let mut block = with(0x14, s_first);
        put(&mut block, 0x10, s_maxlen);
        put(&mut block, 0x1C, s_start);
        Superblock::from_bytes(&block, 2..2 + BLOCKS)
    };
    let found = numbered(3, 2 + BLOCKS, 7).unwrap();
    assert_eq!((found.log, found.s_start), (1..BLOCKS, Some(5)));
    assert_eq!(numbered(3, 1024, 0).unwrap().s_start, None);
    for (lie, field) in [
        ((2, 1024, 0), "s_first"),
        ((1, 1024, 0), "s_first"),
        ((1024, 1024, 0), "s_first"),
        ((3, 3 + BLOCKS, 0), "s_maxlen"),
        ((3, 1024, 2), "s_start"),
        ((3, 1024, 1024), "s_start"),
    ] {
        let reason = numbered(lie.0, lie.1, lie.2).unwrap_err().0;
        assert!(reason.contains(&format!("`{field}` is ")), "{lie:?}: {reason}");
    }
}

#[test]
fn the_journal_of_several_file_systems_is_refused_by_name() {
    assert!(refusal(&with(0x40, 2)).starts_with("the journal serves 2 file systems"));
    assert!(Superblock::from_bytes(&with(0x40, 0), 0..BLOCKS).is_ok());
}

#[test]
fn the_first_version_has_no_features() {
    let mut block = with(4, SUPERBLOCK_V1);
    put(&mut block, 0x28, u32::MAX);
    put(&mut block, 0x40, u32::MAX);
    assert!(!Superblock::from_bytes(&block, 0..BLOCKS).unwrap().records.is_64bit);
}

#[test]
fn each_field_that_lies_is_named() {
    for (at, value, field) in [
        (0, 0, "h_magic"),
        (4, 1, "h_blocktype"),
        (0xC, 1024, "s_blocksize"),
        (0x10, BLOCKS + 1, "s_maxlen"),
        (0x14, 0, "s_first"),
        (0x14, 1024, "s_first"),
        (0x1C, 1024, "s_start"),
        (0x28, CSUM_V2 | CSUM_V3, "s_feature_incompat"),
        (0x28, CSUM_V3, "s_checksum_type"),
    ] {
        assert!(refusal(&with(at, value)).contains(&format!("`{field}` is ")), "{field}");
    }
}

#[test]
fn features_that_are_not_understood_are_named() {
    assert!(refusal(&with(0x28, FAST_COMMIT)).ends_with("`fast_commit`"));
    assert!(refusal(&with(0x24, 0x2)).ends_with("`FEATURE_C1`"));
    assert!(refusal(&with(0x28, 0x40)).ends_with("`FEATURE_I6`"));
    assert!(refusal(&with(0x2C, 0x1)).ends_with("`FEATURE_R0`"));
}

#[test]
fn a_checksum_is_verified() {
    for (incompat, is_v3) in [(CSUM_V2, false), (CSUM_V3 | BIT_64, true)] {
        let mut block = with_checksums(incompat);
        let found = Superblock::from_bytes(&block, 0..BLOCKS).unwrap();
        let seed = slow_crc32c(!0, b"0123456789abcdef");
        let expected = if is_v3 { Checksums::V3 { seed } } else { Checksums::V2 { seed } };
        assert_eq!(found.records.checksums, expected);
        block[0x18] ^= 1;
        assert!(refusal(&block).contains("`s_checksum` is "));
    }
}

#[test]
fn a_block_that_is_cut_off_is_refused() {
    let block = with_checksums(CSUM_V3);
    assert!((0..300).all(|len| Superblock::from_bytes(&block[..len], 0..BLOCKS).is_err()));
}
