//! Finds the file system on a disk, and watches below it.

use crate::formats::format::{Contents, Format, Probe, Prober};
use crate::rules::options::{Options, Sensitive};
use crate::rules::rule::{Grid, Rule};
use crate::rules::rule_e::RuleE;
use crate::rules::rule_j::RuleJ;
use crate::rules::tail::{Former, Tail};
use quietus_core::base::units::{Addr, Extent, Millis};
use quietus_core::watch::{
    Agenda, Class, Content, Moment, Observation, Observer, Scope, Verdict, Waits, WaitsFor, WatchStatus,
    Watcher,
};
use std::collections::VecDeque;

/// End of the part of a disk in which signatures of file systems lie, in bytes: every prober's
/// first reads end before.
const HEAD_BYTES: u64 = 128 << 10;
const VIEW_MAGIC: &[u8] = b"QUIETWA1";
/// Time without a change of the head, in milliseconds, before a search for a file system begins.
const QUIET_MS: u64 = 500;

/// Watches one disk, whichever file system is on it or will be.
#[derive(Debug)]
pub struct Watch {
    disk_bytes: u64,
    options: Options,
    probers: Vec<Prober>,
    state: State,
    /// Time of the next search for a file system.
    seek_at: Option<Millis>,
    /// Extents that the last search for a file system asked for.
    looked_at: Vec<Extent<Addr>>,
    /// Nothing has been written since the disk was opened.
    untouched: bool,
    /// Present content of the extents by which the watched file system was recognised.
    head: Contents,
    /// The view from the last stop.
    view: Option<Vec<u8>>,
    /// The watched file system, or the one that was, if it may be found again with another size.
    former: Option<Former>,
    /// What it gave up.
    tail: Option<Tail>,
}

/// The stage of a watch.
#[derive(Debug)]
enum State {
    /// Looking for a file system.
    Seeking { contents: Contents, asked: Vec<Extent<Addr>>, queue: VecDeque<Extent<Addr>> },
    /// No file system to watch, and the reason.
    Idle(String),
    /// Watching below a file system.
    Attached(Box<dyn Rule>),
}

impl Watch {
    /// Creates a watch over a disk of `disk_bytes` for the file systems of `probers`.
    #[must_use]
    pub fn new(disk_bytes: u64, probers: Vec<Prober>, options: Options) -> Self {
        Self {
            disk_bytes,
            options,
            probers,
            state: State::Idle("the disk was not searched yet".into()),
            seek_at: Some(Millis(0)),
            looked_at: Vec::new(),
            untouched: true,
            head: Contents::default(),
            view: None,
            former: None,
            tail: None,
        }
    }

    /// As [`Watch::new`], for a disk that may have been written before.
    pub(crate) fn late(self) -> Self {
        Self { untouched: false, ..self }
    }

    /// As [`Watch::late`]; the search for a file system waits until the head is written.
    pub(crate) fn once_written(self) -> Self {
        let why = "another file system was watched here; this one counts once its superblock or boot sector is written";
        Self { state: State::Idle(why.into()), seek_at: None, ..self.late() }
    }

    fn seek(&mut self, at: Moment) {
        self.seek_at = None;
        self.looked_at.clear();
        self.state =
            State::Seeking { contents: Contents::default(), asked: Vec::new(), queue: VecDeque::new() };
        self.probe(at);
    }

    /// Lets the probers look at what has been read.
    fn probe(&mut self, at: Moment) {
        let State::Seeking { contents, asked, queue } = &mut self.state else { return };
        for prober in &self.probers {
            match prober(self.disk_bytes, contents) {
                Probe::Needs(extents) => {
                    asked.extend(&extents);
                    self.looked_at.extend(&extents);
                    queue.extend(extents);
                    return;
                }
                Probe::Is(format) => return self.attach(format, at),
                Probe::Refused(reason) => return self.state = State::Idle(reason.0),
                Probe::IsNot => {}
            }
        }
        self.state = State::Idle("no known file system on the disk".into());
    }

    fn attach(&mut self, format: Box<dyn Format>, at: Moment) {
        if let State::Seeking { contents, .. } = &mut self.state {
            self.head = std::mem::take(contents);
        }
        self.tail = self.former.take().and_then(|it| it.given_up(&*format, at.now));
        self.former = Former::of(&*format, self.untouched);
        let mut rule = self.rule_above(format, at.now);
        if let Some(view) = self.view.take().filter(|_| self.untouched)
            && let Some(view) = self.own_part(rule.format().name(), &view)
        {
            rule.resume(view);
        }
        rule.observe(at, Observation::Attached);
        self.state = State::Attached(rule);
    }

    fn rule_above(&self, format: Box<dyn Format>, now: Millis) -> Box<dyn Rule> {
        match format.journal() {
            None => Box::new(RuleE::attach(format, self.options, now, self.untouched)),
            Some(journal) => Box::new(RuleJ::attach(format, journal, self.options, now, self.untouched)),
        }
    }

