//! How people say which epoch they mean.

use super::asking::{Listed, list};
use super::dates::{self, dated, last_by};
use crate::base::naming;
use crate::disk::epochs::Names;
use crate::engine::Engine;
use quietus_core::base::units::{Epoch, EpochRange};
use quietus_core::request::Refusal;
use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

/// An epoch: the first or the last kept one, its number, its name, or a time, which means the last kept epoch that had closed by
/// then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum At {
    /// The first kept one: `first`.
    First,
    /// The last kept one: `last`.
    Last,
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
    /// No epoch has the name; perhaps another one was meant.
    #[error("no epoch has the name {0:?}; {meant}", meant = naming::meant_or(.1, "`quietus versions` lists those that are kept"))]
    NoName(String, Option<String>),
    /// There is nothing to find.
    #[error("no epoch is kept; `quietus epoch` keeps the current state as one")]
    NoneKept,
    /// All kept epochs are later.
    #[error("no kept epoch had closed by {0}; `quietus versions` lists those that are kept")]
    NoneBy(At),
    /// All kept epochs are earlier.
    #[error("every kept epoch had closed before {0}; `quietus versions` lists those that are kept")]
    NoneFrom(At),
    /// The epochs between are forgotten.
    #[error(
        "no epoch from {0} to {1} is kept: they are forgotten; `quietus versions` lists those that are kept"
    )]
    NoneWithin(u64, u64),
    /// The range is the wrong way round.
    #[error("epoch {0} is after epoch {1}; name the earlier one first")]
    Order(u64, u64),
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "first" => return Ok(Self::First),
            "last" => return Ok(Self::Last),
            "now" => return Err("\"now\" is the current state, not an epoch; leave out @now".into()),
            _ => {}
        }
        let is_number = text.bytes().all(|it| it.is_ascii_digit());
        if let Some(number) = text.parse().ok().filter(|_| is_number) {
            return Ok(Self::Number(Epoch(number)));
        }
        if let Some(ms) = time(text) {
            return Ok(Self::Time(ms));
        }
        naming::check(text).map(|()| Self::Name(text.into())).map_err(|_| {
            format!(
                "unknown epoch {text:?}; expected a number, a name (letters, digits, - _ and ., a letter first), first, last, or a time in UTC such as 2026-11-20T10:00"
            )
        })
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("first"),
            Self::Last => f.write_str("last"),
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
    pub fn find(&self, engine: &Engine, names: &Names) -> Result<Epoch, FindError> {
        let wanted = self.meant(engine, names)?;
        let is_kept = list(engine, wanted)?.first().is_some_and(|first| first.epoch == wanted.0);
        if is_kept { Ok(wanted) } else { Err(Refusal::Forgotten(wanted).into()) }
    }

    /// The epoch that is meant, whether it is kept or not: as the last one of a range, or where the disk itself refuses one that is
    /// forgotten.
    pub fn meant(&self, engine: &Engine, names: &Names) -> Result<Epoch, FindError> {
        let wanted = match self {
            Self::First => first_from(engine, Epoch(0))?.ok_or(FindError::NoneKept)?,
            Self::Last => last_before(engine, None)?.ok_or(FindError::NoneKept)?,
            Self::Number(epoch) => *epoch,
            Self::Name(name) => {
                names.epoch(name).ok_or_else(|| FindError::NoName(name.clone(), names.meant(name)))?
            }
            Self::Time(ms) => {
                last_by(dated(engine, names), *ms)?.ok_or_else(|| FindError::NoneBy(self.clone()))?
            }
        };
        let is_open = engine.open_epoch().is_some_and(|open| wanted >= open);
        if is_open { Err(FindError::Open(wanted.0)) } else { Ok(wanted) }
    }

    /// As the first epoch of a range: a time means the first kept epoch that had not closed before.
    fn from(&self, engine: &Engine, names: &Names) -> Result<Epoch, FindError> {
        match self {
            Self::Time(ms) => {
                dates::first_from(dated(engine, names), *ms)?.ok_or_else(|| FindError::NoneFrom(self.clone()))
            }
            _ => self.meant(engine, names),
        }
    }
}

/// The first and the last kept epoch from one up to another, which need not be kept themselves.
///
/// # Errors
/// [`FindError`]: no such epoch is kept.
pub fn range(engine: &Engine, names: &Names, [from, to]: [&At; 2]) -> Result<EpochRange, FindError> {
    let (from, to) = (from.from(engine, names)?, to.meant(engine, names)?);
    if from > to {
        return Err(FindError::Order(from.0, to.0));
    }
    let first = first_from(engine, from)?.filter(|first| *first <= to);
    let last = last_before(engine, Some(Epoch(to.0 + 1)))?;
    let kept = first.zip(last).map(|(from, to)| EpochRange { from, to });
    kept.ok_or(FindError::NoneWithin(from.0, to.0))
}

/// The last kept epoch, and when it closed.
pub fn last(engine: &Engine) -> Result<Option<Listed>, Refusal> {
    let Some(last) = last_before(engine, None)? else { return Ok(None) };
    Ok(list(engine, last)?.first().copied())
}

/// The first kept epoch from `from` on.
fn first_from(engine: &Engine, from: Epoch) -> Result<Option<Epoch>, Refusal> {
    Ok(list(engine, from)?.first().map(|it| Epoch(it.epoch)))
}

/// The last kept epoch before `end`, or before the open one.
fn last_before(engine: &Engine, end: Option<Epoch>) -> Result<Option<Epoch>, Refusal> {
    let (mut low, mut high, mut found) = (0, end.or(engine.open_epoch()).map_or(0, |end| end.0), None);
    while low < high {
        let middle = low.midpoint(high);
        match list(engine, Epoch(middle))?.first().filter(|it| it.epoch < high) {
            Some(it) => (low, found) = (it.epoch + 1, Some(Epoch(it.epoch))),
            None => high = middle,
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
        assert_eq!((said("first"), said("last")), (Ok(At::First), Ok(At::Last)));
        for text in
            ["", "a b", "2026-13-01", "1x", "../x", "-1", "+1", "x..y", "now", "Last", "99999999999999999999"]
        {
            assert!(said(text).is_err(), "{text}");
        }
        assert_eq!(At::Time(1_795_168_800_000).to_string(), "2026-11-20T10:00:00Z");
    }
}
