use crate::formats::ext2::features::*;

fn raw(bytes: &[u8]) -> &RawSuperblock {
    crate::input::bytes::head(bytes).unwrap()
}

fn superblock(at: usize, bits: u32) -> Vec<u8> {
    let mut bytes = vec![0; 1024];
    bytes[at..at + 4].copy_from_slice(&bits.to_le_bytes());
    bytes
}

fn refusal(at: usize, bits: u32) -> Option<String> {
    Features::of(raw(&superblock(at, bits))).err().map(|reason| reason.0)
}

#[test]
fn what_is_understood_and_nothing_else_is_accepted() {
    let understood: [(usize, u32); 3] = [(0x5C, 0x1A7F), (0x60, 0x3_E7D6), (0x64, 0x1_B77F)];
    for (at, mask) in understood {
        assert_eq!(refusal(at, mask), None);
        for bit in 0..32 {
            assert_eq!(refusal(at, 1 << bit).is_none(), mask >> bit & 1 == 1, "{at:#x} {bit}");
        }
    }
}

#[test]
fn all_that_are_not_understood_are_named() {
    let mut bytes = superblock(0x5C, 0x404);
    bytes[0x60] = 0xCF;
    let reason = Features::of(raw(&bytes)).unwrap_err();
    assert_eq!(reason.0, "the features `fast_commit`, `compression`, `journal_dev` are not understood");
}

#[test]
fn what_the_older_drivers_do_not_know_is_ext4() {
    let named = |at, bits| name(raw(&superblock(at, bits)));
    assert_eq!([named(0x60, 0x12), named(0x64, 0x7), named(0x5C, 0x1A7B)], ["ext2"; 3]);
    assert_eq!(named(0x5C, 4), "ext3");
    for (at, bits) in [(0x60, 0x40), (0x60, 0x80), (0x60, 0x200), (0x64, 0x8), (0x64, 0x10), (0x64, 0x400)] {
        assert_eq!(named(at, bits), "ext4", "{at:#x} {bits:#x}");
    }
}
