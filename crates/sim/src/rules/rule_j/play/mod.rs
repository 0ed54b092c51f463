//! A guest that journals, the disk below it, rules that watch, and the judge.

mod life;
mod steps;

use crate::machine::cache;
use crate::machine::cache::Cache;
use crate::rules::rule_e::guest::Action;
use crate::rules::rule_e::search::Space;
use crate::rules::rule_j::guest::{Journaled, What};
use crate::rules::rule_j::judge::Judge;
use crate::rules::rule_j::log::Tid;
use crate::rules::rule_j::rules::{Rules, Seen};
use crate::rules::rule_j::setup::Setup;
use quietus_core::watch::{Observation, Verdict};
use quietus_detect::formats::format::Block;
use std::hash::{Hash, Hasher};

/// Possible steps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// The file system is mounted, after recovery if it needs one; that may be
    /// interrupted.
    Mount(bool),
    /// A process does something.
    Do(Action),
    /// Data goes on its way to its place.
    Write(Block),
    /// Metadata goes on its way to its place.
    Checkpoint(Block),
    /// The running transaction begins to commit.
    Commit,
    /// The commit block goes on its way.
    SendCommit,
    /// The guest is told that the commit is on the disk.
    Acknowledge,
    /// The tail goes on its way.
    MoveTail,
    /// A write arrives.
    Land(Block),
    /// A block of the log arrives, in two parts.
    Split(Block),
    /// All that is logged arrives, and the commit block.
    Finish,
    /// The commit block arrives once more.
    Again,
    /// All that is in memory is committed; then, all that is committed goes to
    /// its place.
    Sync(bool),
    /// The file system is unmounted.
    Unmount,
    /// The guest crashes; its writes on their way may arrive.
    Crash(bool),
    /// The file system is checked.
    Fsck,
    /// The server reads something that the rules want.
    Read,
    /// Evidence is being made durable.
    Cut,
    /// The evidence is durable.
    Proven,
    /// Verdicts are carried out; if true, also those that may still settle by themselves.
    Act(bool),
    /// The server does all that it can do now.
    Work,
    /// The server is killed and started again.
    Restart,
    /// Milliseconds pass.
    Pass(u64),
    /// The cache does something.
    Cache(cache::Step),
}

/// Content on its way, and the transaction whose log it is part of.
type Sending = (Vec<u8>, Option<Tid>);

/// A guest, a disk, rules, a judge.
#[derive(Debug)]
pub struct Play {
    setup: Setup,
    guest: Option<Journaled>,
    rules: Rules,
    cache: Cache<Sending>,
    judge: Judge,
    next_generation: u8,
    is_cut: bool,
    /// The next arrival comes in two parts.
    splits: bool,
    /// How often a recovery was interrupted; and whether the last one was.
    interruptions: usize,
    is_interrupted: bool,
    /// Where marks settle: blocks that unmarked files have in the end, in which nothing of marked ones is left;
    /// those that are plain, and all.
    pub plain: (u64, u64),
}

impl Play {
    /// An empty file system, mounted, below which rules begin to watch.
    ///
    /// # Panics
    /// If the rules cannot watch.
    pub fn new(setup: &Setup, seen: Seen) -> Self {
        let tail = setup.disk().1;
        let mut this = Self {
            setup: setup.clone(),
            guest: None,
            judge: Judge::new(setup.toy(), setup.area(), tail),
            rules: Rules::new(setup, seen),
            cache: Cache::new(setup.is_cached),
            next_generation: 1,
            is_cut: false,
            splits: false,
            interruptions: 0,
            is_interrupted: false,
            plain: (0, 0),
        };
        this.tell();
        let quiet_ms = if setup.has_marks { 1000 } else { 0 };
        this.rules.disks().try_for_each(|it| it.pass(quiet_ms)).expect("nothing has happened yet");
        while this.rules.read_one().expect("nothing has happened yet") {}
        this.step(Step::Mount(false)).expect("nothing has happened yet");
        this
    }

    /// Tells the rules how the guest is attached.
    fn tell(&mut self) {
        if self.setup.is_told {
            let attached = self.cache.attached();
            self.rules.disks().for_each(|it| it.attached(attached));
        }
    }

