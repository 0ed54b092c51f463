//! Requests: when they may begin.

use crate::base::extents::ExtentMap;
use crate::base::parts::Forget;
use crate::base::units::{Addr, Extent};
use crate::mutant::{self, Mutant};
use crate::owed::ledger::Due;
use crate::request::{Op, Refusal, Reply, Request};
use crate::volume::disk::Disk;
use crate::volume::erasing::Erasing;
use crate::volume::obstacle::Obstacle;
use crate::volume::origin::Origin;
use crate::volume::requests::waiting::{Unseen, Waiting};
use crate::volume::requests::{Others, Requests};
use crate::volume::watching::{Watching, content};
use crate::volume::{Command, needs_medium_writes};

impl Disk {
    /// Makes the `reused` bytes suspicious; returns those for which the ledger has no room.
    fn suspect_if_room(
        &mut self,
        mut reused: Vec<Extent<Addr>>,
        out: &mut Vec<Command>,
    ) -> Vec<Extent<Addr>> {
        while self.has_room()
            && let Some(extent) = reused.pop()
        {
            reused.extend(self.suspect_first(extent, out));
        }
        reused
    }

    /// The refusal of a request that waits for something that a latched disk never does.
    pub(in crate::volume) fn frozen(&self) -> Refusal {
        let reason = self.latched.clone().unwrap_or_default();
        Refusal::Latched(format!("{reason}. The content of this request is safe in the journal"))
    }

    /// Whether something is owed at bytes that a write of `extent` changes.
    fn owes_before(&self, extent: Extent<Addr>) -> bool {
        let changed = self.with_gone(self.store.geometry().changed(extent));
        // What lies below a write is destroyed as well after it, where the medium keeps it.
        let mut owed = self.state.ledger.within(changed);
        owed.any(|(_, it)| it.due != Due::ConservativeOverwrite || !self.leaves_older())
    }
}

impl Requests {
    pub(in crate::volume) fn arrive(&mut self, others: &mut Others<'_>, id: Origin, request: Request) {
        if request.op.is_of_guest() {
            others.disk.schedule.request_arrived();
        }
        if let Some(refusal) = self.refuse(others.disk, others.erasing, &request) {
            if mutant::is(Mutant::TellOfRefused) {
                others.watching.observe(others.disk, &request);
            }
            id.reply(Err(refusal), others.out);
            return;
        }
        if let Op::CloseEpoch { when, anew } = request.op {
            return self.close_epoch(others.disk, id, (when.max(1), anew), others.out);
        }
        if let Op::Forget(scope) = request.op {
            return self.begin_forget(others, id, scope.into());
        }
        if let Op::ForgetSet(parts) = request.op {
            let forget = Forget::set(parts).expect("a set without a part is refused");
            return self.begin_forget(others, id, forget);
        }
        if request.extent.is_empty() && !request.op.is_of_whole_disk() {
            id.reply(Ok(Reply::default()), others.out);
            return;
        }
        if others.watching.distrusts(others.disk, &request) {
            id.reply(Ok(Reply::default()), others.out);
            return;
        }
        let is_late = mutant::is(Mutant::AskClassLate);
        let plain = if is_late {
            ExtentMap::default()
        } else {
            self.plain_bytes(others.disk, others.watching, &request)
        };
        let reused = others.watching.observe(others.disk, &request);
        let plain = if is_late { self.plain_bytes(others.disk, others.watching, &request) } else { plain };
        self.note_classes(others.disk, id, &request, plain);
        self.admit(others, id, request, reused);
    }

    /// Begins a request, or lets it wait. The `reused` bytes have to be destroyed before.
    pub(in crate::volume) fn admit(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        request: Request,
        reused: Vec<Extent<Addr>>,
    ) {
        if request.op.is_ordered() {
            self.enter(others.disk, id, &request);
        }
        let reused = others.disk.suspect_if_room(reused, others.out);
        let waiting = Waiting { id, request, reused, unseen: Unseen::ToAsk, obstacle: Obstacle::Order };
        match self.ready(others, &waiting) {
            Ok(needs) => self.begin(others, waiting, needs),
            Err(obstacle) => {
                let is_revoked = obstacle.needs_task() && matches!(waiting.request.op, Op::Write(_));
                let counts = is_revoked && others.disk.latched.is_none();
                others.disk.state.counters.revocations += u64::from(counts);
                self.wait_or_refuse(others, Waiting { obstacle, ..waiting });
            }
        }
    }

    /// Puts the change `id` behind the earlier ones of the same blocks, and into the epoch that takes changes.
    pub(in crate::volume) fn enter(&mut self, disk: &Disk, id: Origin, request: &Request) {
        let (whole, epoch) = (disk.store.geometry().together(request.extent), self.arriving_epoch(disk));
        self.order.enter(id, whole, epoch);
        if request.op.is_write() {
            self.closes.note_change();
        }
    }

    /// Goes on with `request`: the watcher has seen all content that it replaces, which had to come before
    /// an erase task destroys that. A request that waits for such a task stays ahead of later ones.
    pub(in crate::volume) fn go_on(&mut self, others: &mut Others<'_>, id: Origin, request: Request) {
        self.go_on_unseen(others, id, request, Unseen::NOTHING);
    }

    /// Goes on with `request`, of which the watcher has yet to see something.
    pub(in crate::volume) fn go_on_unseen(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        request: Request,
        unseen: Unseen,
    ) {
        let obstacle = Obstacle::Order;
        let waiting = Waiting { id, request, reused: Vec::new(), unseen, obstacle };
        if others.disk.latched.is_some() && needs_medium_writes(&waiting.request.op) {
            return self.turn_away(others, &waiting);
        }
        match self.ready(others, &waiting) {
            Ok(needs) => self.begin(others, waiting, needs),
            Err(obstacle) => self.wait_or_refuse(others, Waiting { obstacle, ..waiting }),
        }
    }

