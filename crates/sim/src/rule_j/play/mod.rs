//! A guest that journals, the disk below it, rules that watch, and the judge.

mod life;
mod steps;

use super::device::{FIRST, WIDE_BYTES, Wider};
use super::guest::{Journaled, Mode, What};
use super::judge::Judge;
use super::log::{Area, Flavour, Tail, Tid};
use super::rules::{Rules, Seen};
use crate::cache::{self, Cache};
use crate::rule_e::guest::{Action, Converts, Reserving, SLOTS};
use crate::rule_e::search::Space;
use crate::rule_e::toy::Toy;
use crate::rule_e::wide::widened;
use quietus_core::watch::{Observation, Verdict};
use quietus_detect::format::Block;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A guest, a disk and the limits of a search.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Data that is journaled, and data that is ordered.
    pub mode: Mode,
    /// Blocks of data.
    pub data: Block,
    /// Files at once.
    pub files: usize,
    /// Slots that files use.
    pub slots: Vec<usize>,
    /// Blocks of the journal, its superblock too.
    pub journal: u32,
    /// How tags are written.
    pub flavour: Flavour,
    /// The commit block does not wait for the others.
    pub is_async: bool,
    /// How many numbers a mount leaves out.
    pub skips: u32,
    /// The guest may crash.
    pub crashes: bool,
    /// The server may be killed, and asked again for what it has done.
    pub restarts: bool,
    /// The file system may be unmounted.
    pub unmounts: bool,
    /// Metadata and the tail go on their way one by one, or not at all.
    pub checkpoints: bool,
    /// Blocks of the log may arrive in parts.
    pub splits: bool,
    /// Time passes.
    pub passes_ms: Vec<u64>,
    /// The journal lies on another device.
    pub external_journal: Option<ExternalJournal>,
    /// A cache stands between the guest and the disk. It does not pass flushes on, and lasts.
    pub is_cached: bool,
    /// The rules are told of the cache.
    pub is_told: bool,
    /// Files have marks, and only what they hold has to be destroyed.
    pub has_marks: bool,
    /// Files reserve space, and when the pointers to it change.
    pub reserves: Option<Converts>,
}

/// Properties of a journal that lies elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ExternalJournal {
    /// Writes on their way to their places may be overtaken by later ones.
    pub reorders: bool,
    /// Something between answers reads: nobody sees them.
    pub hides_reads: bool,
}

impl Setup {
    /// Everything, for long histories.
    pub fn large(mode: Mode) -> Self {
        Self {
            mode,
            data: 6,
            files: 3,
            slots: (0..SLOTS).collect(),
            journal: 20,
            flavour: Flavour::Plain,
            is_async: false,
            skips: 1,
            crashes: true,
            restarts: true,
            unmounts: true,
            checkpoints: true,
            splits: false,
            passes_ms: vec![100, 1500],
            external_journal: None,
            is_cached: false,
            is_told: true,
            has_marks: false,
            reserves: None,
        }
    }

    /// The same with the journal on another device.
    pub fn external_journal(self) -> Self {
        Self { external_journal: Some(ExternalJournal { reorders: false, hides_reads: false }), ..self }
    }

    /// So little that all of it can be searched.
    pub fn small(mode: Mode) -> Self {
        Self {
            data: 2,
            files: 2,
            slots: vec![0],
            journal: 12,
            crashes: false,
            restarts: false,
            unmounts: false,
            checkpoints: false,
            passes_ms: Vec::new(),
            ..Self::large(mode)
        }
    }

    /// The space that files reserve: that which inodes themselves name.
    pub fn reserving(&self) -> Option<Reserving> {
        self.reserves.map(|converts| Reserving { converts, slots: 2 })
    }

    /// Where the toy's parts lie.
    pub fn toy(&self) -> Toy {
        let blocks = 3 + self.journal + self.data;
        let (has_marks, frees_wait) = (self.has_marks, self.mode != Mode::Writeback);
        Toy { journal: self.journal, block_bytes: WIDE_BYTES, has_marks, frees_wait, ..Toy::new(blocks) }
    }

    /// Where the journal lies.
    pub fn area(&self) -> Area {
        let (first, len) = (self.toy().journal_first(), self.journal);
        let base = if self.external_journal.is_some() { FIRST } else { 0 };
        Area { first, len, base, block_bytes: WIDE_BYTES, flavour: self.flavour }
    }

