use crate::formats::ntfs::record::*;
use crate::formats::ntfs::tests::{elsewhere, protect, put, record, resident};

fn read(bytes: &[u8]) -> Result<usize, Lie> {
    let Some(record) = Record::from_bytes(bytes)? else { return Ok(0) };
    let mut runs = 0;
    for attribute in record.attributes() {
        if let Value::Elsewhere(clusters) = attribute?.value {
            runs += clusters.runs(1000)?.len();
        }
    }
    Ok(runs)
}

fn sound() -> Vec<u8> {
    record(1, 0, &[resident(0x10, b"facts"), elsewhere(0x80, "s", 0, &[(Some(9), 2), (None, 3)])])
}

/// Where the second attribute of [`sound`] begins.
const SECOND: usize = 0x38 + 0x20;

#[test]
fn a_record_has_what_its_attributes_have() {
    assert_eq!(read(&sound()), Ok(1));
    let record = Record::from_bytes(&sound()).unwrap().unwrap();
    let found: Vec<_> = record.attributes().map(|it| it.map(|it| (it.kind, it.name))).collect();
    assert_eq!(found, [Ok((0x10, &[][..])), Ok((0x80, &b"s\0"[..]))]);
    assert_eq!(record.generation(), (1, 0));
    assert_eq!(record.unnamed(0x80), Ok(None));
}

#[test]
fn a_record_that_is_not_in_use_or_was_never_written_has_nothing() {
    let mut bytes = sound();
    bytes[0x16] = 2;
    assert_eq!(read(&bytes), Ok(0));
    assert_eq!(read(&[0; 1024]), Ok(0));
    assert_eq!(read(b"FIL"), Ok(0));
}

#[test]
fn each_half_of_a_record_has_to_be_of_the_same_write() {
    for at in [510, 511, 1022, 1023] {
        let mut bytes = sound();
        bytes[at] ^= 1;
        assert_eq!(read(&bytes), Err(TORN), "byte {at}");
    }
    let mut bytes = sound();
    put(&mut bytes, 0, b"BAAD");
    assert_eq!(read(&bytes), Err(TORN));
}

#[test]
fn what_the_update_sequence_replaced_is_put_back() {
    let long = vec![b'x'; 800];
    let bytes = record(1, 0, &[resident(0x80, &long)]);
    let record = Record::from_bytes(&bytes).unwrap().unwrap();
    let value = record.unnamed(0x80).unwrap().map(|it| it.value);
    assert_eq!(value, Some(Value::Resident(&long)));
}

#[test]
fn where_there_are_no_clusters_the_pairs_are_what_was_left() {
    let mut bytes = sound();
    put(&mut bytes, SECOND + 0x18, &u64::MAX.to_le_bytes());
    assert_eq!(read(&bytes), Ok(0));
}

macro_rules! lies {
    ($($name:ident: $field:literal, $at:expr, $value:expr;)*) => {
        $(#[test]
        fn $name() {
            let mut bytes = sound();
            put(&mut bytes, $at, &$value);
            assert_eq!(read(&bytes).unwrap_err().what, $field);
        })*
    };
}

lies! {
    an_update_sequence_of_another_length: "usa_count", 6, [2];
    an_update_sequence_at_an_odd_place: "usa_ofs", 4, [0x31];
    an_update_sequence_behind_what_it_protects: "usa_ofs", 4, 508_u16.to_le_bytes();
    more_bytes_than_a_record_has: "bytes_in_use", 0x18, 1025_u32.to_le_bytes();
    attributes_in_the_header: "attrs_offset", 0x14, [0x20];
    attributes_behind_what_is_in_use: "attrs_offset", 0x14, 1000_u16.to_le_bytes();
    an_attribute_without_a_length: "an attribute has an impossible `length`", SECOND + 4, [0; 4];
    an_attribute_of_an_odd_length: "an attribute has an impossible `length`", SECOND + 4, [0x51];
    an_attribute_longer_than_the_record: "an attribute has an impossible `length`", SECOND + 4, 0x1000_u32.to_le_bytes();
    an_attribute_shorter_than_its_header: "an attribute has an impossible `length`", 0x38 + 4, [0x10];
    a_resident_value_behind_its_attribute: "value_length", 0x38 + 0x10, [0x10];
    a_resident_value_elsewhere: "value_length", 0x38 + 0x14, [0xFF];
    an_attribute_that_is_neither: "non_resident", SECOND + 8, [2];
    a_name_behind_its_attribute: "name_offset", SECOND + 0x0A, [0xF0];
    pairs_in_the_header: "mapping_pairs_offset", SECOND + 0x20, [0x30];
    pairs_behind_the_attribute: "mapping_pairs_offset", SECOND + 0x20, [0xF0];
    a_last_cluster_that_is_another: "highest_vcn", SECOND + 0x18, [9];
    a_first_cluster_behind_the_last: "lowest_vcn", SECOND + 0x10, [200];
    a_first_cluster_of_a_negative_number: "lowest_vcn", SECOND + 0x10, u64::MAX.to_le_bytes();
    no_end_of_the_attributes: "an attribute has an impossible `length`", 0x18, 0xA8_u32.to_le_bytes();
}

#[test]
fn every_byte_may_be_any_and_nothing_panics() {
    for at in 0..0x100 {
        for value in [0, 1, 0x7F, 0x80, 0xFF] {
            let mut bytes = sound();
            bytes[at] = value;
            let _ = read(&bytes);
            protect(&mut bytes, 0x30, 6);
            let _ = read(&bytes);
        }
    }
    for len in 0..1024 {
        let _ = read(&sound()[..len]);
    }
}
