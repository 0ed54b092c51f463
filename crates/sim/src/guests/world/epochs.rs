//! The promises about epochs.
//!
//! 1. The epoch that a close ends has all changes that arrived before it, and no change that arrives later: so what it
//!    showed is the [`Model`] at that moment, and what becomes known of the changes before it. Where another close is
//!    under way, the moment is that close's end.
//! 2. A close without a change since the one before makes no epoch.
//! 3. The number of an epoch that a guest was told stays the number of that epoch. No crash takes it away, and what
//!    it shows stays the same to the last byte, until it is forgotten. An epoch that was not reported to a guest is kept by a crash
//!    as a whole, or not at all.
//! 4. A forget that was replied to lasts: the epochs are refused for ever. One that was not replied to may have been
//!    noted or not; after a crash the first answer decides that for good.

use crate::guests::model::Model;
use crate::guests::world::lost::{AllLost, Fate, Gap, Shown};
use crate::guests::world::{Pending, World, whole_blocks};
use crate::machine::content::Tag;
use crate::machine::history::Ask;
use crate::server::{Moment, Server};
use crate::verdict::{Judged, Violation, bad_reply, broken};
use quietus_core::base::units::{Addr, Epoch, EpochRange, Extent, Scope};
use quietus_core::request::Reply;
use std::collections::BTreeMap;

/// The world's knowledge of a disk's epochs.
#[derive(Default)]
pub(super) struct Book {
    /// The epochs that have closed, by number.
    pub(super) closed: BTreeMap<u64, Closed>,
    /// The blocks that closed epochs do not show any more.
    pub(super) lost: AllLost,
    /// The epoch that takes changes.
    pub(super) open: u64,
    /// The close under way, which is the end of the open epoch.
    cut: Option<Cut>,
    /// The closes that wait for that.
    later: Vec<Tag>,
    /// A change has arrived since the last cut.
    is_changed: bool,
    /// A change may have arrived since the end of the last closed epoch, in this life or an earlier one.
    is_touched: bool,
}

/// The end of an epoch.
struct Cut {
    /// The content that the epoch shows.
    model: Model,
    /// The latest request before it.
    newest: Tag,
    moment: Moment,
    /// The requests that asked for it.
    waiters: Vec<Tag>,
}

pub(super) struct Closed {
    cut: Cut,
    /// The guest was told of the epoch.
    is_told: bool,
    fate: Fate,
}

/// The subject of a request, and what was known of it when it was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct About {
    pub(super) epochs: EpochRange,
    /// The guest had been told of the first of the epochs, and had not asked to forget it.
    is_sure: bool,
    /// The first of the epochs was forgotten.
    is_forgotten: bool,
    /// Not all of the epochs had closed.
    pub(super) is_open: bool,
    /// The epoch that was open.
    pub(super) open: u64,
    /// The epochs that the guest had been told of.
    told: Vec<u64>,
    /// The blocks that the first epoch did not show any more.
    lost: Vec<Gap>,
}

impl Cut {
    fn new(model: &Model, newest: Tag, moment: Moment, waiters: Vec<Tag>) -> Self {
        Self { model: model.kept(), newest, moment, waiters }
    }
}

impl Closed {
    fn is_sure(&self) -> bool {
        self.is_told && self.fate == Fate::Kept
    }
}

impl Book {
    /// The epochs of a disk that was just made.
    pub(super) fn new(server: &Server) -> Self {
        let is_changed = server.volume.has_open_epoch_changed();
        Self { open: server.open_epoch(), is_changed, is_touched: is_changed, ..Self::default() }
    }

    /// The epochs that `ask` is about.
    fn meant(&self, ask: Ask) -> EpochRange {
        let epoch = |back: u8| self.open.saturating_sub(u64::from(back));
        let (from, to) = match ask {
            Ask::ReadPast { back } | Ask::ListEpochs { back } => (epoch(back), epoch(back)),
            Ask::Forget { back, count }
            | Ask::ForgetShown { back, count }
            | Ask::ForgetSet { back, count } => {
                (epoch(back).saturating_sub(u64::from(count) - 1), epoch(back))
            }
            Ask::ForgetBlocks => (1, epoch(1)),
            _ => (0, 0),
        };
        EpochRange { from: Epoch(from), to: Epoch(to) }
    }

    /// The knowledge of the epochs that `ask` is about.
    pub(super) fn about(&self, ask: Ask) -> About {
        let epochs = self.meant(ask);
        let first = self.closed.get(&epochs.from.0);
        let (is_sure, is_open) = (first.is_some_and(Closed::is_sure), epochs.to.0 >= self.open);
        let is_forgotten = first.is_some_and(|it| it.fate == Fate::Forgotten);
        let told =
            self.closed.iter().filter(|(_, closed)| closed.is_told).map(|(number, _)| *number).collect();
        let (open, lost) = (self.open, self.lost.surely_of(epochs.from.0));
        About { epochs, is_sure, is_forgotten, is_open, open, told, lost }
    }

