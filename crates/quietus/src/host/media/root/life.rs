//! How long a root lives: each purge wears its medium.

use std::time::Duration;

/// Years that a root lives with the deadline that is chosen for it.
const YEARS_LEAST: f64 = 10.0;
const YEAR_SECONDS: f64 = 365.25 * 86_400.0;
/// Writes that an NV index of a TPM bears. Makers of chips promise so many, and no TPM tells what it has had.
const INDEX_WRITES: u64 = 100_000;
/// Times that a block of NOR flash can be erased, as makers promise.
const BLOCK_ERASES: u64 = 100_000;
/// Longest deadline that is chosen, even if a root then lives less.
const DEADLINE_MOST: Duration = Duration::from_secs(86_400);
/// Deadlines that people read easily, in seconds.
const DEADLINES: [u64; 8] = [10, 60, 300, 600, 1800, 3600, 6 * 3600, 86_400];

/// How a medium of a root wears out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wear {
    /// Not by writes: a magnetic disk, memory.
    None,
    /// After so many purges.
    After {
        /// The purges.
        purges: u64,
    },
}

impl Wear {
    /// The wear of a TPM. A purge writes one slot, and `passes` times the other one.
    #[must_use]
    pub fn of_tpm(passes: u32) -> Self {
        Self::After { purges: 2 * INDEX_WRITES / (1 + u64::from(passes)) }
    }

    /// The wear of two blocks of NOR flash, each of which takes so many purges between two erasures.
    #[must_use]
    pub(super) fn of_nor(purges_per_block: u64) -> Self {
        Self::After { purges: 2 * BLOCK_ERASES * purges_per_block }
    }

    /// Years that the root lives if a purge comes with every deadline; `None` if it does not wear out.
    #[must_use]
    pub fn years(self, deadline: Duration) -> Option<f64> {
        match self {
            Self::None => None,
            Self::After { purges } => Some(purges as f64 * deadline.as_secs_f64() / YEAR_SECONDS),
        }
    }

    /// The shortest deadline with which the root lives ten years, among those that people read easily; `None` if the root does not
    /// wear out, so that its life asks for none.
    #[must_use]
    pub fn deadline(self) -> Option<Duration> {
        let mut all = DEADLINES.into_iter().map(Duration::from_secs);
        self.years(DEADLINE_MOST)?;
        let lasts = |it: &Duration| self.years(*it).is_some_and(|years| years >= YEARS_LEAST);
        Some(all.find(lasts).unwrap_or(DEADLINE_MOST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_of_a_medium_lets_its_root_live_ten_years() {
        for (wear, seconds, years) in [
            (Wear::of_tpm(1), Some(3600), Some(11)),
            (Wear::of_tpm(3), Some(6 * 3600), Some(34)),
            // 64 KiB with a record of 64 bytes a purge, and one erasure a purge.
            (Wear::of_nor(1022), Some(10), Some(64)),
            (Wear::of_nor(1), Some(1800), Some(11)),
            (Wear::None, None, None),
            (Wear::After { purges: 1 }, Some(86_400), Some(0)),
        ] {
            let deadline = wear.deadline();
            let found = deadline.and_then(|it| wear.years(it)).map(|it| it as u64);
            assert_eq!((deadline.map(|it| it.as_secs()), found), (seconds, years), "{wear:?}");
        }
    }

    #[test]
    fn a_tpm_with_ten_minutes_lives_two_years() {
        let years = Wear::of_tpm(1).years(Duration::from_secs(600)).expect("it wears out");
        assert!((1.9..2.0).contains(&years), "{years}");
    }
}
