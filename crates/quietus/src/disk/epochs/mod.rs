//! The names of a disk's epochs, and the holds that keep epochs from being forgotten: in a file, and as the audit log
//! tells them.

mod names;
mod told;

pub(crate) use names::names_at;
pub use names::{Confirmed, Doubt, NAMES_FILE, Names, NamesError};
pub(crate) use told::Told;

use crate::evidence::recorder::HoldLine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A hold: these epochs must not be forgotten.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldOf {
    /// The first epoch.
    pub from: u64,
    /// The last epoch.
    pub to: u64,
    /// The person or office that asked for the hold.
    pub who: String,
    /// Why.
    pub why: String,
    /// When, in milliseconds since 1970.
    #[serde(rename = "since", with = "crate::base::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since_ms: u64,
}

impl HoldOf {
    /// The hold in a line of the audit log.
    pub(crate) fn line(&self, name: &str) -> HoldLine {
        let Self { from, to, who, why, since_ms } = self.clone();
        HoldLine { name: name.into(), from, to, who, why, since_ms }
    }
}
