//! Whatever the head of a FAT or exFAT says, it is refused, or makes a layout
//! that is consistent; whatever a table says, what is linked over a history is
//! what a single look at its end shows, and a map shows its own blocks once.
#![no_main]
use libfuzzer_sys::fuzz_target;
use quietus_core::base::units::{Addr, Extent};
use quietus_detect::formats::format::{Contents, Format, Geometry, Kind, Probe, Prober};
use quietus_detect::formats::{exfat, fat};
use std::process::Command;
use std::sync::LazyLock;

mod names;

static IMAGES: LazyLock<Vec<(Prober, Vec<u8>)>> = LazyLock::new(images);
/// Boot sectors, tables and the head of the root directory lie before this; what lies behind
/// it is the same for all inputs.
const HEAD_BYTES: usize = 192 << 10;

fn images() -> Vec<(Prober, Vec<u8>)> {
    let fat = |args| (fat::probe as Prober, image("mkfs.vfat", 1440, args));
    let mut images = vec![fat(&["-F", "12", "-s", "4"][..]), fat(&["-F", "12", "-f", "1"])];
    images.push((fat::probe, image("mkfs.vfat", 4 << 10, &["-F", "16", "-s", "1"])));
    images.push((fat::probe, image("mkfs.vfat", 34 << 10, &["-F", "32", "-s", "1"])));
    images.push((exfat::probe, image("mkfs.exfat", 4 << 10, &["-b", "4096"])));
    images
}

fn image(program: &str, kib: u64, args: &[&str]) -> Vec<u8> {
    let path = std::env::temp_dir().join(format!("quietus-fuzz-{}.fat", std::process::id()));
    std::fs::File::create(&path).and_then(|it| it.set_len(kib << 10)).expect("a file can be made");
    let mut command = Command::new(program);
    command.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").env("SOURCE_DATE_EPOCH", "1");
    command.args(args).arg(&path).stdout(std::process::Stdio::null());
    assert!(command.status().expect("mkfs runs").success());
    let bytes = std::fs::read(&path).expect("mkfs made it");
    let _ = std::fs::remove_file(&path);
    bytes
}

/// An image, and what its head is replaced with.
#[derive(Clone)]
struct Disk<'a> {
    image: &'a [u8],
    head: Vec<u8>,
}

impl<'a> Disk<'a> {
    fn new(image: &'a [u8]) -> Self {
        Self { image, head: image[..image.len().min(HEAD_BYTES)].to_vec() }
    }

    fn bytes(&self) -> u64 {
        self.image.len() as u64
    }

    /// Replaces bytes: each five bytes of `patches` are a place (24 bits, modulo the
    /// head) and two bytes to put there.
    fn patch(&mut self, patches: &[u8]) {
        let len = self.head.len();
        for one in patches.chunks_exact(5) {
            let at = u32::from_le_bytes([one[0], one[1], one[2], 0]) as usize % len;
            self.head[at] = one[3];
            self.head[(at + 1) % len] = one[4];
        }
    }

    fn read(&self, at: Extent<Addr>) -> Vec<u8> {
        assert!(at.end() <= self.bytes(), "beyond the disk");
        let (from, to) = (at.start.0 as usize, at.end() as usize);
        let mut bytes = self.image[from..to].to_vec();
        let held = self.head.get(from..to.min(self.head.len())).unwrap_or_default();
        bytes[..held.len()].copy_from_slice(held);
        bytes
    }
}

fn probed(prober: Prober, disk: &Disk<'_>) -> Probe {
    let mut contents = Contents::default();
    for _ in 0..8 {
        let Probe::Needs(extents) = prober(disk.bytes(), &contents) else { break };
        extents.into_iter().for_each(|it| contents.insert(it.start, disk.read(it)));
    }
    prober(disk.bytes(), &contents)
}

fn check(format: &dyn Format, before: &Disk<'_>, after: &Disk<'_>) {
    let bytes = u64::from(format.block_bytes());
    assert!(u64::from(format.blocks()) * bytes <= before.bytes());
    let place = |block: u32| Extent::<Addr>::new(u64::from(block) * bytes, bytes);
    for block in format.survey(Kind::Geometry).into_iter().flatten() {
        assert_eq!(format.kind(block), Kind::Geometry);
        let [old, new] = [before, after].map(|it| it.read(place(block)));
        assert_eq!(format.geometry(block, &old, &old), Geometry::Same);
        format.geometry(block, &old, &new);
    }
    for block in format.survey(Kind::Map).into_iter().flatten().take(8) {
        assert_eq!(format.kind(block), Kind::Map);
        let [old, new] = [before, after].map(|it| it.read(place(block)));
        check_names(format, block, Kind::Map, &old, &new);
        let Ok(shown) = format.map(place(block), &new) else { continue };
        assert!(shown.windows(2).all(|pair| pair[0].blocks.end <= pair[1].blocks.start));
        assert!(shown.iter().all(|it| it.blocks.end <= format.blocks()));
    }
    for block in
        format.survey(Kind::Inodes).into_iter().flatten().filter(|it| format.kind(*it) == Kind::Inodes)
    {
        let [old, new] = [before, after].map(|it| it.read(place(block)));
        check_names(format, block, Kind::Inodes, &old, &new);
        check_names(format, format.blocks() - 1, Kind::Pointers(1), &old, &new);
    }
}

fn check_names(format: &dyn Format, block: u32, kind: Kind, old: &[u8], new: &[u8]) {
    names::check(format, (block, kind), [old, new], |kind| kind == Kind::Data);
}

fuzz_target!(|data: &[u8]| {
    let [sort, at, patches @ ..] = data else { return };
    let (prober, image) = &IMAGES[usize::from(*sort) % IMAGES.len()];
    let (first, second) = patches.split_at(usize::from(*at).min(patches.len()));
    let mut before = Disk::new(image);
    before.patch(first);
    if let Probe::Is(format) = probed(*prober, &before) {
        let mut after = before.clone();
        after.patch(second);
        check(&*format, &before, &after);
    }
});
