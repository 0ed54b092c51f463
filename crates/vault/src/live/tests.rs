use super::*;
use crate::Fingerprint;

#[test]
fn a_chunk_is_live_if_and_only_if_it_was_marked_and_newer_ones_are_and_take_no_mark() {
    for (count, end) in [(1, 1), (17, 17), (1_000, 900), (100_003, 100_003)] {
        let chunk = |ordinal| Reference { fingerprint: Fingerprint([7; 32]), ordinal: Ordinal(ordinal) };
        let mut live = Live::new(Ordinal(end));
        let marked: Vec<Reference> = (0..count).step_by(3).map(chunk).collect();
        marked.chunks(1000).for_each(|some| live.mark(some));
        for ordinal in 0..count {
            assert_eq!(live.has(&chunk(ordinal)), ordinal >= end || ordinal % 3 == 0, "{ordinal} of {count}");
        }
        let counted: u64 = (0..live.parts()).map(|part| live.marked(part)).sum();
        assert_eq!(counted, end.div_ceil(3));
        assert!(live.part(&chunk(end)).is_none() && live.part(&chunk(end - 1)) == Some(live.parts() - 1));
    }
}
