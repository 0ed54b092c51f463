//! The only seam to storage. Every fault enters here and nowhere else.

use crate::base::units::{Extent, Pos};
use serde::{Deserialize, Serialize};
use std::io::IoSliceMut;

/// Bytes that persist.
///
/// The methods block. Others decide *when* to call them: the volume
/// hands out its input and output as commands and gets their ends as
/// events, so that the threads of a server can overlap them and the simulator
/// can reorder them.
pub trait Medium {
    /// The size of the medium, in bytes.
    fn size(&self) -> u64;

    /// Fills `into` with the bytes at `pos`.
    ///
    /// # Errors
    /// [`MediumError`]; `into` then holds nothing of use.
    fn read(&self, pos: Pos, into: &mut [u8]) -> Result<(), MediumError>;

    /// Fills several buffers, one after the other, with the bytes from `pos` on.
    ///
    /// # Errors
    /// As for [`Medium::read`].
    fn read_vectored(&self, pos: Pos, into: &mut [IoSliceMut<'_>]) -> Result<(), MediumError> {
        let mut at = pos.0;
        into.iter_mut().try_for_each(|part| {
            let pos = Pos(at);
            at += part.len() as u64;
            self.read(pos, part)
        })
    }

    /// Writes `from` at `pos`. Durable at the next [`Medium::sync`], or, with
    /// `durable`, before it returns.
    ///
    /// # Errors
    /// [`MediumError`]; each sector then holds the old or the new bytes.
    fn write(&self, pos: Pos, from: &[u8], durable: bool) -> Result<(), MediumError>;

    /// Writes `from`, part of a pass, at `pos`: durable at the next
    /// [`Medium::sync`], and never read. The caller makes sure that
    /// no other write touches these bytes meanwhile.
    ///
    /// # Errors
    /// As for [`Medium::write`]; [`MediumErrorKind::Remains`].
    fn overwrite(&self, pos: Pos, from: &[u8]) -> Result<(), MediumError> {
        self.write(pos, from, false)
    }

    /// Makes every write and pass that has returned durable.
    ///
    /// # Errors
    /// [`MediumError`]; what is durable is then unknown, and every sync and
    /// every durable write fails from then on.
    fn sync(&self) -> Result<(), MediumError>;

    /// Gives the space of `extent` back: it then reads as zeros. Only called
    /// when [`Capabilities::punch`] is set. Its durability is that of a write.
    ///
    /// # Errors
    /// [`MediumError`]; [`MediumErrorKind::Remains`].
    fn punch(&self, extent: Extent<Pos>) -> Result<(), MediumError>;

    /// Makes `extent` read as zeros and keeps its space allocated.
    ///
    /// # Errors
    /// [`MediumError`].
    fn zero(&self, extent: Extent<Pos>) -> Result<(), MediumError>;

    /// Destroys what `extents` held before, and with [`Keep::Nothing`] what they hold: on return nothing that reads the medium, by
    /// whatever means, finds it, and everything written or punched is durable. Only called when [`Capabilities::erases`] is set.
    ///
    /// # Errors
    /// [`MediumError`]; [`MediumErrorKind::Remains`]. With [`Keep::Nothing`], the extents may then hold the old content or zeros.
    fn erase(&self, extents: &[Extent<Pos>], keep: Keep) -> Result<(), MediumError> {
        let _ = (extents, keep);
        unreachable!("a medium is only asked for what it can do")
    }

    /// Makes `extent` read as zeros, and gives its space back if that can be done.
    ///
    /// # Errors
    /// [`MediumError`].
    fn clear(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        if self.capabilities().punch { self.punch(extent) } else { self.zero(extent) }
    }

    /// Allocates space for `extent` where it has none: a later write there does not fail
    /// for lack of space. The content does not change. A medium that always has
    /// its space does nothing.
    ///
    /// # Errors
    /// [`MediumError`]; some of the space may be allocated then.
    fn reserve(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        let _ = extent;
        Ok(())
    }

    /// Truncates the medium to `bytes`. Only called on a medium that grows with writes.
    ///
    /// # Errors
    /// [`MediumError`]; the medium may be truncated or not.
    fn shrink(&self, bytes: u64) -> Result<(), MediumError> {
        Err(MediumError {
            kind: MediumErrorKind::Io,
            message: format!("cannot shorten the medium to {bytes} bytes: its size is fixed"),
        })
    }

    /// The parts of `extent` that have space on the medium, in order: elsewhere nothing lies. All of it if the medium cannot tell.
    fn allocated(&self, extent: Extent<Pos>) -> Vec<Extent<Pos>> {
        vec![extent]
    }

    /// The position of the next byte from `pos` on that may not be zero: `pos` if the medium cannot tell.
    fn next_data(&self, pos: Pos) -> Pos {
        pos
    }

    /// Brings `extent` into the host's cache: advice, without effect on what
    /// is stored.
    fn prefetch(&self, extent: Extent<Pos>) {
        let _ = extent;
    }

    /// The abilities of the medium.
    fn capabilities(&self) -> Capabilities;
}

/// The abilities of a [`Medium`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Capabilities {
    /// [`Medium::punch`] works: punched space reads as zeros.
    pub punch: bool,
    /// A write leaves the old content elsewhere on the medium, where only [`Medium::erase`] destroys it.
    pub erases: bool,
}

/// What [`Medium::erase`] leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// Nothing: the extents read as zeros.
    Nothing,
    /// The present content: only older versions go.
    Present,
}

/// Why a [`Medium`] failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct MediumError {
    /// The kind, which decides how the failure is handled.
    pub kind: MediumErrorKind,
    /// The operation that failed, and why, in words.
    pub message: String,
}

/// The kinds of [`MediumError`], by what follows from them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MediumErrorKind {
    /// The host has no space for a write; nothing else is wrong.
    NoSpace,
    /// A pass or a hole was refused: the medium will not erase these bytes, and may hold some of them for ever. They stay owed,
    /// and are tried again later; all other bytes are as well as before. No other act is answered so.
    Remains,
    /// It was certainly not done, and can be done later: the medium does not take so many writes at once.
    Busy,
    /// Any other failure: nothing more may be written to the medium.
    Io,
}
