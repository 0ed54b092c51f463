//! Why a call has no answer.

use crate::copy::CopyError;
use quietus_core::request::Refusal;
use std::fmt;

/// Why a call has no answer, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It failed.
    Failed(String),
    /// An epoch was forgotten while it was read.
    Forgotten(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(why) | Self::Forgotten(why) => f.write_str(why),
        }
    }
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Forgotten(_) => Self::Forgotten(refusal.to_string()),
            other => Self::Failed(other.to_string()),
        }
    }
}

impl From<CopyError> for Refused {
    fn from(error: CopyError) -> Self {
        match error {
            CopyError::Refused(refusal) => refusal.into(),
            other => Self::Failed(other.to_string()),
        }
    }
}

impl From<serde_json::Error> for Refused {
    fn from(error: serde_json::Error) -> Self {
        Self::Failed(error.to_string())
    }
}