    /// An empty file system that was unmounted, and its log.
    pub fn disk(&self) -> (Vec<Wider>, Tail) {
        let (toy, tail) = (self.toy(), Tail { start: 0, tid: 1 });
        let wider = |it: Vec<u8>| Wider::try_from(it).expect("it is a block");
        let mut disk: Vec<_> = toy.disk().iter().map(|it| wider(widened(it, WIDE_BYTES))).collect();
        disk[toy.journal_first() as usize] = wider(self.area().superblock(tail));
        (disk, tail)
    }
}

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
    /// Something arrives.
    Land(Block),
    /// Something of the log arrives, in two parts.
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
    /// The guest crashes; what was on its way may arrive.
    Crash(bool),
    /// The file system is checked.
    Fsck,
    /// The server reads something that the rules want.
    Read,
    /// Evidence is being made durable.
    Cut,
    /// The evidence is durable.
    Proven,
    /// Verdicts are carried out; also those that may settle themselves?
    Act(bool),
    /// All that the server can do is done.
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
    /// If they cannot.
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

    /// Content of marked files is never plain.
    fn keeps_marks(&self) -> Result<(), String> {
        let plain = |block: &Block| self.rules.is_plain(*block);
        let block = self.judge.marked().into_iter().find(plain).filter(|_| self.setup.has_marks);
        let wrong = |it| Err(format!("safety: block {it} is plain, and holds what a marked file had"));
        block.map_or(Ok(()), wrong)
    }

    fn cache_does(&mut self, step: cache::Step) -> Result<(), String> {
        let sent = self.cache.happen(step);
        self.arrive_all(sent)?;
        self.tell();
        Ok(())
    }

    /// `bytes` arrive.
    fn arrive(&mut self, block: Block, (bytes, logged): Sending) -> Result<(), String> {
        let parts = if std::mem::take(&mut self.splits) { 2 } else { 1 };
        for taken in self.rules.write(block, &bytes, parts)? {
            self.judge.destroyed(taken);
        }
        if self.rules.is_over() {
            return Err("inference stopped, and the guest has done nothing wrong".into());
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
            self.judge.tail(tail);
        }
        if let Some(tid) = finished {
            self.judge.finished(tid, brings_map);
        }
        let logged = if let What::Log(tid) = sent.what { Some(tid) } else { None };
        if let Some(tid) = logged.filter(|_| is_commit) {
            self.judge.ended(tid);
        }
        self.send(block, sent.bytes, logged)?;
        if finished.is_some() && self.rules.read_at_once() {
            self.judge.has_seen();
        }
        Ok(())
    }

    /// The same, in two parts, which have to be read.
    fn split(&mut self, block: Block) -> Result<(), String> {
        self.judge.waits();
        self.splits = true;
        let landed = self.land(block);
        self.splits = false;
        landed
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

    /// The commit block is written a second time: nobody had heard that it was.
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

    fn cut(&mut self) {
        self.is_cut = true;
        self.rules.disks().for_each(|it| it.observe(Observation::Cut));
        self.judge.cut();
    }

    fn proven(&mut self) {
        if std::mem::take(&mut self.is_cut) {
            self.rules.disks().for_each(|it| it.observe(Observation::Proven));
            self.judge.proven();
        }
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
            Step::Split(block) => self.split(block)?,
            Step::Finish => self.finish_commit()?,
            Step::Again => self.again()?,
            Step::Sync(places) => self.sync(places)?,
            Step::Unmount => self.unmount()?,
            Step::Crash(lands) => self.crash(lands)?,
            Step::Fsck => self.fsck()?,
            Step::Read => drop(self.read()?),
            Step::Cut => self.cut(),
            Step::Proven => self.proven(),
            Step::Act(all) => self.act(all)?,
            Step::Work => self.work()?,
            Step::Restart => self.restart(),
            Step::Pass(ms) => self.pass(ms)?,
            Step::Cache(step) => self.cache_does(step)?,
        }
        self.keeps_marks()
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.guest, &self.judge, self.rules.digest(), &self.cache, self.is_cut).hash(&mut hasher);
        hasher.finish()
    }

    fn finish(&mut self) -> Result<(), String> {
        self.settle_everything()
    }
}
