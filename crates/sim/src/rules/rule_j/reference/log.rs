//! The place in the journal (3), (6).

use crate::rules::rule_j::log::{Area, At, Header, Own, Tag, Tail, Tid};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Where the next transaction begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum Position {
    /// The superblock has not been read.
    #[default]
    NotRead,
    /// The least number that it can have.
    Unknown(Tid),
    /// The least number that it can have, while nothing in the journal is live.
    Empty(Tid),
    /// The number of the next transaction, and where it begins.
    Known(Tid, At),
}

/// How far the next transaction has come.
pub(super) enum Next {
    Incomplete,
    /// As long as the log.
    TooLong,
    /// Its number, and the copies that it brings.
    Received(Tid, Vec<(At, Tag)>),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Log {
    area: Area,
    position: Position,
    noted: BTreeMap<At, Header>,
    fresh: BTreeSet<At>,
    /// Sectors that have arrived of each block that is written in parts.
    parts: BTreeMap<At, BTreeSet<usize>>,
    /// Blocks all of whose sectors have arrived: they are to be read.
    pub unread: BTreeSet<At>,
    /// Of these blocks, the ones after which another block of the journal was written.
    pub overtaken: BTreeSet<At>,
    /// Content from before the attach that is to be read.
    pub unseen: BTreeSet<At>,
}

impl Log {
    pub fn new(area: Area) -> Self {
        Self { area, ..Self::default() }
    }

    pub fn is_empty(&self) -> bool {
        matches!(self.position, Position::Empty(_))
    }

    pub fn is_known(&self) -> bool {
        matches!(self.position, Position::Known(..) | Position::Empty(_))
    }

    pub fn is_read(&self) -> bool {
        self.position != Position::NotRead
    }

    pub fn is_unknown(&self) -> bool {
        matches!(self.position, Position::Unknown(_))
    }

    /// Whether `tail` is what the guest writes when it has replayed the log.
    pub fn is_replayed(&self, tail: Tail, overtaken: bool) -> bool {
        let is_higher =
            matches!(self.position, Position::Known(next, _) if tail.start != 0 && is_lower(next, tail.tid));
        is_higher && self.parts.is_empty() && self.unread.is_empty() && !overtaken
    }

    /// Whether `tail` says that the log is empty, and has a number that was used.
    pub fn goes_back(&self, tail: Tail) -> bool {
        let next = match self.position {
            Position::NotRead => return false,
            Position::Known(next, _) | Position::Unknown(next) | Position::Empty(next) => next,
        };
        tail.start == 0 && is_lower(tail.tid, next)
    }

    /// Notes that content at `at` is gone.
    pub fn gone(&mut self, at: At) {
        self.fresh.remove(&at);
        self.noted.remove(&at);
        self.parts.remove(&at);
        self.unread.remove(&at);
        self.overtaken.remove(&at);
        self.unseen.remove(&at);
    }

    /// All of the log is to be read, if the position is unknown.
    pub fn look(&mut self) {
        if self.is_unknown() {
            self.unseen = (1..self.area.len).collect();
        }
    }

    /// `bytes` lie at `at` since before the attach.
    pub fn looked(&mut self, at: At, bytes: &[u8]) {
        self.unseen.remove(&at);
        match (self.position, self.area.header(bytes)) {
            (Position::Unknown(least), Some(header)) if !is_lower(header.tid, least) => {
                self.position = Position::Unknown(header.tid);
            }
            _ => {}
        }
    }

    /// Nothing that has arrived is of the next transaction.
    fn all_is_old(&mut self) {
        self.fresh.clear();
        self.parts.clear();
        self.unread.clear();
        self.overtaken.clear();
    }

    /// Some sectors of `at` are written.
    pub fn part_written(&mut self, at: At, sectors: Range<usize>) {
        let mut parts = self.parts.get(&at).cloned().unwrap_or_default();
        self.gone(at);
        parts.extend(sectors);
        if parts.len() == self.area.block_bytes as usize / crate::rules::rule_j::reference::SECTOR {
            self.unread.insert(at);
        } else {
            self.parts.insert(at, parts);
        }
    }