    fn is_sure(&self, epoch: u64) -> bool {
        self.closed.get(&epoch).is_some_and(Closed::is_sure)
    }

    pub(super) fn close_sent(&mut self, tag: Tag, model: &Model, moment: Moment) {
        match &mut self.cut {
            Some(_) if self.is_changed => self.later.push(tag),
            Some(cut) => cut.waiters.push(tag),
            None if std::mem::take(&mut self.is_changed) => {
                self.is_touched = false;
                self.cut = Some(Cut::new(model, tag, moment, vec![tag]));
            }
            // No epoch is made, and the number is that of the last one.
            None => {
                let last = self.closed.get_mut(&(self.open - 1));
                last.into_iter().for_each(|closed| closed.cut.waiters.push(tag));
            }
        }
    }

    pub(super) fn forget_sent(&mut self, epochs: EpochRange) {
        self.each(epochs, |closed| {
            if closed.fate != Fate::Forgotten {
                closed.fate = Fate::Asked;
            }
        });
    }

    /// Notes the reply to a forget.
    pub(super) fn forgotten(&mut self, epochs: EpochRange) {
        self.closed.range_mut(..=epochs.to.0).for_each(|(_, closed)| closed.is_told = true);
        self.each(epochs, |closed| closed.fate = Fate::Forgotten);
    }

    fn each(&mut self, epochs: EpochRange, change: impl FnMut(&mut Closed)) {
        let within = self.closed.range_mut(epochs.from.0..=epochs.to.0.max(epochs.from.0));
        within.map(|(_, closed)| closed).for_each(change);
    }

    /// The content that each of these epochs showed.
    pub(super) fn of(&self, epochs: EpochRange) -> impl Iterator<Item = &Model> {
        let last = epochs.to.0.max(epochs.from.0);
        self.closed.range(epochs.from.0..=last).map(|(_, closed)| &closed.cut.model)
    }

