//! Marks of real file systems: `s` on a folder makes all that lies below it sensitive, and nothing else.

mod hostile;

use crate::ext2::image::{Image, blocks, free};
use crate::ext2::watching::{Scene, place};
use quietus_core::base::units::Extent;
use quietus_core::watch::{Class, Observer, Watcher};
use quietus_detect::formats::format::Kind;
use quietus_detect::rules::options::{Options, Sensitive};
use std::collections::BTreeSet;

fn marked() -> Options {
    Options { sensitive: Sensitive::Marked, ..Options::default() }
}

/// A folder `secret`, which is marked if `is_marked`, with a file, a deep folder, a link with a long target, and a file
/// with attributes; and a file `open` outside.
fn image(name: &str, is_marked: bool, args: &[&str]) -> Image {
    let mut image = Image::new(name, 20_000, &[&["-b", "1024"], args].concat());
    let source = image.path.with_extension("source");
    std::fs::write(&source, vec![7; 700_000]).unwrap();
    let (source, target) = (source.display(), "t".repeat(100));
    let mut script = format!(
        "mkdir secret\nmkdir secret/deep\nwrite {source} secret/one\nwrite {source} secret/deep/two\n\
         write {source} open\nsymlink secret/link {target}\nea_set secret/one user.a {target}\n"
    );
    if is_marked {
        let has_extents = args.iter().any(|it| it.ends_with(",extent"));
        let flags = if has_extents { "0x80001" } else { "1" };
        script.push_str(&format!("set_inode_field secret flags {flags}\n"));
    }
    image.debugfs(&script);
    image
}

fn ext2(name: &str, is_marked: bool) -> Image {
    image(name, is_marked, &["-I", "128", "-O", "ext_attr"])
}

impl Scene {
    fn inode(&mut self, path: &str) -> u32 {
        let printed = self.image.debugfs(&format!("stat {path}\n"));
        let number = printed.split("Inode:").nth(1).unwrap().split_whitespace().next().unwrap();
        number.parse().unwrap()
    }

    /// The blocks of a file.
    fn of(&mut self, path: &str) -> BTreeSet<u32> {
        let inode = self.inode(path);
        blocks(&self.image.links_of(&*self.format, inode))
    }

    fn class(&self, block: u32) -> Class {
        match self.watch.classes(place(block))[..] {
            [(at, class)] if at == place(block) => class,
            ref other => panic!("{other:?}"),
        }
    }

    fn classes(&self, blocks: &BTreeSet<u32>) -> BTreeSet<Class> {
        blocks.iter().map(|block| self.class(*block)).collect()
    }

    /// Lets as much time pass, with `block` being written, as the guest takes to write everything.
    fn pass(&mut self, block: u32) {
        for _ in 0..2 * Options::default().settle_ms / 1000 + 1 {
            self.wait(1000);
            self.write(place(block), Some(&[1; 1024]));
        }
    }

    /// Changes the inode at `path` on the disk.
    fn rewrite(&mut self, path: &str, change: impl Fn(&mut [u8])) {
        let (table, at, len) = self.place_of(path);
        self.change(table, |inodes| change(&mut inodes[at..at + len]));
        self.settle();
    }

    fn place_of(&self, path: &str) -> (u32, usize, usize) {
        self.image.place_of(&*self.format, self.image.inode_of(path))
    }

    fn is(&mut self, path: &str, class: Class) {
        let of = self.of(path);
        assert_eq!(self.classes(&of), BTreeSet::from([class]), "{path}");
    }

    /// All that lies in the marked folder is sensitive. Returns how many blocks that is.
    fn secret_blocks(&mut self) -> u64 {
        let of = |path| {
            self.is(path, Class::Sensitive);
            self.of(path).len() as u64
        };
        SECRET.into_iter().map(of).sum()
    }

