//! How large each level of a part is, and which bucket a hash belongs to.

/// Bits of a seed. The seed 0 says that its bucket is in the next level.
pub(super) const SEED_BITS: u64 = 10;
/// The seeds that a bucket can have.
pub(super) const SEEDS: std::ops::Range<u64> = 1..1 << SEED_BITS;
/// Places for each fingerprint: the paper's c. The sum of this and of the seeds is least here.
const PLACES_NUMERATOR: u64 = 7;
const PLACES_DENOMINATOR: u64 = 5;
/// The expected fingerprints of a bucket times −ln(share of places that are taken or were met
/// before): 2¹⁰ seeds would place a bucket of e^−(this) chance nearly always, and one in 25 is left over.
const EFFORT: f64 = 10.0 * std::f64::consts::LN_2 - 1.3;
/// The share of fingerprints that are spread evenly, so that the first buckets are not too large.
const EVEN: f64 = 0.05;
/// Points of the curve.
const POINTS: usize = 1 << 10;

/// Places of a level of `fingerprints`.
pub(super) fn places(fingerprints: u64) -> u64 {
    fingerprints * PLACES_NUMERATOR / PLACES_DENOMINATOR + 1
}

/// Where the hash of a fingerprint falls among the buckets of a level: how the sizes of buckets are made
/// uneven.
///
/// A bucket that is placed when the share α of the places is taken can have k fingerprints with
/// (1 − α)^k the same for all: so k goes with 1 / −ln(1 − α), and the buckets up to α with
/// the integral α + (1 − α) ln(1 − α).
#[derive(Debug)]
pub(super) struct Curve {
    /// The share of buckets, of 2³², that come before each 1,024th of the hashes.
    points: Vec<u32>,
    /// Buckets of a fingerprint, times 2³².
    density: u64,
}

impl Curve {
    pub(super) fn new() -> Curve {
        let full = PLACES_DENOMINATOR as f64 / PLACES_NUMERATOR as f64;
        let integral = |share: f64| share + (1.0 - share) * (1.0 - share).ln();
        let point = |at: usize| {
            let share = at as f64 / POINTS as f64;
            let uneven = integral(share * full) / integral(full);
            (((1.0 - EVEN) * uneven + EVEN * share) * f64::from(u32::MAX)) as u32
        };
        Curve {
            points: (0..=POINTS).map(point).collect(),
            density: (integral(full) / full / EFFORT * 2f64.powi(32)) as u64,
        }
    }

    /// Buckets of a level of `fingerprints`.
    pub(super) fn buckets(&self, fingerprints: u64) -> u64 {
        ((fingerprints * self.density) >> 32) + 1
    }

    /// The bucket, of `buckets`, that `hash` belongs to.
    pub(super) fn bucket(&self, hash: u64, buckets: u64) -> u64 {
        let at = (hash >> 54) as usize;
        let within = (hash >> 22) & 0xFFFF_FFFF;
        let (low, high) = (u64::from(self.points[at]), u64::from(self.points[at + 1]));
        let share = low + (((high - low) * within) >> 32);
        (share * buckets) >> 32
    }
}
