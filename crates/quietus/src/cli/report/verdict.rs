//! The first line of a status and of a proof: whether everything that was deleted is gone.

use super::waiting::{amount, duration};
use crate::front::control::Verdict;

/// The verdict in a few words.
pub(super) fn headline(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Gone => "gone".into(),
        Verdict::Limited { by } => format!("gone as far as this {by} allows"),
        Verdict::Waits { bytes, at_least, oldest_ms } => {
            let oldest = oldest_ms.map_or(String::new(), |ms| format!(" (oldest {})", duration(ms)));
            match bytes {
                0 => format!("some content waits{oldest}"),
                bytes => format!("{} wait{oldest}", amount(*bytes, *at_least)),
            }
        }
        Verdict::Stuck { bytes, at_least } => {
            format!("NOT gone: {} cannot be destroyed, see `health`", amount(*bytes, *at_least))
        }
        Verdict::Found { places } => format!("NOT gone: {places} places hold dead content, or keys to it"),
        Verdict::Unknown { why } => format!("unknown: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_joins_what_waits_and_what_the_medium_allows() {
        let waits = |bytes, at_least, oldest_ms| Verdict::Waits { bytes, at_least, oldest_ms };
        for (verdict, said) in [
            (Verdict::Gone, "gone"),
            (Verdict::Limited { by: "SSD".into() }, "gone as far as this SSD allows"),
            (waits(3_250_586, false, Some(12_345)), "3.10 MiB wait (oldest 12 s)"),
            (waits(4096, true, None), "at least 4.00 KiB wait"),
            (waits(0, true, None), "some content waits"),
            (
                Verdict::Unknown { why: "a file system is being searched".into() },
                "unknown: a file system is being searched",
            ),
        ] {
            assert_eq!(headline(&verdict), said);
        }
    }
}
