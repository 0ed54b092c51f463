//! The sessions of a disk: its openings for writing, each of which has a number that what was sealed in it names.
//!
//! A number is given out once. Two sessions with one number would hide stubs under one keystream, and of their blocks only those of
//! one could be opened. So the head of the index says how many there were, durably before anything is sealed in the last one.

use crate::base::fields::Fields;
use crate::base::units::Session;

/// Bytes of a session's identity.
const IDENTITY_BYTES: usize = 16;

/// The sessions of a disk up to some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sessions {
    /// How many there were; `None` of a disk without keys.
    pub count: u32,
    /// The random bytes by which the key file knows the last one; zeros if they are not known.
    pub last: [u8; IDENTITY_BYTES],
}

impl Sessions {
    /// The last one, for new seals.
    pub(in super::super) fn newest(self) -> Session {
        Session(self.count.saturating_sub(1) as u16)
    }

    pub(in super::super) fn to_bytes(self) -> Vec<u8> {
        [&self.count.to_le_bytes()[..], &self.last].concat()
    }

    pub(in super::super) fn from_fields(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self { count: fields.u32()?, last: fields.array()? })
    }
}

#[cfg(test)]
impl From<Session> for Sessions {
    fn from(session: Session) -> Self {
        Self { count: u32::from(session.0) + 1, last: [session.0 as u8; IDENTITY_BYTES] }
    }
}
