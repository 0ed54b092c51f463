//! Durations as people write them.

/// Milliseconds from `250ms`, `10s`, `10m`, `2h`.
///
/// # Errors
/// A text that shows what a duration looks like.
pub fn parse_duration_ms(text: &str) -> Result<u64, String> {
    let units = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    let parsed = units.iter().find_map(|(unit, scale)| {
        let number: u64 = text.trim().strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*scale)
    });
    parsed.ok_or_else(|| format!("invalid duration {text:?}; use 250ms, 30s, 10m or 2h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_understood_or_refused() {
        assert_eq!(parse_duration_ms("250ms"), Ok(250));
        assert_eq!(parse_duration_ms("10m"), Ok(600_000));
        for bad in ["", "10", "m", "-1s", "99999999999999999999s", "18446744073709551615d"] {
            assert!(parse_duration_ms(bad).is_err(), "{bad:?}");
        }
    }
}
