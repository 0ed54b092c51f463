//! The literal machine: media, sectors and keys. Sealed disks, section 3 of their design, event by event, without chance.
//!
//! The machine keeps no state of a block. It has [media], what a server keeps in memory, and what the journal says; an [attacker] opens
//! what there is to open. Numbers of cells, contents, log sectors and purges mean nothing but the order in which they were drawn:
//! [`Literal::canonical`] gives the same ones to all machines that will behave alike.
//!
//! Two things are not in the vocabulary, and can happen with a fault only: a start also refuses a root that is older than the
//! journal says, and a log that is shorter.

mod attacker;
mod canonical;
mod media;
mod purge;
mod start;
#[cfg(test)]
mod tests;

use super::{Answer, BLOCKS, Fault, Read, SECTORS, Server, Step};
use media::{At, Cell, Entry, Kind, LEAF_BLOCKS, LEAVES, Media, Medium, Root, Sector};
use purge::Purge;
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

/// What the journal says. Frames are atomic and durable.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Journal {
    dead: [bool; BLOCKS],
    owed: [bool; BLOCKS],
    staged: Option<usize>,
    /// The number of the last purge, and how many sectors of its log are durable.
    position: (u32, usize),
}

/// A tree of keys, as a root opens it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Tree {
    number: u32,
    top: Cell,
    top_side: usize,
    log: Cell,
    leaves: [Cell; LEAVES],
    leaf_sides: [usize; LEAVES],
    /// What the leaves say of each block, and the log after them.
    cells: [Cell; BLOCKS],
}

impl Tree {
    /// The half of its log, and the slot of its root.
    fn half(&self) -> usize {
        self.number as usize % 2
    }

    fn root(&self) -> Root {
        Root { number: self.number, top: self.top }
    }
}

/// How far a half of the log goes.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Log {
    sectors: usize,
    synced: usize,
    /// The tag of the last sector; zero if there is none.
    tag: u32,
}

/// A write under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Write {
    cell: Cell,
    content: u32,
    /// The sector that is next.
    sector: usize,
}

/// A flush under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Flush {
    /// Steps that it has had.
    done: u8,
    /// The early cells of the blocks that it names.
    named: [Option<Cell>; BLOCKS],
}

/// A rewrite under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Rewrite {
    block: usize,
    /// Steps that it has had.
    done: u8,
    cell: Cell,
    content: u32,
}

/// What the server keeps in memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Memory {
    /// The keys in use.
    tree: Tree,
    logs: [Log; 2],
    early: [Option<Cell>; BLOCKS],
    writes: [Option<Write>; BLOCKS],
    flush: Option<Flush>,
    rewrite: Option<Rewrite>,
    purge: Option<Purge>,
    /// The prepared cell of the block that is staged, during a start.
    prepared: Option<Cell>,
    /// With a fault: a sync of ROOT comes with the next step, unless that is the end of the server.
    is_root_late: bool,
}

impl Memory {
    /// The cell that a block lies under.
    fn cell(&self, block: usize) -> Cell {
        self.early[block].unwrap_or(self.tree.cells[block])
    }
}

/// The contents of a block that have no receipt.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Life {
    present: BTreeSet<u32>,
    dying: BTreeSet<u32>,
}

/// How many of each were drawn.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Drawn {
    cells: u32,
    contents: u32,
    tags: u32,
}

impl Drawn {
    fn cell(&mut self) -> Cell {
        self.cells += 1;
        Cell(self.cells)
    }

    fn content(&mut self) -> u32 {
        self.contents += 1;
        self.contents
    }
}

/// Media, what the host's cache has of them, the journal, and the server's memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Literal {
    fault: Option<Fault>,
    media: Media,
    journal: Journal,
    server: Server,
    memory: Memory,
    lives: [Life; BLOCKS],
    receipts: BTreeSet<u32>,
    drawn: Drawn,
}

impl Hash for Literal {
    /// Everything but the fault, which all machines of a set share.
    fn hash<H: Hasher>(&self, to: &mut H) {
        let Self { fault: _, media, journal, server, memory, lives, receipts, drawn } = self;
        (media, journal, server, memory).hash(to);
        (lives, receipts, drawn).hash(to);
    }
}

