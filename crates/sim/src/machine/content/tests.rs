use crate::machine::content::*;

#[test]
fn content_is_recognised_at_any_offset() {
    let mut bytes = vec![0; 1000];
    fill(Tag(7), 4096, &mut bytes[333..333 + 256]);
    let found: Vec<_> = marks(&bytes).map(|mark| (mark.at, mark.tag, mark.cell)).collect();
    assert_eq!(found, [0, 1, 2, 3].map(|n| (333 + 64 * n, Tag(7), Cell(64 + n as u32))));
}

#[test]
fn parts_of_content_are_the_same_bytes_as_the_whole() {
    let (mut whole, mut part) = (vec![0; 4096], vec![0; 777]);
    fill(Tag(3), 8192, &mut whole);
    fill(Tag(3), 8192 + 555, &mut part);
    assert_eq!(part, whole[555..555 + 777]);
    assert!(is_content(Tag(3), 8192 + 555, &part));
    assert!(!is_content(Tag(4), 8192 + 555, &part));
    assert!(!is_content(Tag(3), 8192 + 556, &part));
}

#[test]
fn one_wrong_bit_is_other_content() {
    let mut bytes = vec![0; 512];
    fill(Tag(3), 0, &mut bytes);
    for at in 0..512 {
        bytes[at] ^= 1;
        assert!(!is_content(Tag(3), 0, &bytes));
        bytes[at] ^= 1;
    }
}

#[test]
fn patterns_are_no_content() {
    assert_eq!(marks(&[0; 4096]).count() + marks(&[0xff; 4096]).count(), 0);
}

#[test]
fn a_head_that_is_cut_off_is_no_content() {
    for len in 1..HEAD_BYTES {
        let mut bytes = [0; 64];
        fill(Tag(0), 0, &mut bytes[..len]);
        assert_eq!(marks(&bytes).count(), 0, "after {len} bytes");
    }
}
