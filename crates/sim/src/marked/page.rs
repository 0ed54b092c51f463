//! The life of a marked block, word for word as `docs/decisions/0028-life-of-a-marked-block.md` has it.
//!
//! The page shares only the words of its answers with the product. Numbers in parentheses name the page's rules.

use super::Step;
use super::guest::{FILES, Inode};
use quietus_core::watch::Class;

/// The obligation on the block (14).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Owed {
    /// Dead and plain: its space is given back.
    Free,
    /// Dead: its content is destroyed.
    Shred,
    /// Content below the present content is destroyed.
    Below,
    /// Content below the present content is destroyed before the next write.
    BeforeWrite,
}

/// A flag that counts for the rest of its period, and for the next one (2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Recent {
    now: bool,
    before: bool,
}

impl Recent {
    fn is(self) -> bool {
        self.now || self.before
    }

    /// A period ends. Returns whether the flag was of the period before.
    fn ages(&mut self) -> bool {
        let ends = self.before;
        *self = Self { now: false, before: self.now };
        ends
    }
}

/// How far the evidence of a death is (12).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Evidence {
    Arrived,
    Syncing,
    StillNamed,
    Durable,
}

/// A sync that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Sync {
    Evidence,
    Task,
}

/// An erase task (15).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Task {
    /// The content is kept: only content below it is destroyed.
    keeps: bool,
    syncs_left: u8,
    is_syncing: bool,
}

/// Receipts since the beginning, by kind: destroyed, kept above what was destroyed, freed.
pub type Receipts = [u64; 3];

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct File {
    inode: Inode,
    is_flagged: bool,
    is_kept: bool,
    is_followed: bool,
}

impl File {
    fn owns(inode: Inode) -> bool {
        inode.is_in_use && inode.names
    }

    fn is_in_tree(self) -> bool {
        self.is_followed && Self::owns(self.inode)
    }
}

/// The state of the block, of the two files, and of what is under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Page {
    is_mounted: bool,
    is_allocated: bool,
    files: [File; FILES],
    /// Time has passed since the last change.
    has_passed: bool,
    /// Time has passed since the last request.
    is_idle: bool,
    live: bool,
    names: u8,
    is_guessed: bool,
    written: Recent,
    stirred: Recent,
    unconfirmed: Recent,
    unlinked: Recent,
    is_conservative: bool,
    suspicious: bool,
    evidence: Option<Evidence>,
    is_evidence_new: bool,
    /// The map is to be read, and whether the block was written since that was decided.
    review: Option<bool>,
    has_mark: bool,
    sensitive: bool,
    buried: bool,
    unsettled: bool,
    settling: bool,
    handed_out: bool,
    has_data: bool,
    is_single: bool,
    pub owed: Option<Owed>,
    task: Option<Task>,
    under_way: Vec<Sync>,
}

impl Page {
    /// A clean file system without files, of which the map was read: the block is free.
    pub fn new() -> Self {
        Self { has_passed: true, is_idle: true, has_data: true, ..Self::default() }
    }

    /// Whether `step` can happen (1).
    pub fn allows(&self, step: Step) -> bool {
        let inode = |file: usize| self.files[file].inode;
        match step {
            Step::Time => self.under_way.is_empty(),
            Step::Act => !self.under_way.is_empty(),
            Step::Mount => !self.is_mounted,
            _ if !self.is_mounted => false,
            Step::Create { file, .. } => !inode(file).is_in_use,
            Step::Delete(file) | Step::Renew(file) => inode(file).is_in_use,
            Step::Flag(file, has_flag) => inode(file).is_in_use && inode(file).has_flag != has_flag,
            Step::Name(file, names) => inode(file).is_in_use && inode(file).names != names,
            Step::HandOver(from) => {
                File::owns(inode(from)) && inode(1 - from).is_in_use && !inode(1 - from).names
            }
            Step::Unmount | Step::Crash | Step::Map(_) | Step::Data | Step::Trim | Step::Nothing => true,
        }
    }

