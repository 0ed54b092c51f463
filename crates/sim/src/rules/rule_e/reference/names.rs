//! Names of blocks: rule 5.

use crate::rules::rule_e::reference::time::Moment;
use crate::rules::rule_e::reference::{Reference, Stage};
use quietus_detect::formats::format::{Block, Change, Format, Kind, Link};
use quietus_detect::rules::options::Grade;

/// A block that names others: of inodes, or of pointers.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Kind by which the block is named; `None` if nothing names the block any more.
    pub named: Option<Kind>,
    /// Kind by which the block was read: its links are known.
    pub counted: Option<Kind>,
    /// Kind that the block had when it lost its last name, or its generation ended, since it was
    /// read.
    pub ended: Option<Kind>,
    /// Links of the block: the block that each names, its kind, and whether that is certain.
    pub links: Vec<(Block, Kind, bool)>,
    /// Since when its type has not been certain.
    pub unsettled: Option<Moment>,
    /// The block is to be read again, to make certain what it names.
    pub is_asked_again: bool,
}

impl Source {
    pub fn new(kind: Kind) -> Self {
        Self { named: Some(kind), ..Self::default() }
    }

    /// Whether all that follows from the content has been done.
    pub fn is_known(&self) -> bool {
        self.counted.is_some() && self.counted == self.named && self.ended.is_none()
    }

    pub fn is_wanted(&self) -> bool {
        !self.is_known() || self.is_asked_again
    }
}

/// Whether a block is of `kind` by its place: so that is certain.
fn is_placed(kind: Kind) -> bool {
    matches!(kind, Kind::Inodes | Kind::Map)
}

impl<F: Format> Reference<F> {
    pub(super) fn names(&self, block: Block) -> usize {
        self.pointers_to(block).count()
    }

    /// Whether nothing names `block`, or nothing certain.
    pub(super) fn is_guessed(&self, block: Block) -> bool {
        let is_shaky = self.cells.get(&block).is_some_and(|it| it.shaky);
        is_shaky || self.pointers_to(block).all(|is_certain| !is_certain)
    }