    fn frees(&mut self, block: u32) {
        let maps: Vec<u32> = self.format.survey(Kind::Map).into_iter().flatten().collect();
        let bit = (block as usize - 1) % 8192;
        self.change(maps[(block as usize - 1) / 8192], |shown| shown[bit / 8] &= !(1 << (bit % 8)));
    }
}

/// Where an inode has its flags.
const FLAGS_AT: usize = 0x20;
const SECRET: [&str; 5] = ["secret", "secret/one", "secret/deep", "secret/deep/two", "secret/link"];

#[test]
fn everything_below_a_marked_folder_is_sensitive_and_nothing_else() {
    let mut scene = Scene::with(ext2("marks", true), marked());
    let mut open = scene.of("open");
    assert_eq!(scene.classes(&open), BTreeSet::from([Class::Unsettled]));
    let active = open.pop_last().unwrap();
    scene.pass(active);
    assert_eq!(scene.classes(&open), BTreeSet::from([Class::Plain]));
    let all = scene.secret_blocks();
    assert_eq!((scene.figure("marked inodes"), scene.figure("marked blocks")), (5, all));
    let (table, ..) = scene.image.place_of(&*scene.format, 12);
    assert_eq!(scene.class(table), Class::Sensitive);
    let free = free(&scene.image, &*scene.format, 1 << 20);
    assert_eq!(scene.classes(&free), BTreeSet::from([Class::Unsettled]));
    assert_eq!(scene.dead(), free);
    let state = scene.watch.status().state;
    assert!(state.contains("names left in live folders"), "{state}");
}

#[test]
fn without_a_mark_nothing_dies_and_nothing_is_kept() {
    let mut scene = Scene::with(ext2("no-marks", false), marked());
    let all: BTreeSet<u32> = (0..scene.format.blocks()).collect();
    assert_eq!(scene.classes(&all), BTreeSet::from([Class::Plain]));
    assert_eq!(scene.dead(), BTreeSet::new());
    assert_eq!(scene.watch.waiting().count(), 0);
    assert_eq!(scene.watch.agenda().unproven_since, None);
    let free = free(&scene.image, &*scene.format, 1 << 20);
    let block = *free.first().unwrap();
    scene.write(place(block), Some(&[1; 1024]));
    assert_eq!((scene.class(block), scene.figure("unsettled blocks")), (Class::Plain, 0));
    assert_eq!(scene.watch.take_suspicious(place(block)), []);
}

#[test]
fn pointers_that_were_written_over_are_read_again_on_a_disk_with_nothing_else_to_do() {
    let mut scene = Scene::with(ext2("read-again", true), marked());
    scene.dead();
    let inode = scene.inode("open");
    let links = scene.image.links_of(&*scene.format, inode);
    let pointers = links.iter().find(|link| matches!(link.kind, Kind::Pointers(1))).unwrap().blocks.start;
    let active = *blocks(&links).last().unwrap();
    scene.pass(active);
    assert!(!scene.watch.agenda().is_working);
    let content = scene.image.at(place(pointers)).to_vec();
    scene.write(place(pointers), Some(&content));
    assert!(
        !scene.watch.agenda().is_working,
        "nothing can be learned from a read before its owner would have written it"
    );
    scene.pass(active);
    assert!(scene.watch.agenda().is_working, "who asks only then would never read it");
    scene.settle();
    assert!(!scene.watch.agenda().is_working);
}

#[test]
fn sensitive_content_stays_so_when_its_file_is_gone_until_it_is_destroyed() {
    let mut scene = Scene::with(ext2("taken-back", true), marked());
    scene.dead();
    let one = scene.of("secret/one");
    scene.rewrite("secret/one", |inode| inode[..128].fill(0));
    assert_eq!(scene.classes(&one), BTreeSet::from([Class::Sensitive]));
    assert_eq!(scene.figure("marked inodes"), 4);
    let block = *one.first().unwrap();
    assert_eq!(scene.watch.take_suspicious(place(block)), [place(block)]);
    scene.write(place(block), Some(&[2; 1024]));
    assert_eq!(scene.class(block), Class::Unsettled);
}

