//! What goes between the guest and the server.

use super::wide::{narrowed, place, touched, widened};
use super::{Vain, Whole};
use crate::content::Tag;
use crate::rule_e::guest::{Guest, Mark, Stay};
use crate::rule_e::toy::Bytes;
use quietus_core::request::{Op, Outcome, Request, RequestId};
use quietus_core::units::Extent;
use quietus_core::volume::Event;
use quietus_detect::format::Block;

/// Most turns until what is waited for has happened; a hundred times what any
/// history was seen to need.
const TURNS_MAX: usize = 100_000;
/// Most ticks in a row that a disk asks for without doing anything.
const IDLE_TICKS_MAX: usize = 40;
/// How late each of them comes but the first.
const IDLE_TICK_MS: u64 = 50;

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    id: RequestId,
    what: What,
    /// When it arrived.
    since: u64,
}

/// What it asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
enum What {
    Write {
        block: Block,
        page: Bytes,
        tag: Option<Tag>,
        fua: bool,
    },
    Trim(Block),
    InVain(Block, Vain),
    /// In the owner's stay.
    Read(Block, Option<Stay>),
    Flush,
}

impl Sent {
    /// The block that it is about.
    pub(super) fn block(&self) -> Option<Block> {
        match self.what {
            What::Write { block, .. } | What::Trim(block) | What::InVain(block, _) | What::Read(block, _) => {
                Some(block)
            }
            What::Flush => None,
        }
    }

    fn request(&self) -> Request {
        let there = self.block().map_or(Extent::new(0, 0), place);
        let beyond = Extent::new(there.start.0, 1 << 40);
        let (op, extent, fua) = match &self.what {
            What::Write { block, page, tag, fua } => {
                (Op::Write(widened(*block, page, *tag).into()), there, *fua)
            }
            What::Trim(_) => (Op::Trim, there, false),
            What::InVain(_, Vain::FastZeros) => (Op::Zero { no_hole: true, fast: true }, there, false),
            What::InVain(_, Vain::TrimBeyond) => (Op::Trim, beyond, false),
            What::InVain(_, Vain::WriteShort) => (Op::Write(vec![0; 512].into()), there, false),
            What::Read(..) => (Op::Read, there, false),
            What::Flush => (Op::Flush, there, false),
        };
        Request { op, extent, fua }
    }
}

impl Whole {
    fn post(&mut self, what: What) {
        let id = RequestId(self.dice.roll() >> 2);
        self.wire.push(Sent { id, what, since: 0 });
    }

    /// `page` is on its way to `block`.
    pub(super) fn post_write(&mut self, block: Block, page: &Bytes) {
        let tag = self.toy.data().contains(&block).then(|| self.truth.tag(page));
        let fua = self.dice.chance(5);
        self.post(What::Write { block, page: *page, tag, fua });
    }

    pub(super) fn post_trim(&mut self, block: Block) {
        self.post(What::Trim(block));
    }

    pub(super) fn post_in_vain(&mut self, block: Block, vain: Vain) {
        self.post(What::InVain(block, vain));
    }

    pub(super) fn post_read(&mut self, block: Block, stay: Option<Stay>) {
        self.post(What::Read(block, stay));
    }

    pub(super) fn post_flush(&mut self) {
        self.post(What::Flush);
    }

    /// Whether something is on its way to `block`, or from there.
    pub(super) fn is_busy(&self, block: Block) -> bool {
        self.wire.iter().chain(self.pending.values()).any(|it| it.block() == Some(block))
    }

