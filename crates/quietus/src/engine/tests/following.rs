//! Changes are marked, and held back.

use super::*;
use quietus_core::watch::{Agenda, Moment, Observation, Observer, Scope, Verdict, Waits, WatchStatus};
use std::sync::atomic::{AtomicBool, Ordering};

const MUCH: u64 = 1 << 20;

fn write(engine: &Engine, start: u64, len: usize) {
    ask(engine, Op::Write(vec![7; len].into()), start, len as u64).expect("a write");
}

fn runs(marked: &BlockSet) -> Vec<Extent<Addr>> {
    marked.runs().collect()
}

#[test]
fn what_changes_is_marked_once_and_reads_are_not() {
    let (_bench, _dir, engine) = opened();
    write(&engine, 0, 4096);
    let follower = engine.follow(|| true).expect("no other follower runs");
    assert!(engine.follow(|| false).is_none(), "one at a time");
    write(&engine, 8192 + 512, 512);
    ask(&engine, Op::Trim, 65536, 4096).expect("a trim");
    ask(&engine, Op::Read, 0, 4096).expect("a read");
    ask(&engine, Op::Trim, SIZE - 4096, 1 << 40).expect_err("beyond the end");
    let (marked, hold) = follower.take(3 * 4096);
    let wanted = [(8192, 4096), (65536, 4096), (SIZE - 4096, 4096)];
    assert_eq!(runs(&marked), wanted.map(|(start, len)| Extent::new(start, len)));
    drop(hold.expect("it is little enough"));
    assert!(follower.take(MUCH).0.is_empty());
    write(&engine, 0, 8192);
    assert!(follower.take(4096).1.is_none(), "it is too much");
    drop(follower);
    assert!(engine.follow(|| false).is_some());
}

#[test]
fn changes_wait_for_the_end_of_a_hold_and_reads_do_not() {
    let (_bench, _dir, engine) = opened();
    let follower = engine.follow(|| true).expect("no other follower runs");
    let (_, hold) = follower.take(MUCH);
    let (sender, done) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            write(&engine, 0, 4096);
            sender.send(()).expect("a thread waits");
        });
        assert!(done.recv_timeout(Duration::from_millis(50)).is_err(), "it was not held back");
        assert_eq!(ask(&engine, Op::Read, 0, 4096), Ok(vec![0; 4096].into()));
        assert!(hold.and_then(Hold::end).is_some(), "it was outlasted");
        done.recv().expect("it goes on");
    });
    assert_eq!(runs(&follower.take(MUCH).0), [Extent::new(0, 4096)]);
}

#[test]
fn a_hold_without_an_end_is_outlasted_and_that_is_known() {
    let (_bench, _dir, engine) = opened();
    let follower = engine.follow(|| true).expect("no other follower runs");
    let (_, hold) = follower.take(MUCH);
    write(&engine, 0, 4096);
    assert_eq!(hold.and_then(Hold::end), None);
    assert_eq!(runs(&follower.take(MUCH).0), [Extent::new(0, 4096)]);
}

/// Says that the first block is dead, once it is told to.
#[derive(Debug)]
struct Seer(Arc<AtomicBool>);

impl Observer for Seer {
    fn observe(&mut self, _: Moment, _: Observation<'_>) {}
    fn needs(&self, _: Extent<Addr>) -> Vec<Extent<Addr>> {
        Vec::new()
    }
    fn wants(&mut self) -> Option<Extent<Addr>> {
        None
    }
    fn agenda(&self) -> Agenda {
        Agenda { is_working: self.0.load(Ordering::Relaxed), ..Agenda::default() }
    }
    fn verdict(&mut self, _: Scope<'_>) -> Option<(Extent<Addr>, Verdict)> {
        self.0.swap(false, Ordering::Relaxed).then(|| (Extent::new(0, 4096), Verdict::Dead))
    }
    fn waiting(&self) -> Waits<'_> {
        Box::new(std::iter::empty())
    }
    fn take_suspicious(&mut self, _: Extent<Addr>) -> Vec<Extent<Addr>> {
        Vec::new()
    }
    fn view(&self) -> Option<Vec<u8>> {
        None
    }
}

impl Watcher for Seer {
    fn restore(&mut self, _: Vec<u8>) {}
    fn watches(&self, _: Extent<Addr>) -> bool {
        true
    }
    fn status(&self) -> WatchStatus {
        WatchStatus::default()
    }
    fn anew(&self) -> Box<dyn Watcher> {
        Box::new(Self(Arc::clone(&self.0)))
    }
}

#[test]
fn what_is_inferred_to_be_dead_is_marked() {
    let bench = Bench::new();
    let dir = DiskDir::open(&bench.path).expect("no other process has it open");
    let told = Arc::new(AtomicBool::new(false));
    let seer = Box::new(Seer(Arc::clone(&told)));
    let engine = Engine::start("disk", &dir, dir.config().expect("a policy"), Some(seer), &mut |_, _| true)
        .expect("it starts");
    write(&engine, 0, 8192);
    let follower = engine.follow(|| true).expect("no other follower runs");
    told.store(true, Ordering::Relaxed);
    engine.shred_now();
    assert!(engine.wait_until_drained(|_| true));
    assert_eq!(ask(&engine, Op::Read, 0, 4096), Ok(vec![0; 4096].into()));
    assert_eq!(runs(&follower.take(MUCH).0), [Extent::new(0, 4096)]);
}