    /// The rule's part of `view`, if the file system is still `name` and its head is unchanged.
    fn own_part<'a>(&self, name: &str, view: &'a [u8]) -> Option<&'a [u8]> {
        let (checksum, rest) = view.strip_prefix(VIEW_MAGIC)?.split_first_chunk::<4>()?;
        let rest = rest.strip_prefix(&(name.len() as u32).to_le_bytes())?.strip_prefix(name.as_bytes())?;
        (u32::from_le_bytes(*checksum) == self.head.checksum()).then_some(rest)
    }

    /// Stops watching a file system that changed or cannot be understood.
    fn review(&mut self, now: Millis) {
        let State::Attached(rule) = &self.state else { return };
        if rule.has_changed() {
            if rule.is_in_use() {
                self.former = None;
            }
            self.tail = None;
            self.idle("the file system is being changed", now);
        } else if let Some(reason) = rule.broken() {
            self.state = State::Idle(format!("{}: {reason}", rule.format().name()));
        }
    }

    /// Notes what a change of `extent` says of the space behind the end of the file system.
    fn behind_end(&mut self, at: Moment, extent: Extent<Addr>) {
        if let Some(former) = &mut self.former {
            former.written(extent);
        }
        if let Some(tail) = &mut self.tail {
            tail.arrived(at.now, extent, self.options.settle_ms_below(at.attached));
        }
    }

    /// Notes whether the watched file system is in use after `observation`, and whether its evidence is durable.
    fn end_observed(&mut self, at: Moment, observation: Observation<'_>) {
        let in_use = self.rule().is_some_and(|rule| rule.is_in_use());
        self.former.iter_mut().filter(|_| in_use).for_each(Former::used);
        let Some(tail) = &mut self.tail else { return };
        match observation {
            Observation::Cut => tail.cut(at),
            Observation::Proven => tail.proven(),
            Observation::Attached => tail.distrust(),
            _ if in_use && !at.attached.is_cached() => tail.mounted(),
            _ => {}
        }
    }

    /// The space behind the end of the watched file system, but for what it gave up.
    fn unowned(&self) -> Vec<Extent<Addr>> {
        // Other formats keep something of their own there, such as the second boot sector of NTFS.
        let Some(rule) = self.rule().filter(|it| it.format().identity().is_some()) else { return Vec::new() };
        let end = Grid::of(rule.format()).end();
        let behind = (end < self.disk_bytes).then(|| Extent::between(end, self.disk_bytes));
        match &self.tail {
            Some(tail) => behind.into_iter().flat_map(|it| tail.others(it)).collect(),
            None => behind.into_iter().collect(),
        }
    }

    fn idle(&mut self, why: &str, now: Millis) {
        self.state = State::Idle(why.into());
        self.seek_at = Some(Millis(now.0 + QUIET_MS));
    }

    /// Whether a write to `extent` may complete a file system that the last search did not find.
    fn may_be_found_in(&self, extent: Extent<Addr>) -> bool {
        extent.start.0 < HEAD_BYTES || self.looked_at.iter().any(|it| it.overlaps(extent))
    }

    fn rule(&self) -> Option<&dyn Rule> {
        match &self.state {
            State::Attached(rule) => Some(&**rule),
            _ => None,
        }
    }

    fn rule_mut(&mut self) -> Option<&mut (dyn Rule + 'static)> {
        match &mut self.state {
            State::Attached(rule) => Some(&mut **rule),
            _ => None,
        }
    }
}

/// The state of a watch, for its status.
fn state_of(rule: &dyn Rule, sensitive: Sensitive) -> String {
    let state = match (rule.progress(), rule.hindrance()) {
        (Some(_), _) => "searching it".into(),
        (None, Some(why)) => format!("watching it, nothing is called dead: {why}"),
        (None, None) => "watching it".into(),
    };
    match sensitive {
        Sensitive::All => state,
        Sensitive::Marked => match rule.marks() {
            Ok(note) => format!("{state}; {note}"),
            Err(why) => format!("{state}; everything counts as sensitive: {why}"),
        },
    }
}

impl Watch {
    /// Handles an observation while no file system is watched.
    fn observe_unwatched(&mut self, at: Moment, observation: Observation<'_>) {
        match observation {
            Observation::Arrived { extent, .. } if self.may_be_found_in(extent) => {
                self.idle("the start of the disk is being written", at.now);
            }
            Observation::Given { extent, content } => self.found(at, extent, content),
            Observation::Tick if self.seek_at.is_some_and(|seek_at| seek_at <= at.now) => self.seek(at),
            Observation::Arrived { .. }
            | Observation::Refused { .. }
            | Observation::Overwriting { .. }
            | Observation::Read(_)
            | Observation::Clients
            | Observation::Attached
            | Observation::Tick
            | Observation::Cut
            | Observation::Proven
            | Observation::Stopping => {}
        }
    }