    /// The disk as the guest reads it.
    fn seen(&self) -> Vec<&[u8]> {
        let mut disk = self.rules.disk();
        self.cache.waiting().for_each(|(block, (bytes, _))| disk[block as usize] = bytes);
        disk
    }

    /// The guest sends `bytes`, which may be of the log of a transaction.
    fn send(&mut self, block: Block, bytes: Vec<u8>, logged: Option<Tid>) -> Result<(), String> {
        let passed = self.cache.take(block, (bytes, logged));
        passed.map_or(Ok(()), |it| self.arrive(block, it))
    }

    fn arrive_all(&mut self, sent: Vec<(Block, Sending)>) -> Result<(), String> {
        sent.into_iter().try_for_each(|(block, it)| self.arrive(block, it))
    }

    fn cache_does(&mut self, step: cache::Step) -> Result<(), String> {
        let sent = self.cache.happen(step);
        self.arrive_all(sent)?;
        self.tell();
        Ok(())
    }

    fn arrive(&mut self, block: Block, (bytes, logged): Sending) -> Result<(), String> {
        let parts = if std::mem::take(&mut self.splits) { 2 } else { 1 };
        for taken in self.rules.write(block, &bytes, parts)? {
            self.judge.destroyed(taken);
        }
        if self.rules.is_over() {
            return Err("inference stopped although the guest did nothing wrong".into());
        }
        self.judge.written(block, &bytes);
        if let Some(tid) = logged {
            self.judge.logged(block, tid);
        }
        Ok(())
    }

    /// Lets the write on its way to `block` arrive.
    fn land(&mut self, block: Block) -> Result<(), String> {
        let Some(guest) = &mut self.guest else { return Ok(()) };
        let Some(sent) = guest.landed(block) else { return Ok(()) };
        let (finished, brings_map) = (guest.finished(), guest.commits_map());
        let is_commit = guest.commit_block() == Some(block);
        if let What::Tail(tail) = sent.what {
            self.judge.tails.push(tail);
        }
        if let Some(tid) = finished {
            self.judge.finished(tid, brings_map);
        }
        let logged = if let What::Log(tid) = sent.what { Some(tid) } else { None };
        if let Some(tid) = logged.filter(|_| is_commit) {
            self.judge.ended = tid;
        }
        self.send(block, sent.bytes, logged)?;
        if finished.is_some() && self.rules.read_at_once() {
            self.judge.has_seen();
        }
        Ok(())
    }

    /// Lets everything arrive that is on its way, and that `is` so.
    fn land_some(&mut self, is: impl Fn(&Journaled, Block, What) -> bool) -> Result<(), String> {
        let Some(guest) = &self.guest else { return Ok(()) };
        let sent = guest.wire.iter().filter(|(block, it)| is(guest, **block, it.what));
        let blocks: Vec<_> = sent.map(|(block, _)| *block).collect();
        blocks.into_iter().try_for_each(|it| self.land(it))
    }

    fn land_all(&mut self) -> Result<(), String> {
        self.land_some(|_, _, _| true)
    }

    fn land_log(&mut self) -> Result<(), String> {
        self.land_some(|_, _, what| what.is_log())
    }

    /// The kernel waits for data on its way before it frees the block below.
    fn does(&mut self, action: Action) -> Result<(), String> {
        if action.frees() {
            self.land_some(|_, _, what| what == What::Data)?;
        }
        if self.setup.external_journal.is_some_and(|it| !it.reorders) {
            // Blocks on their way are locked.
            self.land_some(|guest, block, _| guest.is_metadata(block))?;
        }
        let Some(guest) = &mut self.guest else { return Ok(()) };
        let judge = &mut self.judge;
        let freed = guest.does(action, |block, owner| judge.begin(block, owner));
        freed.into_iter().for_each(|it| self.judge.end(it));
        Ok(())
    }

    fn with(&mut self, what: impl FnOnce(&mut Journaled)) {
        if let Some(guest) = &mut self.guest {
            what(guest);
        }
    }

    fn commit(&mut self) {
        let Some(guest) = &mut self.guest else { return };
        if let Some(tid) = guest.commit() {
            self.judge.closed(tid, guest.files.reserved());
        }
    }

