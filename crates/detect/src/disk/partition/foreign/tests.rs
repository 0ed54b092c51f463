use crate::disk::partition::Missing;
use crate::disk::partition::foreign::{find, pieces};
use crate::formats::format::Contents;
use quietus_core::base::units::{Addr, Extent};

const LEN: usize = 1 << 20;

fn contents(place: Extent<Addr>, bytes: &[u8]) -> Contents {
    let mut contents = Contents::default();
    for it in pieces(place) {
        let from = (it.start.0 - place.start.0) as usize;
        contents.insert(it.start, bytes[from..from + it.len as usize].to_vec());
    }
    contents
}

/// The owner of a place of `LEN` bytes with `magic` at `at`.
fn with(at: usize, magic: &[u8]) -> Option<&'static str> {
    let place = Extent::new(63 * 512, LEN as u64);
    let mut bytes = vec![0; LEN];
    bytes[at..at + magic.len()].copy_from_slice(magic);
    find(place, &[], &contents(place, &bytes)).unwrap()
}

const MD: &[u8] = &[0xFC, 0x4E, 0x2B, 0xA9];

#[test]
fn others_are_known_by_name() {
    let cases: &[(usize, &[u8], &str)] = &[
        (0, b"LUKS\xBA\xBE\0\x02", "a LUKS container"),
        (0, b"XFSB", "xfs"),
        (3, b"-FVE-FS-", "a BitLocker volume"),
        (512, b"LABELONE", "a physical volume of LVM"),
        (1536, b"LABELONE", "a physical volume of LVM"),
        (4086, b"SWAPSPACE2", "swap space"),
        (0, MD, "a member of an md array"),
        (4096, MD, "a member of an md array"),
        (LEN - 8192, MD, "a member of an md array"),
        (LEN - 65_536, MD, "a member of an md array"),
        (LEN - 1024, b"Intel Raid ISM Cfg Sig. 1", "a member of an md array"),
        (LEN - 512, b"\xDE\x11\xDE\x11", "a member of an md array"),
        (16_404, b"\0\0\0\x07version", "a member of a ZFS pool"),
        (65_600, b"_BHRfS_M", "btrfs"),
    ];
    for (at, magic, name) in cases {
        assert_eq!(with(*at, magic), Some(*name));
        assert_eq!(with(at + 1, magic), None, "{name}");
        assert_eq!(with(*at, &magic[1..]), None, "{name}");
    }
}

#[test]
fn what_lies_in_another_place_counts_for_that_alone() {
    let place = Extent::new(0, LEN as u64);
    let mut bytes = vec![0; LEN];
    bytes[LEN - 8192..][..4].copy_from_slice(MD);
    let contents = contents(place, &bytes);
    assert!(find(place, &[], &contents).unwrap().is_some());
    assert_eq!(find(place, &[Extent::new(512, LEN as u64 - 512)], &contents), Ok(None));
}

#[test]
fn what_has_not_been_seen_is_asked_for() {
    let place = Extent::new(512, LEN as u64);
    let Err(Missing(asked)) = find(place, &[], &Contents::default()) else { panic!("it guessed") };
    assert_eq!(asked, pieces(place));
    assert!(asked.iter().all(|it| it.overlap(place) == Some(*it)));
}

#[test]
fn the_smallest_places_have_no_owner() {
    for len in [0_u64, 1, 511, 512, 1024, 4607] {
        let place = Extent::new(512, len);
        assert_eq!(find(place, &[], &contents(place, &vec![0; len as usize])), Ok(None), "{len}");
        assert!(pieces(place).iter().all(|it| it.overlap(place) == Some(*it)));
    }
}
