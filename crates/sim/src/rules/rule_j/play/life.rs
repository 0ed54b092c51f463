//! How a guest begins and ends.

use crate::machine::cache;
use crate::rules::rule_e::guest::{Action, mend};
use crate::rules::rule_e::search::Space;
use crate::rules::rule_e::toy::{SUPER, Super};
use crate::rules::rule_e::wide::{narrowed, widened};
use crate::rules::rule_j::guest::{Journaled, Start};
use crate::rules::rule_j::log::{Tail, recovery};
use crate::rules::rule_j::play::{Play, Step};

/// Most rounds until everything is in its place; the log empties in two.
const ROUNDS_MAX: usize = 20;
/// Most reads in a row; more than the blocks of any of these disks.
const READS_MAX: usize = 100;

impl Play {
    /// Replays the log, if that is needed; `None` if the replay was interrupted.
    fn recover(&mut self, interrupted: bool) -> Result<Option<Start>, String> {
        self.rules.opened()?;
        let found = recovery(self.setup.area(), &self.seen()).ok_or("safety: the journal is gone")?;
        if found.is_empty {
            return Ok(Some(Start { tid: found.next + self.setup.skips, is_empty: true }));
        }
        // A number is left out, so that blocks left from one transaction are not taken for the next.
        let tid = found.next + self.setup.skips.max(1);
        if found.next != self.judge.newest + 1 {
            let newest = self.judge.newest;
            return Err(format!("safety: {newest} was on the disk, but {} is not found", found.next));
        }
        let is_external = self.setup.external_journal.is_some();
        let contents = if is_external { found.in_order } else { found.contents.into_iter().collect() };
        let quarters = if is_external { 1 + self.interruptions % 3 } else { 2 };
        let count = if interrupted { contents.len() * quarters / 4 } else { contents.len() };
        contents.into_iter().take(count).try_for_each(|(block, bytes)| self.send(block, bytes, None))?;
        self.is_interrupted = interrupted;
        if interrupted {
            self.interruptions += 1;
            return Ok(None);
        }
        let tail = Tail { start: 1, tid };
        self.tail_arrives(tail)?;
        Ok(Some(Start { tid, is_empty: false }))
    }

    fn tail_arrives(&mut self, tail: Tail) -> Result<(), String> {
        self.judge.tails.push(tail);
        self.send(self.setup.area().block(0), self.setup.area().superblock(tail), None)
    }

    pub(super) fn mount(&mut self, interrupted: bool) -> Result<(), String> {
        let Some(start) = self.recover(interrupted)? else { return Ok(()) };
        let before = Super::from_bytes(self.seen()[SUPER as usize]).expect("it is a superblock");
        let counts = u8::from(self.setup.external_journal.is_some() || self.setup.has_marks);
        let in_use = Super { is_clean: false, mounts: before.mounts.wrapping_add(counts), ..before };
        self.send(SUPER, widened(&in_use.bytes(), self.setup.area().block_bytes), None)?;
        self.judge.mounted(start.tid);
        let what = (self.setup.toy(), self.setup.area(), self.setup.mode, self.setup.is_async);
        let guest = Journaled::mount(what, &self.seen(), self.next_generation, start);
        self.guest = Some(guest.reserving(self.setup.reserving()));
        Ok(())
    }

    /// Commits all that is in memory, and brings it to its place with `places`.
    pub(super) fn sync(&mut self, places: bool) -> Result<(), String> {
        for _ in 0..ROUNDS_MAX {
            self.land_all()?;
            let Some(guest) = &mut self.guest else { return Ok(()) };
            guest.dirty().into_iter().for_each(|it| guest.write_data(it));
            self.land_all()?;
            self.with(Journaled::send_commit);
            self.land_all()?;
            self.with(Journaled::acknowledge);
            self.commit();
            let is_full = self.guest.as_ref().is_some_and(|it| !it.can_commit());
            self.with(|it| {
                if places || is_full {
                    it.checkpointable().into_iter().for_each(|block| it.checkpoint(block));
                }
            });
            self.land_all()?;
            self.with(Journaled::move_tail);
            if self.guest.as_ref().is_some_and(|it| it.is_committed() && (!places || it.is_settled())) {
                return Ok(());
            }
        }
        Err("the model: the committed metadata cannot be brought to its place".into())
    }

