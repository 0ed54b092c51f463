//! The oracle is tested with histories that are wrong: it must object.

use crate::guests::model::*;

const DISK: u64 = 8192;
const SPOT: u64 = 1024;
const LEN: u64 = 512;

fn spot() -> Extent<Addr> {
    Extent::new(SPOT, LEN)
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
}

impl Scene {
    fn new() -> Self {
        Self { model: Model::new(DISK, Value::Zeros), moment: 1, newest: 0 }
    }

    fn begin(&mut self, zeros: bool) -> Tag {
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

    /// Whether a read may show `value`, which decides nothing for later reads.
    fn clone_shows(&self, value: Value) -> bool {
        self.clone().shows(value)
    }

    fn shows_bytes(&mut self, bytes: &[u8]) -> bool {
        self.moment += 2;
        let reading = self.model.begin_read(spot(), self.moment - 1, Tag(self.newest));
        self.model.end_read(&reading, bytes, self.moment).is_ok()
    }
}

#[test]
fn a_read_shows_the_write_that_was_replied_to_and_nothing_older() {
    let mut scene = Scene::new();
    assert!(scene.shows(Value::Zeros));
    let first = scene.write();
    assert!(!scene.shows(Value::Zeros));
    let second = scene.write();
    assert!(scene.shows(second));
    assert!(!scene.shows(first));
}

#[test]
fn a_write_under_way_may_show_or_not() {
    let mut scene = Scene::new();
    let first = scene.write();
    let second = Value::Content(scene.begin(false));
    assert!(scene.shows(first) && scene.shows(second) && scene.shows(first));
    assert!(!scene.shows(Value::Zeros));
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
fn a_power_cut_undoes_what_was_not_flushed_and_no_more() {
    for older in [false, true] {
        let mut scene = Scene::new();
        let first = scene.write();
        scene.flush();
        let second = scene.write();
        scene.model.power_cut();
        assert!(!scene.clone_shows(Value::Zeros));
        assert!(scene.shows(if older { first } else { second }));
        assert!(!scene.shows(if older { second } else { first }), "what was seen once stays");
    }
}

#[test]
fn a_flush_covers_only_what_was_replied_to_when_it_was_sent() {
    let mut scene = Scene::new();
    let first = scene.write();
    let sent = scene.moment;
    let second = scene.write();
    scene.model.flushed(sent);
    scene.model.power_cut();
    assert!(scene.clone_shows(first) && scene.clone_shows(second));
    assert!(!scene.clone_shows(Value::Zeros));
}

#[test]
fn a_death_is_durable_at_its_reply() {
    let mut scene = Scene::new();
    let written = scene.write();
    scene.flush();
    scene.trim();
    assert!(!scene.clone_shows(written));
    scene.model.power_cut();
    assert!(!scene.clone_shows(written));
    assert!(scene.shows(Value::Zeros));
}

#[test]
fn a_death_that_was_not_replied_to_may_be_undone() {
    let mut scene = Scene::new();
    let written = scene.write();
    scene.begin(true);
    scene.model.power_cut();
    assert!(scene.clone_shows(written) && scene.clone_shows(Value::Zeros));
}

#[test]
fn a_kill_keeps_what_was_replied_to() {
    let mut scene = Scene::new();
    let first = scene.write();
    let second = scene.write();
    scene.model.restarted();
    assert!(!scene.clone_shows(first));
    assert!(scene.clone_shows(second));
    scene.model.power_cut();
    assert!(scene.clone_shows(first) && scene.clone_shows(Value::Zeros), "but not through a power cut");
}

#[test]
fn what_a_kill_left_open_is_decided_by_the_first_read() {
    let mut scene = Scene::new();
    let first = scene.write();
    let second = Value::Content(scene.begin(false));
    scene.model.restarted();
    assert!(scene.shows(first));
    assert!(!scene.clone_shows(second));
    scene.flush();
    scene.model.power_cut();
    assert!(!scene.clone_shows(second) && !scene.clone_shows(Value::Zeros));
    assert!(scene.clone_shows(first));
}

#[test]
fn a_flush_after_a_failed_sync_promises_only_what_came_later() {
    let mut scene = Scene::new();
    let first = scene.write();
    scene.model.sync_failed();
    scene.model.restarted();
    scene.flush();
    let mut cut = scene.clone();
    cut.model.power_cut();
    assert!(cut.clone_shows(Value::Zeros) && cut.shows(first));
    let second = scene.write();
    scene.flush();
    scene.model.power_cut();
    assert!(!scene.clone_shows(Value::Zeros) && !scene.clone_shows(first) && scene.clone_shows(second));
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
fn equal_versions_of_different_age_decide_nothing_between_them() {
    let mut scene = Scene::new();
    let written = scene.write();
    scene.model.power_cut();
    scene.begin(true);
    scene.model.restarted();
    assert!(
        scene.shows(Value::Zeros),
        "the zeros that were there, or those that were written over the content"
    );
    scene.model.power_cut();
    assert!(scene.clone_shows(written) && scene.clone_shows(Value::Zeros));
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