    /// Lets `step` happen. Returns the receipts that follow.
    pub fn step(&mut self, step: Step) -> Receipts {
        let mut told = [0; 3];
        match step {
            Step::Time => self.time_passes(&mut told),
            Step::Act => self.sync_ends(&mut told),
            Step::Mount | Step::Crash => self.asks(Self::is_mounted_again),
            Step::Unmount => self.asks(|it| (it.is_mounted, it.review) = (false, Some(false))),
            Step::Map(is_allocated) => self.asks(|it| it.map_shows(is_allocated)),
            Step::Nothing => self.asks(|_| {}),
            Step::Data => self.is_written(&mut told),
            Step::Trim => self.is_freed(&mut told),
            _ => {
                let mut inodes = self.files.map(|it| it.inode);
                step.change(&mut inodes);
                self.asks(|it| it.table_changes(inodes));
            }
        }
        told
    }

    /// The class of the block (6).
    pub fn class(&self) -> Class {
        match (self.sensitive, self.unsettled) {
            (true, _) => Class::Sensitive,
            (false, true) => Class::Unsettled,
            (false, false) => Class::Plain,
        }
    }

    fn is_plain(&self) -> bool {
        self.class() == Class::Plain
    }

    /// The figures that the product shows as well.
    pub fn figures(&self) -> [u64; 8] {
        let is = |it: Evidence| self.evidence == Some(it);
        [
            self.live.into(),
            self.suspicious.into(),
            self.unconfirmed.is().into(),
            (is(Evidence::Arrived) || is(Evidence::Syncing)).into(),
            is(Evidence::StillNamed).into(),
            (self.names > 0).into(),
            self.files.iter().filter(|it| it.is_followed).count() as u64,
            self.files.iter().any(|it| it.is_in_tree()).into(),
        ]
    }

    pub fn syncs(&self) -> usize {
        self.under_way.len()
    }

    /// A request of the guest, which is observed when it arrives (3).
    fn asks(&mut self, observe: impl FnOnce(&mut Self)) {
        self.arrives();
        observe(self);
        self.is_idle = false;
    }

    /// A change arrives (3).
    fn arrives(&mut self) {
        if std::mem::take(&mut self.has_passed) {
            if self.stirred.ages() {
                self.settling |= self.unsettled;
                self.suspicious &= self.stirred.is() || !self.has_owner();
            }
            if self.unconfirmed.ages() {
                self.condemn();
            }
            self.is_conservative |= self.unlinked.ages();
        }
        self.settle();
    }

    fn has_owner(&self) -> bool {
        self.names > 0 && !self.is_guessed
    }

    /// (10)
    fn settle(&mut self) {
        let looks = std::mem::take(&mut self.settling);
        let doubts = self.stirred.is() || self.unlinked.is() || self.is_conservative || self.suspicious;
        if looks && self.has_owner() && self.live && !doubts {
            self.unsettled = false;
        }
    }

    /// (11)
    fn condemn(&mut self) {
        (self.live, self.unconfirmed) = (false, Recent::default());
        (self.unlinked, self.is_conservative) = (Recent::default(), false);
        if !self.is_plain() {
            (self.evidence, self.is_evidence_new) = (Some(Evidence::Arrived), true);
        }
    }

    /// (11)
    fn map_shows(&mut self, is_allocated: bool) {
        self.is_allocated = is_allocated;
        if is_allocated {
            let was_condemned = self.evidence.take().is_some();
            self.unlinked.now |= was_condemned;
            self.suspicious |= was_condemned || self.unconfirmed.is();
            (self.live, self.unconfirmed) = (true, Recent::default());
        } else if self.live && self.written.is() {
            self.unconfirmed.now = true;
        } else if self.live {
            self.condemn();
        }
        self.written = Recent::default();
    }

    /// (13)
    fn is_mounted_again(&mut self) {
        if self.is_mounted {
            (self.settling, self.buried) = (false, false);
            self.sensitive |= std::mem::take(&mut self.unsettled);
        }
        self.is_mounted = true;
    }

    /// (4, 5, 7, 9)
    fn table_changes(&mut self, inodes: [Inode; FILES]) {
        let before = self.files;
        let is_gained =
            self.files.iter_mut().zip(inodes).fold(false, |is_any, (it, to)| it.becomes(to) || is_any);
        if !self.has_mark && self.files.iter().any(|it| it.is_flagged) {
            (self.has_mark, self.unsettled, self.settling) = (true, !self.sensitive, !self.sensitive);
        }
        if is_gained {
            (self.sensitive, self.buried, self.unsettled) = (true, false, false);
        }
        let is_other = |it: &File, to: Inode| it.inode.generation != to.generation;
        let pairs = || before.iter().zip(inodes);
        let lost = pairs().filter(|(it, to)| File::owns(it.inode) && (!File::owns(*to) || is_other(it, *to)));
        let found =
            pairs().filter(|(it, to)| File::owns(*to) && (!File::owns(it.inode) || is_other(it, *to)));
        (0..lost.count()).for_each(|_| self.loses_name());
        (0..found.count()).for_each(|_| self.gains_name());
    }

