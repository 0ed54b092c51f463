//! Marks below a journal: whether any file has one (`docs/decisions/0025-marks.md`).
//!
//! Whose content a block holds is not followed here. While no file has a mark, all content is plain; once one has,
//! everything is sensitive. Invariants:
//! 1. All content is plain only if each block of inodes was read in place, and each copy of one in each
//!    transaction since was seen, and none of them had a mark.
//! 2. A mark is never forgotten.

use super::RuleJ;
use super::log::Log;
use crate::format::{Block, Format, Kind};
use crate::mutant::{self, Mutant};
use crate::options::{Options, Sensitive};
use crate::rule::READ_BYTES_MAX;
use crate::rule::needed::Needed;
use quietus_core::units::{Addr, Extent};
use quietus_core::watch::Class;

/// Knowledge of the marks of all files.
#[derive(Debug)]
pub(super) struct FirstMark {
    /// A file had a mark, at some time since the attach.
    is_found: bool,
    /// A transaction may have been missed since the blocks of inodes were read.
    is_lost: bool,
    /// Blocks of inodes whose content in place is not known.
    unread: Needed,
}

/// Values in a view.
const UNKNOWN: u8 = 0;
const NONE: u8 = 1;
const FOUND: u8 = 2;

impl FirstMark {
    /// None if no marks are to be followed in `format`, or if they cannot be.
    pub(super) fn of(format: &dyn Format, options: Options) -> Option<Self> {
        format.marking().filter(|_| options.sensitive == Sensitive::Marked)?;
        Some(Self { is_found: false, is_lost: true, unread: Needed::default() })
    }

    /// Whether more about marks can be learned from blocks of inodes.
    pub(super) fn wants_inodes(&self) -> bool {
        !self.is_found && !mutant::is(Mutant::JournalFlagUnseen)
    }

    /// Whether it is known that no file has a mark, by all commits that have settled.
    fn is_none(&self) -> bool {
        !self.is_found && !self.is_lost && self.unread.is_empty()
    }

    /// Notes that transactions may be missed.
    pub(super) fn lose(&mut self) {
        self.is_lost = !mutant::is(Mutant::LossKeepsPlain);
    }

    /// Reads all blocks of inodes again.
    fn reread(&mut self, format: &dyn Format) {
        if self.is_found {
            return;
        }
        self.is_lost = false;
        format.survey(Kind::Inodes).into_iter().for_each(|run| self.unread.want_all(run));
    }

    /// Notes that `block` of inodes was written in place by other than the journal's owner.
    fn written(&mut self, block: Block) {
        if !self.is_found {
            self.unread.want(block);
        }
    }

    /// Takes `content` of `block` of inodes.
    fn seen(&mut self, format: &dyn Format, block: Block, content: &[u8]) {
        let owners = format.marking().map(|it| it.owners(block, content)).unwrap_or_default();
        if owners.iter().any(|owner| owner.is_in_use && owner.is_marked) {
            self.is_found = true;
            self.unread = Needed::default();
        }
    }

    /// Takes `content` of `block`, which was read in place. A block that was written since is asked for once more.
    fn given(&mut self, format: &dyn Format, block: Block, content: &[u8]) {
        self.seen(format, block, content);
        self.unread.answer(block);
    }

    /// Whether a block of inodes is to be read.
    pub(super) fn is_reading(&self) -> bool {
        !self.unread.is_empty()
    }

    /// The byte for a view.
    pub(super) fn to_byte(&self) -> u8 {
        match (self.is_found, self.is_none()) {
            (true, _) => FOUND,
            (false, true) => NONE,
            (false, false) => UNKNOWN,
        }
    }

    /// Takes the byte of a view.
    pub(super) fn restore(&mut self, byte: u8) -> Option<()> {
        match byte {
            UNKNOWN => {}
            NONE | FOUND => {
                *self = Self { is_found: byte == FOUND, is_lost: false, unread: Needed::default() };
            }
            _ => return None,
        }
        Some(())
    }

    /// The state of the search for marks, or why everything is sensitive.
    pub(super) fn note(&self) -> Result<&'static str, &'static str> {
        match self.to_byte() {
            NONE => Ok("no file has a mark: nothing has to be destroyed"),
            FOUND => Err("a file has a mark, and below a journal marks are not followed further"),
            _ if self.is_lost => Err("commits of the journal were missed; the next unmount ends that"),
            _ => Err("the inodes are still searched for marks"),
        }
    }
}

impl RuleJ {
    /// Reads the blocks of inodes, unless nothing was missed, and the file system came to rest `in_order`.
    pub(super) fn search_marks(&mut self, in_order: bool) {
        let is_followed = self.log.as_ref().is_none_or(Log::is_known);
        if let Some(first) = self.first_mark.as_mut().filter(|it| is_followed && (it.is_lost || !in_order)) {
            first.reread(&*self.format);
        }
    }

    /// Takes a write of `block` of inodes in place. While the file system is mounted, it repeats a commit.
    pub(super) fn inodes_written(&mut self, block: Block) {
        if let Some(first) = self.first_mark.as_mut().filter(|_| !self.in_use) {
            first.written(block);
        }
    }

    /// Takes `content` of `block` of inodes, from a commit.
    pub(super) fn inodes_committed(&mut self, block: Block, content: &[u8]) {
        if let Some(first) = &mut self.first_mark {
            first.seen(&*self.format, block, content);
        }
    }

    pub(super) fn inodes_given(&mut self, block: Block, content: &[u8]) {
        if let Some(first) = &mut self.first_mark {
            first.given(&*self.format, block, content);
        }
    }

    pub(super) fn next_inodes(&mut self) -> Option<Extent<Addr>> {
        let most = READ_BYTES_MAX / u64::from(self.format.block_bytes());
        let run = self.first_mark.as_mut()?.unread.next_read(most as u32)?;
        Some(self.grid.extent_of_run(&run))
    }

    /// Whether all content that a map in a settled commit shows free was plain.
    pub(super) fn was_plain(&self) -> bool {
        self.first_mark.as_ref().is_some_and(FirstMark::is_none) && self.knows_position()
    }

    /// Whether all content is plain, by everything that has arrived.
    pub(super) fn is_plain(&self) -> bool {
        self.was_plain() && self.commits.are_settled() && !self.log.as_ref().is_none_or(Log::is_torn)
    }

    /// Forgets what would have to be destroyed, once all content is known to be plain.
    pub(super) fn forget_plain(&mut self) {
        let has_some = !self.deaths.is_idle() || !self.suspicious.is_empty();
        if self.first_mark.is_some() && has_some && self.is_plain() {
            self.deaths.take_condemned();
            self.suspicious.clear();
        }
    }

    pub(super) fn class(&self) -> Class {
        match &self.first_mark {
            Some(first) if !first.is_found && !self.changed && self.broken.is_none() => {
                if self.is_plain() {
                    Class::Plain
                } else {
                    Class::Unsettled
                }
            }
            _ => Class::Sensitive,
        }
    }
}
