//! Content of forgotten epochs that has to be gone, for a judge that has all keys.
//!
//! The promises:
//!
//! 1. At the receipt for forgotten epochs: of what only these, and forgotten ones, showed when the forget was replied
//!    to, nothing can be opened. What the guest lets die meanwhile has a receipt of its own.
//! 2. When nothing is owed any more: nothing can be opened but what the disk or a kept epoch shows.
//!
//! Without stubs, the content itself is looked for. A crash may leave content without a promise; so (2) is
//! asked for what epochs have surely shown.

use crate::guests::world::World;
use crate::guests::world::lost::Shown;
use crate::machine::content::{Tag, fill};
use crate::machine::history::Ask;
use crate::server::Made;
use crate::verdict::{Judged, found, overdue};
use quietus_core::base::units::{Addr, BLOCK_BYTES, Extent, Scope};

/// Content that has to be gone when epochs are forgotten.
pub(super) struct Dying {
    scope: Scope,
    /// Sealings, by their numbers, each with its block.
    sealings: Vec<(u32, Extent<Addr>)>,
    /// Content that is not sealed.
    words: Vec<(Tag, Extent<Addr>)>,
    /// The receipt has come; or it may have come before a crash that lost it.
    is_over: bool,
    is_lost: bool,
    /// The receipt came before a crash, and may come again: the log of receipts may not have it.
    may_repeat: bool,
    /// A crash left the forget without a reply: nothing is known of it, but that a receipt may be its own.
    is_unheard: bool,
}

impl Dying {
    fn new(scope: Scope, sealings: Vec<(u32, Extent<Addr>)>, words: Vec<(Tag, Extent<Addr>)>) -> Self {
        Self { scope, sealings, words, is_over: false, is_lost: false, may_repeat: false, is_unheard: false }
    }
}

impl World {
    /// Notes what dies with a forget that was replied to.
    pub(super) fn note_dying(&mut self, scope: Scope) {
        let (sealings, words) = (self.dying_sealings(scope), self.dying_words(scope));
        self.dying.push(Dying::new(scope, sealings, words));
    }

    fn dying_sealings(&self, scope: Scope) -> Vec<(u32, Extent<Addr>)> {
        if !self.server.has_stubs() {
            return Vec::new();
        }
        let all = self.server.openable().into_iter();
        let dying = all.filter_map(|(number, made)| {
            let block = self.block(&made);
            let bytes = &made.content[..block.len as usize];
            let is_dying = made.context.born <= scope.epochs().to
                && is_within(block, scope)
                && self.book.of(scope.epochs()).any(|it| it.allows(block, bytes))
                && !self.shown().any(|it| it.allows(block, bytes));
            is_dying.then_some((number, block))
        });
        dying.collect()
    }

    fn dying_words(&self, scope: Scope) -> Vec<(Tag, Extent<Addr>)> {
        if self.server.has_stubs() {
            return Vec::new();
        }
        let whole = Extent::new(0, self.server.setup.disk_bytes);
        self.server.media.data.inspect(|remains| {
            let words = remains.iter().flat_map(|(_, trace)| {
                self.server.lacking(trace, whole).map(|word| (trace.tag, word)).collect::<Vec<_>>()
            });
            let is_dying = |(tag, word): &(Tag, Extent<Addr>)| {
                let bytes = bytes_of(*tag, *word);
                is_within(*word, scope)
                    && self.book.of(scope.epochs()).any(|it| it.has_only(*word, &bytes))
                    && !self.shown().any(|it| it.allows(*word, &bytes))
            };
            words.filter(is_dying).collect()
        })
    }