#[test]
fn a_clean_stop_keeps_the_classes() {
    let mut scene = Scene::with(ext2("kept", true), marked());
    let active = *scene.of("open").last().unwrap();
    scene.pass(active);
    let all: Vec<u32> = (0..scene.format.blocks()).collect();
    let before: Vec<Class> = all.iter().map(|block| scene.class(*block)).collect();
    let figures = ["marked inodes", "marked blocks", "unsettled blocks"];
    let counted = figures.map(|name| scene.figure(name));
    scene.restart();
    assert_eq!(all.iter().map(|block| scene.class(*block)).collect::<Vec<_>>(), before);
    assert_eq!(figures.map(|name| scene.figure(name)), counted);
    assert!(before.contains(&Class::Plain) && before.contains(&Class::Sensitive));
}

#[test]
fn where_marks_are_not_followed_everything_is_sensitive() {
    let mut scene = Scene::with(image("marks-inline", true, &["-I", "256", "-O", "inline_data"]), marked());
    let all = Extent::new(0, u64::from(scene.format.blocks()) * 1024);
    assert_eq!(scene.watch.classes(all), [(all, Class::Sensitive)]);
    let state = scene.watch.status().state;
    assert!(state.contains("everything counts as sensitive"), "{state}");
    let free = free(&scene.image, &*scene.format, 1 << 20);
    assert!(scene.dead().is_superset(&free));
}

#[test]
fn below_a_journal_what_lies_in_a_marked_folder_is_sensitive() {
    for (name, args) in
        [("indirect", "ext_attr,has_journal,^extent"), ("extents", "ext_attr,has_journal,extent")]
    {
        let mut scene =
            Scene::with(image(&format!("journal-{name}"), true, &["-I", "256", "-O", args]), marked());
        let all = scene.secret_blocks();
        assert_eq!(scene.figure("marked blocks"), all, "{name}");
        // Another file may have had its blocks before it, and nothing tells.
        let open = scene.of("open");
        assert_eq!(scene.classes(&open), BTreeSet::from([Class::Unsettled]), "{name}");
        let free = free(&scene.image, &*scene.format, 1 << 20);
        assert_eq!(scene.classes(&free), BTreeSet::from([Class::Unsettled]), "{name}");
        assert!(scene.dead().is_superset(&free), "{name}");
    }
}

#[test]
fn below_a_journal_nothing_dies_until_a_file_has_a_mark() {
    let mut scene = Scene::with(
        image("journal-unmarked", false, &["-I", "256", "-O", "ext_attr,has_journal,extent"]),
        marked(),
    );
    let all: BTreeSet<u32> = (0..scene.format.blocks()).collect();
    assert_eq!(scene.classes(&all), BTreeSet::from([Class::Plain]));
    assert_eq!(scene.dead(), BTreeSet::new());
    let state = scene.watch.status().state;
    assert!(state.ends_with("no file has a mark: nothing has to be destroyed"), "{state}");
    scene.rewrite("secret", |inode| inode[FLAGS_AT] |= 1);
    scene.secret_blocks();
    // The tool may have written anything.
    scene.is("open", Class::Unsettled);
}

#[test]
fn classes_cover_all_of_an_extent() {
    let scene = Scene::with(ext2("covered", true), marked());
    let all = Extent::new(512, scene.image.bytes.len() as u64 + 9000);
    let runs = scene.watch.classes(all);
    assert_eq!((runs[0].0.start, runs.last().unwrap().0.end()), (all.start, all.end()));
    assert!(runs.windows(2).all(|it| it[0].0.end() == it[1].0.start.0 && it[0].1 != it[1].1));
    assert_eq!(runs.last().unwrap().1, Class::Sensitive);
}
