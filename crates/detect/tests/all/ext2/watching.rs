//! A watcher above real file systems: what it calls dead, and what it makes of
//! tables of inodes that are cleared.

use crate::ext2::image::{Image, allocated, blocks, free};
use quietus_core::base::units::{Addr, Extent, Millis};
use quietus_core::watch::{
    Attached, Content, Moment, Observation, Observer, Scope, Verdict, WaitsFor, Watcher,
};
use quietus_detect::Watch;
use quietus_detect::formats::ext2::probe;
use quietus_detect::formats::format::{Format, Kind};
use quietus_detect::rules::options::Options;
use std::collections::BTreeSet;

/// An image, and the watcher above it.
pub struct Scene {
    pub image: Image,
    pub watch: Watch,
    /// The format of the image, as it was at first.
    pub format: Box<dyn Format>,
    options: Options,
    now: Millis,
}

impl Scene {
    pub fn new(image: Image) -> Self {
        Self::with(image, Options::default())
    }

    pub fn with(image: Image, options: Options) -> Self {
        let watch = Watch::new(image.bytes.len() as u64, vec![probe], options);
        let mut scene = Self { format: image.ext2(), image, watch, options, now: Millis(1) };
        scene.settle();
        scene
    }

    pub fn wait(&mut self, ms: u64) {
        self.now = Millis(self.now.0 + ms);
    }

    /// The server has stopped in order, and starts again.
    pub fn restart(&mut self) {
        let view = self.watch.view().unwrap();
        self.watch = Watch::new(self.image.bytes.len() as u64, vec![probe], self.options);
        self.watch.restore(view);
        self.settle();
    }

    fn observe(&mut self, observation: Observation<'_>) {
        self.watch.observe(Moment { now: self.now, clients: 1, attached: Attached::Direct }, observation);
    }

    /// Reads whatever is wanted, until the maps have been read too.
    pub fn settle(&mut self) {
        for _ in 0..4 {
            self.observe(Observation::Tick);
            while let Some(extent) = self.watch.wants() {
                let content = self.image.at(extent).to_vec();
                self.observe(Observation::Given { extent, content: Some(&content) });
            }
            self.wait(1000);
        }
    }

    /// The guest puts `bytes` at `extent`, or zeros for `None`.
    pub fn write(&mut self, extent: Extent<Addr>, bytes: Option<&[u8]>) {
        let content = bytes.map_or(Content::Zeros, Content::Bytes);
        self.observe(Observation::Arrived { extent, content });
        for old_extent in self.watch.needs(extent) {
            let old = self.image.at(old_extent).to_vec();
            self.observe(Observation::Overwriting { extent, content, old_extent, old: &old });
        }
        let place = &mut self.image.bytes[extent.start.0 as usize..extent.end() as usize];
        match bytes {
            Some(bytes) => place.copy_from_slice(bytes),
            None => place.fill(0),
        }
    }

    /// The guest writes a block of 1 KiB with a change of what lies there.
    pub fn change(&mut self, block: u32, change: impl FnOnce(&mut [u8])) {
        let mut bytes = self.image.at(place(block)).to_vec();
        change(&mut bytes);
        self.write(place(block), Some(&bytes));
    }

    /// The guest is refused what it would have put at `extent`, and the watcher had seen it coming.
    fn refuse(&mut self, extent: Extent<Addr>, bytes: Option<&[u8]>) {
        let before = self.image.bytes.clone();
        self.watch.take_suspicious(extent);
        self.write(extent, bytes);
        self.image.bytes = before;
        self.observe(Observation::Refused { extent, was_shown: true });
    }

    /// The blocks that are dead by durable evidence.
    pub fn dead(&mut self) -> BTreeSet<u32> {
        self.observe(Observation::Cut);
        self.observe(Observation::Proven);
        let mut dead = BTreeSet::new();
        let bytes = u64::from(self.format.block_bytes());
        while let Some((extent, verdict)) =
            self.watch.verdict(Scope { layers: true, all: false, is_busy: &|_| false })
        {
            if verdict != Verdict::Dead {
                continue;
            }
            dead.extend((extent.start.0 / bytes) as u32..(extent.end() / bytes) as u32);
        }
        dead
    }

    pub fn figure(&self, name: &str) -> u64 {
        self.watch.status().figures.into_iter().find(|it| it.0 == name).unwrap().1
    }
}

pub fn place(block: u32) -> Extent<Addr> {
    Extent::new(u64::from(block) * 1024, 1024)
}

/// Files in it, and groups whose maps were never written.
fn image(name: &str) -> Image {
    let args = ["-b", "1024", "-g", "1024", "-I", "256", "-O", "extent,metadata_csum,flex_bg,64bit"];
    let mut image = Image::new(name, 60_000, &args);
    let source = image.path.with_extension("source");
    std::fs::write(&source, vec![7; 300_000]).unwrap();
    image.debugfs(&format!("write {} one\nwrite {} two\n", source.display(), source.display()));
    image
}

