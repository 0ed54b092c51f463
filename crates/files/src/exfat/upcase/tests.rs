use super::*;

fn table(units: &[u16]) -> Upcase {
    let bytes: Vec<u8> = units.iter().flat_map(|it| it.to_le_bytes()).collect();
    from_bytes(&bytes, checksum(&bytes)).unwrap()
}

#[test]
fn a_table_has_units_and_counts_of_those_that_are_their_own() {
    let found = table(&[IDENTITY, 0x61, 0x41, 0x42, IDENTITY, 0x1000, 0x5A]);
    assert!(found.is_same("ab\u{1063}", "ABZ") && !found.is_same("c", "C"));
    assert_eq!(found.upper(0xFFFF), 0xFFFF);
}

#[test]
fn a_table_that_reaches_beyond_the_last_unit_ends_there() {
    let found = table(&[IDENTITY, 0xFFFF, 0x41, 0x42, IDENTITY]);
    assert_eq!((found.upper(0xFFFF), found.upper(0)), (0x41, 0));
    assert_eq!(table(&[IDENTITY, 0xFFFE, IDENTITY, 0xFFFF, 0x41]), table(&[]));
}

#[test]
fn a_table_with_a_wrong_checksum_is_damaged() {
    assert_eq!(checksum(&[1, 2]), 0x8000_0002);
    let error = from_bytes(&[1, 2], 5).unwrap_err().to_string();
    assert_eq!(error, "damaged: TableChecksum of the up-case table is 0x5, and not 0x80000002");
}

#[test]
fn the_letters_of_ascii_are_those_without_accents() {
    assert!(Upcase::ascii().is_same("aZ ä", "Az ä") && !Upcase::ascii().is_same("ä", "Ä"));
}
