//! Copies of what dies in the log of a file system: what passes through it is left there until the log comes around.
//!
//! A copy is known by its content. Old transactions lie behind the part of the log that a replay reads, and the blocks that said
//! what they were may be overwritten.

use super::part::Part;
use crate::disk::Step;
use crate::files::history::changed;
use crate::files::past::Past;
use crate::files::{Disk, Error, State, Target};
use quietus_core::base::extents::ExtentMap;
use quietus_core::base::units::{Addr, Extent};
use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::rc::Rc;

/// Most bytes of the log that are read: of larger ones it is only said that they were not searched.
const LOG_BYTES_MAX: u64 = 4 << 30;
/// Bytes that are read at once.
const PIECE_BYTES: u64 = 4 << 20;
/// Blocks are compared by parts of this length: a file that grows leaves earlier states of its last block in the log, which lay nowhere else.
const SECTOR_BYTES: usize = 512;
/// A copy has zeros there if its content began with the log's own magic number.
const ESCAPED_BYTES: usize = 4;

/// What was found in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct InLog {
    /// Blocks with copies of what dies, each once for each time that the log got it.
    pub(super) copies: u64,
    /// Bytes of the log in epochs that were not searched, or could not be read.
    pub(super) unsearched: u64,
}

/// A search under way.
pub(super) struct Search<'a> {
    disk: &'a Rc<Disk>,
    /// What dies.
    parts: &'a [Part],
    /// Where the log lies on the disk.
    log: ExtentMap<Addr, ()>,
    block_bytes: u64,
    key: RandomState,
    /// The content that dies.
    dying: HashSet<u64>,
    read_bytes: u64,
    found: InLog,
}

impl<'a> Search<'a> {
    /// A search for what `parts` have, on the file system of `target`, up to the `last` kept epoch and the current state.
    pub(super) fn new(
        disk: &'a Rc<Disk>,
        target: &Target,
        last: Option<u64>,
        parts: &'a [Part],
    ) -> Result<Self, Error> {
        let (mut log, mut block_bytes) = (ExtentMap::default(), 0);
        let ends = [parts.iter().map(|it| it.epochs.0).min(), last];
        for epoch in ends.into_iter().flatten() {
            let state = State::new(disk, Some(&epoch.to_string()))?;
            let Ok(mut opened) = quietus_files::open(Box::new(state), target.partition) else { continue };
            let start = opened.place.start.0;
            let Some((owners, source)) = opened.owners() else { continue };
            let Ok((extents, bytes)) = owners.log(source) else { continue };
            extents.into_iter().for_each(|it| log.insert(Extent::new(start + it.start.0, it.len), ()));
            block_bytes = bytes;
        }
        let (key, dying, found) = (RandomState::new(), HashSet::new(), InLog::default());
        Ok(Self { disk, parts, log, block_bytes, key, dying, read_bytes: 0, found })
    }

    /// Searches the log in each state from the first one on that shows some of the parts.
    pub(super) fn run(mut self, step: Step<'_>) -> Result<InLog, Error> {
        if self.log.is_empty() {
            return Ok(self.found);
        }
        for part in self.parts {
            let mut state = State::new(self.disk, Some(&part.epochs.0.to_string()))?;
            for piece in part.blocks.pieces(PIECE_BYTES) {
                // What is forgotten by now had its search.
                let mut bytes = vec![0; piece.len as usize];
                state.read_around(piece, &mut bytes);
                let hashes: Vec<u64> = self.hashes(&bytes).flatten().collect();
                self.dying.extend(hashes);
                if !step(0, 1) {
                    return Err(Error::Interrupted);
                }
            }
        }
        let first = self.parts.iter().map(|it| it.epochs.0).min().unwrap_or_default();
        let log: Vec<_> = self.log.iter().map(|(extent, ())| extent).collect();
        self.look(Some(first), &log)?;
        let (mut before, mut past) = (first, Past::default());
        past.learn(self.disk, &log, first)?;
        while let Some(next) = past.next_change(&log, before) {
            if !step(next.epoch, next.epoch) {
                return Err(Error::Interrupted);
            }
            let todo = changed(self.disk, (before, Some(next.epoch)), &self.log)?;
            self.look(Some(next.epoch), &todo)?;
            before = next.epoch;
        }
        let todo = changed(self.disk, (before, None), &self.log)?;
        self.look(None, &todo)?;
        Ok(self.found)
    }

    /// Looks at parts of the log in one state.
    fn look(&mut self, epoch: Option<u64>, extents: &[Extent<Addr>]) -> Result<(), Error> {
        let mut state = State::new(self.disk, epoch.map(|it| it.to_string()).as_deref())?;
        for piece in extents.iter().flat_map(|extent| extent.pieces(PIECE_BYTES)) {
            self.read_bytes += piece.len;
            if self.read_bytes > LOG_BYTES_MAX {
                self.found.unsearched += piece.len;
                continue;
            }
            let mut bytes = vec![0; piece.len as usize];
            self.found.unsearched += state.read_around(piece, &mut bytes);
            let is_copy = |block: &Vec<u64>| block.iter().any(|sector| self.dying.contains(sector));
            let copies = self.hashes(&bytes).filter(is_copy).count();
            self.found.copies += copies as u64;
        }
        Ok(())
    }

    /// For each block of the file system a number for each of its sectors that is not all zeros.
    fn hashes<'b>(&'b self, bytes: &'b [u8]) -> impl Iterator<Item = Vec<u64>> + use<'b> {
        bytes.chunks_exact(self.block_bytes as usize).map(|block| {
            let sectors = block.chunks(SECTOR_BYTES).enumerate();
            let sectors = sectors.map(|(n, it)| if n == 0 { &it[ESCAPED_BYTES..] } else { it });
            let filled = sectors.filter(|sector| sector.iter().any(|byte| *byte != 0));
            filled.map(|sector| self.key.hash_one(sector)).collect()
        })
    }
}
