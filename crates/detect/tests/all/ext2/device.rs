//! A watcher above a journal's own device, as the standard tools make and use it.

use crate::ext2::image::Image;
use crate::ext2::watching::Scene;
use quietus_core::base::units::{Addr, Extent};
use quietus_core::watch::{Observer, Watcher};
use std::collections::BTreeSet;

/// A device in blocks of so many bytes.
fn device(name: &str, block_bytes: u32) -> Image {
    Image::new(name, 5_000, &["-b", &block_bytes.to_string(), "-O", "journal_dev"])
}

/// The device of 1 KiB blocks as it is once two transactions have been committed, of
/// three blocks each, and the tail stands at the second.
const SECOND: u32 = 7;
const BLOCK: u64 = 1024;

fn put(block: &mut [u8], at: usize, value: u32) {
    block[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn header(kind: u32, tid: u32) -> Vec<u8> {
    let mut block = vec![0; BLOCK as usize];
    for (at, value) in [(0, 0xC03B_3998), (4, kind), (8, tid)] {
        put(&mut block, at, value);
    }
    block
}

impl Scene {
    fn put(&mut self, block: u32, bytes: &[u8]) {
        self.write(Extent::new(u64::from(block) * BLOCK, BLOCK), Some(bytes));
        self.settle();
    }

    /// Transaction `tid`, which logs one block of some file, from `at` on.
    fn commit(&mut self, tid: u32, at: u32) {
        let mut descriptor = header(1, tid);
        put(&mut descriptor, 12, 1000);
        put(&mut descriptor, 16, 2 | 8);
        self.put(at, &descriptor);
        self.put(at + 1, &[7; BLOCK as usize]);
        self.put(at + 2, &header(2, tid));
    }

    /// Where the tail is, and of which transaction, by the journal's superblock.
    fn tail(&mut self, s_sequence: u32, s_start: u32) {
        let fields = [(0x18, s_sequence), (0x1C, s_start), (0x40, 1)];
        self.change(2, |bytes| fields.into_iter().for_each(|(at, value)| put(bytes, at, value)));
        self.settle();
    }

    fn state(&self) -> String {
        self.watch.status().state
    }
}

#[test]
fn an_empty_log_is_dead_from_its_first_block_on_and_nothing_else() {
    for (block_bytes, first) in [(1024, 3), (4096, 2)] {
        let mut scene = Scene::new(device(&format!("device_empty_{block_bytes}"), block_bytes));
        let status = scene.watch.status();
        assert_eq!(status.file_system.as_deref(), Some("external journal"));
        assert_eq!(status.state, "watching it");
        assert_eq!(scene.dead(), (first..scene.format.blocks()).collect::<BTreeSet<_>>());
        assert!(!scene.watch.agenda().is_working);
    }
}

/// Two transactions have come, and all that was dead before them is handed out.
fn two_transactions(name: &str) -> Scene {
    let mut scene = Scene::new(device(name, 1024));
    scene.tail(5, 4);
    scene.dead();
    scene.commit(5, 4);
    scene.commit(6, SECOND);
    assert_eq!(scene.dead(), BTreeSet::new(), "a replay reads both");
    scene
}

#[test]
fn a_device_that_is_made_anew_is_looked_at_anew() {
    let mut scene = two_transactions("device_anew");
    let again = device("device_again", 1024);
    for block in [1, 2] {
        scene.put(block, &again.block(&*scene.format, block));
    }
    scene.settle();
    assert_eq!(scene.state(), "watching it");
    assert_eq!(scene.dead(), (3..5_000).collect::<BTreeSet<_>>());
}

#[test]
fn a_device_whose_journal_is_gone_is_refused() {
    let mut scene = two_transactions("device_gone");
    scene.write(Extent::<Addr>::new(2 * BLOCK, BLOCK), None);
    scene.settle();
    assert!(scene.state().contains("has an invalid field: `h_magic`"), "{}", scene.state());
    assert_eq!(scene.dead(), BTreeSet::new());
}

#[test]
fn a_stop_keeps_what_is_known_unless_the_journal_was_written_meanwhile() {
    let mut scene = two_transactions("device_stopped");
    scene.restart();
    scene.tail(6, SECOND);
    assert_eq!(scene.dead(), (4..SECOND).collect::<BTreeSet<_>>());
    scene.tail(7, 0);
    scene.restart();
    assert_eq!(scene.dead(), (SECOND..SECOND + 3).collect::<BTreeSet<_>>());
    scene.restart();
    assert_eq!(scene.dead(), BTreeSet::new());
    scene.image.bytes[2 * BLOCK as usize + 0x1B] += 1;
    scene.restart();
    assert_eq!(scene.dead(), (3..5_000).collect::<BTreeSet<_>>());
}
