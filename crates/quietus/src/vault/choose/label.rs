//! What snapshots are called and selected by: a name, a host, tags.

use crate::vault::Error;
use schemars::JsonSchema;
use serde::Serialize;

/// Longest name of a snapshot, or of a host, and longest tag.
const NAME_BYTES_MAX: usize = 255;
/// Most tags of a snapshot.
const TAGS_MAX: usize = 32;

/// What a snapshot is called. Snapshots of one name and host are a series.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct Label {
    /// The name.
    pub name: String,
    /// The host whose files the snapshot has.
    pub host: String,
    /// Words to select snapshots by.
    pub tags: Vec<String>,
}

impl Label {
    /// Refuses what could not be typed, or a name that would be taken for a number.
    pub(in super::super) fn check(&self) -> Result<(), Error> {
        check("name of a snapshot", &self.name)?;
        if self.name.parse::<u64>().is_ok() {
            let why = "the name would be taken for the number of a snapshot";
            return Err(invalid("name of a snapshot", &self.name, why));
        }
        check("host", &self.host)?;
        if self.tags.len() > TAGS_MAX {
            return Err(Error::Usage(format!(
                "{} tags; give at most {TAGS_MAX} with --tag",
                self.tags.len()
            )));
        }
        self.tags.iter().try_for_each(|tag| check("tag", tag))
    }
}

/// This host's name.
pub fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".into() } else { name }
}

/// Which snapshots are meant: those with all of this.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// The name.
    pub name: Option<String>,
    /// The host.
    pub host: Option<String>,
    /// The tags.
    pub tags: Vec<String>,
}

impl Filter {
    /// Whether a snapshot is meant.
    pub fn has(&self, label: &Label) -> bool {
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        let has = |tag: &String| label.tags.contains(tag);
        is(&self.name, &label.name) && is(&self.host, &label.host) && self.tags.iter().all(has)
    }
}

/// Refuses what could not be typed.
fn check(what: &str, text: &str) -> Result<(), Error> {
    let why = match text {
        _ if text.is_empty() || text.len() > NAME_BYTES_MAX => "expected 1 to 255 bytes",
        _ if text.chars().any(char::is_control) => "control characters are not allowed",
        _ if text.starts_with('-') => "a - at the beginning would be taken for an option",
        _ => return Ok(()),
    };
    Err(invalid(what, text, why))
}

fn invalid(what: &str, text: &str, why: &str) -> Error {
    Error::Usage(format!("invalid {what} {text:?}: {why}; choose another one"))
}
