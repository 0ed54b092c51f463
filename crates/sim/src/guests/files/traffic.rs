//! Requests and replies between the guests and the server.

use crate::guests::files::Files;
use crate::guests::files::systems::system::LABEL;
use crate::guests::files::wire::{Sent, What};
use crate::machine::content::Tag;
use crate::machine::medium::FaultKind;
use crate::rules::rule_e::guest::{Mark, Stay};
use crate::rules::rule_e::toy::{BLOCK_BYTES, Bytes, SUPER, Super};
use crate::rules::rule_e::wide::{narrowed, tagged};
use crate::server::{Above, Said, Server};
use quietus_core::base::units;
use quietus_core::base::units::{Addr, Extent};
use quietus_core::request::{Outcome, Refusal, RequestId};
use quietus_core::volume::Event;
use quietus_detect::formats::format::Block;
use std::collections::BTreeSet;

impl Above for Files {
    type Broken = String;

    fn server(&mut self) -> &mut Server {
        &mut self.server
    }

    /// Takes the server's messages, deaths before the replies that came with them.
    fn hear(&mut self) -> Result<(), String> {
        let said = self.server.take_said();
        for (_, it) in &said {
            if let Said::Died(extent) = it {
                self.died(*extent)?;
            }
        }
        for (_, it) in said {
            if let Said::Reply(id, outcome) = it {
                self.replied(id, outcome)?;
            }
        }
        for part in &mut self.parts {
            if part.is_cold && self.server.watches(part.extent()) {
                part.is_cold = false;
                part.truth.forget();
                part.system.forgotten();
            }
            if !part.is_cold && !self.server.is_at_work() {
                part.system.is_idle();
            }
        }
        Ok(())
    }

    fn pending(&self) -> String {
        let pending: Vec<_> = self.parts.iter().flat_map(|it| it.pending.values()).collect();
        format!("requests {pending:?}")
    }

    fn is_sending(&self) -> bool {
        self.parts.iter().any(|it| !it.wire.is_empty())
    }

    fn turn(&mut self) -> Result<(), String> {
        if self.rng.chance(40) {
            self.everywhere(Self::arrive_one)?;
        }
        self.everywhere(Self::go_on)?;
        self.server.turn()?;
        self.hear()
    }
}

impl Files {
    pub(super) fn new_id(&mut self) -> RequestId {
        RequestId(self.rng.roll() >> 2)
    }

    /// Sends `what`, unless it is a write that a cache holds back.
    pub(super) fn post(&mut self, what: What) {
        let passed = match (&what, what.block()) {
            (What::Write { .. }, Some(block)) => self.cache.take(block, what),
            _ => Some(what),
        };
        passed.into_iter().for_each(|what| self.pass_on(what));
    }

    pub(super) fn pass_on(&mut self, what: What) {
        let id = self.new_id();
        self.wire.push(Sent { id, what, since: 0 });
    }

    pub(super) fn post_write(&mut self, block: Block, page: &Bytes) {
        let tag = self.system.is_data(block).then(|| self.truth.tag(page));
        let (fua, bytes) = (self.rng.chance(5), tagged(self.place(block), page, tag));
        self.post(What::Write { block, bytes, tag, fua });
    }

    /// Sends what a journal has to send, and lets it go on now and then.
    fn go_on(&mut self) -> Result<(), String> {
        if !self.system.log().is_empty() && !self.server.is_stopping {
            if self.rng.chance(20) {
                self.system.advance();
            }
            self.send();
        }
        Ok(())
    }

    /// Sends what a journal has to send, to blocks with nothing else on its way.
    pub(super) fn send(&mut self) {
        let busy: BTreeSet<_> =
            self.wire.iter().chain(self.pending.values()).filter_map(|it| it.what.block()).collect();
        self.system.outbox(&busy).into_iter().for_each(|what| self.post(what));
    }

