use crate::formats::ext2::layout::*;
use crate::formats::ext2::superblock::tests::from_bytes;
use crate::formats::ext2::tests::{descriptors, descriptors_of, superblock};
use crate::formats::testing::{put16, put32};

fn layout_of(superblock: &[u8], descriptors: &[u8]) -> Result<Layout, Reason> {
    let superblock = from_bytes(superblock, 300 * 1024)?;
    Layout::new(&superblock, &Descriptor::all_from_bytes(&superblock, descriptors)?[..2])
}

fn layout(descriptors: &[u8]) -> Result<Layout, Reason> {
    layout_of(&superblock(), descriptors)
}

fn refusal(at: usize, place: u32) -> String {
    let mut bytes = descriptors();
    put32(&mut bytes, at, place);
    layout(&bytes).unwrap_err().0
}

#[test]
fn regions_are_found_by_any_of_their_blocks() {
    let layout = layout(&descriptors()).unwrap();
    let found = layout.region(262).unwrap();
    assert_eq!((found.blocks.clone(), found.kind, found.group), (261..263, Kind::Inodes, 1));
    assert_eq!(layout.region(7), None);
    assert_eq!(layout.region(263), None);
    assert_eq!(layout.within(6..259).collect::<Vec<_>>(), [6..7, 257..258, 258..259]);
    assert_eq!(layout.within(7..257).collect::<Vec<_>>(), []);
    assert_eq!(layout.within(9..9).collect::<Vec<_>>(), []);
}

#[test]
fn metadata_outside_is_refused() {
    for (at, place) in [(0, 300), (4, u32::MAX), (8, 299), (0x28, 299), (0x20, 1 << 20)] {
        assert!(refusal(at, place).ends_with("lies outside of the file system"), "{at:#x} {place}");
    }
}

#[test]
fn metadata_on_other_metadata_is_refused() {
    let all = [0, 1, 2, 4, 5, 6, 257, 258, 259, 260, 261, 262];
    for place in all {
        assert!(refusal(0, place).ends_with("overlaps other metadata"), "{place}");
    }
    assert!(refusal(0x28, 4).ends_with("overlaps other metadata"), "the first of two blocks");
    assert!(refusal(0x28, 258).ends_with("overlaps other metadata"), "the last of two blocks");
}

#[test]
fn metadata_may_lie_in_another_group() {
    let mut bytes = descriptors();
    put32(&mut bytes, 0x20, 100);
    put32(&mut bytes, 0x8, 298);
    let layout = layout(&bytes).unwrap();
    assert_eq!((layout.region(100).unwrap().kind, layout.region(100).unwrap().group), (Kind::Map, 1));
    assert_eq!(layout.of(Kind::Inodes), [261..263, 298..300]);
}

#[test]
fn maps_that_are_not_on_the_disk_are_refused() {
    let mut head = superblock();
    put32(&mut head, 0x5C, 0x40);
    let head = from_bytes(&head, 300 * 1024).unwrap();
    let mut bytes = descriptors();
    assert!(Descriptor::all_from_bytes(&head, &bytes).is_ok());
    for flag in [1, 2, 3] {
        put16(&mut bytes, 0x12, flag);
        let reason = Descriptor::all_from_bytes(&head, &bytes).unwrap_err();
        assert_eq!(reason.0, "the feature `lazy_bg` is not understood");
    }
}

#[test]
fn a_map_that_was_never_written_is_told_by_descriptors_with_checksums() {
    let mut bytes = descriptors();
    put16(&mut bytes, 0x12, 2);
    put16(&mut bytes, 0x32, 5);
    let uninit = |ro_compat: u32| {
        let mut head = superblock();
        put32(&mut head, 0x5C, 0x40);
        put32(&mut head, 0x64, ro_compat);
        let head = from_bytes(&head, 300 * 1024)?;
        Ok::<_, Reason>(
            Descriptor::all_from_bytes(&head, &bytes)?[..2].iter().map(|it| it.is_uninit).collect::<Vec<_>>(),
        )
    };
    assert_eq!((uninit(0x10), uninit(0x400)), (Ok(vec![true, false]), Ok(vec![true, false])));
    assert!(uninit(0).is_err());
}

#[test]
fn places_that_32_bits_do_not_hold_lie_outside() {
    let mut head = superblock();
    put32(&mut head, 0x60, 0x80);
    put16(&mut head, 0xFE, 64);
    let bytes = descriptors_of(64);
    assert_eq!(layout_of(&head, &bytes).unwrap().of(Kind::Inodes), [5..7, 261..263]);
    for at in [0x20, 0x24, 0x28, 0x60, 0x64, 0x68] {
        let mut bytes = bytes.clone();
        put32(&mut bytes, at, 1);
        let refusal = layout_of(&head, &bytes).unwrap_err().0;
        assert!(refusal.ends_with("lies outside of the file system"), "{at:#x}: {refusal}");
    }
}

#[test]
fn the_block_against_many_mounts_is_fixed() {
    let mut head = superblock();
    put32(&mut head, 0x60, 0x100);
    let layout = |place| {
        let mut head = head.clone();
        put32(&mut head, 0x168, place);
        layout_of(&head, &descriptors())
    };
    assert_eq!(layout(100).unwrap().region(100).unwrap().kind, Kind::Fixed);
    assert!(layout(5).unwrap_err().0.ends_with("overlaps other metadata"));
}

#[test]
fn room_for_more_descriptors_is_kept_unless_groups_have_their_own() {
    let mut head = superblock();
    put16(&mut head, 0xCE, 4);
    assert!(layout_of(&head, &descriptors()).unwrap_err().0.ends_with("overlaps other metadata"));
    put32(&mut head, 0x60, 0x10);
    put32(&mut head, 0x104, 1);
    assert!(layout_of(&head, &descriptors()).is_ok());
}