    fn finish_commit(&mut self) -> Result<(), String> {
        self.land_log()?;
        self.with(Journaled::send_commit);
        self.land_log()
    }

    /// The commit block is written a second time, since the guest was not told of the first time.
    fn again(&mut self) -> Result<(), String> {
        let sent = self.guest.as_ref().and_then(Journaled::sent_commit);
        let Some((block, bytes)) = sent else { return Ok(()) };
        let tid = self.guest.as_ref().and_then(Journaled::finished);
        self.send(block, bytes, tid)
    }

    fn act(&mut self, all: bool) -> Result<(), String> {
        for (block, verdict) in self.rules.verdicts(all)? {
            if verdict == Verdict::ConservativeOverwrite {
                self.judge.rewritten(block);
                continue;
            }
            self.judge.dies(block)?;
            self.judge.destroyed(block);
            self.rules.destroy(block);
        }
        Ok(())
    }

    fn read(&mut self) -> Result<bool, String> {
        let more = self.rules.read_one()?;
        if !more {
            self.judge.has_seen();
        }
        Ok(more)
    }

    fn pass(&mut self, ms: u64) -> Result<(), String> {
        if self.setup.external_journal.is_some() {
            // Nothing is overtaken for longer than the window.
            self.land_all()?;
        }
        if self.setup.is_cached {
            // Nothing is on its way to the cache for as long as it takes to settle.
            self.land_all()?;
            self.finish_commit()?;
        }
        let sent = self.cache.pass(ms);
        self.arrive_all(sent)?;
        self.rules.disks().try_for_each(|it| it.pass(ms))
    }

    fn restart(&mut self) {
        self.rules.restart();
        self.tell();
        self.judge.forgotten();
        self.is_cut = false;
        if self.rules.read_at_once() {
            self.judge.has_seen();
        }
    }
}

impl Space for Play {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        self.possible()
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Mount(_) | Step::Fsck if self.guest.is_some() => {}
            Step::Mount(interrupted) => self.mount(interrupted)?,
            Step::Do(action) => self.does(action)?,
            Step::Write(block) => self.with(|it| it.write_data(block)),
            Step::Checkpoint(block) => self.with(|it| it.checkpoint(block)),
            Step::Commit => self.commit(),
            Step::SendCommit => self.with(Journaled::send_commit),
            Step::Acknowledge => self.with(Journaled::acknowledge),
            Step::MoveTail => self.with(Journaled::move_tail),
            Step::Land(block) => self.land(block)?,
            Step::Split(block) => {
                // The parts have to be read.
                self.judge.waits();
                self.splits = true;
                let landed = self.land(block);
                self.splits = false;
                landed?;
            }
            Step::Finish => self.finish_commit()?,
            Step::Again => self.again()?,
            Step::Sync(places) => self.sync(places)?,
            Step::Unmount => self.unmount()?,
            Step::Crash(lands) => self.crash(lands)?,
            Step::Fsck => self.fsck()?,
            Step::Read => drop(self.read()?),
            Step::Cut => {
                self.is_cut = true;
                self.rules.disks().for_each(|it| it.observe(Observation::Cut));
                self.judge.cut();
            }
            Step::Proven => {
                if std::mem::take(&mut self.is_cut) {
                    self.rules.disks().for_each(|it| it.observe(Observation::Proven));
                    self.judge.proven();
                }
            }
            Step::Act(all) => self.act(all)?,
            Step::Work => self.work()?,
            Step::Restart => self.restart(),
            Step::Pass(ms) => self.pass(ms)?,
            Step::Cache(step) => self.cache_does(step)?,
        }
        // Content of marked files is never plain.
        let plain = |block: &Block| self.rules.is_plain(*block);
        let block = self.judge.marked().into_iter().find(plain).filter(|_| self.setup.has_marks);
        let wrong = |it| Err(format!("safety: block {it} is plain, but holds content of a marked file"));
        block.map_or(Ok(()), wrong)
    }

    fn digest(&self, mut hasher: &mut dyn Hasher) {
        (&self.guest, &self.judge, &self.cache, self.is_cut).hash(&mut hasher);
        self.rules.digest(hasher);
    }

    fn finish(&mut self) -> Result<(), String> {
        self.settle_everything()
    }
}