    /// Takes content that the search asked for; probes once all of it is there.
    fn found(&mut self, at: Moment, extent: Extent<Addr>, content: Option<&[u8]>) {
        let State::Seeking { contents, asked, .. } = &mut self.state else { return };
        let Some(content) = content else {
            return self.state = State::Idle("the disk could not be read".into());
        };
        let before = asked.len();
        asked.retain(|it| *it != extent);
        if asked.len() < before {
            contents.insert(extent.start, content.to_vec());
        }
        if before > 0 && asked.is_empty() {
            self.probe(at);
        }
    }
}

impl Observer for Watch {
    fn observe(&mut self, at: Moment, observation: Observation<'_>) {
        if let Observation::Arrived { extent, .. } = observation {
            self.untouched = false;
            self.behind_end(at, extent);
        }
        let State::Attached(rule) = &mut self.state else {
            return self.observe_unwatched(at, observation);
        };
        match observation {
            Observation::Arrived { extent, content: Content::Bytes(bytes) } => {
                self.head.overwrite(extent, bytes);
            }
            Observation::Stopping if rule.progress().is_some() => {
                return self.state = State::Idle("the disk is being stopped".into());
            }
            _ => {}
        }
        rule.observe(at, observation);
        self.end_observed(at, observation);
        self.review(at.now);
    }

    fn needs(&self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        self.rule().map_or_else(Vec::new, |rule| rule.needs(extent))
    }

    fn wants(&mut self) -> Option<Extent<Addr>> {
        match &mut self.state {
            State::Seeking { queue, .. } => queue.pop_front(),
            State::Attached(rule) => rule.wants(),
            State::Idle(_) => None,
        }
    }

    fn agenda(&self) -> Agenda {
        match &self.state {
            State::Attached(rule) => {
                self.tail.iter().fold(rule.agenda(), |agenda, tail| agenda.and(tail.agenda()))
            }
            State::Seeking { .. } => Agenda { is_working: true, ..Agenda::default() },
            State::Idle(_) => {
                Agenda { wakes_at: self.seek_at, is_working: self.seek_at.is_some(), ..Agenda::default() }
            }
        }
    }

    fn verdict(&mut self, scope: Scope<'_>) -> Option<(Extent<Addr>, Verdict)> {
        let verdict = self.rule_mut()?.verdict(scope);
        verdict.or_else(|| self.tail.as_mut()?.verdict(scope))
    }

    fn waiting(&self) -> Waits<'_> {
        let inside = self.rule().into_iter().flat_map(|rule| rule.waiting());
        let given_up = self.tail.iter().filter(|_| self.rule().is_some()).flat_map(Tail::waiting);
        let unowned = self.unowned().into_iter().map(|it| (WaitsFor::Owner, it));
        Box::new(inside.chain(given_up).chain(unowned))
    }

    fn classes(&self, extent: Extent<Addr>) -> Vec<(Extent<Addr>, Class)> {
        self.rule().map_or_else(|| vec![(extent, Class::Sensitive)], |rule| rule.classes(extent))
    }

    fn take_suspicious(&mut self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        self.rule_mut().map_or_else(Vec::new, |rule| rule.take_suspicious(extent))
    }

    fn view(&self) -> Option<Vec<u8>> {
        let rule = self.rule()?;
        let name = rule.format().name();
        let mut view = VIEW_MAGIC.to_vec();
        view.extend(self.head.checksum().to_le_bytes());
        view.extend((name.len() as u32).to_le_bytes());
        view.extend(name.as_bytes());
        view.extend(rule.view()?);
        Some(view)
    }
}

impl Watcher for Watch {
    fn anew(&self) -> Box<dyn Watcher> {
        Box::new(Self::new(self.disk_bytes, self.probers.clone(), self.options))
    }

    fn restore(&mut self, view: Vec<u8>) {
        self.view = Some(view);
    }

    fn watches(&self, extent: Extent<Addr>) -> bool {
        self.rule().is_some() && extent.start.0 < self.disk_bytes
    }

    fn status(&self) -> WatchStatus {
        let mut status = WatchStatus::default();
        match &self.state {
            State::Seeking { .. } => status.state = "looking for a file system".into(),
            State::Idle(why) => status.state.clone_from(why),
            State::Attached(rule) => {
                let named = |list: &[(&'static str, bool)]| {
                    list.iter().map(|(name, is)| ((*name).to_string(), *is)).collect()
                };
                let properties = rule.format().properties();
                status.file_system = Some(rule.format().name().into());
                status.state = state_of(&**rule, self.options.sensitive);
                status.properties = named(&properties.named());
                status.inferred = named(&properties.inferable().named());
                status.hidden = rule.format().hidden().iter().map(ToString::to_string).collect();
                status.figures =
                    rule.figures().into_iter().map(|(name, figure)| (name.to_string(), figure)).collect();
                status.progress = rule.progress();
            }
        }
        if self.options.sensitive == Sensitive::Marked {
            let why = self.rule().map_or(Some("no file system is watched"), |rule| rule.marks().err());
            status.all_sensitive = why.map(String::from);
        }
        status
    }
}
