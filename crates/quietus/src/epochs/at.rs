//! How people say which epoch they mean.

use super::Names;
use super::asking::{Listed, list};
use crate::engine::Engine;
use quietus_core::request::Refusal;
use quietus_core::units::Epoch;
use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

/// An epoch: its number, its name, or a time, which means the last kept epoch that had closed by then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum At {
    /// The number.
    Number(Epoch),
    /// Milliseconds since 1970.
    Time(u64),
    /// The name.
    Name(String),
}

/// Why there is no such epoch to read or to name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FindError {
    /// The epoch is forgotten, or the disk refuses to list its epochs.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The epoch is open, or later than that.
    #[error("epoch {0} has not closed yet; `quietus epoch` closes the open one")]
    Open(u64),
    /// No epoch has the name.
    #[error("no epoch has the name {0:?}; `quietus versions` lists those that are kept")]
    NoName(String),
    /// All kept epochs are later.
    #[error("no kept epoch had closed by {0}; `quietus versions` lists those that are kept")]
    NoneBy(At),
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(number) = text.parse() {
            return Ok(Self::Number(Epoch(number)));
        }
        if let Some(ms) = time(text) {
            return Ok(Self::Time(ms));
        }
        let is_name = !text.is_empty() && text.chars().all(|it| it.is_alphanumeric() || "-_.".contains(it));
        if is_name && !text.starts_with(|it: char| it.is_ascii_digit()) {
            return Ok(Self::Name(text.into()));
        }
        Err(format!(
            "{text:?} is no epoch; use its number, its name (letters, digits, - _ and ., not a digit first), or a \
             time in UTC such as 2026-11-20T10:00"
        ))
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(epoch) => write!(f, "{}", epoch.0),
            Self::Time(ms) => {
                let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(*ms);
                write!(f, "{}", humantime::format_rfc3339_seconds(time))
            }
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// A time in UTC, with or without seconds and `Z`.
fn time(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let whole = match text.len() {
        10 => format!("{text}T00:00:00Z"),
        16 => format!("{text}:00Z"),
        _ => format!("{text}Z"),
    };
    let time = humantime::parse_rfc3339(&whole).ok()?;
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}

impl At {
    /// The kept epoch that is meant.
    ///
    /// # Errors
    /// [`FindError`].
    pub fn find(&self, engine: &Engine, names: &Names) -> Result<Epoch, FindError> {
        let wanted = match self {
            Self::Number(epoch) => *epoch,
            Self::Name(name) => names.epoch(name).ok_or_else(|| FindError::NoName(name.clone()))?,
            Self::Time(ms) => return closed_by(engine, *ms)?.ok_or_else(|| FindError::NoneBy(self.clone())),
        };
        if engine.open_epoch().is_some_and(|open| wanted >= open) {
            return Err(FindError::Open(wanted.0));
        }
        let is_kept = list(engine, wanted)?.first().is_some_and(|first| first.epoch == wanted.0);
        if is_kept { Ok(wanted) } else { Err(Refusal::Forgotten(wanted).into()) }
    }
}

/// The last kept epoch, and when it closed.
///
/// # Errors
/// The refusal.
pub fn last(engine: &Engine) -> Result<Option<Listed>, Refusal> {
    let Some(last) = closed_by(engine, u64::MAX)? else { return Ok(None) };
    Ok(list(engine, last)?.first().copied())
}

/// The last kept epoch that had closed by `ms`. Epochs close in the order of their numbers.
fn closed_by(engine: &Engine, ms: u64) -> Result<Option<Epoch>, Refusal> {
    let (mut low, mut high, mut found) = (0, engine.open_epoch().map_or(0, |open| open.0), None);
    while low < high {
        let middle = low.midpoint(high);
        let next = list(engine, Epoch(middle))?;
        match next.first().filter(|it| it.epoch < high) {
            Some(it) if it.closed_ms <= ms => (low, found) = (it.epoch + 1, Some(Epoch(it.epoch))),
            _ => high = middle,
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_said_by_number_time_or_name() {
        let said = |text: &str| text.parse::<At>();
        assert_eq!(said("17"), Ok(At::Number(Epoch(17))));
        assert_eq!(said("before-upgrade_2"), Ok(At::Name("before-upgrade_2".into())));
        for text in ["2026-11-20T10:00", "2026-11-20T10:00:00", "2026-11-20T10:00:00Z"] {
            assert_eq!(said(text), Ok(At::Time(1_795_168_800_000)), "{text}");
        }
        assert_eq!(said("2026-11-20"), Ok(At::Time(1_795_132_800_000)));
        for text in ["", "a b", "2026-13-01", "1x", "../x", "-1"] {
            let is_name = matches!(said(text), Ok(At::Name(_)));
            assert!(said(text).is_err() || is_name && text == "-1", "{text}");
        }
        assert_eq!(At::Time(1_795_168_800_000).to_string(), "2026-11-20T10:00:00Z");
    }
}
