use super::*;

const AT: u64 = 4096;

/// The entries of a file without content, with its checksum.
fn entries(name: &str, length: u8, names: usize) -> Vec<Bytes> {
    let mut entries = vec![[0; 32]; 2 + names];
    (entries[0][0], entries[0][1]) = (FILE, 1 + names as u8);
    (entries[1][0], entries[1][3]) = (STREAM_EXTENSION, length);
    entries[2..].iter_mut().for_each(|it| it[0] = FILE_NAME);
    for (n, unit) in name.encode_utf16().enumerate() {
        entries[2 + n / 15][2 + n % 15 * 2..][..2].copy_from_slice(&unit.to_le_bytes());
    }
    summed(entries)
}

fn summed(mut entries: Vec<Bytes>) -> Vec<Bytes> {
    let sum = checksum(&entries).to_le_bytes();
    entries[0][2..4].copy_from_slice(&sum);
    entries
}

/// What the slots give, one after the other.
fn gathered(slots: &[Bytes]) -> Vec<Result<String, String>> {
    let mut gather = Gather::default();
    let slots = slots.iter().zip((AT..).step_by(32)).map(|(bytes, at)| Slot { at, bytes: *bytes });
    let found = slots.filter_map(|it| gather.push(&it).transpose()).collect::<Vec<_>>();
    let end = gather.end().err();
    let found = found.into_iter().chain(end.map(Err));
    found.map(|it| it.map(|it| it.name).map_err(|it| it.to_string())).collect()
}

#[test]
fn a_name_goes_on_in_as_many_entries_as_it_needs() {
    for name in ["a", "exactly15 units", "this one has 16 ", &"x".repeat(255)] {
        let names = name.len().div_ceil(15);
        assert_eq!(gathered(&entries(name, name.len() as u8, names)), [Ok(name.to_string())]);
    }
}

#[test]
fn entries_of_another_kind_may_follow_the_name() {
    let mut set = entries("name", 4, 2);
    set[3][0] = 0xE0;
    assert_eq!(gathered(&summed(set)), [Ok("name".into())]);
}

#[test]
fn a_set_that_is_not_whole_hides_no_other() {
    let (one, two) = (entries("one", 3, 1), entries("two", 3, 1));
    let lacks = Err("damaged: the entry at byte 4096 lacks 1 that belong to it".to_string());
    assert_eq!(gathered(&[&one[..2], &[[0x05; 32]], &two].concat()), [lacks.clone(), Ok("two".into())]);
    assert_eq!(gathered(&[&one[..2], &two[..]].concat()), [lacks.clone(), Ok("two".into())]);
    assert_eq!(gathered(&one[..2]), [lacks]);
    assert_eq!(gathered(&[&one[1..], &two].concat()), [Ok("two".into())], "what has no first entry");
}

#[test]
fn an_impossible_field_is_named() {
    let with = |entry: usize, at: usize, value: u8| {
        let mut set = entries("name", 4, 1);
        set[entry][at] = value;
        gathered(&summed(set)).swap_remove(0).unwrap_err()
    };
    assert_eq!(with(0, 1, 1), "damaged: SecondaryCount of the entry at byte 4096 is 1");
    assert_eq!(with(0, 1, 19), "damaged: SecondaryCount of the entry at byte 4096 is 19");
    assert_eq!(with(1, 0, 0xC1), "damaged: EntryType of the entry at byte 4128 is 0xc1");
    assert_eq!(with(1, 3, 16), "damaged: NameLength of the entry at byte 4128 is 16");
    assert_eq!(with(2, 2, b'/'), "damaged: FileName of the entry at byte 4096 is \"/ame\"");
    assert_eq!(with(1, 3, 0), "damaged: FileName of the entry at byte 4096 is \"\"");
    let mut set = entries("name", 4, 1);
    set[2][4] ^= 1;
    assert!(
        gathered(&set)[0]
            .as_ref()
            .unwrap_err()
            .starts_with("damaged: SetChecksum of the entry at byte 4096 is 0x")
    );
}
