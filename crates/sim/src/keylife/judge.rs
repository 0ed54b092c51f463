//! The judge of the promises. It knows no rule: it notes what the guest asked for, and looks at what shows.

use super::state::Content;
use super::{Answer, BLOCKS, Read, SECTORS, Server, Step};
use std::collections::BTreeSet;

/// A flush under way.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub done: u8,
    /// What each sector showed when the flush began; `None` while a write was under way.
    pub shown: [[Option<Content>; SECTORS]; BLOCKS],
    /// The last content that had been drawn then.
    pub since: Content,
}

/// What each sector may show.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    /// Contents of which the guest may find any, 0 for zeros.
    pub may: [[BTreeSet<Content>; SECTORS]; BLOCKS],
    pub flush: Option<Mark>,
    written: Content,
}

impl Judge {
    pub fn new() -> Self {
        let first = |block| [(); SECTORS].map(|()| BTreeSet::from([block as Content + 1]));
        Self { may: std::array::from_fn(first), flush: None, written: BLOCKS as Content }
    }

    /// Notes what the guest asks for with `step`; `before` shows before it.
    pub fn notes(&mut self, step: Step, before: &Answer) {
        match step {
            Step::Write(block) | Step::Rewrite(block) => {
                self.written += 1;
                for may in &mut self.may[usize::from(block)] {
                    may.insert(self.written);
                }
            }
            Step::Trim(block) => self.may[usize::from(block)] = [(); SECTORS].map(|()| BTreeSet::from([0])),
            Step::Flush => self.flushes(before),
            Step::Crash(_) | Step::Kill => self.flush = None,
            _ => {}
        }
    }

    fn flushes(&mut self, before: &Answer) {
        let (shown, since) = (before.reads.map(|it| it.map(content)), self.written);
        let mark = self.flush.get_or_insert(Mark { done: 0, shown, since });
        mark.done += 1;
        if mark.done < 4 {
            return;
        }
        let (shown, since) = (mark.shown, mark.since);
        self.flush = None;
        for (may, shown) in self.may.iter_mut().flatten().zip(shown.into_iter().flatten()) {
            if let Some(shown) = shown.filter(|it| may.contains(it)) {
                may.retain(|it| *it == shown || *it > since);
            }
        }
    }

    /// The promise that `now` breaks.
    pub fn judges(&self, now: &Answer) -> Result<(), String> {
        if now.server == Server::Refused {
            return Err("live is never lost: the disk does not open".into());
        }
        if let Some(it) = now.opens.intersection(&now.receipts).next() {
            return Err(format!("dead content that has a receipt opens from nothing: content {it} opens"));
        }
        for (block, (reads, may)) in now.reads.iter().zip(&self.may).enumerate() {
            for (read, may) in reads.iter().zip(may) {
                let is_well = *read == Read::Waits || content(*read).is_some_and(|it| may.contains(&it));
                if !is_well {
                    return Err(format!("block {block} reads {read:?}, but may only read one of {may:?}"));
                }
            }
        }
        Ok(())
    }
}

fn content(read: Read) -> Option<Content> {
    match read {
        Read::Zeros => Some(0),
        Read::Content(content) => Some(content),
        Read::Waits | Read::Garbage => None,
    }
}
