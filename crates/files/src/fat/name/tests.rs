use super::*;
use zerocopy::FromBytes;

const SHORT: &[u8; 11] = b"ALONGN~1TXT";

fn entry(dir_name: &[u8; 11], nt_res: u8) -> RawShort {
    let mut bytes = [0; 32];
    bytes[..11].copy_from_slice(dir_name);
    bytes[12] = nt_res;
    zerocopy::transmute!(bytes)
}

fn part(ord: u8, sum: u8, text: &str) -> RawLong {
    let mut bytes = [0xFF; 32];
    (bytes[0], bytes[11], bytes[13]) = (ord, 0x0F, sum);
    let places = (1..11).step_by(2).chain((14..26).step_by(2)).chain([28, 30]);
    for (at, unit) in places.zip(text.encode_utf16().chain([0])) {
        bytes[at..at + 2].copy_from_slice(&unit.to_le_bytes());
    }
    RawLong::read_from_bytes(&bytes).unwrap()
}

/// The long name of `SHORT` with these parts before it.
fn long(parts: &[(u8, u8, &str)]) -> Option<String> {
    let mut long = Long::default();
    parts.iter().for_each(|(ord, sum, text)| long.push(&part(*ord, *sum, text)));
    long.take(SHORT)
}

#[test]
fn a_short_name_has_the_letters_that_its_bits_say() {
    for (dir_name, nt_res, name) in [
        (b"README  TXT", 0, Some("README.TXT")),
        (b"README  TXT", 0x08, Some("readme.TXT")),
        (b"README  TXT", 0x10, Some("README.txt")),
        (b"README     ", 0x18, Some("readme")),
        (b"A B      C ", 0, Some("A B. C")),
        (b"\x9A\xE1\xFB      \xF8 ", 0x08, Some("ü\u{DF}√. °")),
        (b"\x05A         ", 0, Some("σA")),
        (b"A/B\0C\x7F     ", 0, Some("A_B_C_")),
        (b"           ", 0, None),
        (b".          ", 0, None),
    ] {
        assert_eq!(short(&entry(dir_name, nt_res)).as_deref(), name);
    }
    assert_eq!(CODE_PAGE_437.chars().count(), 128);
}

#[test]
fn the_parts_of_a_long_name_lie_in_falling_order() {
    let sum = checksum(SHORT);
    let name = "exactly13long";
    assert_eq!(long(&[(0x42, sum, "b"), (1, sum, name)]).as_deref(), Some("exactly13longb"));
    assert_eq!(long(&[(0x41, sum, "name")]).as_deref(), Some("name"));
    assert_eq!(long(&[(0x41, sum, name)]).as_deref(), Some(name));
}

#[test]
fn parts_that_do_not_follow_each_other_are_no_name() {
    let sum = checksum(SHORT);
    for parts in [
        &[][..],
        &[(1, sum, "a")],
        &[(0x42, sum, "b")],
        &[(0x42, sum, "b"), (2, sum, "a")],
        &[(0x43, sum, "c"), (1, sum, "a")],
        &[(0x42, sum, "b"), (1, sum ^ 1, "a")],
        &[(0x41, sum, "a"), (1, sum, "a")],
        &[(0x41, sum, "a"), (0, sum, "a")],
        &[(0x40, sum, "a")],
        &[(0x55, sum, "a")],
        &[(0x7F, sum, "a")],
    ] {
        assert_eq!(long(parts), None, "{parts:?}");
    }
}

#[test]
fn a_long_name_whose_checksum_is_of_another_entry_is_ignored() {
    assert_eq!(long(&[(0x41, checksum(SHORT) ^ 1, "name")]), None);
}

#[test]
fn a_long_name_that_cannot_be_one_is_ignored() {
    let sum = checksum(SHORT);
    for name in ["", ".", "..", "a/b"] {
        assert_eq!(long(&[(0x41, sum, name)]), None, "{name:?}");
    }
    let most: Vec<_> =
        (1..=20).rev().map(|n| (if n == 20 { 0x54 } else { n }, sum, "thirteenunits")).collect();
    assert_eq!(long(&most), None, "260 units");
    let mut most = most;
    most[0].2 = "12345678";
    assert_eq!(long(&most).map(|it| it.len()), Some(255));
}

#[test]
fn a_name_is_used_once() {
    let mut long = Long::default();
    long.push(&part(0x41, checksum(SHORT), "name"));
    assert_eq!(long.take(SHORT).as_deref(), Some("name"));
    assert_eq!(long.take(SHORT), None);
    long.push(&part(0x41, checksum(SHORT), "name"));
    long.clear();
    assert_eq!(long.take(SHORT), None);
}

#[test]
fn letters_of_latin_have_no_case() {
    assert!(is_same("Äpfel ČŽ ÿ", "äPFEL čž Ÿ"));
    for (one, other) in [("ß", "SS"), ("a", "b"), ("a", "ab"), ("α", "Α")] {
        assert!(!is_same(one, other), "{one} {other}");
    }
}