#[test]
fn at_a_whole_file_system_all_that_is_free_is_dead() {
    let mut image = image("watched");
    let format = image.ext2();
    let expected = free(&image, &*format, 1 << 20);
    let bytes = 1024;
    let mut garbage = 0;
    for block in format.survey(Kind::Map).into_iter().flatten() {
        let map = &mut image.bytes[block as usize * bytes..][..bytes];
        if map.iter().all(|byte| *byte == 0) {
            map.fill(0x5A);
            garbage += 1;
        }
    }
    assert!(garbage > 10, "{garbage} maps were never written");
    let mut scene = Scene::new(image);
    assert_eq!(scene.watch.status().file_system.as_deref(), Some("ext4"));
    assert_eq!(scene.dead(), expected);
}

#[test]
fn what_a_map_shows_free_settles_and_waits_for_its_proof_and_then_for_its_names() {
    let mut scene = Scene::new(image("waiting"));
    scene.dead();
    assert_eq!(scene.watch.waiting().count(), 0);
    let named = blocks(&scene.image.links(&*scene.format));
    let data: Vec<u32> = named.into_iter().filter(|it| scene.format.kind(*it) == Kind::Data).collect();
    let (active, owned) = (data[0], data[data.len() - 1]);
    let (group, bit) = ((owned - 1) / 1024, (owned as usize - 1) % 1024);
    let map = scene.format.survey(Kind::Map).into_iter().flatten().nth(group as usize).unwrap();
    scene.change(map, |shown| shown[bit / 8] ^= 1 << (bit % 8));
    for waits_for in [WaitsFor::Settling, WaitsFor::Proof, WaitsFor::Names] {
        assert_eq!(scene.watch.waiting().collect::<Vec<_>>(), [(waits_for, place(owned))]);
        assert_eq!(scene.dead(), BTreeSet::new());
        for _ in 0..2 * Options::default().settle_ms / 1000 {
            scene.wait(1000);
            scene.write(place(active), Some(&[1; 1024]));
        }
    }
}

#[test]
fn zeros_in_place_of_inodes_take_their_names() {
    let mut scene = Scene::new(image("cleared"));
    let named = scene.figure("named by pointers");
    assert_eq!(named, allocated(&scene.image, &*scene.format).len() as u64);
    let never_used = scene.format.survey(Kind::Inodes).last().unwrap().end - 1;
    scene.write(place(never_used), None);
    assert_eq!(scene.figure("named by pointers"), named);
    let (of_a_file, ..) = scene.image.place_of(&*scene.format, 12);
    scene.write(place(of_a_file), None);
    let left = blocks(&scene.image.links(&*scene.format)).len() as u64;
    assert!(left + 293 <= named, "{left} of {named}");
    assert_eq!(scene.figure("named by pointers"), left);
    assert_eq!(scene.watch.status().state, "watching it");
}

#[test]
fn zeros_in_place_of_a_map_take_the_file_system() {
    let mut scene = Scene::new(image("trimmed"));
    let map = scene.image.ext2().survey(Kind::Map)[0].start;
    scene.write(place(map), None);
    assert_eq!(scene.watch.status().file_system, None);
}

/// The map that Linux makes for a group reaches the disk before the descriptor
/// that says so: what it calls allocated lives, also when the descriptor that
/// is read next still says that there is no map.
#[test]
fn a_map_ahead_of_its_descriptor_is_believed() {
    let mut scene = Scene::new(image("ahead"));
    let unwritten = scene.format.survey(Kind::Map).into_iter().flatten().rev();
    let is_zero = |block: &u32| scene.image.block(&*scene.format, *block).iter().all(|byte| *byte == 0);
    let map = unwritten.into_iter().find(is_zero).unwrap();
    let at = place(map);
    let shown = scene.format.map_at_rest(at, &[0; 1024]).unwrap();
    let block = shown.iter().find(|part| !part.allocated).unwrap().blocks.start;
    let mut bits = vec![0; 1024];
    let first = shown[0].blocks.start;
    (first..=block).for_each(|it| bits[(it - first) as usize / 8] |= 1 << ((it - first) % 8));
    bits[128..].fill(0xFF);
    scene.write(place(block), Some(&[9; 1024]));
    scene.wait(5000);
    scene.write(at, Some(&bits));
    let dead = scene.dead();
    assert!(!dead.contains(&block) && dead.contains(&(block + 1)));
}

#[test]
fn data_that_was_refused_is_destroyed_before_it_comes_again() {
    let mut scene = Scene::new(image("refused_data"));
    let named = blocks(&scene.image.links(&*scene.format));
    let owned = named.into_iter().rfind(|it| scene.format.kind(*it) == Kind::Data).unwrap();
    assert_eq!(scene.watch.take_suspicious(place(owned)), []);
    scene.refuse(place(owned), Some(&[9; 1024]));
    assert_eq!(scene.watch.status().state, "watching it");
    assert_eq!(scene.watch.take_suspicious(place(owned)), [place(owned)]);
}

