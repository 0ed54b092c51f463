//! Why a store that keeps versions cannot be opened.

use super::root::RootError;
use super::stubs::StubsError;
use crate::media::MediumId;
use crate::medium::MediumError;
use crate::tree::{HeadError, PageError};

/// Why the store cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VersionsError {
    /// A medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// The index has no usable head.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// A page of the index is damaged.
    #[error(
        "{0}; run `quietus repair` to rebuild the page from what the stubs' records and the other pages say, or serve what is left \
         with `--read-only`"
    )]
    Page(#[from] PageError),
    /// The root cannot be used.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The stub medium cannot be used.
    #[error(transparent)]
    Stubs(#[from] StubsError),
    /// The newer head of the index is damaged, and commits follow that only that head leads to.
    #[error(
        "both copies of the newer head of the index, at byte {at} of it, are damaged, and sectors {from} to {to} of the log of stubs follow that \
         head: with the older one, what they committed would be lost; restore the index from a copy that is as new, or index, stubs, \
         root and data together from a backup; a read-only start shows the state before"
    )]
    OldHead {
        /// Where the damaged head lies.
        at: u64,
        /// The number of the first sector that would be lost.
        from: u64,
        /// The number of the last one.
        to: u64,
    },
    /// The index is older than the last clean stop.
    #[error(
        "the newest whole head of the index has generation {found}, and the last stop left generation {stopped}: the index is of \
         another time than the disk's directory, or its newest head is damaged; a start that writes would bring forgotten epochs \
         back and lose others. Run `quietus repair`, or restore directory, index, stubs, root and data together from a backup; \
         `--read-only` shows what is there"
    )]
    OlderIndex {
        /// The generation of the newest whole head.
        found: u64,
        /// The generation at the stop.
        stopped: u64,
    },
    /// A head is lost, and nothing says whether it was the newer one.
    #[error(
        "both copies of the head at byte {at} of the index are damaged, and after a crash nothing says whether that was the newer \
         head: run `quietus repair`, or restore index, stubs, root and data together from a backup; `--read-only` shows the state \
         of the other head"
    )]
    LostHead {
        /// Where the damaged head lies.
        at: u64,
    },
    /// A sector in the middle of the log is damaged.
    #[error(
        "sector {sequence} of the log of stubs, at byte {at} of the stub medium, is damaged, and durable commits up to sector {to} \
         lie there and behind it: they would be lost; restore the stub medium from a copy that is as new, or index, stubs, root and \
         data together from a backup; a read-only start shows the state before"
    )]
    DamagedSector {
        /// Where the sector lies.
        at: u64,
        /// The number of the sector.
        sequence: u64,
        /// The number of the last sector that was durable for sure.
        to: u64,
    },
    /// Too much is damaged to rebuild the index.
    #[error(
        "the index cannot be rebuilt without a guess: {0}; restore index, stubs, root and data together from a backup, or export \
         what can be read: `quietus serve --read-only`"
    )]
    Undecided(String),
    /// The caller did not want to go on.
    #[error("interrupted; nothing was changed")]
    Interrupted,
    /// The head of the index makes no sense.
    #[error("the index notes no valid place in the log of stubs; restore index, stubs and data together")]
    Note,
    /// A medium is shorter than what the index says lies there.
    #[error(
        "{found} bytes long, and at least {needed} bytes are in use: it was cut short, or is older than the rest; restore it from a copy \
         that is as new, or index, stubs, root and data together from a backup; a read-only start shows what is left"
    )]
    Short {
        /// The medium.
        on: MediumId,
        /// Its bytes.
        found: u64,
        /// The bytes that it has to have at least.
        needed: u64,
    },
    /// The number of this opening's session was given out before.
    #[error(
        "session {session} was begun before: the index notes {noted} sessions; put back the newest key file of this disk"
    )]
    SessionTaken {
        /// The number that this opening was to have.
        session: u32,
        /// How many sessions the index notes.
        noted: u32,
    },
    /// The log names a session that the key file lacks.
    #[error(
        "the log of stubs names session {session}, which the key file lacks: the key file is older than the disk; put back the \
         newest key file of this disk"
    )]
    NoSession {
        /// The number of the session.
        session: u16,
    },
}
