//! The guests and disks of the trials, and their limits.

use crate::rules::rule_e::guest::{Converts, FILES, Reserving, SLOTS};
use crate::rules::rule_e::toy::Toy;
use crate::rules::rule_e::wide::widened;
use crate::rules::rule_j::device::{FIRST, WIDE_BYTES, Wider};
use crate::rules::rule_j::guest::Mode;
use crate::rules::rule_j::log::{Area, Flavour, Tail};
use quietus_detect::formats::format::Block;
use std::ops::Range;

/// A guest, a disk and the limits of a search.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Data that is journaled, and data that is ordered.
    pub mode: Mode,
    /// Blocks of data.
    pub data: Block,
    /// Blocks of the journal, its superblock too.
    pub journal: u32,
    /// How tags are written.
    pub flavour: Flavour,
    /// The commit block does not wait for the others.
    pub is_async: bool,
    /// How many numbers a mount leaves out.
    pub skips: u32,
    /// The guest may crash.
    pub crashes: bool,
    /// The server may be killed, and the guest may then repeat requests that were done.
    pub restarts: bool,
    /// So few files and steps that all histories can be searched: no time passes, metadata and the tail do not go on
    /// their way one by one, and only a guest that may crash unmounts.
    pub is_small: bool,
    /// Blocks of the log may arrive in parts.
    pub splits: bool,
    /// The journal lies on another device.
    pub external_journal: Option<ExternalJournal>,
    /// A cache stands between the guest and the disk. It does not pass flushes on, and lasts.
    pub is_cached: bool,
    /// The rules are told of the cache.
    pub is_told: bool,
    /// Files have marks, and only what they hold has to be destroyed.
    pub has_marks: bool,
    /// Files reserve space, and when the pointers to it change.
    pub reserves: Option<Converts>,
}

/// Properties of a journal that lies elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ExternalJournal {
    /// Writes on their way to their places may be overtaken by later ones.
    pub reorders: bool,
    /// A layer between guest and server answers reads, which the rules do not see.
    pub hides_reads: bool,
}

impl Setup {
    /// Everything, for long histories.
    pub fn large(mode: Mode) -> Self {
        Self {
            mode,
            data: 6,
            journal: 20,
            flavour: Flavour::Plain,
            is_async: false,
            skips: 1,
            crashes: true,
            restarts: true,
            is_small: false,
            splits: false,
            external_journal: None,
            is_cached: false,
            is_told: true,
            has_marks: false,
            reserves: None,
        }
    }

    /// The guest with its journal on another device.
    pub fn external_journal(self) -> Self {
        Self { external_journal: Some(ExternalJournal { reorders: false, hides_reads: false }), ..self }
    }

    /// So few steps that all histories can be searched.
    pub fn small(mode: Mode) -> Self {
        Self { data: 2, journal: 12, crashes: false, restarts: false, is_small: true, ..Self::large(mode) }
    }

    /// The number of files, and the slots that they use.
    pub fn files(&self) -> (usize, Range<usize>) {
        if self.is_small { (2, 0..1) } else { (FILES, 0..SLOTS) }
    }

    /// The space that files reserve: that which inodes themselves name.
    pub fn reserving(&self) -> Option<Reserving> {
        self.reserves.map(|converts| Reserving { converts, slots: 2 })
    }

    /// Where the toy's parts lie.
    pub fn toy(&self) -> Toy {
        let blocks = 3 + self.journal + self.data;
        let (has_marks, frees_wait) = (self.has_marks, self.mode != Mode::Writeback);
        Toy { journal: self.journal, block_bytes: WIDE_BYTES, has_marks, frees_wait, ..Toy::new(blocks) }
    }

    /// Where the journal lies.
    pub fn area(&self) -> Area {
        let (first, len) = (self.toy().journal_first(), self.journal);
        let base = if self.external_journal.is_some() { FIRST } else { 0 };
        Area { first, len, base, block_bytes: WIDE_BYTES, flavour: self.flavour }
    }

    /// An empty file system that was unmounted, and its log.
    pub fn disk(&self) -> (Vec<Wider>, Tail) {
        let (toy, tail) = (self.toy(), Tail { start: 0, tid: 1 });
        let wider = |it: Vec<u8>| Wider::try_from(it).expect("it is a block");
        let mut disk: Vec<_> = toy.disk().iter().map(|it| wider(widened(it, WIDE_BYTES))).collect();
        disk[toy.journal_first() as usize] = wider(self.area().superblock(tail));
        (disk, tail)
    }
}