    /// The content of each epoch that was not forgotten for sure, and of the one that is closing.
    pub(super) fn shown(&self) -> impl Iterator<Item = Shown<'_>> {
        let kept = self.closed.iter().filter(|(_, closed)| closed.fate != Fate::Forgotten);
        let kept = kept.map(|(number, closed)| (*number, &closed.cut.model));
        let closing = self.cut.iter().map(|cut| (self.open, &cut.model));
        kept.chain(closing).map(|(number, model)| Shown { model, lost: self.lost.surely_of(number) })
    }

    /// The epochs that a change `tag` belongs to, and which may still learn of it.
    fn cuts_after(&mut self, tag: Tag) -> impl Iterator<Item = &mut Cut> {
        let closed = self.closed.values_mut().map(|closed| &mut closed.cut);
        closed.chain(&mut self.cut).filter(move |cut| tag < cut.newest)
    }

    pub(super) fn settle(&mut self, tag: Tag, extent: Extent<Addr>, moment: Moment, durable: bool) {
        self.cuts_after(tag).for_each(|cut| cut.model.settle(tag, extent, moment, durable));
    }

    pub(super) fn withdraw(&mut self, tag: Tag, extent: Extent<Addr>) {
        self.cuts_after(tag).for_each(|cut| cut.model.withdraw(tag, extent));
    }

    /// Notes that close `tag` was refused. If it has cut already, its epoch closes all the same once it can.
    pub(super) fn close_refused(&mut self, tag: Tag) {
        self.later.retain(|it| *it != tag);
    }

    /// Notes how many epochs have closed by now.
    pub(super) fn look(&mut self, open: u64, model: &Model, (newest, moment): (Tag, Moment)) {
        while self.open < open
            && let Some(cut) = self.cut.take()
        {
            self.closed.insert(self.open, Closed { cut, is_told: false, fate: Fate::Kept });
            self.open += 1;
            let waiters = std::mem::take(&mut self.later);
            if !waiters.is_empty() {
                (self.is_changed, self.is_touched) = (false, false);
                self.cut = Some(Cut::new(model, newest, moment, waiters));
            }
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.cut.is_some()
    }

    /// Checks the number that close `tag` was replied to with. Returns the moment of the epoch's end.
    fn number_told(&mut self, tag: Tag, number: u64) -> Result<Option<Moment>, Violation> {
        let own = self.closed.iter().find(|(_, closed)| closed.cut.waiters.contains(&tag));
        let own = own.map_or(0, |(own, _)| *own);
        if own != number {
            return Err(bad_reply(format!("the close {tag:?} of epoch {own} was given the number {number}")));
        }
        self.closed.range_mut(..=number).for_each(|(_, closed)| closed.is_told = true);
        Ok(self.closed.get(&number).map(|closed| closed.cut.moment))
    }

    /// Notes a start of the disk, after a stop that was `clean` or not.
    pub(super) fn restarted(&mut self, server: &Server, model: &Model, is_clean: bool) -> Judged {
        let open = server.open_epoch();
        let is_cut_off = self.cut.is_some() && open == self.open;
        self.is_touched |= is_cut_off || open < self.open;
        if let Some(cut) = self.cut.take().filter(|_| open > self.open) {
            self.closed.insert(self.open, Closed { cut, is_told: false, fate: Fate::Kept });
            self.open += 1;
        }
        let told = self.closed.iter().rfind(|(_, closed)| closed.is_told).map_or(0, |(number, _)| number + 1);
        let least = if is_clean { self.open } else { told };
        if open < least || open > self.open {
            return Err(broken(format!(
                "epoch {open} is open after a start, allowed: {least} to {}",
                self.open
            )));
        }
        self.closed.retain(|number, _| *number < open);
        self.lost.restarted();
        for closed in self.closed.values_mut() {
            let is_told = std::mem::replace(&mut closed.is_told, true);
            if closed.fate == Fate::Asked || !is_told && !is_clean {
                closed.fate = Fate::Perhaps;
            }
        }
        (self.open, self.is_changed, self.later) = (open, server.volume.has_open_epoch_changed(), Vec::new());
        self.check_changed(model)
    }

    /// Checks what a start says of the open epoch: whether it has a change.
    fn check_changed(&self, model: &Model) -> Judged {
        let before = self.open.saturating_sub(1);
        let Some(last) = self.closed.get(&before) else { return Ok(()) };
        if !self.is_changed && last.fate == Fate::Kept && model.surely_differs(&last.cut.model) {
            return Err(broken(format!("a change since epoch {before} is forgotten after a start")));
        }
        // The index may not know any more what an epoch had that is forgotten, or lacks blocks.
        let is_whole = last.fate == Fate::Kept && self.lost.may_be_whole(before);
        if self.is_changed && !self.is_touched && is_whole {
            return Err(broken(format!(
                "a start reports a change since epoch {before}, but there was no change"
            )));
        }
        Ok(())
    }

    /// Notes whether `epoch` is still there.
    fn seen(&mut self, epoch: u64, is_there: bool) {
        let Some(closed) = self.closed.get_mut(&epoch) else { return };
        if is_there {
            closed.is_told = true;
        }
        if closed.fate == Fate::Perhaps {
            closed.fate = if is_there { Fate::Kept } else { Fate::Forgotten };
        }
    }

    /// Checks what a read of the past showed.
    fn read(&mut self, pending: &Pending, bytes: &[u8]) -> Judged {
        let epoch = pending.about.epochs.from;
        if pending.about.is_forgotten {
            return Err(broken(format!("{epoch:?} was forgotten, but can be read")));
        }
        self.seen(epoch.0, true);
        self.lost.read(epoch.0, (pending.extent, bytes), &pending.about.lost)?;
        let Some(closed) = self.closed.get_mut(&epoch.0) else {
            return Err(broken(format!("{epoch:?} never closed, but can be read")));
        };
        let read = closed.cut.model.read_kept(pending.extent, bytes);
        read.map_err(|it| Violation { what: format!("{epoch:?}: {}", it.what), ..it })
    }

    /// Checks that a read of the past may be refused: the epoch is forgotten, or has not closed yet.
    pub(super) fn may_refuse(&mut self, pending: &Pending) -> bool {
        let epoch = pending.about.epochs.from.0;
        let is_sure = pending.about.is_sure && self.is_sure(epoch);
        self.seen(epoch, false);
        !is_sure
    }

    /// Checks a list of epochs, each with the time of its close.
    fn listed(&mut self, About { epochs, told, .. }: &About, list: &[(u64, u64)]) -> Judged {
        let wrong = |what: String| Err(broken(format!("{what} in the list of epochs {list:?}")));
        let from = epochs.from.0;
        if !list.is_sorted_by(|a, b| a.0 < b.0) || list.iter().any(|it| it.0 < from) {
            return wrong(format!("the order is not right from {from} on,"));
        }
        for (epoch, when) in list {
            let Some(closed) = self.closed.get(epoch).filter(|it| it.fate != Fate::Forgotten) else {
                return wrong(format!("{epoch}, which was forgotten or never closed,"));
            };
            let due = closed.cut.waiters.first().map_or(0, |tag| when_of(*tag));
            if *when != due {
                return wrong(format!("{epoch} closed at {due}, which is not"));
            }
            self.seen(*epoch, true);
        }
        for epoch in told.iter().filter(|it| **it >= from && !list.iter().any(|listed| listed.0 == **it)) {
            if self.is_sure(*epoch) {
                return wrong(format!("{epoch} is kept, and is not"));
            }
            self.seen(*epoch, false);
        }
        Ok(())
    }
}

