//! A watcher that is kept out, and the one that begins after it.

use super::*;
use std::sync::atomic::Ordering::Relaxed;

/// A disk with four blocks, and its watcher.
fn watched() -> (Bench, Puppet) {
    let (mut bench, puppet) = (versions().0, Puppet::default());
    bench.write(0, 7, 4 * BLOCK);
    bench.volume.watch(Box::new(puppet.clone()));
    (bench, puppet)
}

#[test]
fn what_a_watcher_has_found_is_dropped_when_it_is_kept_out() {
    let (mut bench, puppet) = watched();
    puppet.finds_dead(Extent::new(0, BLOCK));
    bench.tell(Event::KeepWatcherOut);
    bench.idle();
    bench.tell(Event::WatchAnew);
    bench.idle();
    assert_eq!((bench.reads(0, 1), bench.dead() + bench.owed()), (vec![7], 0));
}

#[test]
fn a_verdict_that_waits_for_room_is_dropped_too() {
    let (mut bench, _) = watched();
    let watching = bench.volume.watching.watch.as_mut().expect("it is watched");
    watching.keep_verdict(Extent::new(0, BLOCK));
    bench.tell(Event::KeepWatcherOut);
    bench.idle();
    assert_eq!((bench.reads(0, 1), bench.dead() + bench.owed()), (vec![7], 0));
}

#[test]
fn nothing_is_watched_until_the_new_watcher_begins() {
    let (mut bench, puppet) = watched();
    bench.tell(Event::KeepWatcherOut);
    bench.write(0, 8, BLOCK);
    assert_eq!(puppet.told.arrivals.load(Relaxed), 0);
    assert_eq!(bench.volume.checkpoint().map_or(0, |it| it.watch.len()), 0, "there is no view of it");
    let (_, write) = bench.held_write(1, 9);
    bench.tell(Event::WatchAnew);
    bench.idle();
    assert!(bench.volume.is_watcher_awaited(), "a refusal of the write would be news");
    bench.carry_out(write);
    bench.settle();
    assert!(!bench.volume.is_watcher_awaited());
    bench.write(0, 8, BLOCK);
    assert_eq!(puppet.told.arrivals.load(Relaxed), 1);
}

#[test]
fn what_is_under_way_for_the_watcher_before_ends_before_the_new_one_begins() {
    type Finds = fn(&Puppet);
    let dead = [vec![7; 1000], vec![0; 2000], vec![7; 1096]].concat();
    let cases: [(&str, Finds, IoOp, Vec<u8>); 3] = [
        ("a read", |puppet| puppet.asks.store(true, Relaxed), IoOp::Read, vec![7; 4096]),
        ("evidence", |puppet| puppet.has_evidence.store(true, Relaxed), IoOp::Sync, vec![7; 4096]),
        ("a death", |puppet| puppet.finds_dead(Extent::new(1000, 2000)), IoOp::Read, dead),
    ];
    for (name, finds, op, content) in cases {
        let (mut bench, puppet) = watched();
        finds(&puppet);
        bench.tick(60_000);
        let io = bench.hold(|io| io.op == op);
        bench.tell(Event::KeepWatcherOut);
        bench.tell(Event::WatchAnew);
        bench.idle();
        assert!(bench.volume.is_watcher_awaited(), "{name} is for another watcher");
        bench.carry_out(io);
        bench.idle();
        assert!(!bench.volume.is_watcher_awaited(), "{name} has ended");
        assert_eq!(puppet.told.answers.load(Relaxed), 0, "the new watcher is not told of {name}");
        assert_eq!(bench.reads(0, BLOCK), content, "{name}");
    }
}

#[test]
fn a_disk_that_stops_awaits_no_watcher() {
    let (mut bench, _) = watched();
    bench.tell(Event::KeepWatcherOut);
    bench.tell(Event::Stop { drain: true });
    bench.tell(Event::WatchAnew);
    bench.idle();
    assert!(!bench.volume.is_watcher_awaited() && bench.volume.is_at_rest());
}
