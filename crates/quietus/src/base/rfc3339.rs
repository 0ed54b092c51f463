//! Times in reports: milliseconds since 1970 in the code, RFC 3339 in JSON.

use serde::{Deserialize, Deserializer, Serializer, de};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last millisecond of the year 9999, which is the last one of RFC 3339.
const MS_MAX: u64 = 253_402_300_799_999;

/// The present, by the host's clock.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}

/// The text of a time, such as `2026-11-20T10:00:00.000Z`.
#[must_use]
pub fn text(ms: u64) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(ms.min(MS_MAX))).to_string()
}

/// # Errors
/// The error of `serializer`.
pub fn serialize<S: Serializer>(ms: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*ms))
}

/// # Errors
/// A text that is not a time since 1970.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    let invalid =
        || de::Error::invalid_value(de::Unexpected::Str(&text), &"a time of RFC 3339, from 1970 on");
    let time: SystemTime = humantime::parse_rfc3339(&text).map_err(|_| invalid())?;
    let since = time.duration_since(UNIX_EPOCH).map_err(|_| invalid())?;
    u64::try_from(since.as_millis()).map_err(|_| invalid())
}

/// The text of a time in nanoseconds since 1970, or before, such as `1969-12-31T23:59:59.999999999Z`.
///
/// # Panics
/// Never: the years of these times are 1677 to 2262.
#[must_use]
pub fn text_ns(ns: i64) -> String {
    /// After 400 years the calendar repeats, and no time is before 1970 any more.
    const CYCLE: i64 = 146_097 * 86_400;
    let (seconds, below) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
    let later = Duration::new((seconds + CYCLE).cast_unsigned(), below as u32);
    let text = humantime::format_rfc3339_nanos(UNIX_EPOCH + later).to_string();
    let (year, rest) = text.split_at(4);
    format!("{:04}{rest}", year.parse::<u32>().expect("four digits") - 400)
}

/// # Errors
/// The error of `serializer`.
pub fn serialize_ns<S: Serializer>(ns: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text_ns(*ns))
}

/// The same where 0 stands for a time that is not known: `null` in JSON.
pub mod or_unknown {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Time(#[serde(with = "super")] u64);

    /// # Errors
    /// The error of `serializer`.
    pub fn serialize<S: Serializer>(ms: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        Some(Time(*ms)).filter(|time| time.0 > 0).serialize(serializer)
    }

    /// # Errors
    /// See [`super::deserialize`].
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        Ok(Option::<Time>::deserialize(deserializer)?.map_or(0, |time| time.0))
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(PartialEq, Debug, Serialize, Deserialize)]
    struct Times {
        #[serde(with = "super")]
        at: u64,
        #[serde(with = "super::or_unknown")]
        maybe: u64,
    }

    #[test]
    fn times_are_civil() {
        assert_eq!(super::text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(super::text(951_827_696_789), "2000-02-29T12:34:56.789Z");
    }

    #[test]
    fn a_time_with_nanoseconds_may_lie_before_1970() {
        for (ns, text) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (-1, "1969-12-31T23:59:59.999999999Z"),
            (951_827_696_789_000_001, "2000-02-29T12:34:56.789000001Z"),
            (-2_203_891_200_000_000_000, "1900-03-01T00:00:00.000000000Z"),
            (i64::MIN, "1677-09-21T00:12:43.145224192Z"),
            (i64::MAX, "2262-04-11T23:47:16.854775807Z"),
        ] {
            assert_eq!(super::text_ns(ns), text);
        }
    }

    #[test]
    fn a_time_is_the_same_after_json_and_one_that_is_not_known_is_null() {
        let times = Times { at: 1_764_230_400_123, maybe: 0 };
        let json = serde_json::to_string(&times).expect("plain data");
        assert_eq!(json, r#"{"at":"2025-11-27T08:00:00.123Z","maybe":null}"#);
        assert_eq!(serde_json::from_str::<Times>(&json).expect("the same"), times);
        assert!(serde_json::from_str::<Times>(r#"{"at":"yesterday","maybe":null}"#).is_err());
    }
}
