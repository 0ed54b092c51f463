//! The differences between the file systems of guests.

use crate::guests::files::systems::truth::Truth;
use crate::guests::files::wire::What;
use crate::rules::rule_e::guest::{Action, Guest, Mark, Owner};
use crate::rules::rule_e::toy::{Bytes, MAP, Super, Toy};
use crate::rules::rule_j::judge::Holds;
use quietus_detect::formats::format::Block;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::ops::Range;

/// Place of the label in the superblock, behind its fields.
pub(in super::super) const LABEL: usize = 4;

pub type Writes = Vec<(Block, Vec<u8>)>;

/// A file system: in the memory of a guest, if it is mounted.
pub trait System: Debug {
    /// The byte of the superblock by which [`crate::guests::files::prober`] knows the file system.
    fn label(&self) -> u8;

    /// Where everything lies.
    fn toy(&self) -> Toy;

    fn blocks(&self) -> Block {
        self.toy().blocks
    }

    fn data(&self) -> Range<Block> {
        self.toy().data()
    }

    /// Whether `block` holds content of files, which may be gone one day.
    fn is_data(&self, block: Block) -> bool {
        self.data().contains(&block)
    }

    /// The blocks of the log, where there is a journal: copies of content, which may be gone one day too.
    fn log(&self) -> Range<Block> {
        0..0
    }

    /// An empty file system, as it lies on the disk from there on: the beginning of each block.
    fn disk(&mut self, _start_bytes: u64) -> Vec<Vec<u8>> {
        self.toy().disk().into_iter().map(Vec::from).collect()
    }

    fn is_mounted(&self) -> bool;

    /// The superblock to write at a mount, if the disk's says `before`; `None` if a mount writes no superblock.
    fn in_use(&self, before: Super) -> Option<Super> {
        Some(Super { is_clean: false, ..before })
    }

    /// Reads what lies on the disk into memory.
    fn mount(&mut self, seen: &[Bytes]);

    /// The superblock to write at an unmount, after one that said `was_clean` at the mount.
    fn at_last(&self, was_clean: bool) -> Option<Super>;

    /// Forgets all that is in memory.
    fn leave(&mut self);

    /// Blocks that differ from the disk, or may.
    fn dirty(&self) -> BTreeSet<Block>;

    /// A dirty block, as it is in memory; `None` if the journal sends it ([`System::outbox`]).
    fn write_back(&mut self, block: Block) -> Option<Bytes>;

    /// The blocks that a check writes that finds `seen`; the superblock last.
    fn mend(&mut self, seen: &[Bytes]) -> Vec<(Block, Bytes)>;

    fn free(&self) -> Vec<Block>;

    /// The files in memory, of a file system that may reserve space.
    fn files(&self) -> Option<&Guest> {
        None
    }

    /// The blocks that files have reserved and not written, as it follows from what lies on the disk.
    fn reserved_on(&self, seen: &[Bytes]) -> BTreeSet<Block> {
        Guest::mount(self.toy(), seen, 0).reserved()
    }

    /// The possible actions of processes on files, except for writing a block again.
    fn actions(&self) -> Vec<Action>;

    /// Does `action`, if it can be done.
    fn does(&mut self, action: Action, truth: &mut Truth);

    /// The owner of each block, in memory.
    fn owners(&self) -> Option<BTreeMap<Block, Owner>>;

    /// The owner of each block, as it follows from what lies on the disk: the pages, and all of it.
    fn owners_on(&self, seen: &[Bytes], found: &[Vec<u8>]) -> BTreeMap<Block, Owner>;

    /// The part of the map that is `page` of `block`: which blocks are allocated.
    fn shown(&self, block: Block, page: &Bytes) -> Vec<(Block, bool)> {
        let shown = (0..self.blocks()).zip(page).map(|(block, byte)| (block, *byte != 0));
        shown.filter(|_| block == MAP).collect()
    }

    /// All owners that name each block, as far as pointers on the disk tell.
    fn namers(&self, seen: &[Bytes]) -> Vec<BTreeSet<Owner>>;

    /// Whether some mixture of what is possible in each block after a crash gives `block` to the
    /// stay in `mark`, or needs what lies there for the recovery.
    fn is_needed(&mut self, block: Block, mark: Option<Mark>, truth: &Truth, possible: &[Vec<Bytes>])
    -> bool;

    /// The stay in each block, where a journal decides it; else it follows from the owners.
    fn holds(&self) -> Option<Holds> {
        None
    }

    /// The stay in each block, where what lies on the disk tells it better than the owners.
    fn stays_on(&self, _seen: &[Bytes], _truth: &Truth) -> Option<Holds> {
        None
    }

    /// Whether a crash of the server forgot what the stay in `mark` left below the content of `block`, and
    /// whether nothing could be seen of its end; `None` if the truth decides.
    fn excuse(&self, _block: Block, _mark: Mark) -> Option<(bool, bool)> {
        None
    }

    /// The next writes of a journal, to blocks that are not `busy`.
    fn outbox(&mut self, _busy: &BTreeSet<Block>) -> Vec<What> {
        Vec::new()
    }

    fn arrived(&mut self, _block: Block, _bytes: &[u8]) {}

    /// The write to `block` was replied to.
    fn replied(&mut self, _block: Block) {}

    /// The write to `block` was refused, and will come again.
    fn refused(&mut self, _block: Block) {}

    /// The journal's flush was replied to.
    fn flushed(&mut self) {}

    /// The commit takes its next step, or begins.
    fn advance(&mut self) {}

    /// The tail of the log moves up.
    fn move_tail(&mut self) {}

    /// Moves logged blocks on to their places. Returns whether all are there.
    fn hurry(&mut self) -> bool {
        true
    }

    /// Empties the log, once all logged blocks are in their places.
    fn empty(&mut self) {}

    /// The writes that bring what is in the log to its place, and those after the flush that follows:
    /// which empty the log, or not.
    ///
    /// # Errors
    /// If there is no log.
    fn replay(&mut self, _found: &[Vec<u8>], _empties: bool) -> Result<[Writes; 2], String> {
        Ok(Default::default())
    }

    /// Learns that a crash left `found`.
    ///
    /// # Errors
    /// If no crash can leave that.
    fn found(&mut self, _found: &[Vec<u8>]) -> Result<(), String> {
        Ok(())
    }

    /// The server may have forgotten all that it knew.
    fn forgotten(&mut self) {}

    /// The server has nothing to do.
    fn is_idle(&mut self) {}
}
