//! Reads the content that decides the regions of a disk.

use super::Asker;
use crate::disk::partition::Missing;
use crate::disk::plan::{Plan, plan};
use crate::formats::format::{Contents, Prober};
use quietus_core::base::units::{Addr, Extent};
use std::collections::VecDeque;

/// Most rounds of questions: a chain of logical partitions takes one for each link.
const ROUNDS_MAX: usize = 1024;

/// Progress of a search.
#[derive(Debug)]
pub(super) enum Step {
    /// Waits for reads.
    Reads,
    Found(Plan),
    /// Reason why no regions can be found.
    Fails(String),
}

/// One search for the regions of a disk.
#[derive(Debug)]
pub(super) struct Search {
    pub id: Asker,
    pub contents: Contents,
    /// Extents asked for so far.
    asked: Vec<Extent<Addr>>,
    /// Extents to be read next.
    pub queue: VecDeque<Extent<Addr>>,
    /// Number of answers still to come.
    open: usize,
    rounds: usize,
}

impl Search {
    pub(super) fn new(id: Asker) -> Self {
        let (contents, queue) = (Contents::default(), VecDeque::new());
        Self { id, contents, asked: Vec::new(), queue, open: 0, rounds: 0 }
    }

    /// Whether the result depends on the content of `extent`.
    pub(super) fn depends_on(&self, extent: Extent<Addr>) -> bool {
        self.asked.iter().any(|asked| asked.overlaps(extent))
    }

    pub(super) fn given(&mut self, extent: Extent<Addr>, content: &[u8]) {
        self.contents.insert(extent.start, content.to_vec());
        self.open = self.open.saturating_sub(1);
    }

    pub(super) fn go_on(&mut self, disk_bytes: u64, probers: &[Prober]) -> Step {
        if self.open > 0 {
            return Step::Reads;
        }
        match plan(disk_bytes, probers, &self.contents) {
            Ok(plan) => Step::Found(plan),
            Err(_) if self.rounds == ROUNDS_MAX => {
                Step::Fails("the search for partitions and file systems needs too many reads".into())
            }
            Err(Missing(extents)) => {
                self.rounds += 1;
                self.open = extents.len();
                self.asked.extend(&extents);
                self.queue.extend(extents);
                Step::Reads
            }
        }
    }
}