impl Literal {
    /// Three live blocks; the server is up.
    pub fn new(fault: Option<Fault>) -> Self {
        let (mut media, mut drawn) = (Media::new(), Drawn::default());
        let mut lives: [Life; BLOCKS] = Default::default();
        let cells: [Cell; BLOCKS] = std::array::from_fn(|_| drawn.cell());
        for block in 0..BLOCKS {
            let content = drawn.content();
            lives[block].present.insert(content);
            for sector in 0..SECTORS {
                media.put(At::Data(block, sector), Sector::Content { under: cells[block], content });
            }
        }
        let tree = Tree {
            number: 1,
            top: drawn.cell(),
            log: drawn.cell(),
            leaves: std::array::from_fn(|_| drawn.cell()),
            cells,
            ..Tree::default()
        };
        put_pages(&mut media, &tree, [true; LEAVES]);
        media.roots[tree.half()].put(Some(tree.root()));
        [Medium::Data, Medium::Map, Medium::Root].into_iter().for_each(|it| media.sync(it));
        let journal = Journal { position: (tree.number, 0), ..Journal::default() };
        let memory = Memory { tree, ..Memory::default() };
        Self { fault, media, journal, server: Server::Up, memory, lives, receipts: BTreeSet::new(), drawn }
    }

    /// Whether `step` can happen.
    pub fn allows(&self, step: Step) -> bool {
        match step {
            _ if self.server == Server::Refused => false,
            Step::Crash(mask) => self.fault.is_some() || mask & !self.media.unsynced() == 0,
            Step::Kill => self.server != Server::Down(0),
            Step::Start => matches!(self.server, Server::Down(_)),
            _ => self.server == Server::Up && self.serves(step),
        }
    }

    /// Whether `step` can happen while the server is up.
    fn serves(&self, step: Step) -> bool {
        let (memory, dead) = (&self.memory, &self.journal.dead);
        match step {
            Step::Write(block) => self.is_free(block.into()),
            Step::Sector(block) => memory.writes[usize::from(block)].is_some(),
            Step::Trim(block) => {
                let block = usize::from(block);
                self.is_free(block) && (!dead[block] || memory.early[block].is_some())
            }
            Step::Flush => true,
            Step::Rewrite(block) => {
                let block = usize::from(block);
                let is_idle = memory.rewrite.is_none() && memory.purge.is_none();
                is_idle && !dead[block] && memory.writes[block].is_none()
            }
            Step::RewriteNext => memory.rewrite.is_some(),
            Step::Purge => match &memory.purge {
                Some(purge) => purge.doubt.is_none(),
                None => {
                    let is_idle = memory.flush.is_none() && memory.rewrite.is_none();
                    is_idle && dead.iter().chain(&self.journal.owed).any(|it| *it)
                }
            },
            Step::Busy | Step::Doubt { .. } => {
                memory.purge.as_ref().is_some_and(|it| it.done == 3 && it.doubt.is_none())
            }
            Step::Settle => memory.purge.as_ref().is_some_and(|it| it.doubt.is_some()),
            Step::Crash(_) | Step::Kill | Step::Start => false,
        }
    }

    /// Whether a write or a death of `block` may begin.
    fn is_free(&self, block: usize) -> bool {
        let memory = &self.memory;
        let is_named = memory.flush.as_ref().is_some_and(|it| it.named[block].is_some());
        let is_closed = memory.purge.as_ref().is_some_and(|it| it.is_closed(block));
        !self.is_written(block) && !is_named && !is_closed
    }

    /// Whether a write or a rewrite of `block` is under way.
    fn is_written(&self, block: usize) -> bool {
        let is_rewritten = self.memory.rewrite.as_ref().is_some_and(|it| it.block == block);
        self.memory.writes[block].is_some() || is_rewritten
    }

    /// Lets `step` happen. With a fault, a crash may name places that are not unsynced: they are left out; and a step that cannot
    /// happen changes nothing.
    ///
    /// # Panics
    /// If it cannot happen, without a fault.
    pub fn step(&mut self, step: Step) {
        if !self.allows(step) {
            assert!(self.fault.is_some(), "a step that happens is possible: {step:?}");
            return;
        }
        let is_cut = matches!(step, Step::Crash(_) | Step::Kill);
        if std::mem::take(&mut self.memory.is_root_late) && !is_cut {
            self.media.sync(Medium::Root);
        }
        match step {
            Step::Write(block) => self.write(block.into()),
            Step::Sector(block) => self.put_sector(block.into()),
            Step::Trim(block) => self.trim(block.into()),
            Step::Flush => self.flush(),
            Step::Rewrite(block) => self.rewrite(block.into()),
            Step::RewriteNext => self.rewrite_next(),
            Step::Purge => self.purge(),
            Step::Busy => self.memory.purge = None,
            Step::Doubt { reached } => self.doubt(reached),
            Step::Settle => self.settle(),
            Step::Crash(mask) => {
                self.media.crash(mask);
                self.end();
            }
            Step::Kill => self.end(),
            Step::Start => self.start(),
        }
    }

