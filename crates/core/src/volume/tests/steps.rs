//! However much has died, and however many requests are under way or wait, one
//! more event looks at a few entries: counted, not timed.

use super::*;
use crate::base::steps::taken;

/// Bytes of one death, and from one to the next.
const DEATH: u64 = 512;
const APART: u64 = 1024;
/// Requests while the deaths are outstanding.
const REQUESTS: u64 = 200;
/// Most steps of one event: those of an erase task that begins are the task's own, which
/// has few runs here.
const STEPS_MAX: u64 = 250;

/// Bytes of the disk where nothing dies.
const PEACE: u64 = 2 * 1024 * REQUESTS;

/// A disk for as many deaths, that is full of data.
fn bench(deaths: u64) -> Bench {
    let size = deaths * APART + PEACE;
    let held = Some(Extent::new(0, size));
    let mut bench = Bench::made("purge-2", Memory::new(size), 4 << 20, [held, None]);
    let config = Config { run_bytes_max: 4096, batch_bytes_max: 16384, ..bench.volume.config().clone() };
    bench.volume.reconfigure(config);
    bench
}

impl Bench {
    fn stretch(&self) -> u64 {
        self.volume.status().size_bytes - PEACE
    }

    /// Tells of `event`; how many steps that took.
    fn steps_of(&mut self, event: Event) -> u64 {
        taken();
        self.tell(event);
        taken()
    }

    fn steps_to_ask(&mut self, op: Op, start: u64, len: u64) -> u64 {
        self.next += 1;
        let request = Request { op, extent: Extent::new(start, len), fua: false };
        self.steps_of(Event::Request(RequestId(self.next), request))
    }

    /// Carries out the input and output that was asked for last; its steps.
    fn steps_to_end_last(&mut self) -> u64 {
        let io = self.todo.pop_back().expect("something is under way");
        taken();
        self.carry_out(io);
        taken()
    }

    /// Deaths whose commit does not end; the most steps that one took.
    fn kill_all(&mut self) -> u64 {
        let starts = (0..self.stretch()).step_by(APART as usize);
        starts.map(|start| self.steps_to_ask(Op::Trim, start, DEATH)).max().unwrap_or(0)
    }

    /// Reads and writes where nothing has died; the most steps that an event took.
    fn pass_by(&mut self) -> u64 {
        let from = self.stretch();
        let mut most = 0;
        for n in 0..REQUESTS {
            let start = from + n * 1024;
            most = most.max(self.steps_to_ask(Op::Write(vec![8; 512].into()), start, 512));
            most = most.max(self.steps_to_ask(Op::Read, start + 512, 512));
            most = most.max(self.steps_to_end_last()).max(self.steps_to_end_last());
        }
        most
    }
}

/// Both for few deaths and for many.
fn for_few_and_many(name: &str, most: impl Fn(&mut Bench) -> u64) {
    for deaths in [64, 8192] {
        let most = most(&mut bench(deaths));
        assert!(most <= STEPS_MAX, "{name}: {most} steps of one event, {deaths} deaths outstanding");
    }
}

#[test]
fn deaths_that_are_not_durable_slow_nothing() {
    for_few_and_many("deaths", Bench::kill_all);
    for_few_and_many("requests", |bench| {
        bench.kill_all();
        bench.pass_by()
    });
    for_few_and_many("requests when erase tasks are due", |bench| {
        bench.kill_all();
        bench.tell(Event::ShredNow);
        bench.pass_by()
    });
}

#[test]
fn deaths_that_are_overdue_slow_nothing() {
    for_few_and_many("requests", |bench| {
        bench.kill_all();
        bench.settle();
        bench.now += 2 * bench.volume.config().deadline_ms;
        bench.pass_by()
    });
}

#[test]
fn what_is_suspicious_slows_nothing() {
    for_few_and_many("requests", |bench| {
        for start in (0..bench.stretch()).step_by(APART as usize) {
            bench.ask(Op::ConservativeOverwrite, start, DEATH);
        }
        bench.idle();
        bench.idle();
        let status = bench.volume.status();
        assert_eq!(status.owed.suspicious_bytes, bench.stretch() / 2, "{status:?}");
        bench.now += 2 * bench.volume.config().deadline_ms;
        bench.tell(Event::ShredNow);
        bench.pass_by()
    });
}

#[test]
fn requests_that_wait_for_acts_slow_nothing() {
    for_few_and_many("requests", |bench| {
        bench.kill_all();
        bench.settle();
        let starts = (0..bench.stretch()).step_by(APART as usize);
        let waits =
            starts.map(|start| bench.steps_to_ask(Op::Write(vec![9; 512].into()), start, DEATH)).max();
        assert!(bench.volume.status().requests.waiting as u64 >= bench.stretch() / APART);
        bench.pass_by().max(waits.unwrap_or(0))
    });
}

#[test]
fn requests_that_wait_for_one_another_slow_nothing() {
    for_few_and_many("requests", |bench| {
        let writes = bench.stretch() / APART;
        let waits = (0..writes).map(|_| bench.steps_to_ask(Op::Write(vec![9; 512].into()), 0, 512)).max();
        let first = bench.todo.pop_front();
        let most = bench.pass_by().max(waits.unwrap_or(0));
        bench.todo.extend(first);
        let ends = (0..writes).map(|_| bench.steps_to_end_last()).max();
        assert!(bench.volume.is_at_rest());
        most.max(ends.unwrap_or(0))
    });
}

#[test]
fn all_deaths_together_cost_as_many_steps_each_however_many_there_are() {
    for deaths in [64, 8192] {
        let mut bench = bench(deaths);
        taken();
        bench.kill_all();
        taken();
        bench.settle();
        bench.idle();
        assert!(bench.volume.is_drained());
        let each = taken() / deaths;
        assert!(each <= 150, "{each} steps each of {deaths} deaths");
    }
}
