//! Objection of an oracle to a broken promise.

use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Oracle {
    /// A read showed what it may not.
    Safety,
    /// Content that was called destroyed, or ought to be, is not.
    Forensic,
    /// Something that is owed does not happen.
    Liveness,
    /// A reply that is not allowed, or none.
    Replies,
    /// A receipt is missing from the audit log, or is there twice.
    Record,
    /// An assertion of the code under test failed.
    Panic,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    pub oracle: Oracle,
    /// The objection, in words.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.oracle, self.what)
    }
}

impl From<Violation> for String {
    fn from(violation: Violation) -> Self {
        violation.to_string()
    }
}
