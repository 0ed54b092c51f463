//! A start: which keys are in use, and what is put back.

use super::media::{LEAF_BLOCKS, Medium, Sector};
use super::{At, Cell, Kind, Literal, Log, Tree};
use crate::keylife::{BLOCKS, Fault, SECTORS, Server};

impl Literal {
    /// The next step of the start.
    pub(super) fn start(&mut self) {
        let Server::Down(done) = self.server else { unreachable!("the server is down") };
        let (slot, syncs) = (self.memory.tree.half(), self.fault != Some(Fault::StartUnsynced));
        let next = match done {
            0 => self.find_root(syncs),
            2 => {
                self.media.roots[1 - slot].put(None);
                Some(Server::Down(3))
            }
            3 => {
                if syncs {
                    self.media.sync(Medium::Root);
                }
                let next = self.replay(syncs);
                self.forget();
                next
            }
            4 => {
                let block = self.journal.staged.expect("a block is staged");
                let cell = self.memory.prepared.expect("the log has the prepared cell");
                for sector in 0..SECTORS {
                    let bytes = self.media.staged[sector].newest().clone();
                    self.media.put(At::Data(block, sector), bytes);
                }
                self.memory.tree.cells[block] = cell;
                self.log_cell(block, Kind::Active, cell);
                Some(Server::Down(5))
            }
            1 => {
                if syncs {
                    self.media.sync(Medium::Root);
                }
                Some(Server::Down(2))
            }
            5 => {
                self.media.sync(Medium::Data);
                self.sync_map();
                Some(Server::Down(6))
            }
            _ => {
                let block = self.journal.staged.expect("a block is staged");
                let content = match self.media.staged[0].newest() {
                    Sector::Content { content, .. } => *content,
                    _ => 0,
                };
                self.release(block, content);
                self.memory.prepared = None;
                Some(Server::Up)
            }
        };
        self.server = next.unwrap_or(Server::Refused);
    }

    /// Takes the newer whole slot that opens the top page, and writes it again. `None` if no slot does, if it is older than the journal
    /// says, or if a leaf is missing.
    fn find_root(&mut self, syncs: bool) -> Option<Server> {
        if syncs {
            self.media.sync(Medium::Map);
        }
        let roots = self.media.roots.iter().filter_map(|it| *it.place.newest());
        let opened = roots.filter_map(|root| self.media.open_top(root.top).map(|top| (root, top)));
        let (root, (top_side, log, leaves)) = opened.max_by_key(|(root, _)| root.number)?;
        if root.number < self.journal.position.0 {
            return None;
        }
        let (mut leaf_sides, mut cells) = ([0; 2], [Cell::default(); BLOCKS]);
        for (leaf, cell) in leaves.into_iter().enumerate() {
            let (side, said) = self.media.open_leaf(leaf, cell)?;
            leaf_sides[leaf] = side;
            cells.iter_mut().skip(leaf * LEAF_BLOCKS).zip(said).for_each(|(to, it)| *to = it);
        }
        self.memory.tree =
            Tree { number: root.number, top: root.top, top_side, log, leaves, leaf_sides, cells };
        if syncs {
            self.media.roots[self.memory.tree.half()].put(Some(root));
        }
        Some(Server::Down(1))
    }

    /// Replays the log. `None` if it is shorter than the journal says, or lacks the cell of a block that is staged.
    fn replay(&mut self, is_synced: bool) -> Option<Server> {
        let tree = &self.memory.tree;
        let read = self.media.open_log(tree.half(), tree.log);
        let (sectors, tag) = (read.len(), read.last().map_or(0, |(tag, _)| *tag));
        let (mut cells, mut prepared) = (tree.cells, None);
        for entry in read.into_iter().flat_map(|(_, entries)| entries) {
            match entry.kind {
                Kind::Active => cells[entry.block] = entry.cell,
                Kind::Prepared if self.journal.staged == Some(entry.block) => prepared = Some(entry.cell),
                Kind::Prepared => {}
            }
        }
        let (purge, sectors_min) = self.journal.position;
        if tree.number == purge && sectors < sectors_min {
            return None;
        }
        let half = tree.half();
        self.memory.tree.cells = cells;
        self.memory.logs[half] = Log { sectors, synced: if is_synced { sectors } else { 0 }, tag };
        if self.journal.staged.is_none() {
            return Some(Server::Up);
        }
        self.memory.prepared = Some(prepared?);
        Some(Server::Down(4))
    }
}