    fn loses_name(&mut self) {
        self.names -= 1;
        self.is_guessed = self.names > 0;
        if self.names == 0 {
            self.evidence_is_renewed();
        }
        self.unlinked.now |= self.live && !self.is_plain();
    }

    fn gains_name(&mut self) {
        self.names += 1;
        (self.is_guessed, self.stirred.now) = (false, true);
        self.evidence_is_renewed();
    }

    /// (12)
    fn evidence_is_renewed(&mut self) {
        if self.evidence.is_some_and(|it| it != Evidence::Arrived) {
            (self.evidence, self.is_evidence_new) = (Some(Evidence::Arrived), true);
        }
    }

    /// Whether the content may be dead, or what lies below (8). If so it counts as destroyed.
    fn is_taken(&mut self) -> bool {
        let layers = self.is_conservative || self.unlinked.is();
        let is_found = self.suspicious || layers || self.evidence.is_some() || self.unconfirmed.is();
        if is_found {
            (self.suspicious, self.unlinked, self.is_conservative) = (false, Recent::default(), false);
        }
        if !is_found || self.is_plain() {
            return false;
        }
        self.unsettled |= std::mem::take(&mut self.sensitive);
        self.buried = false;
        true
    }

    /// A write of the whole block (8).
    fn is_written(&mut self, told: &mut Receipts) {
        let is_taken = self.is_taken();
        self.asks(Self::content_changes);
        if is_taken && self.has_data && self.owed.is_none() {
            self.owed = Some(Owed::BeforeWrite);
        }
        if self.task.is_some() || matches!(self.owed, Some(Owed::Free | Owed::Shred)) {
            self.task_ends(told);
        }
        let is_bare = self.owed.take().is_some();
        told[1] += u64::from(is_bare);
        self.is_single = is_bare || !self.has_data;
        self.has_data = true;
    }

    /// (8)
    fn content_changes(&mut self) {
        if self.has_mark {
            let is_in_tree = self.files.iter().any(|it| it.is_in_tree());
            self.settling = false;
            self.sensitive &= self.live && !self.handed_out;
            (self.handed_out, self.buried) = (false, self.sensitive && !is_in_tree);
            self.sensitive |= is_in_tree;
            self.unsettled |= !self.sensitive;
        }
        (self.live, self.written.now, self.stirred.now) = (true, true, true);
        (self.unconfirmed, self.evidence) = (Recent::default(), None);
        self.review = self.review.map(|_| true);
        self.suspicious |= !self.has_owner();
    }

    /// The guest frees the block itself (14).
    fn is_freed(&mut self, told: &mut Receipts) {
        let owed = if self.is_plain() { Owed::Free } else { Owed::Shred };
        self.is_taken();
        self.asks(|it| {
            (it.live, it.suspicious, it.unconfirmed, it.evidence) = (false, false, Recent::default(), None);
            (it.unlinked, it.is_conservative) = (Recent::default(), false);
        });
        if self.task.is_some_and(|it| it.keeps) {
            self.task_ends(told);
        }
        self.owes(owed);
    }

    /// (14)
    fn owes(&mut self, next: Owed) {
        let is_being_freed = self.task.is_some() && self.owed == Some(Owed::Free);
        if !self.has_data || is_being_freed {
            return;
        }
        self.owed = Some(match (self.owed, next) {
            (None, next) => next,
            (Some(Owed::Free), Owed::Free) => Owed::Free,
            (Some(Owed::Free | Owed::Shred), _) | (_, Owed::Free) => Owed::Shred,
            (Some(_), next) => next,
        });
    }

    /// (2)
    fn time_passes(&mut self, told: &mut Receipts) {
        (self.has_passed, self.is_idle) = (true, true);
        self.written.ages();
        if let Some(is_written) = self.review {
            self.evidence_goes_on();
            self.review = None;
            if !self.is_allocated && self.live && !is_written {
                self.condemn();
            }
            self.settle();
        }
        self.goes_on(told);
    }

