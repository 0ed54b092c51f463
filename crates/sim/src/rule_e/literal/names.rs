//! Who names what: rule 5.

use super::time::Moment;
use super::{Literal, Stage};
use quietus_detect::format::{Block, Change, Format, Kind, Link};
use quietus_detect::options::Grade;

/// A block that names others: of inodes, or of pointers.
#[derive(Clone, Debug)]
pub struct Source {
    pub kind: Kind,
    /// Its content was seen, so that what it names is known.
    pub is_read: bool,
    /// What it names: the block, its kind, and whether that is certain.
    pub links: Vec<(Block, Kind, bool)>,
    /// Nothing names it any more; its pointers are lost once it was read.
    pub is_lost: bool,
    /// It was named anew before that.
    pub is_renewed: bool,
    /// Since when it was not written.
    pub quiet_since: Moment,
    /// It is to be read again, to make certain what it names.
    pub is_asked_again: bool,
}

impl Source {
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            is_read: false,
            links: Vec::new(),
            is_lost: false,
            is_renewed: false,
            quiet_since: Moment { now: 0, active: 0 },
            is_asked_again: false,
        }
    }

    pub fn is_wanted(&self) -> bool {
        !self.is_read || self.is_lost || self.is_renewed || self.is_asked_again
    }

    fn is_guessing(&self) -> bool {
        self.links.iter().any(|(.., is_certain)| !is_certain)
    }
}

impl<F: Format> Literal<F> {
    /// How many pointers name `block`.
    pub(super) fn names(&self, block: Block) -> usize {
        self.pointers_to(block).count()
    }

    /// Whether nothing names `block`, or nothing certain.
    pub(super) fn is_guessed(&self, block: Block) -> bool {
        self.pointers_to(block).all(|is_certain| !is_certain)
    }

    fn pointers_to(&self, block: Block) -> impl Iterator<Item = bool> + '_ {
        let links = self.sources.values().flat_map(|it| &it.links);
        links.filter(move |(it, ..)| *it == block).map(|(.., is_certain)| *is_certain)
    }

    /// Whether something names `block` as a block of pointers.
    fn is_named_as_pointers(&self, block: Block) -> bool {
        let mut links = self.sources.values().flat_map(|it| &it.links);
        links.any(|(it, kind, _)| *it == block && *kind != Kind::Data)
    }

    fn changes(&self, block: Block, kind: Kind, old: &[u8], new: &[u8]) -> Vec<(Link, bool)> {
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
        let links = self.changes(block, kind, &vec![0; content.len()], content);
        links.into_iter().flat_map(|(link, _)| link.blocks.map(move |it| (it, link.kind))).collect()
    }

    /// A block that names others changes from `old` to `new`.
    pub(super) fn source_changes(&mut self, block: Block, old: &[u8], new: &[u8]) {
        if self.sources.contains_key(&block) {
            self.source_read(block, old);
        }
        let Some(source) = self.sources.get(&block) else { return };
        let (kind, is_certain) = (source.kind, source.kind == Kind::Inodes);
        let changes = self.changes(block, kind, old, new);
        let (gained, lost): (Vec<_>, Vec<_>) = changes.into_iter().partition(|(_, is_gain)| *is_gain);
        for (link, _) in lost {
            link.blocks.for_each(|it| self.lose(block, it, link.kind));
        }
        for (link, _) in gained {
            link.blocks.for_each(|it| self.gain(block, it, link.kind, is_certain));
        }
    }

    /// Its content was seen.
    pub(super) fn source_read(&mut self, block: Block, content: &[u8]) {
        let Some(source) = self.sources.get(&block).cloned() else { return };
        let pointers = self.pointers(block, source.kind, content);
        if !source.is_read {
            self.learn(block, source.kind, &pointers);
        }
        if source.is_lost {
            pointers.iter().for_each(|(it, kind)| self.lose(block, *it, *kind));
            self.sources.remove(&block);
        } else if source.is_renewed {
            pointers.iter().for_each(|(it, _)| self.unlinked(*it));
        }
        let Some(now) = self.sources.get_mut(&block) else { return };
        now.is_renewed = false;
        if source.is_asked_again {
            now.is_asked_again = false;
            now.links.iter_mut().for_each(|(.., is_certain)| *is_certain = true);
        }
    }

    fn learn(&mut self, block: Block, kind: Kind, pointers: &[(Block, Kind)]) {
        let is_certain = kind == Kind::Inodes || !self.in_use;
        let moment = self.clock.moment();
        let source = self.sources.get_mut(&block).expect("it is read");
        (source.is_read, source.quiet_since) = (true, moment);
        for (it, kind) in pointers {
            self.gain(block, *it, *kind, is_certain);
        }
    }

    fn gain(&mut self, source: Block, block: Block, kind: Kind, is_certain: bool) {
        let source = self.sources.get_mut(&source).expect("it names others");
        source.links.push((block, kind, is_certain));
        self.is_young_again(block);
        if kind == Kind::Data {
            return;
        }
        let pointers = self.sources.entry(block).or_insert_with(|| Source::new(kind));
        if pointers.is_lost {
            (pointers.is_lost, pointers.is_renewed) = (false, true);
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
        if self.names(block) == 0 {
            self.is_young_again(block);
        }
        if kind != Kind::Data && !self.is_named_as_pointers(block) {
            self.sources.get_mut(&block).expect("it was named as pointers").is_lost = true;
        }
    }

    /// A pointer to it is gone: if it is live, it is another generation's now,
    /// or nobody's.
    fn unlinked(&mut self, block: Block) {
        let moment = self.clock.moment();
        if let Some(cell) = self.cells.get_mut(&block).filter(|it| it.live)
            && self.options.grade != Grade::Block
        {
            cell.unlinked = Some(moment);
        }
    }

    /// What is known of its names has changed: its evidence too [6].
    fn is_young_again(&mut self, block: Block) {
        let counts = !self.options.eager;
        if let Some(cell) = self.cells.get_mut(&block).filter(|it| counts && it.stage.is_some()) {
            cell.stage = Some(Stage::Young);
        }
    }

    /// What was not written for long is what it is taken for.
    pub(super) fn sources_settle(&mut self) {
        let settle = self.options.settle_ms;
        for source in self.sources.values_mut() {
            let is_over = source.is_read && source.is_guessing();
            if is_over && !self.clock.is_within_active(source.quiet_since, settle) {
                source.is_asked_again = true;
            }
        }
    }
}
