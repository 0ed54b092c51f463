//! Which states are one: runs are named by their order, versions by the order in which the chip of the literal machine has them. What no read can show
//! again is left out.

use super::judge::Judge;
use super::literal::Literal;
use super::page::{Block, Counts, Page, Run, RunId, Say, Slot, Task};
use super::{Answer, Disk, Read};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A hash of a state.
pub(super) type Key = u128;

/// Two hashes at once.
struct Twice(DefaultHasher, DefaultHasher);

impl Hasher for Twice {
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
        self.1.write(bytes);
    }

    fn finish(&self) -> u64 {
        self.0.finish()
    }
}

/// The key of a state of both versions, and of what the judge has noted; `now` is what shows.
pub(super) fn key(page: &Page, literal: &Literal, judge: &Judge, now: &Answer) -> Key {
    let mut other = DefaultHasher::new();
    1_u8.hash(&mut other);
    let mut to = Twice(DefaultHasher::new(), other);
    let mut names = HashMap::new();
    let mut name = |version: u32| {
        let next = names.len() as u32;
        *names.entry(version).or_insert(next)
    };
    literal.hash(&mut name, &mut to);
    of_page(page, &mut name, &mut to);
    let mut owed: Vec<u32> = now.owed.iter().map(|version| name(*version)).collect();
    owed.sort_unstable();
    owed.hash(&mut to);
    of_judge(judge, now, &names, &mut to);
    Key::from(to.0.finish()) << 64 | Key::from(to.1.finish())
}

fn of_page(page: &Page, name: &mut impl FnMut(u32) -> u32, to: &mut impl Hasher) {
    let ranks: BTreeMap<RunId, u32> = page.runs.keys().copied().zip(0..).collect();
    let mut say = |say: Say| match say {
        Say::Version(version) => Say::Version(name(version)),
        Say::Nothing | Say::Trimmed => say,
    };
    (page.disk, page.cuts, page.worn, page.request, page.last.map(|run| ranks[&run])).hash(to);
    for Block { slots, is_marked, used, is_murky, is_failing, known } in &page.blocks {
        for slot in slots {
            match slot {
                Slot::Blank => 0_u8.hash(to),
                Slot::Black => 1_u8.hash(to),
                Slot::Holds(run, look) => (2_u8, ranks[run], look).hash(to),
            }
        }
        (is_marked, used, is_murky, is_failing, known.map(|run| run.map(|run| ranks[&run]))).hash(to);
    }
    for Run { says, part, lists, behind, disowns } in page.runs.values() {
        let disowned: Vec<u32> = disowns.iter().map(|run| ranks[run]).collect();
        (says.map(&mut say), part, lists, behind.map(|run| ranks[&run]), disowned).hash(to);
    }
    for counts in page.counts {
        match counts {
            Counts::Version(_, place) => (2_u8, place).hash(to),
            Counts::Zeros | Counts::Mark(_) => counts.hash(to),
        }
    }
    (page.pending.map(&mut say), page.listed, &page.candidates).hash(to);
    page.disowned.iter().for_each(|run| ranks[run].hash(to));
    for task in &page.tasks {
        match task {
            Task::Run(part, says) => (part, says.map(&mut say)).hash(to),
            _ => task.hash(to),
        }
    }
}

fn of_judge(judge: &Judge, now: &Answer, names: &HashMap<u32, u32>, to: &mut impl Hasher) {
    let named = |read: &Read| match read {
        Read::Version(version) => names.get(version).map(|name| Read::Version(*name)),
        Read::Zeros | Read::Waits | Read::Error => Some(*read),
    };
    for may in &judge.may {
        let mut may: Vec<Read> = may.iter().filter_map(named).collect();
        may.sort_unstable();
        may.hash(to);
    }
    let expected = judge.expected.filter(|_| now.disk != Disk::Idle);
    expected.map(|reads| reads.each_ref().map(named)).hash(to);
    let mut asked: Vec<_> = judge.asked.iter().filter_map(|version| names.get(version)).collect();
    asked.sort_unstable();
    (judge.request, asked).hash(to);
}
