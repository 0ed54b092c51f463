use crate::formats::ntfs::runs::*;

/// First cluster, place and number of each run.
fn read(pairs: &[u8]) -> Result<Vec<(u64, u64, u64)>, Lie> {
    let (found, _) = runs(pairs, 0, 1 << 20)?;
    Ok(found.iter().map(|it| (it.vcn, it.lcn, it.len)).collect())
}

#[test]
fn pairs_are_numbers_of_any_width_and_distances() {
    assert_eq!(read(&[0x21, 0x18, 0x34, 0x56, 0]), Ok(vec![(0, 0x5634, 0x18)]));
    // The second lies 16 before the first, which is a negative distance.
    assert_eq!(read(&[0x11, 2, 0x20, 0x11, 3, 0xF0, 0]), Ok(vec![(0, 32, 2), (2, 16, 3)]));
    assert_eq!(read(&[0x31, 1, 0, 0, 1]), Ok(vec![(0, 65536, 1)]));
}

#[test]
fn holes_have_a_length_and_no_place() {
    // As a compressed attribute has them: 5 clusters of 16 are stored.
    assert_eq!(read(&[0x11, 5, 9, 0x01, 11, 0x11, 2, 4, 0]), Ok(vec![(0, 9, 5), (16, 13, 2)]));
    assert_eq!(runs(&[0x02, 0, 1, 0], 7, 10), Ok((vec![], 263)));
}

#[test]
fn pairs_that_lie_are_named() {
    for (pairs, lie) in [
        (&[0x11, 5][..], "its mapping pairs are cut off"),
        (&[0x19, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], "its mapping pairs are cut off"),
        (&[0x91, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], "its mapping pairs are cut off"),
        (&[0x10, 5, 0], "a run has an impossible length"),
        (&[0x11, 0, 5, 0], "a run has an impossible length"),
        (&[0x11, 0x80, 5, 0], "a run has an impossible length"),
        (&[0x11, 1, 0xFF, 0], "a run lies outside of the volume"),
        (&[0x41, 1, 0xFF, 0xFF, 0xFF, 0x7F], "a run lies outside of the volume"),
        (&[0x31, 2, 0xFF, 0xFF, 0x0F], "a run lies outside of the volume"),
    ] {
        assert_eq!(read(pairs), Err(Lie::of(lie)), "{pairs:?}");
    }
    let twice = [0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 1];
    let long = [&[0x08][..], &twice[1..9], &[0x08], &twice[1..9], &[0x08], &twice[1..9]].concat();
    assert_eq!(read(&long), Err(Lie::of("a run has an impossible length")));
}

#[test]
fn pieces_say_where_bytes_lie() {
    let run = |vcn, lcn, len| Run { vcn, lcn, len };
    let pieces = Pieces::new(vec![run(0, 10, 2), run(2, 5, 1)], 1000).unwrap();
    assert_eq!((pieces.end_vcn(), pieces.bytes()), (3, 3000));
    assert_eq!(pieces.place(500, 1500), Some(Extent::new(10_500, 1500)));
    assert_eq!(pieces.place(500, 1501), None);
    let places: Vec<_> = pieces.extents(1999, 1000).collect();
    assert_eq!(places, [Extent::new(11_999, 1), Extent::new(5000, 999)]);
    assert_eq!(pieces.at(5001), Some((2001, 6000)));
    assert_eq!(pieces.at(9999), None);
    assert_eq!(Pieces::new(vec![run(1, 10, 2)], 1000), None);
}