    /// Something arrives at the server: any of it, since none of it is about the
    /// same block as another.
    fn arrive_one(&mut self) -> Result<(), String> {
        if self.wire.is_empty() {
            return Ok(());
        }
        let mut sent = self.wire.swap_remove(self.dice.index(self.wire.len()));
        self.moment += 1;
        sent.since = self.moment;
        let is_blind = self.is_cold && !self.server.is_watching();
        match &sent.what {
            What::Write { block, page, tag, .. } => {
                let stay = Mark::of(page).filter(|_| tag.is_some()).map(|it| it.stay);
                self.shelves[*block as usize].arrive(widened(*block, page, *tag), stay);
                self.truth.arrived(*block, page, *tag, is_blind);
            }
            What::Trim(block) => {
                let nothing = [0; crate::rule_e::toy::BLOCK_BYTES];
                self.shelves[*block as usize].arrive(widened(*block, &nothing, None), None);
                self.truth.arrived(*block, &nothing, None, is_blind);
            }
            What::InVain(..) | What::Read(..) | What::Flush => {}
        }
        let event = Event::Request(sent.id, sent.request());
        self.pending.insert(sent.id, sent);
        self.server.tell(event)?;
        self.hear()
    }

    /// All that is on its way arrives.
    pub(super) fn arrive_all(&mut self) -> Result<(), String> {
        while !self.wire.is_empty() {
            self.arrive_one()?;
        }
        Ok(())
    }

    /// After a restart of the server, the guest asks again for whatever was not
    /// replied to.
    pub(super) fn resend(&mut self) -> Result<(), String> {
        let mut all: Vec<_> = self.pending.values().cloned().collect();
        all.sort_by_key(|it| it.since);
        all.into_iter().try_for_each(|it| {
            self.server.tell(Event::Request(it.id, it.request()))?;
            self.hear()
        })
    }

    /// The guest is gone, and with it all that it waits for.
    pub(super) fn hang_up(&mut self) {
        self.wire.clear();
        self.pending.clear();
    }

    /// Something happens: something arrives, or is done, or is replied to.
    pub(super) fn turn(&mut self) -> Result<(), String> {
        if self.dice.chance(40) {
            self.arrive_one()?;
        }
        self.server.turn()?;
        self.hear()
    }

    /// Lets everything happen that can, until `is_enough`.
    pub(super) fn until(&mut self, is_enough: impl Fn(&Self) -> bool) -> Result<(), String> {
        let mut idle_ticks = 0;
        for _ in 0..TURNS_MAX {
            if is_enough(self) {
                return Ok(());
            }
            if self.server.is_at_work() || !self.wire.is_empty() {
                idle_ticks = 0;
                self.turn()?;
            } else if idle_ticks < IDLE_TICKS_MAX {
                idle_ticks += 1;
                self.server.wake(if idle_ticks > 1 { IDLE_TICK_MS } else { 0 })?;
                self.hear()?;
            } else {
                return Err(format!("liveness: it wakes up and does nothing: {:?}", self.pending));
            }
        }
        Err(format!("liveness: after {TURNS_MAX} turns it is still not done: {:?}", self.pending))
    }

    /// Waits until nothing is on its way to or from any of `blocks`.
    pub(super) fn until_idle(&mut self, blocks: std::ops::Range<Block>) -> Result<(), String> {
        self.until(|it| !blocks.clone().any(|block| it.is_busy(block)))
    }

    /// Waits for every reply.
    pub(super) fn until_quiet(&mut self) -> Result<(), String> {
        self.until(|it| it.wire.is_empty() && it.pending.is_empty())
    }

    /// The server does what it can at once; time stands still.
    pub(super) fn settle_server(&mut self) -> Result<(), String> {
        while self.server.is_at_work() {
            self.server.turn()?;
            self.hear()?;
        }
        Ok(())
    }

    /// Takes what the server has said.
    pub(super) fn hear(&mut self) -> Result<(), String> {
        for death in self.server.take_deaths() {
            let named = self.named();
            let possible: Vec<_> = (0..self.toy.blocks).map(|it| self.possible_after_crash(it)).collect();
            touched(death).try_for_each(|it| self.truth.dies(it, &named, &possible))?;
        }
        for (id, outcome) in self.server.take_replies() {
            self.replied(id, outcome)?;
        }
        if self.is_cold && self.server.is_watching() {
            self.is_cold = false;
            self.truth.forget();
        }
        Ok(())
    }

