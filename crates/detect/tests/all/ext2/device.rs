//! A watcher above a journal's own device, as the standard tools make and use it.

use crate::ext2::image::Image;
use crate::ext2::watching::Scene;
use quietus_core::base::units::{Addr, Extent};
use quietus_core::watch::{Observer, Watcher};
use quietus_detect::formats::format::Format;
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

    /// The journal's superblock gets these fields.
    fn tell(&mut self, fields: &[(usize, u32)]) {
        let at = Extent::new(2 * BLOCK, BLOCK);
        let mut bytes = self.image.at(at).to_vec();
        fields.iter().for_each(|(at, value)| put(&mut bytes, *at, *value));
        self.put(2, &bytes);
    }

    /// Where the tail is, and of which transaction.
    fn tail(&mut self, s_sequence: u32, s_start: u32) {
        self.tell(&[(0x18, s_sequence), (0x1C, s_start), (0x40, 1)]);
    }

    fn state(&self) -> String {
        self.watch.status().state
    }
}

#[test]
fn an_empty_log_is_dead_from_its_first_block_on_and_nothing_else() {
    for (block_bytes, first) in [(1024, 3), (4096, 2)] {
        let image = device(&format!("device_empty_{block_bytes}"), block_bytes);
        let format = image.ext2();
        let mut scene = Scene::new(image);
        let status = scene.watch.status();
        assert_eq!(status.file_system.as_deref(), Some("external journal"));
        assert_eq!(status.state, "watching it");
        assert_eq!(scene.dead(&*format), (first..format.blocks()).collect::<BTreeSet<_>>());
        assert!(!scene.watch.agenda().is_working);
    }
}

/// Two transactions have come, and all that was dead before them is handed out.
fn two_transactions(name: &str) -> (Scene, Box<dyn Format>) {
    let image = device(name, 1024);
    let format = image.ext2();
    let mut scene = Scene::new(image);
    scene.tail(5, 4);
    scene.dead(&*format);
    scene.commit(5, 4);
    scene.commit(6, SECOND);
    assert_eq!(scene.dead(&*format), BTreeSet::new(), "a replay reads both");
    (scene, format)
}

#[test]
fn what_is_not_understood_turns_inference_off_by_name() {
    for (name, field, why) in [
        ("fast_commit", (0x28, 0x20), "features that are not understood: `fast_commit`"),
        ("users", (0x40, 2), "the journal serves 2 file systems"),
        ("first", (0x14, 2), "has an invalid field: `s_first` is 2"),
        ("blocks", (0xC, 4096), "has an invalid field: `s_blocksize` is 4096"),
    ] {
        let (mut scene, format) = two_transactions(&format!("device_refused_{name}"));
        scene.tell(&[field]);
        assert!(scene.state().contains(why), "{}", scene.state());
        scene.tell(&[(0x18, 7), (0x1C, 0)]);
        assert_eq!(scene.dead(&*format), BTreeSet::new());
        assert!(scene.state().contains(why), "{}", scene.state());
    }
}

#[test]
fn a_device_that_is_made_anew_is_looked_at_anew() {
    let (mut scene, _) = two_transactions("device_anew");
    let again = device("device_again", 1024);
    let format = again.ext2();
    for block in [1, 2] {
        scene.put(block, &again.block(&*format, block));
    }
    scene.settle();
    assert_eq!(scene.state(), "watching it");
    assert_eq!(scene.dead(&*format), (3..5_000).collect::<BTreeSet<_>>());
}

#[test]
fn a_device_whose_journal_is_gone_is_refused() {
    let (mut scene, format) = two_transactions("device_gone");
    scene.write(Extent::<Addr>::new(2 * BLOCK, BLOCK), None);
    scene.settle();
    assert!(scene.state().contains("has an invalid field: `h_magic`"), "{}", scene.state());
    assert_eq!(scene.dead(&*format), BTreeSet::new());
}

#[test]
fn a_stop_keeps_what_is_known_unless_the_journal_was_written_meanwhile() {
    let (mut scene, format) = two_transactions("device_stopped");
    scene.restart();
    scene.tail(6, SECOND);
    assert_eq!(scene.dead(&*format), (4..SECOND).collect::<BTreeSet<_>>());
    scene.tail(7, 0);
    scene.restart();
    assert_eq!(scene.dead(&*format), (SECOND..SECOND + 3).collect::<BTreeSet<_>>());
    scene.restart();
    assert_eq!(scene.dead(&*format), BTreeSet::new());
    scene.image.bytes[2 * BLOCK as usize + 0x1B] += 1;
    scene.restart();
    assert_eq!(scene.dead(&*format), (3..5_000).collect::<BTreeSet<_>>());
}