    /// (12, 15)
    fn sync_ends(&mut self, told: &mut Receipts) {
        match (self.under_way.remove(0), &mut self.task) {
            (Sync::Evidence, _) if self.evidence == Some(Evidence::Syncing) => {
                let is_named = self.names > 0;
                self.evidence = Some(if is_named { Evidence::StillNamed } else { Evidence::Durable });
            }
            (Sync::Task, Some(task)) => (task.is_syncing, task.syncs_left) = (false, task.syncs_left - 1),
            _ => {}
        }
        self.goes_on(told);
    }

    /// What an idle disk does by itself (12, 15).
    fn goes_on(&mut self, told: &mut Receipts) {
        if self.rests() {
            return;
        }
        if self.is_idle {
            self.evidence_goes_on();
            self.task_begins();
        }
        self.task_goes_on(told);
    }

    /// (12)
    fn evidence_goes_on(&mut self) {
        if self.is_evidence_new && !self.under_way.contains(&Sync::Evidence) {
            self.is_evidence_new = false;
            self.under_way.push(Sync::Evidence);
            if self.evidence == Some(Evidence::Arrived) {
                self.evidence = Some(Evidence::Syncing);
            }
        }
        self.verdicts();
    }

    /// Whether nothing is owed, under way, or waits (12).
    fn rests(&self) -> bool {
        let is_asked = self.owed.is_some() || self.task.is_some() || !self.under_way.is_empty();
        let waits = self.evidence.is_some_and(|it| it != Evidence::StillNamed);
        !is_asked && !waits && !self.is_conservative && self.review.is_none()
    }

    /// (12, 9)
    fn verdicts(&mut self) {
        if self.task.is_some_and(|it| it.keeps) {
            return;
        }
        if self.evidence == Some(Evidence::Durable) {
            (self.evidence, self.suspicious) = (None, false);
            self.handed_out |= self.has_mark;
            self.owes(Owed::Shred);
        }
        if std::mem::take(&mut self.is_conservative) {
            self.suspicious = false;
            self.unsettled |= self.buried && std::mem::take(&mut self.sensitive);
            self.buried = false;
            self.settling |= self.unsettled;
            if !self.is_single {
                self.owes(Owed::Below);
            } else if self.owed.is_none() {
                self.owed = Some(Owed::BeforeWrite);
            }
        }
    }

    fn task_begins(&mut self) {
        let syncs_left = match self.owed {
            Some(Owed::Free) => 1,
            Some(Owed::Shred) => 2,
            Some(Owed::Below) => 3,
            Some(Owed::BeforeWrite) | None => return,
        };
        let keeps = self.owed == Some(Owed::Below);
        self.task.get_or_insert(Task { keeps, syncs_left, is_syncing: false });
    }

    fn task_goes_on(&mut self, told: &mut Receipts) {
        let Some(task) = self.task.as_mut().filter(|it| !it.is_syncing && (it.keeps || self.is_idle)) else {
            return;
        };
        if task.syncs_left > 0 {
            task.is_syncing = true;
            return self.under_way.push(Sync::Task);
        }
        self.task_ends(told);
        self.goes_on(told);
    }

    /// What is owed is destroyed, or freed; the receipt says which (16).
    fn task_ends(&mut self, told: &mut Receipts) {
        self.task = None;
        let newer = self.under_way.iter().position(|it| *it == Sync::Task);
        self.under_way.truncate(newer.unwrap_or(self.under_way.len()));
        self.is_single = false;
        match self.owed.take() {
            Some(Owed::Shred) => (told[0], self.has_data) = (told[0] + 1, false),
            Some(Owed::Free) => (told[2], self.has_data) = (told[2] + 1, false),
            _ => {
                told[1] += 1;
                (self.owed, self.is_single) = (Some(Owed::BeforeWrite), true);
            }
        }
    }
}

impl File {
    /// The inode is overwritten (4, 5). Says whether a marked file has come to name the block.
    fn becomes(&mut self, inode: Inode) -> bool {
        let was_in_tree = self.is_in_tree();
        let is_same = (self.inode.generation, self.inode.is_in_use) == (inode.generation, inode.is_in_use);
        let was_flagged = std::mem::replace(&mut self.is_flagged, inode.is_in_use && inode.has_flag);
        self.is_kept = is_same && (self.is_kept || was_flagged && !self.is_flagged);
        self.is_followed = inode.is_in_use && (self.is_flagged || self.is_kept);
        self.inode = inode;
        self.is_in_tree() && !was_in_tree
    }
}