    /// What may lie in `block` after a crash of everything.
    fn possible_after_crash(&self, block: Block) -> Vec<Bytes> {
        let (data, at) = (self.server.media().0, Extent::new(place(block).start.0, place(block).len));
        let there = [data.peek(at, narrowed), data.peek_durable(at, narrowed)];
        let coming = self.pending.values().filter_map(|it| match &it.what {
            What::Write { block: to, page, .. } if *to == block => Some(*page),
            _ => None,
        });
        // What was freed may lie there still, and is not read any more.
        let there = there.into_iter().filter(|it| self.shelves[block as usize].may_return(it));
        there.chain(coming).collect()
    }

    fn replied(&mut self, id: RequestId, outcome: Outcome) -> Result<(), String> {
        let sent = self.pending.remove(&id).ok_or("replies: one that nobody waits for")?;
        if matches!(sent.what, What::InVain(..)) && outcome.is_err() {
            return Ok(());
        }
        let bytes = outcome.map_err(|it| format!("replies: {:?} was refused: {it}", sent.what))?;
        self.moment += 1;
        match sent.what {
            What::Write { block, fua, .. } => self.shelves[block as usize].done(self.moment, fua),
            What::Trim(block) => self.shelves[block as usize].done(self.moment, true),
            What::Flush => self.shelves.iter_mut().for_each(|it| it.flushed(sent.since)),
            What::Read(block, stay) => {
                self.judge_read(block, &bytes, stay, false)?;
                self.read.insert(block, bytes.into_vec());
            }
            What::InVain(..) => return Err(format!("replies: {:?} was done", sent.what)),
        }
        Ok(())
    }

    pub(super) fn judge_read(
        &self,
        block: Block,
        bytes: &[u8],
        stay: Option<Stay>,
        all: bool,
    ) -> Result<(), String> {
        if self.shelves[block as usize].allows(bytes, stay, all) {
            return Ok(());
        }
        let found = Mark::of(bytes.get(..crate::rule_e::toy::BLOCK_BYTES).unwrap_or(bytes));
        Err(format!("safety: block {block} of {stay:?} reads {found:?}, {:?}", self.shelves[block as usize]))
    }

    /// Reads the whole disk; nothing is judged.
    pub(super) fn read_all(&mut self) -> Result<Vec<Vec<u8>>, String> {
        self.read.clear();
        self.until_quiet()?;
        let mut bytes = Vec::new();
        for block in 0..self.toy.blocks {
            let id = RequestId(self.dice.roll() >> 2);
            let request = Request { op: Op::Read, extent: place(block), fua: false };
            self.server.tell(Event::Request(id, request))?;
            bytes.push(id);
        }
        let mut found: Vec<Option<Vec<u8>>> = vec![None; bytes.len()];
        for _ in 0..TURNS_MAX {
            for (id, outcome) in self.server.take_replies() {
                let n = bytes.iter().position(|it| *it == id).ok_or("replies: one that nobody waits for")?;
                let outcome = outcome.map_err(|it| format!("replies: a read was refused: {it}"))?;
                if found[n].replace(outcome.into_vec()).is_some() {
                    return Err("replies: one came twice".into());
                }
            }
            if found.iter().all(Option::is_some) {
                self.hear()?;
                return Ok(found.into_iter().flatten().collect());
            }
            if self.server.is_at_work() { self.server.turn()? } else { self.server.wake(IDLE_TICK_MS)? }
        }
        Err("liveness: the disk cannot be read".into())
    }

    /// Reads the whole disk, and judges what is there for its owners.
    pub(super) fn read_and_judge(&mut self, all: bool) -> Result<(Vec<Vec<u8>>, Vec<Bytes>), String> {
        let found = self.read_all()?;
        let pages: Vec<_> = found.iter().map(|it| narrowed(it)).collect();
        let named = Guest::mount(self.toy, &pages, 0).named();
        for (block, bytes) in (0..).zip(&found) {
            self.judge_read(block, bytes, self.truth.present(block, named.get(&block)), all)?;
        }
        Ok((found, pages))
    }
}