    /// What shows now.
    pub fn answer(&self) -> Answer {
        Answer {
            server: self.server,
            reads: std::array::from_fn(|block| std::array::from_fn(|sector| self.read(block, sector))),
            unsynced: self.media.unsynced(),
            opens: attacker::opens(&self.media),
            receipts: self.receipts.clone(),
        }
    }

    fn read(&self, block: usize, sector: usize) -> Read {
        if self.server != Server::Up || self.is_written(block) {
            return Read::Waits;
        }
        if self.journal.dead[block] && self.memory.early[block].is_none() {
            return Read::Zeros;
        }
        match self.media.data[block][sector].newest() {
            Sector::Zeros => Read::Zeros,
            Sector::Content { under, content } if *under == self.memory.cell(block) => {
                Read::Content(*content)
            }
            _ => Read::Garbage,
        }
    }

    /// The server ends. What was written to dead blocks since their death, and was not made durable, dies with it.
    fn end(&mut self) {
        (self.memory, self.server) = (Memory::default(), Server::Down(0));
        for (life, _) in self.lives.iter_mut().zip(self.journal.dead).filter(|(_, is_dead)| *is_dead) {
            life.dying.append(&mut life.present);
        }
    }

    /// A frame of the journal is durable: it says how far the keys have come, too.
    fn frame(&mut self) {
        let tree = &self.memory.tree;
        let position = (tree.number, self.memory.logs[tree.half()].synced);
        self.journal.position = self.journal.position.max(position);
    }

    fn write(&mut self, block: usize) {
        let takes_early = self.journal.dead[block] || self.fault == Some(Fault::FreshUnderLive);
        if takes_early && self.memory.early[block].is_none() {
            self.memory.early[block] = Some(self.drawn.cell());
            if let Some(purge) = &mut self.memory.purge {
                purge.has_early[block] = true;
            }
        }
        let (cell, content) = (self.memory.cell(block), self.drawn.content());
        self.lives[block].present.insert(content);
        self.memory.writes[block] = Some(Write { cell, content, sector: 0 });
    }

    fn put_sector(&mut self, block: usize) {
        let write = self.memory.writes[block].as_mut().expect("a write is under way");
        let at = At::Data(block, write.sector);
        write.sector += 1;
        let bytes = Sector::Content { under: write.cell, content: write.content };
        let has_ended = write.sector == SECTORS;
        self.media.put(at, bytes);
        if has_ended {
            self.memory.writes[block] = None;
        }
    }

    fn trim(&mut self, block: usize) {
        self.journal.dead[block] = true;
        self.memory.early[block] = None;
        let life = &mut self.lives[block];
        life.dying.append(&mut life.present);
        self.frame();
    }

    fn flush(&mut self) {
        let Some(mut flush) = self.memory.flush.take() else {
            return self.begin_flush();
        };
        flush.done += 1;
        match flush.done {
            2 if self.fault == Some(Fault::ClearBeforeCell) => {}
            2 => self.sync_map(),
            3 if self.fault == Some(Fault::FrameBeforeData) => {}
            3 => self.media.sync(Medium::Data),
            _ => return self.end_flush(&flush.named),
        }
        self.memory.flush = Some(flush);
    }

    fn begin_flush(&mut self) {
        let (memory, names_all) = (&self.memory, self.fault == Some(Fault::NameUnended));
        let is_named = |block: &usize| names_all || memory.writes[*block].is_none();
        let named: [Option<Cell>; BLOCKS] =
            std::array::from_fn(|block| memory.early[block].filter(|_| is_named(&block)));
        let entries = named.iter().enumerate();
        let entries =
            entries.filter_map(|(block, it)| it.map(|cell| Entry { block, kind: Kind::Active, cell }));
        let entries: Vec<Entry> = entries.collect();
        self.memory.flush = Some(Flush { done: 1, named });
        if entries.is_empty() {
            return;
        }
        let (tree, purge) = (&self.memory.tree, self.memory.purge.as_ref());
        let other = purge.filter(|it| it.done < 7).map(|it| (it.other.half(), it.other.log, it.done < 5));
        let mut logs = vec![(tree.half(), tree.log)];
        if let Some((half, cell, is_next)) = other {
            if self.fault != Some(Fault::OneHalf) {
                logs.push((half, cell));
            } else if !is_next {
                logs = vec![(half, cell)];
            }
        }
        for (half, under) in logs {
            self.put_log(half, under, entries.clone());
        }
    }

