use super::*;

/// An entry of 32 bytes with this name, of at most three letters.
fn written(kind: u8, name: &[u8], vcn: u64, reference: u64) -> Vec<u8> {
    let mut bytes = vec![kind, 0, 0, 0, 32, 0, (name.len() / 2) as u8, 26];
    bytes.extend([vcn, reference].iter().flat_map(|it| it.to_le_bytes()));
    bytes.extend([0; 2]);
    bytes.extend(name);
    bytes.resize(32, 0);
    bytes
}

#[test]
fn entries_follow_each_other_to_the_last_that_is_whole() {
    let list = [written(0x10, b"", 0, 3 << 48 | 40), written(0x80, b"a\0b\0", 7, 9 << 48 | 41), vec![0; 20]]
        .concat();
    let found: Vec<_> = entries(&list).collect::<Result<_, _>>().unwrap();
    let first = ListEntry { kind: 0x10, name: b"", lowest_vcn: 0, mft_reference: 3 << 48 | 40 };
    let second = ListEntry { kind: 0x80, name: b"a\0b\0", lowest_vcn: 7, mft_reference: 9 << 48 | 41 };
    assert_eq!(found, [first, second]);
    assert_eq!((number_of(second.mft_reference), sequence_of(second.mft_reference)), (41, 9));
    assert_eq!(entries(&[]).count(), 0);
}

#[test]
fn an_entry_that_is_impossible_ends_the_list() {
    for (at, value) in [(4, 25), (4, 0), (5, 1), (6, 4), (7, 33)] {
        let mut list = [written(0x80, b"abab", 0, 40), written(0x80, b"", 0, 40)].concat();
        list[at] = value;
        let found: Vec<_> = entries(&list).collect();
        assert_eq!(found, [Err(INVALID)], "byte {at} is {value}");
    }
}
