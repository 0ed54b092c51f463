//! Times as DOS wrote them: FAT and exFAT keep them in the same bits.

use crate::Time;

/// The days from 1970-01-01 to a day of the Gregorian calendar (Hinnant, "chrono-compatible low-level date algorithms").
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// A date, a time in units of two seconds, and up to 199 hundredths of a second, taken as UTC; `None` if there is no such day or time.
pub(crate) fn time(date: u16, time: u16, hundredths: u8) -> Option<Time> {
    let (date, time) = (i64::from(date), i64::from(time));
    let (year, month, day) = (1980 + (date >> 9), date >> 5 & 0xF, date & 0x1F);
    let (hour, minute, second) = (time >> 11, time >> 5 & 0x3F, (time & 0x1F) * 2);
    let is_possible =
        (1..=12).contains(&month) && day > 0 && hour < 24 && minute < 60 && second < 60 && hundredths < 200;
    let hundredths = u32::from(hundredths);
    is_possible.then(|| Time {
        seconds: days(year, month, day) * 86_400
            + hour * 3600
            + minute * 60
            + second
            + i64::from(hundredths / 100),
        nanoseconds: hundredths % 100 * 10_000_000,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(year: u16, month: u16, day: u16) -> u16 {
        (year - 1980) << 9 | month << 5 | day
    }

    #[test]
    fn the_days_are_those_of_the_calendar() {
        for (date, seconds) in [
            (of(1980, 1, 1), 315_532_800),
            (of(2000, 2, 29), 951_782_400),
            (of(2026, 11, 30), 1_795_996_800),
            (of(2100, 3, 1), 4_107_542_400),
            (of(2107, 12, 31), 4_354_732_800),
        ] {
            assert_eq!(time(date, 0, 0), Some(Time { seconds, nanoseconds: 0 }));
        }
    }

    #[test]
    fn hundredths_count_up_to_two_seconds() {
        let found = time(of(1980, 1, 1), 23 << 11 | 59 << 5 | 29, 199);
        assert_eq!(found, Some(Time { seconds: 315_532_800 + 86_399, nanoseconds: 990_000_000 }));
    }

    #[test]
    fn a_day_that_is_not_there_is_none() {
        for (date, clock, hundredths) in [
            (0, 0, 0),
            (of(2000, 13, 1), 0, 0),
            (of(2000, 1, 0), 0, 0),
            (of(2000, 1, 1), 24 << 11, 0),
            (of(2000, 1, 1), 60 << 5, 0),
            (of(2000, 1, 1), 30, 0),
            (of(2000, 1, 1), 0, 200),
        ] {
            assert_eq!(time(date, clock, hundredths), None);
        }
    }
}