    /// Answers a flush that named these blocks.
    fn end_flush(&mut self, named: &[Option<Cell>; BLOCKS]) {
        for (block, cell) in named.iter().enumerate() {
            let Some(cell) = *cell else { continue };
            (self.journal.dead[block], self.journal.owed[block]) = (false, true);
            self.memory.early[block] = None;
            self.memory.tree.cells[block] = cell;
            if let Some(purge) = &mut self.memory.purge {
                purge.owes_anew[block] = true;
                if purge.done < 5 {
                    purge.other.cells[block] = cell;
                }
            }
        }
        self.frame();
    }

    /// Puts one sector with `entries` at the end of a half of the log.
    fn put_log(&mut self, half: usize, under: Cell, entries: Vec<Entry>) {
        self.drawn.tags += 1;
        let (log, tag) = (&mut self.memory.logs[half], self.drawn.tags);
        let (nth, before) = (log.sectors, std::mem::replace(&mut log.tag, tag));
        log.sectors += 1;
        self.media.put(At::Log(half, nth), Sector::Log { under, nth, tag, before, entries });
    }

    fn sync_map(&mut self) {
        self.media.sync(Medium::Map);
        self.memory.logs.iter_mut().for_each(|it| it.synced = it.sectors);
    }

    fn rewrite(&mut self, block: usize) {
        let (cell, content) = (self.drawn.cell(), self.drawn.content());
        self.lives[block].present.insert(content);
        for sector in 0..SECTORS {
            self.media.put(At::Staged(sector), Sector::Content { under: cell, content });
        }
        let is_at_once = self.fault == Some(Fault::ActiveAtOnce);
        self.log_cell(block, if is_at_once { Kind::Active } else { Kind::Prepared }, cell);
        self.memory.rewrite = Some(Rewrite { block, done: 1, cell, content });
    }

    fn rewrite_next(&mut self) {
        let mut rewrite = self.memory.rewrite.take().expect("a rewrite is under way");
        let (block, cell, content) = (rewrite.block, rewrite.cell, rewrite.content);
        rewrite.done += 1;
        match rewrite.done {
            2 => {
                self.media.sync(Medium::Journal);
                self.sync_map();
            }
            3 => {
                self.journal.staged = Some(block);
                self.frame();
            }
            4 => {
                for sector in 0..SECTORS {
                    self.media.put(At::Data(block, sector), Sector::Content { under: cell, content });
                }
                (self.memory.tree.cells[block], self.memory.early[block]) = (cell, None);
                if !matches!(self.fault, Some(Fault::ActiveAtOnce | Fault::NeverActive)) {
                    self.log_cell(block, Kind::Active, cell);
                }
            }
            5 => self.media.sync(Medium::Data),
            6 => self.sync_map(),
            _ => return self.release(block, content),
        }
        self.memory.rewrite = Some(rewrite);
    }

    /// Puts one entry to the log of the present tree.
    fn log_cell(&mut self, block: usize, kind: Kind, cell: Cell) {
        let (half, under) = (self.memory.tree.half(), self.memory.tree.log);
        self.put_log(half, under, vec![Entry { block, kind, cell }]);
    }

    /// The frame `release`: `content` is all that `block` has, and its old key is owed.
    fn release(&mut self, block: usize, content: u32) {
        (self.journal.staged, self.journal.owed[block]) = (None, true);
        let life = &mut self.lives[block];
        life.dying.extend(life.present.iter().filter(|it| **it != content));
        life.present = BTreeSet::from([content]);
        self.frame();
    }
}

/// Puts the top page, and the leaves that `is_changed` names, to the sides that `tree` says.
fn put_pages(media: &mut Media, tree: &Tree, is_changed: [bool; LEAVES]) {
    for leaf in (0..LEAVES).filter(|leaf| is_changed[*leaf]) {
        let cell = |nth: usize| tree.cells.get(leaf * LEAF_BLOCKS + nth).copied().unwrap_or_default();
        let bytes = Sector::Leaf { under: tree.leaves[leaf], leaf, cells: std::array::from_fn(cell) };
        media.put(At::Leaf(leaf, tree.leaf_sides[leaf]), bytes);
    }
    let bytes = Sector::Top { under: tree.top, log: tree.log, leaves: tree.leaves };
    media.put(At::Top(tree.top_side), bytes);
}
