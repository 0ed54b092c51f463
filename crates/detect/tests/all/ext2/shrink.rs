//! What a real file system leaves behind its end when `resize2fs` makes it smaller.

use crate::ext2::image::{Image, run};
use crate::ext2::watching::{Scene, place};
use quietus_core::base::units::Extent;
use quietus_core::watch::{Observer, WaitsFor, Watcher};
use std::collections::BTreeSet;

const BEFORE: u32 = 60_000;
const AFTER: u32 = 30_000;

/// A file system with a file in its last part, and the bytes that it has once it is smaller.
fn shrunk(name: &str, args: &[&str]) -> (Image, Vec<u8>) {
    let mut image = Image::new(name, BEFORE, &[&["-b", "1024"], args].concat());
    let source = image.path.with_extension("source");
    std::fs::write(&source, vec![7; 20 << 20]).unwrap();
    image.debugfs(&format!("write {} file\n", source.display()));
    let before = image.bytes.clone();
    run("resize2fs", &["-f", image.path.to_str().unwrap(), &format!("{AFTER}k")]);
    image.reread();
    let mut after = std::mem::replace(&mut image.bytes, before);
    after.resize(image.bytes.len(), 0);
    (image, after)
}

impl Scene {
    /// A tool writes whatever differs, the superblock last; nothing behind the new end.
    fn becomes(&mut self, after: &[u8]) {
        let differs = |block: &u32| {
            let at = *block as usize * 1024;
            self.image.bytes[at..at + 1024] != after[at..at + 1024]
        };
        let blocks: Vec<u32> = (2..AFTER).chain([1]).filter(differs).collect();
        for block in blocks {
            self.write(place(block), Some(&after[block as usize * 1024..][..1024]));
        }
        self.settle();
    }

    fn is_mounted(&mut self) {
        self.change(1, |bytes| {
            (bytes[0x3A], bytes[0x34], bytes[0x60]) = (0, bytes[0x34] + 1, bytes[0x60] | (bytes[0x5C] & 4));
        });
    }

    fn waits_for(&self, cause: WaitsFor) -> u64 {
        self.watch.waiting().filter(|it| it.0 == cause).map(|it| it.1.len >> 10).sum()
    }
}

#[test]
fn what_a_smaller_file_system_gave_up_dies_once_it_is_mounted_but_for_what_was_written_there() {
    for (name, args) in [("shrunk", &["-O", "extent"][..]), ("shrunk_journal", &["-j", "-O", "extent"])] {
        let (image, after) = shrunk(name, args);
        let mut scene = Scene::new(image);
        scene.dead();
        // Something else takes a part, before and after the end moves.
        scene.write(place(BEFORE - 1), Some(&[5; 1024]));
        scene.becomes(&after);
        assert_eq!(scene.watch.status().figures[0].1, u64::from(AFTER));
        scene.write(place(BEFORE - 2), Some(&[5; 1024]));
        assert_eq!(scene.waits_for(WaitsFor::Mount), u64::from(BEFORE - AFTER - 2));
        assert_eq!(scene.waits_for(WaitsFor::Owner), 2);
        let behind = |dead: BTreeSet<u32>| dead.into_iter().filter(|it| *it >= AFTER).collect::<Vec<_>>();
        assert_eq!(behind(scene.dead()), [0_u32; 0], "{name}");
        scene.is_mounted();
        assert_eq!(behind(scene.dead()), (AFTER..BEFORE - 2).collect::<Vec<_>>(), "{name}");
        assert_eq!(scene.waits_for(WaitsFor::Mount), 0);
        assert_eq!(behind(scene.dead()), [0_u32; 0]);
    }
}

#[test]
fn a_file_system_that_grows_again_keeps_what_it_had_given_up() {
    let (image, after) = shrunk("grown", &["-O", "extent"]);
    let before = image.bytes.clone();
    let mut scene = Scene::new(image);
    scene.dead();
    scene.becomes(&after);
    scene.becomes(&before);
    assert_eq!(scene.waits_for(WaitsFor::Mount) + scene.waits_for(WaitsFor::Owner), 0);
    scene.is_mounted();
    let named = crate::ext2::image::blocks(&scene.image.links(&*scene.format));
    assert!(scene.dead().is_disjoint(&named));
}

#[test]
fn another_file_system_with_a_nearer_end_proves_nothing_and_what_lies_behind_it_is_named() {
    let (image, mut after) = shrunk("other", &["-O", "extent"]);
    after[1024 + 0x68] ^= 1;
    let mut scene = Scene::new(image);
    scene.dead();
    scene.becomes(&after);
    assert_eq!(scene.waits_for(WaitsFor::Owner), u64::from(BEFORE - AFTER));
    scene.is_mounted();
    assert!(scene.dead().iter().all(|it| *it < AFTER));
    let behind = Extent::between(u64::from(AFTER) << 10, u64::from(BEFORE) << 10);
    assert!(scene.watch.waiting().any(|it| it == (WaitsFor::Owner, behind)));
}
