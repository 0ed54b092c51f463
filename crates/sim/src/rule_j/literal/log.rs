//! The place in the journal [3], [6].

use crate::rule_j::log::{Area, At, Header, Own, Tag, Tail, Tid};
use std::collections::{BTreeMap, BTreeSet};

/// Where the next transaction begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Position {
    /// The superblock has not been read.
    NotRead,
    /// The least number that it can have.
    Unknown(Tid),
    /// The same, and nothing in the journal is live.
    Empty(Tid),
    /// Its number, and where it begins.
    Known(Tid, At),
}

/// See the module's documentation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Log {
    area: Area,
    position: Position,
    noted: BTreeMap<At, Header>,
    fresh: BTreeSet<At>,
}

impl Log {
    pub fn new(area: Area) -> Self {
        Self { area, position: Position::NotRead, noted: BTreeMap::new(), fresh: BTreeSet::new() }
    }

    pub fn is_empty(&self) -> bool {
        matches!(self.position, Position::Empty(_))
    }

    pub fn is_known(&self) -> bool {
        matches!(self.position, Position::Known(..))
    }

    /// `at` is written. Says whether the position is lost by that.
    pub fn written(&mut self, at: At, bytes: &[u8]) -> bool {
        self.fresh.insert(at);
        self.noted.remove(&at);
        let Some(header) = self.area.header(bytes) else { return false };
        let behind = self.area.ahead(at, 1);
        match self.position {
            Position::Known(next, _) if header.tid == next => {
                self.noted.insert(at, header);
            }
            Position::Known(next, _) => return is_lower(next, header.tid),
            Position::Unknown(least) if header.kind == Own::Commit && !is_lower(header.tid, least) => {
                self.position = Position::Known(header.tid.wrapping_add(1), behind);
            }
            Position::Empty(least) if !is_lower(header.tid, least) => {
                self.position = Position::Unknown(least);
            }
            _ => {}
        }
        false
    }

    /// The transaction that has been received, if one has: its number, and the
    /// copies that it brings.
    pub fn receive(&mut self) -> Option<(Tid, Vec<(At, Tag)>)> {
        let Position::Known(next, start) = self.position else { return None };
        let (mut at, mut copies) = (start, Vec::new());
        for _ in 0..self.area.len {
            let header = self.noted.get(&at).filter(|_| self.fresh.contains(&at))?.clone();
            at = self.area.ahead(at, 1);
            match header.kind {
                Own::Revoke => {}
                Own::Descriptor(tags) => {
                    for tag in tags {
                        self.fresh.contains(&at).then_some(())?;
                        copies.push((at, tag));
                        at = self.area.ahead(at, 1);
                    }
                }
                Own::Commit => {
                    self.received(start, at);
                    self.position = Position::Known(next.wrapping_add(1), at);
                    return Some((next, copies));
                }
            }
        }
        None
    }

    fn received(&mut self, start: At, end: At) {
        for n in 0..self.area.between(start, end) {
            let at = self.area.ahead(start, n);
            self.fresh.remove(&at);
            self.noted.remove(&at);
        }
    }

    pub fn lose(&mut self) {
        self.noted.clear();
        self.position = match self.position {
            Position::Known(next, _) => Position::Unknown(next),
            Position::Empty(least) => Position::Unknown(least),
            it => it,
        };
    }

    /// The superblock says `tail`: what is residue; none: the position is lost.
    pub fn tail(&mut self, tail: Tail) -> Option<Vec<At>> {
        let Tail { start, tid } = tail;
        if start == 0 {
            self.fresh.clear();
            self.noted.clear();
            self.position = Position::Empty(tid);
            return Some((1..self.area.len).collect());
        }
        match self.position {
            Position::Empty(least) if !is_lower(tid, least) => {
                self.position = Position::Known(tid, start);
                Some(Vec::new())
            }
            Position::Known(next, begins) if is_lower(tid, next) || (tid == next && start == begins) => {
                let lives = self.area.between(start, begins);
                let is_dead = |at: &At| !self.fresh.contains(at) && self.area.between(start, *at) >= lives;
                Some((1..self.area.len).filter(is_dead).collect())
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

/// Whether `a` is lower than `b`.
fn is_lower(a: Tid, b: Tid) -> bool {
    a != b && b.wrapping_sub(a) < 1 << 31
}
