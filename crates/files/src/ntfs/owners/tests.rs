//! Rolls of `$MFT` in pieces of chance: each record once, where it lies.

use super::*;
use quietus_detect::formats::ntfs::boot::Boot;
use quietus_detect::formats::ntfs::runs::Run;

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Runs of chance, with a gap behind each.
fn runs(dice: &mut Dice) -> Vec<Run> {
    let (mut vcn, mut lcn, mut all) = (0, 4, Vec::new());
    for _ in 0..1 + dice.below(6) {
        let len = 1 + dice.below(9);
        all.push(Run { vcn, lcn, len });
        (vcn, lcn) = (vcn + len, lcn + len + 1 + dice.below(5));
    }
    all
}

#[test]
fn a_mft_of_too_many_records_is_refused() {
    let boot = |clusters| Boot {
        cluster_bytes: 4096,
        record_bytes: 1024,
        clusters,
        mft_lcn: 4,
        mftmirr_lcn: 1,
        volume_serial_number: 0,
    };
    // The fixed roll counts.
    let clusters = ROLLS_MAX as u64 - 1;
    for (len, is_too_much) in [(clusters, false), (clusters + 1, true)] {
        let runs = vec![Run { vcn: 0, lcn: 4, len }];
        let rolls = Mft::new(boot(1 << 30), runs, len * 4096).unwrap().rolls();
        assert_eq!(rolls.is_err(), is_too_much);
        assert_eq!(rolls.map_or(ROLLS_MAX, |it| it.len()), ROLLS_MAX);
    }
}

#[test]
fn each_record_is_in_one_roll_which_begins_where_it_lies() {
    let (mut dice, mut in_pieces) = (Dice(11), 0);
    for round in 0..2000 {
        let cluster_bytes = 512 << (round % 4);
        let record_bytes = 512 << dice.below(4);
        let boot = Boot {
            cluster_bytes,
            record_bytes,
            clusters: 1000,
            mft_lcn: 4,
            mftmirr_lcn: 900,
            volume_serial_number: 0,
        };
        let runs = runs(&mut dice);
        let bytes = runs.iter().map(|it| it.len).sum::<u64>() * cluster_bytes;
        let mft = Mft::new(boot, runs.clone(), bytes).unwrap();
        let mut next = 0;
        let rolls = mft.rolls().unwrap();
        assert_eq!(rolls[0], FIXED);
        for Roll { number, at } in &rolls[1..] {
            let (first, count) = (number >> COUNT_BITS, number & ((1 << COUNT_BITS) - 1));
            assert_eq!(first, next, "{runs:?}");
            let places = |n: u64| mft.pieces.extents(n * record_bytes, record_bytes).collect::<Vec<_>>();
            assert_eq!(places(first)[0].start, *at);
            assert_eq!(places(first).len() > 1, count == 0, "{runs:?}: {number}");
            assert!(count * record_bytes <= ROLL_BYTES);
            for n in 0..count {
                let expected = Extent::new(at.0 + n * record_bytes, record_bytes);
                assert_eq!(places(first + n), [expected], "{runs:?}");
            }
            next += count.max(1);
            in_pieces += u32::from(count == 0);
        }
        assert_eq!(next, bytes / record_bytes);
    }
    assert!(in_pieces > 500, "{in_pieces}");
}
