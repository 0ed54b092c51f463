//! What a store can do whose content dies with its keys: each block lies in its place under a *cell*, which changes when the block dies
//! and never when it is written.
//!
//! A *purge* ends cells for good: it writes fresh ones for all that is dead, then destroys the one key that opens the old ones. Between
//! purges a dead block that is written takes an *early* cell, and a live one that must lie under another cell a *prepared* one. A purge
//! ends whatever cells came before those, too.

use crate::base::blocks::BlockSet;
use crate::base::units::{Addr, Extent, Pos};
use crate::media::places::Places;
use crate::owed::KeysPosition;

/// See the module's documentation. All extents are whole blocks, the last of which may end with the disk.
pub trait Keyed {
    /// Whether `blocks` may get early cells now, or be prepared: the log has room for their entries. If not, a checkpoint makes room, or
    /// else a purge.
    fn has_room(&self, blocks: Extent<Addr>) -> bool;

    /// Whether so much of that room is taken that a purge is due, which makes all of it free.
    fn is_filling(&self) -> bool;

    /// Gives the dead `blocks`, which are about to be written as a whole, early cells. They lie under those from now on; durably so
    /// once a checkpoint has ended that began after their write.
    fn renew(&mut self, blocks: Extent<Addr>);

    /// Begins a purge of the `dead` blocks, and of all cells that are not in use any more. Its jobs are the next of
    /// [`Mapped::background`](super::Mapped::background).
    ///
    /// # Panics
    /// If one is under way, or the log has the entry of a prepared block that is not active.
    fn begin_purge(&mut self, dead: BlockSet);

    /// Whether a purge is under way: old cells may still be found.
    fn is_purging(&self) -> bool;

    /// What the journal has to know of the keys: a start refuses older ones.
    fn position(&self) -> KeysPosition;

    /// What was prepared, and has no entry in the log yet, will not be needed.
    fn give_up_prepared(&mut self);

    /// Draws a fresh cell for each of these live `blocks`.
    fn prepare(&mut self, blocks: Extent<Addr>);

    /// The next entries of the log, if there are any: those of blocks that were [prepared](Keyed::prepare), and of prepared blocks that
    /// became [active](Keyed::activate), since this was last called. They are written and synced before what needs them.
    fn log(&mut self) -> Option<(Places, Vec<u8>)>;

    /// Where the prepared `blocks` go, under their prepared cells: to `slots` of the journal, side by side, or to their places.
    fn prepared(&self, blocks: Extent<Addr>, slots: Option<Pos>) -> Places;

    /// The prepared `blocks` lie under their prepared cells from now on.
    fn activate(&mut self, blocks: Extent<Addr>);
}