    /// All that can be read: the disk, and the kept epochs.
    fn shown(&self) -> impl Iterator<Item = Shown<'_>> {
        self.book.shown().chain([Shown { model: &self.model, lost: Vec::new() }])
    }

    fn block(&self, made: &Made) -> Extent<Addr> {
        let start = made.context.block.0 * BLOCK_BYTES;
        Extent::between(start, (start + BLOCK_BYTES).min(self.server.setup.disk_bytes))
    }

    /// Checks the receipt of a forget.
    pub(super) fn judge_forgotten(&mut self, scope: Scope) -> Judged {
        self.server.figures.forgotten += 1;
        let first = |is_unheard: bool| {
            let is_it = |it: &Dying| it.scope == scope && !it.is_over && it.is_unheard == is_unheard;
            self.dying.iter().position(is_it)
        };
        let Some(at) = first(false) else { return Ok(()) };
        let dies_again =
            |part: Extent<Addr>| self.server.volume.obligations().any(|(it, _)| it.overlaps(part));
        match (self.judge_dying(&self.dying[at], "a receipt", dies_again), first(true)) {
            (Err(_), Some(unheard)) => {
                self.dying[unheard].is_over = true;
                Ok(())
            }
            (Err(_), None) if self.repeats(scope) => Ok(()),
            (judged, _) => {
                self.dying[at].is_over = true;
                judged
            }
        }
    }

    /// Notes a crash, before which any receipt may have come, while the requests that it cuts off are still known.
    pub(super) fn receipts_lost(&mut self) {
        let forgets = |ask: Ask| ask.forgets_blocks() || matches!(ask, Ask::Forget { .. });
        let unheard = self.pending.values().filter(|it| forgets(it.ask));
        let unheard =
            unheard.map(|it| Dying { is_unheard: true, ..Dying::new(it.scope(), Vec::new(), Vec::new()) });
        self.dying.extend(unheard);
        self.dying.iter_mut().for_each(|it| (it.is_lost, it.may_repeat) = (true, it.is_over));
    }

    /// Whether a receipt of the same scope may have come again in place of another one: once for each.
    fn repeats(&mut self, scope: Scope) -> bool {
        let repeated = self.dying.iter_mut().find(|it| it.scope == scope && it.may_repeat);
        repeated.is_some_and(|it| std::mem::take(&mut it.may_repeat))
    }

    fn judge_dying(&self, dying: &Dying, when: &str, is_excused: impl Fn(Extent<Addr>) -> bool) -> Judged {
        let openable = if dying.sealings.is_empty() { Vec::new() } else { self.server.openable() };
        for (number, made) in openable {
            let is_left = dying.sealings.iter().any(|(it, block)| *it == number && !is_excused(*block));
            // A crash may take back the write that had replaced the content.
            let block = self.block(&made);
            let is_back = |it: Shown<'_>| it.allows(block, &made.content[..block.len as usize]);
            let is_left = is_left && !(dying.is_lost && self.shown().any(is_back));
            if is_left {
                return Err(found(format!("{when} for {:?}: {:?} can be opened", dying.scope, made.context)));
            }
        }
        let words = |tag: Tag| dying.words.iter().filter(move |it| it.0 == tag).map(|it| it.1);
        let left = self.server.survivor(|trace| {
            let is_back = |word: Extent<Addr>| {
                let bytes = bytes_of(trace.tag, word);
                dying.is_lost && self.shown().any(|it| it.allows(word, &bytes))
            };
            let mut words = words(trace.tag).filter(|word| !is_excused(*word) && !is_back(*word));
            words.find_map(|word| self.server.lacking(trace, word).next())
        });
        self.server.report(left, &format!("{when} for {:?}", dying.scope))
    }

    /// Checks that nothing can be opened that neither the disk nor a kept epoch shows, as nothing is owed.
    pub(super) fn judge_all_forgotten(&self) -> Judged {
        for dying in &self.dying {
            if !dying.is_over && !dying.is_lost {
                return Err(overdue(format!(
                    "{:?} were forgotten, but the receipt does not come",
                    dying.scope
                )));
            }
            self.judge_dying(dying, "all obligations are completed", |_| false)?;
        }
        for (_, made) in self.server.openable() {
            let block = self.block(&made);
            if !self.shown().any(|it| it.allows(block, &made.content[..block.len as usize])) {
                return Err(found(format!("nothing is owed, but {:?} can be opened", made.context)));
            }
        }
        Ok(())
    }

    /// Checks that nothing can be opened but what was opened since that was last asked: everything was read, and nothing is
    /// owed.
    pub(super) fn judge_opened(&self) -> Judged {
        self.server.judge_attacker()?;
        if self.server.is_latched || !self.server.has_stubs() {
            return Ok(());
        }
        let opened = self.server.keys.take_opened();
        let mut openable = self.server.openable().into_iter();
        let left = openable.find(|(number, _)| !opened.contains(number));
        let wrong = |made: Made| Err(found(format!("{:?} is not shown, but can be opened", made.context)));
        left.map_or(Ok(()), |(_, made)| wrong(made))
    }
}

/// Whether a forget is about these bytes.
fn is_within(extent: Extent<Addr>, scope: Scope) -> bool {
    scope.blocks().is_none_or(|blocks| blocks.overlap(extent).is_some())
}

fn bytes_of(tag: Tag, word: Extent<Addr>) -> Vec<u8> {
    let mut bytes = vec![0; word.len as usize];
    fill(tag, word.start.0, &mut bytes);
    bytes
}
