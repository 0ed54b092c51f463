//! Names of epochs in dates.

use super::kept::Kept;
use crate::front::control::VersionLine;

/// The epochs of these numbers, and when each closed: ms since 1970, 0 if that is not known.
fn kept(epochs: &[(u64, u64)]) -> Kept {
    let line = |&(epoch, closed_ms)| VersionLine {
        epoch,
        closed_ms,
        name: None,
        changed_bytes: 0,
        unique_bytes: None,
    };
    Kept::new(&epochs.iter().map(line).collect::<Vec<_>>())
}

/// 2026-11-20, 10:00 UTC.
const TEN_MS: u64 = 1_795_168_800_000;

#[test]
fn epochs_are_named_by_day_and_time_and_by_number_within_a_second() {
    let day_ms = 86_400_000;
    let kept = kept(&[
        (2, TEN_MS),
        (5, TEN_MS + 200),
        (6, 0),
        (7, TEN_MS + 1999),
        (9, TEN_MS + day_ms),
        (11, TEN_MS + 999),
    ]);
    assert_eq!(kept.epochs(), [2, 5, 6, 7, 9, 11]);
    assert_eq!(kept.days(), ["2026-11-20", "2026-11-21"]);
    let day = kept.day("2026-11-20").expect("a day");
    let names = kept.times(day);
    assert_eq!(names, ["10.00.00", "10.00.00-2", "10.00.00-3", "10.00.01"]);
    let found: Vec<_> = names.iter().map(|name| kept.at(day, name)).collect();
    assert_eq!(found, [Some(2), Some(5), Some(11), Some(7)]);
    for name in
        ["10.00.00-1", "10.00.00-4", "10.00.00-02", "10.00.00-", "10:00:00", "9.00.00", "10.00.00.0", ""]
    {
        assert_eq!(kept.at(day, name), None, "{name}");
    }
    for name in ["2026-11-19", "2026-11-2", "2026-11-20 ", "@GMT", "1969-12-31", ""] {
        assert_eq!(kept.day(name), None, "{name}");
    }
    assert!(kept.closed(6).is_none() && kept.closed(7).is_some() && kept.has(6) && !kept.has(8));
}

#[test]
fn a_name_for_samba_is_that_of_the_last_epoch_of_its_second() {
    let kept = kept(&[(2, TEN_MS), (3, TEN_MS + 5), (4, TEN_MS + 1000)]);
    let names = kept.gmt();
    assert_eq!(names, ["@GMT-2026.11.20-10.00.00", "@GMT-2026.11.20-10.00.01"]);
    let found: Vec<_> = names.iter().map(|name| kept.at_gmt(name)).collect();
    assert_eq!(found, [Some(3), Some(4)]);
    for name in ["@GMT-2026.11.20-10.00.02", "@GMT-2026-11-20-10.00.00", "2026.11.20-10.00.00", "@GMT-"] {
        assert_eq!(kept.at_gmt(name), None, "{name}");
    }
}
