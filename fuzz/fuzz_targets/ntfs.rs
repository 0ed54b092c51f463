//! Whatever the head of an NTFS says, it is refused, or makes a layout that is
//! consistent; whatever records say, what is linked over a history is what a
//! single look at its end shows, and a map shows its own blocks once.
#![no_main]
use libfuzzer_sys::fuzz_target;
use quietus_core::base::units::Extent;
use quietus_detect::formats::format::{Contents, Format, Geometry, Kind, Probe};
use quietus_detect::formats::ntfs::probe;
use std::process::Command;
use std::sync::LazyLock;

mod names;

/// Images, and the bytes of each that matter: what is not all zeros or ones.
static IMAGES: LazyLock<Vec<(Vec<u8>, Vec<usize>)>> = LazyLock::new(images);

fn images() -> Vec<(Vec<u8>, Vec<usize>)> {
    let sorts: [&[&str]; 4] =
        [&["-c", "4096"], &["-c", "1024"], &["-c", "65536"], &["-s", "4096", "-c", "4096"]];
    sorts.into_iter().map(|args| image(4 << 10, args)).collect()
}

fn image(kib: u64, args: &[&str]) -> (Vec<u8>, Vec<usize>) {
    let directory = std::env::temp_dir();
    let [path, source] =
        ["ntfs", "file"].map(|it| directory.join(format!("quietus-fuzz-{}.{it}", std::process::id())));
    std::fs::File::create(&path).and_then(|it| it.set_len(kib << 10)).expect("a file can be made");
    let run = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").args(args).stdout(std::process::Stdio::null());
        assert!(command.status().expect("ntfsprogs run").success());
    };
    let (at, from) = (path.to_str().expect("a path"), source.to_str().expect("a path"));
    run("mkntfs", &[&["-q", "-Q", "-F", "-f"], args, &[at]].concat());
    for (name, len) in [("one", 90_000), ("two", 3000), ("three", 200_000)] {
        std::fs::write(&source, vec![b'q'; len]).expect("a file can be written");
        run("ntfscp", &["-q", at, from, name]);
    }
    let bytes = std::fs::read(&path).expect("mkntfs made it");
    let _ = (std::fs::remove_file(&path), std::fs::remove_file(&source));
    let places = places(&bytes);
    (bytes, places)
}

fn places(image: &[u8]) -> Vec<usize> {
    let format = found(image).expect("it is one");
    let len = format.block_bytes() as usize;
    let kinds = [Kind::Geometry, Kind::Inodes, Kind::Map];
    let blocks = kinds.into_iter().flat_map(|kind| format.survey(kind)).flatten();
    let matters = |at: &usize| image[*at] != 0 && image[*at] != 0xFF;
    blocks.flat_map(|it| it as usize * len..(it as usize + 1) * len).filter(matters).collect()
}

/// Replaces bytes: each four bytes of `patches` are a place (16 bits, of those that
/// matter), how far behind it, and what to put there.
fn patch(bytes: &mut [u8], places: &[usize], patches: &[u8]) {
    for one in patches.chunks_exact(4) {
        let place = places[usize::from(u16::from_le_bytes([one[0], one[1]])) % places.len()];
        let at = (place + usize::from(one[2] % 16)) % bytes.len();
        bytes[at] = one[3];
    }
}

fn found(image: &[u8]) -> Option<Box<dyn Format>> {
    let mut contents = Contents::default();
    for _ in 0..1024 {
        match probe(image.len() as u64, &contents) {
            Probe::Needs(extents) => extents.into_iter().for_each(|it| {
                assert!(it.end() <= image.len() as u64, "beyond the disk");
                contents.insert(it.start, image[it.start.0 as usize..it.end() as usize].to_vec());
            }),
            Probe::Is(format) => return Some(format),
            Probe::IsNot | Probe::Refused(_) => return None,
        }
    }
    panic!("it asks for ever")
}

fn check(format: &mut dyn Format, before: &[u8], after: &[u8]) {
    let bytes = u64::from(format.block_bytes());
    assert!(u64::from(format.blocks()) * bytes <= before.len() as u64);
    let of = |image, block: u32| -> &[u8] {
        let image: &[u8] = image;
        &image[block as usize * bytes as usize..][..bytes as usize]
    };
    for block in format.survey(Kind::Inodes).into_iter().flatten() {
        let (old, new) = (of(before, block), of(after, block));
        names::check(format, (block, Kind::Inodes), [old, new], |_| true);
        format.unknown(block, new);
    }
    for block in format.survey(Kind::Map).into_iter().flatten() {
        let Ok(shown) = format.map(Extent::new(u64::from(block) * bytes, bytes), of(after, block)) else {
            continue;
        };
        assert!(shown.windows(2).all(|pair| pair[0].blocks.end == pair[1].blocks.start));
        assert!(shown.iter().all(|it| it.blocks.end <= format.blocks()));
    }
    for block in format.survey(Kind::Geometry).into_iter().flatten() {
        assert_eq!(format.kind(block), Kind::Geometry);
        assert_eq!(format.geometry(block, of(before, block), of(before, block)), Geometry::Same);
        let inodes = format.survey(Kind::Inodes);
        if format.geometry(block, of(before, block), of(after, block)) != Geometry::Changed {
            let grew = format.learn(block, of(after, block));
            assert_eq!(grew, inodes != format.survey(Kind::Inodes));
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let [sort, at, patches @ ..] = data else { return };
    let (image, places) = &IMAGES[usize::from(*sort) % IMAGES.len()];
    let (first, second) = patches.split_at((usize::from(*at) * 4).min(patches.len()));
    let mut before = image.clone();
    patch(&mut before, places, first);
    if let Some(mut format) = found(&before) {
        let mut after = before.clone();
        patch(&mut after, places, second);
        check(&mut *format, &before, &after);
    }
});
