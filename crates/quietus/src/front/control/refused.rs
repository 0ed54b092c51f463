//! Why a call gets no answer.

use crate::disk::epochs::NamesError;
use crate::epochs::FindError;
use crate::open_disk::copy::CopyError;
use quietus_core::request::Refusal;
use std::fmt;

/// Why a call was refused, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// An epoch that the call reads or names is forgotten: it was there, and nothing brings it back.
    Forgotten(String),
    /// A person interrupted the call.
    Interrupted,
    /// Anything else.
    Error(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forgotten(text) | Self::Error(text) => f.write_str(text),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl From<String> for Refused {
    fn from(text: String) -> Self {
        Self::Error(text)
    }
}

impl From<&str> for Refused {
    fn from(text: &str) -> Self {
        Self::Error(text.into())
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Forgotten(_) | Refusal::ForgottenBlocks(..) => Self::Forgotten(refusal.to_string()),
            _ => Self::Error(refusal.to_string()),
        }
    }
}

impl From<FindError> for Refused {
    fn from(error: FindError) -> Self {
        match error {
            FindError::Refused(refusal) => refusal.into(),
            FindError::NoneWithin(..) => Self::Forgotten(error.to_string()),
            _ => Self::Error(error.to_string()),
        }
    }
}

impl From<CopyError> for Refused {
    fn from(error: CopyError) -> Self {
        match error {
            CopyError::Refused(refusal) => refusal.into(),
            CopyError::Gone(..) => Self::Forgotten(error.to_string()),
            _ => Self::Error(error.to_string()),
        }
    }
}

impl From<NamesError> for Refused {
    fn from(error: NamesError) -> Self {
        Self::Error(error.to_string())
    }
}