    fn pointers_to(&self, block: Block) -> impl Iterator<Item = bool> + '_ {
        let links = self.sources.values().flat_map(|it| &it.links);
        links.filter(move |(it, ..)| *it == block).map(|(.., is_certain)| *is_certain)
    }

    fn links_changed(&self, block: Block, kind: Kind, old: &[u8], new: &[u8]) -> Vec<(Link, bool)> {
        let changes = self.format.diff(block, kind, old, new).into_iter();
        changes
            .map(|change| match change {
                Change::Unlinked(link) => (link, false),
                Change::Linked(link) => (link, true),
            })
            .collect()
    }

    /// Pointers of `content`, one block each.
    fn pointers(&self, block: Block, kind: Kind, content: &[u8]) -> Vec<(Block, Kind)> {
        let links = self.links_changed(block, kind, &vec![0; content.len()], content);
        links.into_iter().flat_map(|(link, _)| link.blocks.map(move |it| (it, link.kind))).collect()
    }

    /// A block that names others changes from `old` to `new`.
    pub(super) fn source_changes(&mut self, block: Block, old: &[u8], new: &[u8]) {
        self.source_read(block, old);
        let Some(kind) = self.sources.get(&block).and_then(|it| it.counted) else { return };
        let unwritten = self.unwritten_lost(block, kind, old, new);
        let changes = self.links_changed(block, kind, old, new);
        let (gained, lost): (Vec<_>, Vec<_>) = changes.into_iter().partition(|(_, is_gain)| *is_gain);
        for (link, _) in lost {
            link.blocks.for_each(|it| self.lose(block, it, link.kind));
        }
        for (link, _) in gained {
            let is_certain = is_placed(kind) || self.options.eager;
            link.blocks.for_each(|it| self.gain(block, it, link.kind, is_certain));
        }
        self.unwritten_gained(unwritten, true);
        let source = self.sources.get_mut(&block).expect("it changes");
        if source.named.is_some() && !is_placed(kind) && !self.options.eager {
            source.unsettled = Some(self.clock.moment());
        }
    }

    /// Notes that the content of `block` was seen.
    pub(super) fn source_read(&mut self, block: Block, content: &[u8]) {
        let Some(source) = self.sources.get_mut(&block) else { return };
        let (named, counted) = (source.named, source.counted);
        let (ended, is_asked) = (source.ended.take(), std::mem::take(&mut source.is_asked_again));
        if named == counted && ended.is_some() {
            source.unsettled = named.map(|_| self.clock.moment());
            self.generation_ends(block, ended, content);
        } else if named == counted && is_asked {
            self.make_certain(block);
        } else if named != counted {
            self.becomes(block, counted, ended, content);
        }
        if self.sources[&block].named.is_none() && self.sources[&block].ended.is_none() {
            self.sources.remove(&block);
        }
    }

    /// The content has changed.
    fn becomes(&mut self, block: Block, counted: Option<Kind>, ended: Option<Kind>, content: &[u8]) {
        let Some(kind) = counted else {
            self.learn(block, content);
            return self.generation_ends(block, ended, content);
        };
        self.unwritten_lost(block, kind, content, &vec![0; content.len()]);
        for (it, kind) in self.pointers(block, kind, content) {
            self.lose(block, it, kind);
        }
        self.learn(block, content);
    }

    /// Blocks that it named, if it was of `kind`, count as unlinked.
    fn generation_ends(&mut self, block: Block, kind: Option<Kind>, content: &[u8]) {
        let Some(kind) = kind else { return };
        for (it, kind) in self.pointers(block, kind, content) {
            self.unlinked(it);
            self.stirs(it);
            self.is_young_again(it);
            if kind != Kind::Data {
                let below =
                    self.sources.entry(it).or_insert_with(|| Source { named: None, ..Source::new(kind) });
                if below.counted.is_none_or(|it| it == kind) {
                    below.ended.get_or_insert(kind);
                }
            }
        }
    }

    fn make_certain(&mut self, block: Block) {
        let named: Vec<_> = self.sources[&block].links.iter().map(|(it, ..)| *it).collect();
        let guessed: Vec<_> = named.into_iter().filter(|it| self.is_guessed(*it)).collect();
        let source = self.sources.get_mut(&block).expect("it is read again");
        source.links.iter_mut().for_each(|(.., is_certain)| *is_certain = true);
        for it in guessed {
            let cell = self.cell(it);
            cell.shaky = false;
            // A calm block waits no longer: the name is as old as the last write of the pointers (5).
            cell.suspicious &= cell.stirred.is_some();
        }
    }

    /// The block is read as what it is named as.
    fn learn(&mut self, block: Block, content: &[u8]) {
        let moment = self.clock.moment();
        let source = self.sources.get_mut(&block).expect("it is read");
        source.counted = source.named;
        let Some(kind) = source.named else { return };
        let is_certain = is_placed(kind) || !self.in_use || self.options.eager;
        source.unsettled = (!is_certain).then_some(moment);
        for (it, kind) in self.pointers(block, kind, content) {
            self.gain(block, it, kind, is_certain);
        }
        self.unwritten_gained(self.unwritten_in(block, kind, content), false);
    }

    fn gain(&mut self, source: Block, block: Block, kind: Kind, is_certain: bool) {
        let source = self.sources.get_mut(&source).expect("it names others");
        source.links.push((block, kind, is_certain));
        self.is_young_again(block);
        let moment = self.clock.moment();
        let cell = self.cell(block);
        (cell.shaky, cell.stirred) = (cell.shaky && !is_certain, Some(moment));
        if kind != Kind::Data {
            let pointers = self.sources.entry(block).or_insert_with(|| Source::new(kind));
            pointers.named.get_or_insert(kind);
        }
    }

    fn lose(&mut self, source: Block, block: Block, kind: Kind) {
        let links = &mut self.sources.get_mut(&source).expect("it names others").links;
        let guessed = links.iter().position(|it| *it == (block, kind, false));
        let Some(at) = guessed.or_else(|| links.iter().position(|it| *it == (block, kind, true))) else {
            return;
        };
        links.remove(at);
        self.unlinked(block);
        self.stirs(block);
        let is_last = self.names(block) == 0;
        self.cell(block).shaky = !is_last;
        if is_last {
            self.is_young_again(block);
        }
        if kind != Kind::Data {
            self.is_named_less(block, kind);
        }
    }

    /// One name less says that `block` holds pointers of `kind`. If it was the last that says what
    /// the block is taken for, it is taken for the lowest level that is left.
    fn is_named_less(&mut self, block: Block, kind: Kind) {
        let links = self.sources.values().flat_map(|it| &it.links);
        let others: Vec<_> = links.filter(|(it, ..)| *it == block).map(|(_, kind, _)| *kind).collect();
        if others.contains(&kind) {
            return;
        }
        let levels =
            others.iter().filter_map(|it| if let Kind::Pointers(level) = it { Some(*level) } else { None });
        match (levels.min(), self.sources.get_mut(&block)) {
            (Some(level), Some(source)) if source.named == Some(kind) => {
                (source.named, source.unsettled) = (Some(Kind::Pointers(level)), None);
            }
            // No name says any more that the block holds pointers: these are lost.
            (None, Some(source)) => {
                if let Some(kind) = source.named.take() {
                    source.ended = Some(kind);
                    (source.is_asked_again, source.unsettled) = (false, None);
                }
            }
            _ => {}
        }
    }

    /// A pointer to the block is gone: a live block is of another generation now,
    /// or of no file.
    fn unlinked(&mut self, block: Block) {
        let moment = self.clock.moment();
        if let Some(cell) = self.cells.get_mut(&block).filter(|it| it.live)
            && self.options.grade != Grade::Block
        {
            cell.unlinked.get_or_insert(moment);
        }
    }

    /// The names of the block have changed, and so has the evidence of its death (6).
    pub(super) fn is_young_again(&mut self, block: Block) {
        if let Some(cell) = self.cells.get_mut(&block).filter(|it| it.stage.is_some()) {
            cell.stage = Some(Stage::Unsynced);
        }
    }

    /// A block without a write for long holds what it is taken to hold.
    pub(super) fn sources_settle(&mut self) {
        let settle = self.settle_ms();
        for source in self.sources.values_mut() {
            let Some(since) = source.unsettled.filter(|_| source.is_known()) else { continue };
            if !self.clock.is_within_active(since, settle) {
                (source.unsettled, source.is_asked_again) = (None, true);
            }
        }
    }
}