    /// Sends the superblock, if one is to be written.
    pub(super) fn post_super(&mut self, written: Option<Super>) {
        let Some(mut page) = written.map(Super::bytes) else { return };
        page[LABEL] = self.system.label();
        self.post_write(SUPER, &page);
    }

    /// Lets something arrive at the server: any request, since no two are about the same block.
    fn arrive_one(&mut self) -> Result<(), String> {
        if self.wire.is_empty() {
            return Ok(());
        }
        let index = self.rng.index(self.wire.len());
        let mut sent = self.wire.swap_remove(index);
        self.moment += 1;
        sent.since = self.moment;
        match &sent.what {
            What::Write { block, bytes, tag, .. } => self.changes(*block, bytes.clone(), *tag),
            What::Trim(block) => self.changes(*block, vec![0; units::BLOCK_BYTES as usize], None),
            What::InVain(..) | What::Read(..) | What::Look(_) | What::Flush { .. } => {}
        }
        let (id, request) = (sent.id, sent.request(|block| self.place(block)));
        self.pending.insert(id, sent);
        self.server.tell(Event::Request(id, request))?;
        self.hear()
    }

    /// Notes that `block` is to hold `bytes` from here on.
    fn changes(&mut self, block: Block, bytes: Vec<u8>, tag: Option<Tag>) {
        let page = narrowed(&bytes);
        let stay = self.stay_in(block, &page);
        self.system.arrived(block, &bytes);
        self.shelves[block as usize].arrive(bytes, stay);
        self.arrived(block, &page, tag);
    }

    pub(super) fn arrive_all(&mut self) -> Result<(), String> {
        while !self.wire.is_empty() {
            self.arrive_one()?;
        }
        Ok(())
    }

    /// After a restart of the server, the guest repeats each request without a
    /// reply.
    pub(super) fn resend(&mut self) -> Result<(), String> {
        let mut all: Vec<_> = self.pending.values().cloned().collect();
        all.sort_by_key(|it| it.since);
        all.into_iter().try_for_each(|it| {
            let request = it.request(|block| self.place(block));
            self.server.tell(Event::Request(it.id, request))?;
            self.hear()
        })
    }

    /// Waits until nothing is on its way to or from any of `blocks`.
    pub(super) fn until_idle(&mut self, blocks: &[Block]) -> Result<(), String> {
        self.until(|it| !blocks.iter().any(|block| it.is_busy(*block)))
    }

    pub(super) fn until_quiet(&mut self) -> Result<(), String> {
        self.until(|it| it.parts.iter().all(|it| it.wire.is_empty() && it.pending.is_empty()))
    }

    /// Lets the server do what it can at once; time stands still.
    pub(super) fn settle_server(&mut self) -> Result<(), String> {
        while self.server.is_at_work() {
            self.server.turn()?;
            self.hear()?;
        }
        Ok(())
    }

    fn died(&mut self, extent: Extent<Addr>) -> Result<(), String> {
        self.everywhere(|it| {
            let Some(death) = extent.overlap(it.extent()) else { return Ok(()) };
            let named = it.named();
            let possible: Vec<_> =
                (0..it.system.blocks()).map(|block| it.possible_after_crash(block)).collect();
            it.touched(death).try_for_each(|block| it.dies(block, &named, &possible))
        })
    }

    /// The contents that may lie in `block` after a crash of everything. What the watcher has not been shown yet is still
    /// to come: the guest has asked for no order.
    fn possible_after_crash(&self, block: Block) -> Vec<Bytes> {
        let there = self.server.possible_contents(self.place(block));
        let shown = self.pending.values().filter(|it| !self.server.volume.is_unseen(it.id));
        let coming = shown.filter_map(|it| match &it.what {
            What::Write { block: to, bytes, .. } if *to == block => Some(narrowed(bytes)),
            _ => None,
        });
        // Freed content may lie there still, and is not read any more.
        let there = there.iter().map(|it| narrowed(it));
        let there = there.filter(|it| self.shelves[block as usize].may_return(it));
        there.chain(coming).collect()
    }

