//! Runs of equal bits, the lowest bit of a byte first.

use std::ops::Range;

fn is_set(bytes: &[u8], bit: usize) -> bool {
    bytes[bit / 8] >> (bit % 8) & 1 == 1
}

/// The end of the run of bits equal to the first of `bits`.
fn run_end(bytes: &[u8], bits: Range<usize>) -> usize {
    let value = is_set(bytes, bits.start);
    let all = if value { 0xFF } else { 0 };
    let mut at = bits.start;
    while at < bits.end {
        if at.is_multiple_of(8) && bytes[at / 8] == all {
            at += 8;
        } else if is_set(bytes, at) == value {
            at += 1;
        } else {
            break;
        }
    }
    at.min(bits.end)
}

/// The runs of equal bits within `bits`, with their value; `bytes` must hold all of them.
pub(crate) fn runs(bytes: &[u8], bits: Range<usize>) -> impl Iterator<Item = (Range<usize>, bool)> {
    let mut at = bits.start;
    std::iter::from_fn(move || {
        let start = at;
        if start >= bits.end {
            return None;
        }
        at = run_end(bytes, start..bits.end);
        Some((start..at, is_set(bytes, start)))
    })
}

/// Whether `bytes`, which hold the bits `shown`, show one of the bits `some` as clear.
pub(crate) fn has_clear(bytes: &[u8], shown: &Range<u64>, some: &Range<u64>) -> bool {
    let (start, end) = (some.start.max(shown.start), some.end.min(shown.end));
    let within = |bit: u64| bit.saturating_sub(shown.start) as usize;
    runs(bytes, within(start)..within(end)).any(|(_, is_set)| !is_set)
}

#[cfg(test)]
mod tests {
    use crate::formats::testing::Dice;
    use crate::input::bits::*;

    #[test]
    fn runs_are_the_bits_joined() {
        let mut dice = Dice(1);
        let mut random = |below: usize| dice.below(below as u32) as usize;
        for _ in 0..2000 {
            let bytes: Vec<u8> = (0..6).map(|_| [0, 0xFF, random(256) as u8][random(3)]).collect();
            let from = random(49);
            let to = from + random(49 - from);
            let found: Vec<_> = runs(&bytes, from..to).collect();
            let bits: Vec<bool> = found.iter().flat_map(|(run, value)| run.clone().map(|_| *value)).collect();
            assert_eq!(bits, (from..to).map(|bit| is_set(&bytes, bit)).collect::<Vec<_>>());
            assert!(found.windows(2).all(|pair| pair[0].1 != pair[1].1), "{found:?}");
        }
    }
}