    /// Lets `request`, which had been admitted, wait once more.
    pub(in crate::volume) fn wait_for(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        request: Request,
        unseen: Unseen,
        obstacle: Obstacle,
    ) {
        self.wait_or_refuse(others, Waiting { id, request, reused: Vec::new(), unseen, obstacle });
    }

    /// Why `request` is refused, if it is. All refusals that are known in advance are given here, before the
    /// watcher observes the request: a change that never takes place must not be observed.
    fn refuse(&self, disk: &Disk, erasing: &Erasing, request: &Request) -> Option<Refusal> {
        if request.extent.end() > disk.store.geometry().size {
            return Some(Refusal::Invalid("the extent ends beyond the disk"));
        }
        if matches!(&request.op, Op::Write(buf) if buf.len() as u64 != request.extent.len) {
            return Some(Refusal::Invalid("the payload and the extent differ in length"));
        }
        if disk.schedule.stopping {
            return Some(Refusal::ShuttingDown);
        }
        if disk.config.read_only && request.op.is_write() {
            return Some(Refusal::ReadOnly);
        }
        let latched = disk.latched.as_ref().filter(|_| needs_medium_writes(&request.op));
        latched
            .map(|reason| Refusal::Latched(reason.clone()))
            .or_else(|| self.unsupported(disk, erasing, &request.op))
    }

    fn unsupported(&self, disk: &Disk, erasing: &Erasing, op: &Op) -> Option<Refusal> {
        match op {
            Op::Zero { no_hole: true, fast: true } if disk.store.same_place() => {
                Some(Refusal::NotSupported("zeros that keep their space cannot be fast"))
            }
            Op::ConservativeOverwrite if disk.dead_leave() => Some(Refusal::NotSupported(
                "a disk that keeps versions writes new content elsewhere, with nothing below: purge what is to be destroyed",
            )),
            Op::Forget(scope) => erasing.refuse_forget(disk, *scope),
            Op::ForgetSet(parts) => erasing.refuse_parts(disk, parts),
            op if op.is_about_epochs() && disk.store.epochs().is_none() => {
                Some(Refusal::NotSupported("the disk keeps no epochs: that takes a store of versions"))
            }
            Op::ConservativeOverwrite if disk.config.policy.passes().is_empty() => {
                Some(Refusal::NotSupported("the policy has no passes"))
            }
            _ => None,
        }
    }

    fn wait_or_refuse(&mut self, others: &mut Others<'_>, waiting: Waiting) {
        if others.disk.latched.is_some() {
            return self.turn_away(others, &waiting);
        }
        others.disk.fetch_for(waiting.obstacle, others.out);
        self.waiting.join(waiting);
    }

    fn turn_away(&mut self, others: &mut Others<'_>, waiting: &Waiting) {
        self.leave(waiting.id);
        waiting.id.reply(Err(others.disk.frozen()), others.out);
    }

    /// The extents that the watcher has to see before the request, the first one last; or why the request
    /// may not begin.
    fn ready(&self, others: &Others<'_>, waiting: &Waiting) -> Result<Vec<Extent<Addr>>, Obstacle> {
        let Others { disk, erasing, watching, .. } = others;
        let request = &waiting.request;
        if !self.order.is_first(waiting.id) {
            return Err(Obstacle::Order);
        }
        if !waiting.reused.is_empty() {
            return Err(Obstacle::Room);
        }
        let needs = watching.needs(waiting);
        if erasing.keeps_out(request, &needs) {
            return Err(Obstacle::Task);
        }
        if let Some(obstacle) = disk.lacks_space(request) {
            return Err(obstacle);
        }
        let obliged = needs.is_empty()
            && matches!(request.op, Op::Write(_))
            && !mutant::is(Mutant::ForgetRevocation)
            && (!erasing.kept_from_overwriting(disk, request.extent).is_empty()
                || disk.owes_before(request.extent)
                    && !self.can_leave(disk, erasing, request.extent)
                    && !disk.can_overwrite(request.extent));
        if obliged {
            return Err(Obstacle::Ledger);
        }
        disk.lacks_map(request, &needs).map_or(Ok(needs), Err)
    }

    /// Begins the requests whose obstacle is gone.
    pub(in crate::volume) fn settle(&mut self, others: &mut Others<'_>) {
        if others.disk.latched.is_some() {
            while let Some(waiting) = self.waiting.take_first() {
                self.turn_away(others, &waiting);
            }
            return;
        }
        while let Some((turn, mut waiting)) = self.waiting.next_try(others.disk.has_room()) {
            waiting.reused = others.disk.suspect_if_room(waiting.reused, others.out);
            match self.ready(others, &waiting) {
                Ok(needs) => self.begin(others, waiting, needs),
                Err(obstacle) => {
                    others.disk.fetch_for(obstacle, others.out);
                    self.waiting.put_back(turn, Waiting { obstacle, ..waiting });
                }
            }
        }
    }
}

impl Watching {
    /// The extents that the watcher has to see before the request may begin, the first one last.
    pub(in crate::volume) fn needs(&self, waiting: &Waiting) -> Vec<Extent<Addr>> {
        match (&waiting.unseen, &self.watch, content(&waiting.request.op)) {
            (Unseen::Left(left), ..) => left.clone(),
            (Unseen::ToAsk, Some(watching), Some(_)) => {
                let mut needs = watching.watcher.needs(waiting.request.extent);
                needs.reverse();
                needs
            }
            (Unseen::ToAsk, ..) => Vec::new(),
        }
    }
}