    fn replied(&mut self, id: RequestId, outcome: Outcome) -> Result<(), String> {
        if let Some((part, sent)) = self.orphans.remove(&id) {
            self.within(part, |it| match (outcome, sent.what.block()) {
                (Ok(_), _) => it.freed(&sent.what),
                (Err(_), block) => block.into_iter().for_each(|block| it.system.refused(block)),
            });
            return Ok(());
        }
        let part = self.parts.iter().position(|it| it.pending.contains_key(&id));
        let part = part.ok_or("replies: one to a request that does not wait")?;
        self.within(part, |it| it.replied_here(id, outcome))
    }

    fn replied_here(&mut self, id: RequestId, outcome: Outcome) -> Result<(), String> {
        let sent = self.pending.remove(&id).ok_or("replies: one to a request that does not wait")?;
        if matches!(sent.what, What::InVain(..)) && outcome.is_err() {
            self.server.figures.refused += 1;
            return Ok(());
        }
        if let (Err(Refusal::NoSpace(_)), What::Write { block, .. } | What::Trim(block)) =
            (&outcome, &sent.what)
            && self.server.trouble.contains(&FaultKind::Full)
        {
            self.try_again(*block, sent);
            return Ok(());
        }
        let bytes = outcome
            .map_err(|it| format!("replies: a request to block {:?} was refused: {it}", sent.what.block()))?
            .into_buf();
        self.server.figures.done += 1;
        self.moment += 1;
        let moment = self.moment;
        self.freed(&sent.what);
        match sent.what {
            What::Write { block, fua, .. } => {
                self.shelves[block as usize].done(moment, fua);
                self.system.replied(block);
            }
            What::Trim(_) => {}
            What::Flush { is_barrier } => {
                if is_barrier {
                    self.system.flushed();
                }
                let shelves = self.parts.iter_mut().flat_map(|it| &mut it.shelves);
                shelves.for_each(|it| it.flushed(sent.since));
            }
            What::Read(block, stay) => self.judge_read(block, &bytes, stay, false)?,
            What::Look(block) => drop(self.looked.insert(block, bytes.into_vec())),
            What::InVain(..) => return Err(format!("replies: {:?} was done", sent.what)),
        }
        Ok(())
    }

    /// Notes that what was freed is gone for good; a disk that looks for zeros takes them for a free.
    fn freed(&mut self, what: &What) {
        let (What::Trim(block) | What::Write { block, .. }) = *what else { return };
        let moment = self.moment;
        if matches!(what, What::Trim(_)) || self.setup.disk.detect_zeroes {
            self.shelves[block as usize].freed(moment);
        }
    }

    fn judge_read(&self, block: Block, bytes: &[u8], stay: Option<Stay>, all: bool) -> Result<(), String> {
        if self.shelves[block as usize].allows(bytes, stay, all) {
            return Ok(());
        }
        let found = Mark::of(bytes.get(..BLOCK_BYTES).unwrap_or(bytes));
        Err(format!("safety: block {block} of {stay:?} reads {found:?}, {:?}", self.shelves[block as usize]))
    }

    /// Reads the whole file system, and judges the content for its owners. After a crash `all`
    /// unflushed content may be gone.
    pub(super) fn read_and_judge(&mut self, all: bool) -> Result<(Vec<Vec<u8>>, Vec<Bytes>), String> {
        self.until_quiet()?;
        (0..self.system.blocks()).for_each(|block| self.post(What::Look(block)));
        self.until_quiet()?;
        let found: Vec<_> = std::mem::take(&mut self.looked).into_values().collect();
        let pages: Vec<_> = found.iter().map(|it| narrowed(it)).collect();
        let named = self.system.owners_on(&pages, &found);
        for (block, bytes) in (0..).zip(&found) {
            self.judge_read(block, bytes, self.truth.present(block, named.get(&block)), all)?;
        }
        Ok((found, pages))
    }
}
