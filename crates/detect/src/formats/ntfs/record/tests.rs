use crate::formats::ntfs::record::*;
use crate::formats::ntfs::tests::{elsewhere, protect, put, record, resident};
use crate::formats::testing::lies_are_named;

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

#[test]
fn each_field_that_lies_is_named() {
    let lies = [
        ("an update sequence of another length", "usa_count", 6, 1, 2),
        ("an update sequence at an odd place", "usa_ofs", 4, 1, 0x31),
        ("an update sequence behind what it protects", "usa_ofs", 4, 2, 508),
        ("more bytes than a record has", "bytes_in_use", 0x18, 4, 1025),
        ("attributes in the header", "attrs_offset", 0x14, 1, 0x20),
        ("attributes behind what is in use", "attrs_offset", 0x14, 2, 1000),
        ("an attribute without a length", ATTRIBUTE.what, SECOND + 4, 4, 0),
        ("an attribute of an odd length", ATTRIBUTE.what, SECOND + 4, 1, 0x51),
        ("an attribute longer than the record", ATTRIBUTE.what, SECOND + 4, 4, 0x1000),
        ("an attribute shorter than its header", ATTRIBUTE.what, 0x38 + 4, 1, 0x10),
        ("a resident value behind its attribute", "value_length", 0x38 + 0x10, 1, 0x10),
        ("a resident value elsewhere", "value_length", 0x38 + 0x14, 1, 0xFF),
        ("an attribute that is neither", "non_resident", SECOND + 8, 1, 2),
        ("a name behind its attribute", "name_offset", SECOND + 0x0A, 1, 0xF0),
        ("pairs in the header", "mapping_pairs_offset", SECOND + 0x20, 1, 0x30),
        ("pairs behind the attribute", "mapping_pairs_offset", SECOND + 0x20, 1, 0xF0),
        ("a last cluster that is another", "highest_vcn", SECOND + 0x18, 1, 9),
        ("a first cluster behind the last", "lowest_vcn", SECOND + 0x10, 1, 200),
        ("a first cluster of a negative number", "lowest_vcn", SECOND + 0x10, 8, u64::MAX),
        ("no end of the attributes", ATTRIBUTE.what, 0x18, 4, 0xA8),
    ];
    lies_are_named(&sound(), |bytes| Some(read(bytes).err()?.what.into()), &lies);
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
