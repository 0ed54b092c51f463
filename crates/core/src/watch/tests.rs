use super::*;

const REGION: Extent<Addr> = Extent { start: Addr(100), len: 50 };

fn at(start: u64, len: u64) -> Extent<Addr> {
    Extent::new(start, len)
}

#[test]
fn a_region_observes_its_part_of_a_change_from_its_own_first_byte() {
    let bytes: Vec<u8> = (90..160).map(|it| it as u8).collect();
    let change = |extent, bytes| Observation::Arrived { extent, content: Content::Bytes(bytes) };
    assert_eq!(change(at(90, 70), &bytes).within(REGION), Some(change(at(0, 50), &bytes[10..60])));
    assert_eq!(change(at(140, 20), &bytes[50..]).within(REGION), Some(change(at(40, 10), &bytes[50..60])));
    for outside in [at(90, 10), at(150, 10)] {
        assert_eq!(change(outside, &bytes[..10]).within(REGION), None);
        assert_eq!(Observation::Read(outside).within(REGION), None);
        assert_eq!(Observation::Refused { extent: outside, was_shown: true }.within(REGION), None);
    }
    let zeros = |extent| Observation::Arrived { extent, content: Content::Zeros };
    assert_eq!(zeros(at(0, 1000)).within(REGION), Some(zeros(at(0, 50))));
    let refused = |extent| Observation::Refused { extent, was_shown: true };
    assert_eq!(refused(at(140, 20)).within(REGION), Some(refused(at(40, 10))));
    assert_eq!(Observation::Read(at(120, 90)).within(REGION), Some(Observation::Read(at(20, 30))));
}

#[test]
fn what_is_shown_of_a_region_is_shown_whole_or_not_at_all() {
    let (new, old) = ([7; 70], [9; 20]);
    let shown = |extent, new, old_extent| Observation::Overwriting {
        extent,
        content: Content::Bytes(new),
        old_extent,
        old: &old,
    };
    let inner = shown(at(0, 50), &new[..50], at(10, 20));
    assert_eq!(shown(at(90, 70), &new, at(110, 20)).within(REGION), Some(inner));
    assert_eq!(shown(at(90, 70), &new, at(90, 20)).within(REGION), None);
    let read = |extent, content| Observation::Given { extent, content };
    assert_eq!(read(at(130, 20), Some(&old)).within(REGION), Some(read(at(30, 20), Some(&old))));
    assert_eq!(read(at(140, 20), Some(&old)).within(REGION), None);
    assert_eq!(read(at(140, 20), None).within(REGION), Some(read(at(40, 10), None)), "it is blind there");
}

#[test]
fn what_has_no_place_is_observed_everywhere() {
    for it in [
        Observation::Clients,
        Observation::Attached,
        Observation::Tick,
        Observation::Cut,
        Observation::Proven,
    ] {
        assert_eq!((it.place(), it.within(REGION)), (None, Some(it)));
    }
}
