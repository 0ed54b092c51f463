//! Times in reports: milliseconds since 1970 in the code, RFC 3339 in JSON.

use serde::{Deserialize, Deserializer, Serializer, de};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last millisecond of the year 9999, which is the last one of RFC 3339.
const MS_MAX: u64 = 253_402_300_799_999;

/// The text of a time, such as `2026-11-20T10:00:00.000Z`.
#[must_use]
pub fn text(ms: u64) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(ms.min(MS_MAX))).to_string()
}

/// # Errors
/// Those of `serializer`.
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

/// The same where 0 stands for a time that is not known: `null` in JSON.
pub mod or_unknown {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Time(#[serde(with = "super")] u64);

    /// # Errors
    /// Those of `serializer`.
    pub fn serialize<S: Serializer>(ms: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        Some(Time(*ms)).filter(|time| time.0 > 0).serialize(serializer)
    }

    /// # Errors
    /// As those of [`super::deserialize`].
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
    fn a_time_is_the_same_after_json_and_one_that_is_not_known_is_null() {
        let times = Times { at: 1_764_230_400_123, maybe: 0 };
        let json = serde_json::to_string(&times).expect("plain data");
        assert_eq!(json, r#"{"at":"2025-11-27T08:00:00.123Z","maybe":null}"#);
        assert_eq!(serde_json::from_str::<Times>(&json).expect("the same"), times);
        assert!(serde_json::from_str::<Times>(r#"{"at":"yesterday","maybe":null}"#).is_err());
    }
}
