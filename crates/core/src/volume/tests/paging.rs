//! Pages of the map that are not in memory when they are needed.

use super::layers::Puppet;
use super::leaving::{BLOCK, killed, overlay_above};
use super::*;
use crate::media::MediumId;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of the disk that one page of the map is for.
const PAGE: u64 = 1024 * BLOCK;
/// Pages of the disk: more than memory keeps of so small a disk.
const PAGES: u64 = 4400;

/// A large disk with one block in each page of its map, and no page in memory.
fn large() -> Bench {
    let mut bench = overlay_above(Memory::new(0), PAGES * PAGE);
    for page in 0..PAGES {
        bench.write(page * PAGE, (page % 100) as u8 + 1, BLOCK);
    }
    bench.flush();
    killed(bench)
}

impl Bench {
    /// Takes out the one operation on `medium` that is asked for.
    fn asked(&mut self, on: MediumId) -> Io {
        assert_eq!(self.todo.len(), 1, "{:?}", self.todo);
        let io = self.todo.pop_front().expect("there is one");
        assert_eq!(io.at.first().on, on);
        io
    }

    /// Reads something of all pages but the first two, in whose stead they are kept in memory.
    fn reads_elsewhere(&mut self) {
        for page in 2..PAGES {
            assert_eq!(self.reads(page * PAGE, 1), [(page % 100) as u8 + 1]);
        }
    }
}

#[test]
fn pages_that_memory_loses_while_the_watcher_looks_are_read_again_and_nothing_is_shown_twice() {
    let (mut bench, mut puppet) = (large(), Puppet::default());
    puppet.needs = vec![Extent::new(0, 512), Extent::new(PAGE, 512)];
    bench.volume.watch(Box::new(puppet.clone()));
    let write = bench.ask(Op::Write(vec![7; BLOCK as usize].into()), 0, BLOCK);
    for _ in 0..2 {
        let page = bench.asked(MediumId::Map);
        bench.carry_out(page);
    }
    let first = bench.asked(MediumId::Data);
    bench.reads_elsewhere();
    bench.carry_out(first);
    assert_eq!(puppet.told.shown.load(Relaxed), 0x01);
    let page = bench.asked(MediumId::Map);
    assert_eq!(bench.replies.get(&write), None);
    bench.carry_out(page);
    bench.settle();
    assert!(bench.replies.remove(&write).is_some_and(|it| it.is_ok()));
    assert_eq!(puppet.told.shown.load(Relaxed), 0x0102);
    assert_eq!(bench.reads(0, BLOCK), [7; BLOCK as usize]);
}

#[test]
fn a_look_of_the_watcher_that_needs_a_damaged_page_ends_as_a_look_that_failed() {
    let (mut bench, puppet) = (large(), Puppet::default());
    bench.volume.watch(Box::new(puppet.clone()));
    puppet.asks.store(true, Relaxed);
    bench.tell(Event::Tick);
    let page = bench.asked(MediumId::Map);
    bench.tell(Event::Completed(page.id, Ok(Buf::from(vec![0xff; 4096]).into())));
    assert!(bench.latched.as_ref().is_some_and(|why| why.starts_with("the map: ")), "{:?}", bench.latched);
    assert_eq!(puppet.told.answers.load(Relaxed), 1);
}
