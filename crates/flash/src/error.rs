//! Why the layer failed.

use crate::nand::NandError;

/// Why an operation of a [`Flash`](crate::Flash) failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct FlashError {
    /// The kind, which decides how the failure is handled.
    pub kind: FlashErrorKind,
    /// The operation that failed, and why, in words.
    pub message: String,
}

/// The kinds of [`FlashError`], by what follows from them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlashErrorKind {
    /// So many blocks of the chip have gone bad that it has no room for a write. Reads and deletions go on.
    NoSpace,
    /// A block will not erase, and may hold versions that were to be destroyed. Everything else is as if the operation had succeeded.
    Remains,
    /// The chip lost the content of a unit. A later write of the unit, or its deletion, succeeds.
    Unreadable,
    /// The chip holds no disk of this version, or its size is wrong.
    Format,
    /// Any other failure: no operation succeeds until the disk is opened anew.
    Io,
}

impl FlashError {
    pub(crate) fn new(kind: FlashErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl From<NandError> for FlashError {
    fn from(error: NandError) -> Self {
        Self::new(FlashErrorKind::Io, error.to_string())
    }
}