    pub(super) fn unmount(&mut self) -> Result<(), String> {
        if self.guest.is_none() {
            return Ok(());
        }
        let swapped = self.guest.iter().flat_map(|it| it.files.swapped()).collect::<Vec<_>>();
        swapped.into_iter().try_for_each(|it| self.does(Action::SwapOff(it)))?;
        self.sync(true)?;
        self.with(Journaled::empty);
        self.land_all()?;
        let Some(guest) = self.guest.take() else { return Ok(()) };
        self.send(SUPER, guest.superblock(true), None)?;
        self.next_generation = guest.files.next_generation;
        self.judge.unmounted();
        Ok(())
    }

    pub(super) fn crash(&mut self, lands: bool) -> Result<(), String> {
        if lands {
            self.land_all()?;
        }
        if self.lies_there() {
            self.land_log()?;
        }
        let Some(guest) = self.guest.take() else { return Ok(()) };
        self.next_generation = guest.files.next_generation;
        self.judge.crashed();
        Ok(())
    }

    /// Whether the same as all that is on its way to the log lies there already, of
    /// an older transaction: a recovery takes it for what did not arrive.
    fn lies_there(&self) -> bool {
        let disk = self.seen();
        let sent = self.guest.iter().flat_map(|it| &it.wire);
        let mut log = sent.filter(|(_, it)| it.what.is_log());
        log.all(|(block, it)| disk[*block as usize] == it.bytes)
    }

    /// A check says that nothing has to be replayed any more, before it goes on.
    fn says_whole(&mut self) -> Result<(), String> {
        let said = Super::from_bytes(self.seen()[SUPER as usize]).expect("it is a superblock");
        if self.setup.external_journal.is_none() || said.is_clean {
            return Ok(());
        }
        let whole = Super { is_clean: true, ..said };
        self.send(SUPER, widened(&whole.bytes(), self.setup.area().block_bytes), None)
    }

    /// A check replays the log, empties it, and mends what there is to mend.
    pub(super) fn fsck(&mut self) -> Result<(), String> {
        let Some(start) = self.recover(false)? else { return Ok(()) };
        if !start.is_empty {
            self.tail_arrives(Tail { start: 0, tid: start.tid })?;
            self.judge.mounted(start.tid);
            self.judge.unmounted();
        }
        self.says_whole()?;
        let pages: Vec<_> = self.seen().iter().map(|it| narrowed(it)).collect();
        for (block, page) in mend(self.setup.toy(), &pages) {
            self.send(block, widened(&page, self.setup.area().block_bytes), None)?;
        }
        Ok(())
    }

    /// The end of a history: everything is written and settled, and nothing dead may be left.
    pub(super) fn settle_everything(&mut self) -> Result<(), String> {
        if self.guest.is_some() && self.setup.has_marks && self.setup.toy().frees_wait {
            self.step(Step::Pass(1000))?;
            for _ in 0..2 {
                self.sync(false)?;
                while self.read()? {}
                self.log_something()?;
            }
            self.sync(false)?;
            while self.read()? {}
            let unmarked = self.judge.unmarked();
            let plain = unmarked.iter().filter(|block| self.rules.is_plain(**block)).count();
            self.plain = (plain as u64, unmarked.len() as u64);
        }
        self.step(Step::Unmount)?;
        let last = self.judge.newest;
        for _ in 0..if self.setup.is_cached { 12 } else { 2 } {
            for step in [Step::Pass(1000), Step::Work, Step::Mount(false)] {
                self.step(step)?;
            }
            if self.setup.is_cached {
                self.log_something()?;
            }
            if self.setup.reserves.is_some() {
                // The rules learn from the log which blocks are reserved.
                self.step(Step::Do(Action::Stamp))?;
            }
            let flush = Step::Cache(cache::Step::Flush);
            for step in [flush, Step::Pass(1000), Step::Unmount, flush] {
                self.step(step)?;
            }
        }
        for step in [Step::Pass(1000), Step::Work, Step::Work] {
            self.step(step)?;
        }
        let last = if self.setup.is_cached { last } else { self.judge.newest };
        self.judge.is_clean(self.rules.knows_layers(), last, self.setup.has_marks)
    }

    /// Above a cache, what was logged is residue once the journal's superblock is written long
    /// after: something has to be logged again.
    fn log_something(&mut self) -> Result<(), String> {
        [Action::Delete(0), Action::Create(0)].into_iter().try_for_each(|it| self.step(Step::Do(it)))
    }

    /// The server does all that it can do now.
    pub(super) fn work(&mut self) -> Result<(), String> {
        let mut reads = 0;
        while self.read()? {
            reads += 1;
            if reads > READS_MAX {
                return Err("liveness: the rules never stop reading".into());
            }
        }
        for step in [Step::Cut, Step::Proven, Step::Act(false)] {
            self.step(step)?;
        }
        Ok(())
    }
}