    /// `at` is written, and was `overtaken` before it was read. Says whether the
    /// position is lost by that.
    pub fn written(&mut self, at: At, bytes: &[u8], overtaken: bool) -> bool {
        self.gone(at);
        self.fresh.insert(at);
        let Some(header) = self.area.header(bytes) else { return false };
        let behind = self.area.ahead(at, 1);
        match self.position {
            Position::Known(next, _) if header.tid == next => {
                self.noted.insert(at, header);
            }
            Position::Known(next, _) if is_lower(header.tid, next) => {
                self.fresh.remove(&at);
            }
            Position::Unknown(least) | Position::Empty(least) if is_lower(header.tid, least) => {}
            Position::Unknown(_) if header.kind == Own::Commit && !overtaken && self.unseen.is_empty() => {
                self.position = Position::Known(header.tid.wrapping_add(1), behind);
                self.all_is_old();
            }
            Position::Unknown(_) => self.position = Position::Unknown(header.tid),
            Position::Known(..) | Position::Empty(_) => {
                self.position = Position::Unknown(header.tid);
                return true;
            }
            Position::NotRead => {}
        }
        false
    }

    /// Follows the next transaction from its beginning.
    pub fn receive(&mut self, overtaken: bool) -> Next {
        let Position::Known(next, start) = self.position else { return Next::Incomplete };
        let (mut len, mut copies) = (0, Vec::new());
        while len + 1 < self.area.len - 1 {
            let at = self.area.ahead(start, len);
            len += 1;
            match self.noted.get(&at).map(|it| &it.kind) {
                None => return Next::Incomplete,
                Some(Own::Revoke) => {}
                Some(Own::Descriptor(tags)) => {
                    copies.extend((1..).zip(tags).map(|(n, tag)| (self.area.ahead(at, n), *tag)));
                    len += tags.len() as u32;
                }
                Some(Own::Commit) => return self.ends((next, start, len), copies, overtaken),
            }
        }
        Next::TooLong
    }

    fn ends(&mut self, (next, start, len): (Tid, At, u32), copies: Vec<(At, Tag)>, overtaken: bool) -> Next {
        let all: Vec<_> = (0..len).map(|n| self.area.ahead(start, n)).collect();
        if !all.iter().all(|it| self.fresh.contains(it)) {
            return Next::Incomplete;
        }
        for at in all {
            self.fresh.remove(&at);
        }
        if !overtaken {
            self.all_is_old();
        }
        self.noted.clear();
        self.position = Position::Known(next.wrapping_add(1), self.area.ahead(start, len));
        Next::Received(next, copies)
    }

    pub fn lose(&mut self) {
        self.noted.clear();
        self.position = match self.position {
            Position::Known(next, _) => Position::Unknown(next),
            Position::Empty(least) => Position::Unknown(least),
            it => it,
        };
    }

    /// The superblock says `tail`. Returns what is residue, or `None` if the position is lost.
    /// With `fresh_too`, what was written of the next transaction is residue.
    pub fn tail(&mut self, tail: Tail, overtaken: bool, fresh_too: bool) -> Option<Vec<At>> {
        let Tail { start, tid } = tail;
        if start == 0 {
            self.all_is_old();
            self.noted.clear();
            self.position = Position::Empty(tid);
            return Some((1..self.area.len).collect());
        }
        match self.position {
            Position::Empty(least) if !is_lower(tid, least) => {
                if !overtaken {
                    self.all_is_old();
                }
                self.position = Position::Known(tid, start);
                Some(Vec::new())
            }
            Position::Known(next, begins) if (tid == next) == (start == begins) && !is_lower(next, tid) => {
                let lives = self.area.between(start, begins);
                let is_in_parts = |at: &At| self.parts.contains_key(at) || self.unread.contains(at);
                let is_written = |at: &At| self.fresh.contains(at) || is_in_parts(at);
                let is_dead =
                    |at: &At| (fresh_too || !is_written(at)) && self.area.between(start, *at) >= lives;
                Some((1..self.area.len).filter(is_dead).collect())
            }
            Position::Known(..) if self.is_replayed(tail, overtaken) => {
                self.all_is_old();
                self.noted.clear();
                self.position = Position::Known(tid, start);
                Some((1..self.area.len).collect())
            }
            Position::NotRead => {
                self.position = Position::Unknown(tid);
                Some(Vec::new())
            }
            Position::Unknown(least) if !is_lower(tid, least) => {
                self.position = Position::Unknown(tid);
                Some(Vec::new())
            }
            _ => None,
        }
    }
}

fn is_lower(a: Tid, b: Tid) -> bool {
    a != b && b.wrapping_sub(a) < 1 << 31
}
