//! The oracle is tested with histories that are wrong: it must object.

use crate::guests::model::*;
use Do::{Begin, BeginTrim, Cut, Fail, Flush, Kill, LateFlush, Show, Trim, Write};

const DISK: u64 = 8192;
const SPOT: u64 = 1024;
const LEN: u64 = 512;

fn spot() -> Extent<Addr> {
    Extent::new(SPOT, LEN)
}

fn written(number: u32) -> Value {
    if number == 0 { Value::Zeros } else { Value::Content(Tag(number)) }
}

fn bytes(value: Value) -> Vec<u8> {
    let mut bytes = vec![0; LEN as usize];
    if let Value::Content(tag) = value {
        crate::machine::content::fill(tag, SPOT, &mut bytes);
    }
    bytes
}

/// A model with a clock, in which requests follow one another.
#[derive(Clone)]
struct Scene {
    model: Model,
    moment: Moment,
    newest: u32,
    /// The moment before the latest request.
    before: Moment,
}

/// What happens at the spot. Requests are numbered from 1 on; 0 is what is there at first.
#[derive(Clone, Copy, Debug)]
enum Do {
    /// A write is sent,
    Begin,
    /// and replied to.
    Write,
    BeginTrim,
    Trim,
    Flush,
    /// The reply to a flush that was sent before the latest request.
    LateFlush,
    /// A sync of the medium fails.
    Fail,
    Kill,
    Cut,
    /// A read shows what this request wrote, and may.
    Show(u32),
}

impl Scene {
    fn new() -> Self {
        Self { model: Model::new(DISK, Value::Zeros), moment: 1, newest: 0, before: 1 }
    }

    fn begin(&mut self, zeros: bool) -> Tag {
        self.before = self.moment;
        self.newest += 1;
        self.moment += 1;
        let tag = Tag(self.newest);
        self.model.begin(tag, spot(), if zeros { Value::Zeros } else { Value::Content(tag) });
        tag
    }

    fn write(&mut self) -> Value {
        let tag = self.begin(false);
        self.moment += 1;
        self.model.settle(tag, spot(), self.moment, false);
        Value::Content(tag)
    }

    fn trim(&mut self) {
        let tag = self.begin(true);
        self.moment += 1;
        self.model.settle(tag, spot(), self.moment, true);
    }

    fn flush(&mut self) {
        self.moment += 1;
        self.model.flushed(self.moment);
    }

    fn shows(&mut self, value: Value) -> bool {
        self.shows_bytes(&bytes(value))
    }

    /// Whether a read may show what request `number` wrote, which decides nothing for later reads.
    fn may_show(&self, number: u32) -> bool {
        self.clone().shows(written(number))
    }

    fn happens(&mut self, what: Do) {
        match what {
            Begin => drop(self.begin(false)),
            Write => drop(self.write()),
            BeginTrim => drop(self.begin(true)),
            Trim => self.trim(),
            Flush => self.flush(),
            LateFlush => self.model.flushed(self.before),
            Fail => self.model.sync_failed(),
            Kill => self.model.restarted(),
            Cut => self.model.power_cut(),
            Show(number) => assert!(self.shows(written(number)), "{what:?}"),
        }
    }

    fn shows_bytes(&mut self, bytes: &[u8]) -> bool {
        self.moment += 2;
        let reading = self.model.begin_read(spot(), self.moment - 1, Tag(self.newest));
        self.model.end_read(&reading, bytes, self.moment).is_ok()
    }
}

/// A history, what a read may show after it, and what it may not.
type Case = (&'static str, &'static [Do], &'static [u32], &'static [u32]);

