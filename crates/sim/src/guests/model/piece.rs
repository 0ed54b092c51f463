//! The versions of some bytes that had the same history.

use crate::guests::model::{Moment, Value};
use crate::machine::content::Tag;

/// Versions that some bytes may hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    /// Versions, ascending by order, and not empty.
    versions: Vec<Version>,
    /// The latest death that was replied to.
    pub(super) dead_before: Option<Tag>,
    /// A death was under way when the process or the power went: the disk may have noted it.
    pub(super) may_be_dead: bool,
    /// The latest wish to destroy what lies below that was replied to.
    pub(super) rewritten_before: Option<Tag>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Version {
    value: Value,
    /// Order of the request. After a power cut, 0: there is no order among what may be left.
    order: Tag,
    /// Moment from which on no older version is read.
    settled: Option<Moment>,
    /// Life of the process in which the request began.
    life: u32,
    /// The version is impossible by now, but a read under way may have seen it.
    is_gone: bool,
    /// A sync failed after the version was written: a later one does not help it.
    is_shaky: bool,
}

impl Piece {
    pub(super) fn new(value: Value) -> Self {
        let order = Tag(0);
        let version = Version { value, order, settled: Some(0), life: 0, is_gone: false, is_shaky: false };
        Self { versions: vec![version], dead_before: None, may_be_dead: false, rewritten_before: None }
    }

    pub(super) fn begin(&mut self, order: Tag, value: Value, life: u32) {
        self.versions.push(Version { value, order, settled: None, life, is_gone: false, is_shaky: false });
    }

    pub(super) fn settle(&mut self, order: Tag, moment: Moment, durable: bool) {
        for version in &mut self.versions {
            if version.order == order {
                version.settled = Some(moment);
            }
            version.is_gone |= durable && version.order < order;
        }
    }

    pub(super) fn withdraw(&mut self, order: Tag) {
        self.versions.retain(|it| it.order != order);
    }

    pub(super) fn flushed(&mut self, since: Moment) {
        let kept = self.versions.iter().filter(|it| !it.is_shaky && it.settled.is_some_and(|at| at <= since));
        if let Some(floor) = kept.map(|it| it.order).max() {
            self.versions.iter_mut().for_each(|it| it.is_gone |= it.order < floor);
        }
    }

    pub(super) fn shake(&mut self) {
        self.versions.iter_mut().for_each(|it| it.is_shaky = true);
    }

    /// Notes that the process has ended, and with it what was under way.
    pub(super) fn restarted(&mut self) {
        let is_death = |it: &Version| it.value == Value::Zeros && it.settled.is_none() && !it.is_gone;
        self.may_be_dead |= self.versions.iter().any(is_death);
    }

    pub(super) fn power_cut(&mut self) {
        self.tidy();
        for version in &mut self.versions {
            (version.order, version.settled, version.is_shaky) = (Tag(0), Some(0), false);
        }
        let values: Vec<Value> = self.versions.iter().map(|it| it.value).collect();
        let mut index = 0;
        self.versions.retain(|it| {
            index += 1;
            !values[..index - 1].contains(&it.value)
        });
    }

    /// Makes all versions but the oldest possible one uncertain.
    pub(super) fn unsettle(&mut self) {
        self.tidy();
        let oldest = self.versions.iter().map(|it| it.order).min();
        for version in &mut self.versions {
            version.settled = (Some(version.order) == oldest).then_some(0);
        }
    }

    pub(super) fn tidy(&mut self) {
        self.versions.retain(|it| !it.is_gone);
    }

    /// The oldest order that a read sent at `since` may show.
    fn floor(&self, since: Moment) -> Tag {
        let settled = self.versions.iter().filter(|it| it.settled.is_some_and(|at| at <= since));
        settled.map(|it| it.order).max().unwrap_or(Tag(0))
    }

    /// The values that a read sent at `since` may show.
    pub(super) fn visible(&self, since: Moment) -> impl Iterator<Item = Value> {
        let floor = self.floor(since);
        self.versions.iter().filter(move |it| it.order >= floor).map(|it| it.value)
    }

    /// Whether a read of this life, sent at `since` after request `newest`, shows content of an
    /// earlier life: nothing else has happened to the bytes.
    pub(super) fn may_decide(&self, life: u32, since: Moment, newest: Tag) -> bool {
        let floor = self.floor(since);
        let of_before = |it: &Version| it.life < life && it.order <= newest;
        self.versions.iter().filter(|it| it.order >= floor && !it.is_gone).all(of_before)
    }

    /// Settles on `value`. Among equal versions it may be any: then nothing is known that would
    /// rule out one before the newest of them.
    pub(super) fn decide(&mut self, value: Value, moment: Moment) {
        let floor = self.floor(moment);
        let fits = |it: &&Version| it.order >= floor && it.value == value;
        let orders = || self.versions.iter().filter(fits).map(|it| it.order);
        let (Some(oldest), Some(newest)) = (orders().min(), orders().max()) else { return };
        for version in &mut self.versions {
            if version.order == oldest && version.value == value {
                version.settled = Some(moment);
            } else {
                let is_peer = version.order == oldest && oldest == newest;
                version.is_gone |= version.order > newest || is_peer;
            }
        }
    }
}
