//! What a judge puts on trial: something that sees the writes, and says what is
//! dead.

use quietus_core::watch::Verdict;
use quietus_detect::format::Block;
use std::collections::BTreeMap;
use std::fmt;

/// The disk, and rules that watch it.
pub trait Rules: fmt::Debug {
    /// What lies on the disk.
    fn disk(&self) -> Vec<&[u8]>;

    /// `block` gets `bytes`. What is to be destroyed before is returned.
    ///
    /// # Errors
    /// Two versions of the rules disagree.
    fn write(&mut self, block: Block, bytes: &[u8]) -> Result<Vec<Block>, String>;

    /// The same, in two parts; as a whole to rules that know no parts.
    ///
    /// # Errors
    /// Two versions of the rules disagree.
    fn write_in_parts(&mut self, block: Block, bytes: &[u8]) -> Result<Vec<Block>, String> {
        self.write(block, bytes)
    }

    /// Somebody who knows nothing of the file system reads its superblock.
    ///
    /// # Errors
    /// Two versions of the rules disagree.
    fn opened(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Reads something that is wanted; false: nothing is.
    ///
    /// # Errors
    /// Two versions of the rules disagree.
    fn read_one(&mut self) -> Result<bool, String>;

    /// Evidence begins to be made durable.
    fn cut(&mut self);

    /// It is durable.
    fn proven(&mut self);

    /// Takes all verdicts that there are; with `all`, also those that may settle
    /// themselves.
    ///
    /// # Errors
    /// Two versions of the rules disagree.
    fn verdicts(&mut self, all: bool) -> Result<BTreeMap<Block, Verdict>, String>;

    /// What lies in `block` is destroyed; no rule is told.
    fn destroy(&mut self, block: Block);

    /// Time passes.
    ///
    /// # Errors
    /// Two versions of the rules disagree.
    fn pass(&mut self, ms: u64) -> Result<(), String>;

    /// The server is killed, and started again.
    fn restart(&mut self);

    /// Whether inference has stopped.
    fn is_over(&self) -> bool;

    /// Whether they have always read what they want.
    fn read_at_once(&self) -> bool;

    /// Whether they know of what lies below content.
    fn knows_layers(&self) -> bool;

    /// Equal states have equal digests.
    fn digest(&self) -> u64;
}
