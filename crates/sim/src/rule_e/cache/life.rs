//! How what can happen happens.

use super::{Cached, HOLD_MS, Layer, SETTLE_MS, Step, attach};
use crate::rule_e::guest::deeds::Deed;
use crate::rule_e::guest::{Guest, mend};
use crate::rule_e::judge::Excuses;
use crate::rule_e::search::Space;
use crate::rule_e::toy::{Bytes, SUPER, Super, Toy, place};
use quietus_core::watch::Verdict;
use quietus_detect::format::Block;

/// How long [`Step::Sleep`] is.
const SLEEP_MS: u64 = 10_000_000;
/// Most reads and acts in a row; more than the blocks of any of these disks.
const ROUNDS_MAX: usize = 100;

impl Cached {
    pub(super) fn happen(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Mount => self.mount(),
            Step::Do(deed) => {
                self.does(deed);
                Ok(())
            }
            Step::WriteBack(block) => self.write_back(block),
            Step::Sink(block) => {
                self.sink(block);
                Ok(())
            }
            Step::Emit(block) => self.emit(block),
            Step::Resend(block) => self.resend(block),
            Step::Sync(obeys) => self.sync(obeys),
            Step::Unmount(obeys) => self.unmount(obeys),
            Step::Crash => {
                self.crash();
                Ok(())
            }
            Step::PowerCut => {
                (self.upper, self.lower) = (Layer::new(), Layer::new());
                self.sent.clear();
                self.crash();
                Ok(())
            }
            Step::Fsck => self.fsck(),
            Step::Between(is) => self.change_between(is),
            Step::Read => self.twin.read_one().map(drop),
            Step::Cut => {
                self.is_cut = true;
                self.twin.cut();
                self.judge.cut();
                Ok(())
            }
            Step::Proven => {
                self.proven();
                Ok(())
            }
            Step::Act(all) => self.act(all),
            Step::Restart => {
                self.restart();
                Ok(())
            }
            Step::Pass(ms) => self.pass(ms),
            Step::Sleep => self.twin.pass(SLEEP_MS),
        }
    }

    /// The guest sends `bytes`; the oldest write that waits for the same place was sent then.
    fn sends(&mut self, block: Block, bytes: &Bytes) -> Result<(), String> {
        if !self.is_between {
            return self.arrive(block, bytes);
        }
        let since = self.upper.get(&block).map_or(self.run_ms, |it| it.1);
        self.upper.insert(block, (*bytes, since));
        Ok(())
    }

    fn sink(&mut self, block: Block) {
        let Some((bytes, since)) = self.upper.remove(&block) else { return };
        let since = self.lower.get(&block).map_or(since, |it| it.1.min(since));
        self.lower.insert(block, (bytes, since));
    }

    fn emit(&mut self, block: Block) -> Result<(), String> {
        let Some((bytes, _)) = self.lower.remove(&block) else { return Ok(()) };
        self.sent.insert(block, bytes);
        self.arrive(block, &bytes)
    }

    /// The lower layer has one copy of a block: if a newer one waits, that will be sent.
    fn resend(&mut self, block: Block) -> Result<(), String> {
        let sent = self.sent.get(&block).filter(|_| !self.lower.contains_key(&block)).copied();
        sent.map_or(Ok(()), |bytes| self.arrive(block, &bytes))
    }

    fn arrive(&mut self, block: Block, bytes: &Bytes) -> Result<(), String> {
        for taken in self.twin.write(place(block), bytes, true)? {
            self.judge.destroyed(taken);
        }
        if self.twin.is_over() {
            return Err("inference stopped, and the guest has done nothing wrong".into());
        }
        self.judge.written(block, bytes, self.twin.disk());
        Ok(())
    }

    /// The cache sends everything.
    fn empty(&mut self) -> Result<(), String> {
        let waiting: Vec<_> = self.upper.keys().chain(self.lower.keys()).copied().collect();
        for block in waiting {
            self.emit(block)?;
            self.sink(block);
            self.emit(block)?;
        }
        Ok(())
    }

    /// What has waited in the cache for as long as it may goes out, before `ms` pass.
    fn emit_old(&mut self, ms: u64) -> Result<(), String> {
        let end = self.run_ms + ms;
        let is_due = |(block, (_, since)): (&Block, &(Bytes, u64))| (end - since > HOLD_MS).then_some(*block);
        let due: Vec<_> = self.lower.iter().chain(&self.upper).filter_map(is_due).collect();
        for block in due {
            self.emit(block)?;
            self.sink(block);
            self.emit(block)?;
        }
        Ok(())
    }

    fn write_back(&mut self, block: Block) -> Result<(), String> {
        let Some(guest) = self.guest.as_mut().filter(|it| it.dirty().contains(&block)) else {
            return Ok(());
        };
        let bytes = guest.write_back(block);
        self.sends(block, &bytes)
    }

    fn write_back_all(&mut self) -> Result<(), String> {
        let dirty = self.guest.as_ref().map(|it| it.dirty().clone()).unwrap_or_default();
        dirty.into_iter().try_for_each(|it| self.write_back(it))
    }

    fn sync(&mut self, obeys: bool) -> Result<(), String> {
        if self.guest.is_some() {
            self.write_back_all()?;
            if obeys {
                self.empty()?;
            }
        }
        Ok(())
    }

    pub(super) fn note_dirty(&mut self) {
        let dirty = self.guest.as_ref().map(|it| it.dirty().clone()).unwrap_or_default();
        self.dirty_since.retain(|it, _| dirty.contains(it));
        for block in dirty {
            self.dirty_since.entry(block).or_insert(self.run_ms);
        }
    }

    fn pass(&mut self, ms: u64) -> Result<(), String> {
        let end = self.run_ms + ms;
        let due: Vec<_> =
            self.dirty_since.iter().filter(|it| end - *it.1 > SETTLE_MS / 2).map(|it| *it.0).collect();
        due.into_iter().try_for_each(|it| self.write_back(it))?;
        self.emit_old(ms)?;
        self.run_ms += ms;
        self.twin.pass(ms)
    }

    fn does(&mut self, deed: Deed) {
        let Some(guest) = &mut self.guest else { return };
        let freed = guest.does(deed, |block, owner| self.judge.begin(block, owner));
        freed.into_iter().for_each(|it| self.judge.end(it));
    }

    fn mount(&mut self) -> Result<(), String> {
        if self.guest.is_some() {
            return Ok(());
        }
        let before = Super::from_bytes(&self.seen()[SUPER as usize]).expect("it is a superblock");
        self.was_clean = before.is_clean;
        self.sends(SUPER, &Super { is_clean: false, ..before }.bytes())?;
        let guest = Guest::mount(self.toy, &self.seen(), self.next_generation);
        self.judge.recovered_above(&guest.named(), &self.seen());
        self.guest = Some(guest);
        Ok(())
    }

    fn unmount(&mut self, obeys: bool) -> Result<(), String> {
        let Some(guest) = &self.guest else { return Ok(()) };
        self.next_generation = guest.next_generation();
        let superblock = guest.superblock(self.was_clean);
        self.write_back_all()?;
        self.sends(SUPER, &superblock)?;
        self.guest = None;
        if obeys { self.empty() } else { Ok(()) }
    }

    fn crash(&mut self) {
        if let Some(guest) = self.guest.take() {
            self.next_generation = guest.next_generation();
        }
        self.judge.recovered_above(&self.named(), &self.seen());
    }

    fn fsck(&mut self) -> Result<(), String> {
        if self.guest.is_some() {
            return Ok(());
        }
        let written = mend(self.toy, &self.seen());
        written.into_iter().try_for_each(|(block, bytes)| self.sends(block, &bytes))?;
        self.judge.recovered_above(&self.named(), &self.seen());
        Ok(())
    }

    fn change_between(&mut self, is: bool) -> Result<(), String> {
        if !is {
            self.empty()?;
        }
        self.is_between = is;
        self.sent.clear();
        self.tell();
        Ok(())
    }

    fn act(&mut self, all: bool) -> Result<(), String> {
        let named = self.named();
        for (block, verdict) in self.twin.verdicts(true, all)? {
            if verdict == Verdict::Scour {
                self.judge.scoured(block);
                continue;
            }
            self.judge.dies(block, &named, false)?;
            self.judge.destroyed(block);
            self.twin.destroy(block);
        }
        Ok(())
    }

    fn proven(&mut self) {
        if std::mem::take(&mut self.is_cut) {
            self.twin.proven();
            self.judge.proven();
        }
    }

    fn restart(&mut self) {
        let was_clean = Super::from_bytes(self.twin.content(SUPER)).is_some_and(|it| it.is_clean);
        let toy = Toy { was_clean, ..self.toy };
        let (disk, now) = (self.twin.disk().to_vec(), self.twin.now());
        self.twin = attach(self.setup, toy, disk, now);
        self.tell();
        self.judge.forgotten();
        self.is_cut = false;
    }

    /// Unmounts, lets the server do all that it wants, and has the file system mounted and
    /// unmounted for as long as it takes to settle, each time where the server sees it.
    pub(super) fn settle_everything(&mut self) -> Result<Excuses, String> {
        self.step(Step::Unmount(false))?;
        self.step(Step::Fsck)?;
        for _ in 0..2 * (SETTLE_MS + HOLD_MS).div_ceil(1000) + 2 {
            self.work()?;
            for step in [Step::Mount, Step::Sync(true), Step::Pass(1000), Step::Unmount(true)] {
                self.step(step)?;
            }
        }
        self.work()?;
        self.work()?;
        match self.judge.is_clean(&self.named()) {
            // A map may arrive after the block was given away: nothing is promised of layers.
            Err(broken) if broken.ends_with("is only overwritten") => Ok(Excuses::default()),
            judged => judged,
        }
    }

    fn work(&mut self) -> Result<(), String> {
        self.step(Step::Pass(1000))?;
        let mut rounds = 0;
        while self.twin.read_one()? {
            rounds += 1;
            if rounds > ROUNDS_MAX {
                return Err("liveness: it never has enough to read".into());
            }
        }
        [Step::Cut, Step::Proven, Step::Act(false)].into_iter().try_for_each(|it| self.step(it))
    }
}
