//! Why a record is not trusted.

use std::fmt;

/// An impossible field of a record and its value, or another defect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lie {
    /// The field, or the defect.
    pub what: &'static str,
    value: Option<u64>,
}

impl Lie {
    /// A defect that no value shows.
    #[must_use]
    pub const fn of(what: &'static str) -> Self {
        Self { what, value: None }
    }

    /// The impossible `value` of `field`.
    #[must_use]
    pub const fn field(field: &'static str, value: u64) -> Self {
        Self { what: field, value: Some(value) }
    }
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Some(value) => write!(f, "`{}` is {value}", self.what),
            None => f.write_str(self.what),
        }
    }
}

pub(super) fn ensure(holds: bool, field: &'static str, value: u64) -> Result<(), Lie> {
    if holds { Ok(()) } else { Err(Lie::field(field, value)) }
}
