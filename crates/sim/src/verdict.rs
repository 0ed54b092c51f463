//! A history's verdict, whatever the code under test does: the objection of an oracle to a broken promise.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Oracle {
    /// A read showed content that it must not show.
    Safety,
    /// Content that was called destroyed, or ought to be, is not.
    Forensic,
    /// Owed work is not done.
    Liveness,
    /// A reply that is not allowed, or a missing reply.
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

/// The judgement of an oracle: its objection, if it has one.
pub type Judged = Result<(), Violation>;

/// The violation that forbidden content can be read, or was destroyed.
pub fn broken(what: String) -> Violation {
    Violation { oracle: Oracle::Safety, what }
}

/// The violation that forbidden content was found.
pub fn found(what: String) -> Violation {
    Violation { oracle: Oracle::Forensic, what }
}

/// The violation that something owed does not happen.
pub fn overdue(what: String) -> Violation {
    Violation { oracle: Oracle::Liveness, what }
}

/// The violation that a reply is not allowed.
pub fn bad_reply(what: String) -> Violation {
    Violation { oracle: Oracle::Replies, what }
}

/// The violation that receipts and audit log differ.
pub fn unrecorded(what: String) -> Violation {
    Violation { oracle: Oracle::Record, what }
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

/// The result of `work`; a panic counts as a broken promise.
pub(crate) fn caught<T, E: From<Violation>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        let what = text.unwrap_or_else(|| "it says nothing".into());
        Err(Violation { oracle: Oracle::Panic, what }.into())
    })
}

/// Keeps panics, which are verdicts here, off the screen.
pub fn silence_panics() {
    std::panic::set_hook(Box::new(|_| {}));
}
