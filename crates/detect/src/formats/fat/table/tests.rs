use crate::formats::fat::table::*;

fn all(width: Width, bytes: &[u8]) -> Vec<u32> {
    let entries = 0..(bytes.len() as u64 * 8 / width.bits()) as u32;
    entries.map(|n| width.entry(bytes, 0, n)).map(|it| it.value).collect()
}

#[test]
fn entries_are_read_as_the_specification_packs_them() {
    assert_eq!(all(Width::Fat12, &[0xF8, 0xFF, 0xFF, 0x03, 0x40, 0x00]), [0xFF8, 0xFFF, 0x003, 0x004]);
    assert_eq!(all(Width::Fat12, &[0xAB, 0xCD, 0xEF]), [0xDAB, 0xEFC]);
    assert_eq!(all(Width::Fat16, &[0xF8, 0xFF, 0x34, 0x12]), [0xFFF8, 0x1234]);
    assert_eq!(all(Width::Fat32, &[0xF8, 0xFF, 0xFF, 0x0F, 1, 0, 0, 0xF0]), [0x0FFF_FFF8, 1]);
}

/// Every entry, as every part of a table shows it: whole exactly if all its bits
/// are there, and what is there is right.
#[test]
fn a_part_of_a_table_shows_no_more_than_it_holds() {
    for width in [Width::Fat12, Width::Fat16, Width::Fat32] {
        let bytes: Vec<u8> = (0..24).map(|n: u8| n.wrapping_mul(37) ^ 0x5A).collect();
        for (from, to) in (0..24).flat_map(|from| (from..=24).map(move |to| (from, to))) {
            for n in 0..(24 * 8 / width.bits()) as u32 {
                let truth = width.entry(&bytes, 0, n).value;
                let found = width.entry(&bytes[from..to], from as u64, n);
                let bits = u64::from(n) * width.bits()..u64::from(n + 1) * width.bits();
                let is_whole = from as u64 * 8 <= bits.start && bits.end <= to as u64 * 8;
                assert_eq!(found.is_whole, is_whole, "{width:?} {n} {from} {to}");
                assert_eq!(found.value & !truth, 0, "a bit that is not there");
                assert!(!is_whole || found.value == truth);
                assert!(!is_whole || width.touched(&(from as u64..to as u64)).contains(&n));
            }
        }
    }
}