const CASES: [Case; 19] = [
    ("at first", &[], &[0], &[]),
    ("a write that was replied to", &[Write], &[1], &[0]),
    ("the newest of two", &[Write, Write], &[2], &[0, 1]),
    ("a write under way", &[Write, Begin, Show(1), Show(2), Show(1)], &[1, 2], &[0]),
    ("a cut undoes what was not flushed", &[Write, Flush, Write, Cut], &[1, 2], &[0]),
    ("what a cut left older stays", &[Write, Flush, Write, Cut, Show(1)], &[1], &[0, 2]),
    ("what a cut left newer stays", &[Write, Flush, Write, Cut, Show(2)], &[2], &[0, 1]),
    ("a flush covers what was replied to", &[Write, Write, LateFlush, Cut], &[1, 2], &[0]),
    ("a death", &[Write, Flush, Trim], &[0], &[1]),
    ("a death is durable at its reply", &[Write, Flush, Trim, Cut, Show(0)], &[0], &[1]),
    ("a death without a reply may be undone", &[Write, BeginTrim, Cut], &[0, 1], &[]),
    ("a kill keeps what was replied to", &[Write, Write, Kill], &[2], &[0, 1]),
    ("a kill makes nothing durable", &[Write, Write, Kill, Cut], &[0, 1, 2], &[]),
    ("a kill leaves it open", &[Write, Begin, Kill], &[1, 2], &[0]),
    ("the first read decides it", &[Write, Begin, Kill, Show(1)], &[1], &[0, 2]),
    ("and decides it for good", &[Write, Begin, Kill, Show(1), Flush, Cut], &[1], &[0, 2]),
    ("a flush after a failed sync", &[Write, Fail, Kill, Flush, Cut], &[0, 1], &[]),
    ("a later write, after that", &[Write, Fail, Kill, Flush, Write, Flush, Cut], &[2], &[0, 1]),
    // The zeros that were there, or those that were written over the content.
    ("equal versions of different age", &[Write, Cut, BeginTrim, Kill, Show(0), Cut], &[0, 1], &[]),
];

#[test]
fn a_read_shows_what_was_promised_and_nothing_else() {
    for (name, steps, may, may_not) in CASES {
        let mut scene = Scene::new();
        steps.iter().for_each(|it| scene.happens(*it));
        may.iter().for_each(|it| assert!(scene.may_show(*it), "{name}: {it} may show"));
        may_not.iter().for_each(|it| assert!(!scene.may_show(*it), "{name}: {it} may not show"));
    }
}

#[test]
fn no_sector_is_half_one_and_half_another() {
    let mut scene = Scene::new();
    let first = scene.write();
    let second = Value::Content(scene.begin(false));
    let mut mixed = bytes(first);
    mixed[256..].copy_from_slice(&bytes(second)[256..]);
    assert!(!scene.shows_bytes(&mixed));
    scene.model.arrived(Extent::new(SPOT, 256));
    assert!(scene.shows_bytes(&mixed), "once there was a request for half a sector, it may be");
    mixed[300] ^= 1;
    assert!(!scene.shows_bytes(&mixed));
}

#[test]
fn a_pattern_is_never_shown() {
    let mut scene = Scene::new();
    scene.write();
    scene.trim();
    assert!(!scene.shows_bytes(&[0xff; LEN as usize]));
    assert!(!scene.shows_bytes(&[0; LEN as usize - 1]), "nor too few bytes");
}

#[test]
fn a_read_that_a_death_overtook_may_show_what_was_there() {
    let mut scene = Scene::new();
    let written = scene.write();
    scene.moment += 1;
    let reading = scene.model.begin_read(spot(), scene.moment, Tag(scene.newest));
    scene.trim();
    scene.moment += 1;
    assert!(scene.model.end_read(&reading, &bytes(written), scene.moment).is_ok());
    assert!(!scene.shows(written));
}

#[test]
fn what_a_closed_epoch_has_shown_once_it_shows_for_ever() {
    let mut scene = Scene::new();
    let first = scene.write();
    let second = Value::Content(scene.begin(false));
    let mut kept = scene.model.kept();
    assert!(kept.allows(spot(), &bytes(first)) && kept.allows(spot(), &bytes(second)));
    assert!(!kept.has_only(spot(), &bytes(first)));
    let third = scene.write();
    assert!(!kept.allows(spot(), &bytes(third)), "a later write is not there");
    assert!(kept.read_kept(spot(), &bytes(first)).is_ok() && kept.has_only(spot(), &bytes(first)));
    assert!(kept.read_kept(spot(), &bytes(second)).is_err());
}

#[test]
fn a_death_that_a_kill_cut_off_counts_where_only_the_process_knew_what_came_after() {
    let after_cut_off_death = |is_cut_off: bool| {
        let mut scene = Scene::new();
        let first = scene.write();
        scene.model.flushed(scene.moment);
        if is_cut_off {
            scene.begin(true);
        }
        scene.model.forgotten(|died| died);
        let second = scene.write();
        scene.model.forgotten(|died| died);
        [first, second, Value::Zeros].map(|it| scene.clone().shows(it))
    };
    assert_eq!(after_cut_off_death(false), [false, true, false]);
    assert_eq!(after_cut_off_death(true)[1..], [true, true]);
}