#[test]
fn a_map_that_was_refused_proves_nothing_and_settles_once_it_has_come_again() {
    let mut scene = Scene::new(image("refused_map"));
    let block = *scene.dead().last().unwrap();
    let map = scene.format.survey(Kind::Map).into_iter().flatten().nth((block as usize - 1) / 1024).unwrap();
    let shown = scene.image.at(place(map)).to_vec();
    scene.write(place(block), Some(&[9; 1024]));
    scene.refuse(place(block), None);
    scene.be_active();
    scene.refuse(place(map), Some(&shown));
    scene.be_active();
    assert_eq!(scene.dead(), BTreeSet::new());
    scene.write(place(map), Some(&shown));
    assert_eq!(scene.dead(), BTreeSet::new(), "it may be as old as it was");
    scene.be_active();
    assert_eq!(scene.dead(), BTreeSet::from([block]));
}

#[test]
fn names_that_were_refused_are_counted_anew() {
    let mut scene = Scene::new(image("refused_names"));
    let named = scene.figure("named by pointers");
    let (of_a_file, ..) = scene.image.place_of(&*scene.format, 12);
    scene.refuse(place(of_a_file), Some(&[0; 1024]));
    scene.settle();
    assert_eq!(scene.figure("named by pointers"), named);
    scene.write(place(of_a_file), Some(&[0; 1024]));
    assert!(scene.figure("named by pointers") + 293 <= named);
}

#[test]
fn a_mark_that_was_refused_is_looked_for_again() {
    let mut scene = Scene::new(image("refused_mark"));
    let mut bytes = scene.image.at(place(1)).to_vec();
    bytes[0x3A] ^= 1;
    scene.refuse(place(1), Some(&bytes));
    assert_eq!(scene.watch.status().file_system, None);
    scene.settle();
    assert_eq!(scene.watch.status().state, "watching it");
    let same = scene.image.at(place(1)).to_vec();
    scene.refuse(place(1), Some(&same));
    assert_eq!(scene.watch.status().state, "searching it", "it meant nothing, and may have held names");
}

/// A file system with an external journal, and the blocks of one file.
fn image_with_external_journal(name: &str) -> (Image, BTreeSet<u32>) {
    let mut image = Image::new(name, 8000, &["-b", "1024"]);
    let source = image.path.with_extension("source");
    std::fs::write(&source, vec![7; 9000]).unwrap();
    let told = "feature has_journal\nset_super_value journal_dev 2049\nset_super_value journal_uuid random\n";
    image.debugfs(&format!("write {} doomed\n{told}", source.display()));
    let printed = image.debugfs("blocks doomed\n");
    let line = printed.lines().find(|it| it.starts_with(|first: char| first.is_ascii_digit())).unwrap();
    let blocks = line.split_whitespace().map(|it| it.parse().unwrap()).collect();
    (image, blocks)
}

impl Scene {
    /// The superblock says that it is in use, and was mounted so often.
    fn in_use(&mut self, mounts: u8) {
        self.change(1, |bytes| (bytes[0x60], bytes[0x34]) = (bytes[0x60] | 4, mounts));
    }

    /// The guest deletes the only file that there is.
    fn delete(&mut self, blocks: &BTreeSet<u32>) {
        let inode = 11 + 1;
        let table = self.format.survey(Kind::Inodes)[0].start + inode / 8;
        self.change(table, |inodes| inodes[(inode as usize - 1) % 8 * 128..][..128].fill(0));
        let map = self.format.survey(Kind::Map)[0].start;
        self.change(map, |bits| {
            blocks.iter().map(|it| *it as usize - 1).for_each(|bit| bits[bit / 8] &= !(1 << (bit % 8)));
        });
    }

    /// The guest is active for longer than it takes to settle.
    pub fn be_active(&mut self) {
        for _ in 0..140 {
            self.wait(1000);
            self.write(place(7000), Some(&[1; 1024]));
        }
    }
}

#[test]
fn above_an_external_journal_that_may_be_replayed_maps_do_not_count() {
    let (image, blocks) = image_with_external_journal("mount_not_observed");
    let mut scene = Scene::new(image);
    scene.in_use(1);
    scene.observe(Observation::Read(place(1)));
    assert!(scene.watch.status().state.contains("nothing is called dead: its journal is external"));
    scene.delete(&blocks);
    scene.be_active();
    assert!(scene.dead().is_disjoint(&blocks));
    scene.change(1, |bytes| bytes[0x60] &= !4);
    scene.settle();
    assert!(scene.dead().is_superset(&blocks));
}