/// The meaning of a forget of these epochs and blocks.
fn scope_of(ask: Ask, epochs: EpochRange, extent: Extent<Addr>) -> Scope {
    let blocks = whole_blocks(extent);
    match ask {
        Ask::ForgetBlocks => Scope::chain(epochs, blocks),
        _ if ask.forgets_shown() => Scope::shown(epochs, blocks),
        _ => epochs.into(),
    }
}

impl Pending {
    /// The meaning of a forget: of a set, that of all its parts.
    pub(super) fn scope(&self) -> Scope {
        scope_of(self.ask, self.about.epochs, self.extent)
    }
}

impl World {
    /// Whether the replies about epochs are right.
    pub(super) fn epochs_done(&mut self, tag: Tag, pending: &Pending, reply: Reply) -> Judged {
        match pending.ask {
            Ask::CloseEpoch => {
                let Reply::Closed(Epoch(number)) = reply else {
                    return Err(bad_reply(format!("a close was replied to with {reply:?}")));
                };
                self.server.figures.closed += 1;
                if let Some(moment) = self.book.number_told(tag, number)? {
                    // A kept epoch's content is durable, and so is the rest of it.
                    self.model.flushed(moment);
                }
            }
            Ask::ReadPast { .. } => {
                self.server.figures.past += 1;
                self.book.read(pending, &reply.into_buf())?;
            }
            Ask::ListEpochs { .. } => {
                let Reply::Epochs(epochs) = reply else {
                    return Err(bad_reply(format!("epochs were listed with {reply:?}")));
                };
                let listed: Vec<_> = epochs.iter().map(|it| (it.epoch.0, it.closed_ms)).collect();
                self.book.listed(&pending.about, &listed)?;
            }
            Ask::Forget { .. } if pending.about.is_open => {
                return Err(bad_reply(format!(
                    "{:?} were forgotten, and not all had closed",
                    pending.about.epochs
                )));
            }
            Ask::Forget { .. } => {
                self.book.forgotten(pending.about.epochs);
                self.note_dying(pending.about.epochs.into());
            }
            Ask::ForgetBlocks | Ask::ForgetShown { .. } | Ask::ForgetSet { .. } => {
                *match pending.ask {
                    Ask::ForgetSet { .. } => &mut self.server.figures.sets,
                    Ask::ForgetShown { .. } => &mut self.server.figures.amended,
                    _ => &mut self.server.figures.chains,
                } += 1;
                self.book.lost.forgotten(tag);
                self.note_dying(pending.scope());
            }
            _ => {}
        }
        Ok(())
    }

    /// Notes what a request that was sent, and not refused at once, means for the epochs.
    pub(super) fn note_for_epochs(&mut self, tag: Tag, (ask, extent): (Ask, Extent<Addr>), since: Moment) {
        match ask {
            Ask::ForgetBlocks | Ask::ForgetShown { .. } | Ask::ForgetSet { .. } => {
                self.book.lost.asked(tag, scope_of(ask, self.book.meant(ask), extent));
            }
            Ask::CloseEpoch => self.book.close_sent(tag, &self.model, since),
            Ask::Forget { .. } => self.book.forget_sent(self.book.meant(ask)),
            _ if ask.value(tag).is_some() => (self.book.is_changed, self.book.is_touched) = (true, true),
            _ => {}
        }
    }

    pub(super) fn look_at_epochs(&mut self) {
        if self.book.is_closing() {
            let open = self.server.open_epoch();
            let now = (Tag(self.newest.0 + 1), self.server.next_moment());
            self.book.look(open, &self.model, now);
        }
    }

    /// Reads the whole disk, as it is and as each kept epoch showed it.
    pub(super) fn read_all_epochs(&mut self) -> Judged {
        self.server.keys.take_opened();
        self.read_everything()?;
        if !self.server.setup.keeps_versions() {
            return Ok(());
        }
        let whole = Extent::new(0, self.server.setup.disk_bytes);
        let epochs: Vec<u64> = self.book.closed.keys().copied().collect();
        for epoch in epochs {
            let back = self.book.open - epoch;
            if let Ok(back) = u8::try_from(back) {
                for part in self.book.lost.cut(epoch, whole) {
                    self.ask(Ask::ReadPast { back }, part)?;
                }
            }
        }
        self.ask(Ask::ListEpochs { back: u8::MAX }, Extent::default())
    }
}

/// The time at which request `tag` closes an epoch.
pub(super) fn when_of(tag: Tag) -> u64 {
    1_800_000_000_000 + u64::from(tag.0)
}
