//! How often the root of a sealed disk is written: each purge writes it, and some media take only so many writes.

use super::DiskToml;
use crate::host::media::root::{MtdMedium, RootKind, Wear};
use quietus_core::erase::policy::Policy;

/// When a purge begins, unless the disk's owner chose otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// See [`Config::idle_after_ms`](quietus_core::volume::Config::idle_after_ms).
    pub idle_after_ms: u64,
    /// See [`Config::deadline_ms`](quietus_core::volume::Config::deadline_ms).
    pub deadline_ms: u64,
}

/// How long a disk on a flash chip is idle before what died is destroyed: each batch erases blocks, and 512 of them last for ten years then.
const CHIP_IDLE_MS: u64 = 10_000;

/// The pace for a disk on a flash chip: batches share the erases.
#[must_use]
pub fn pace_on_chip(pace: Pace) -> Pace {
    Pace { idle_after_ms: pace.idle_after_ms.max(CHIP_IDLE_MS), ..pace }
}

/// The pace for such a root, at which it lasts for ten years or longer. With `deadline_ms` the owner chose a deadline.
#[must_use]
pub fn pace(root: Option<&RootKind>, policy: &str, deadline_ms: Option<u64>) -> Pace {
    match wear(root, policy) {
        Wear::None => Pace { idle_after_ms: 250, deadline_ms: deadline_ms.unwrap_or(600_000) },
        // An idle disk would else write its root four times a second.
        wear => {
            let chosen =
                || wear.deadline().map_or(600_000, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX));
            let deadline_ms = deadline_ms.unwrap_or_else(chosen);
            Pace { idle_after_ms: deadline_ms, deadline_ms }
        }
    }
}

/// How long a root lasts that wears out so, if purges begin as often as these times let them; `None` if writes do not wear it out.
#[must_use]
pub fn life_ms(wear: Wear, idle_after_ms: u64, deadline_ms: u64) -> Option<u64> {
    match wear {
        Wear::None => None,
        Wear::After { purges } => Some(purges.saturating_mul(idle_after_ms.min(deadline_ms))),
    }
}

/// Passes of a policy, each of which wears the medium.
#[must_use]
pub fn passes(policy: &str) -> u32 {
    policy.parse::<Policy>().map_or(1, |it| u32::try_from(it.passes().len()).unwrap_or(u32::MAX))
}

/// How such a root wears out. Flash that cannot be looked at counts as if it did not: opening it will tell what is wrong.
fn wear(root: Option<&RootKind>, policy: &str) -> Wear {
    match root {
        Some(RootKind::Tpm(_)) => Wear::of_tpm(passes(policy)),
        Some(RootKind::Mtd(device)) => MtdMedium::wear_of(device).unwrap_or(Wear::None),
        Some(RootKind::Memory | RootKind::Chip | RootKind::Path(_)) | None => Wear::None,
    }
}

impl DiskToml {
    /// How long the root of a new disk lasts; `None` if writes do not wear it out, or that is not known before it is opened.
    #[must_use]
    pub fn root_life_ms(&self) -> Option<u64> {
        let behaviour = &self.behaviour;
        let root = self.sealed.as_ref()?.root_kind().ok()?;
        let wear = wear(Some(&root), &behaviour.policy);
        life_ms(wear, behaviour.idle_after_ms, behaviour.deadline_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR_MS: u64 = 365 * 24 * 3_600_000;

    #[test]
    fn a_root_that_wears_out_lasts_ten_years_unless_its_owner_chose_otherwise() {
        let tpm = "tpm:0x01800150".parse().expect("a root");
        let years = |policy, chosen| {
            let Pace { idle_after_ms, deadline_ms } = pace(Some(&tpm), policy, chosen);
            life_ms(wear(Some(&tpm), policy), idle_after_ms, deadline_ms).map(|ms| ms / YEAR_MS)
        };
        assert_eq!((years("clear", None), years("clear", Some(600_000))), (Some(11), Some(1)));
        let hourly = |policy| years(policy, Some(3_600_000));
        assert!(hourly("gutmann-35") < hourly("clear"), "each pass wears it out");
        assert!(years("gutmann-35", None) >= Some(10), "so that its deadline is longer");
    }

    #[test]
    fn a_file_or_a_device_takes_any_number_of_writes() {
        let file = "/mnt/hdd/vm1.root".parse().expect("a root");
        assert_eq!(pace(Some(&file), "clear", Some(1)), Pace { idle_after_ms: 250, deadline_ms: 1 });
        assert_eq!(life_ms(Wear::None, 1, 1), None);
        let on_chip = pace_on_chip(pace(None, "clear", None));
        assert_eq!(on_chip, Pace { idle_after_ms: 10_000, deadline_ms: 600_000 });
    }
}
