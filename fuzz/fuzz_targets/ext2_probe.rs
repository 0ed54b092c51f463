//! Whatever a superblock and descriptors say, they are refused, or make a
//! layout that is consistent.
#![no_main]
use libfuzzer_sys::fuzz_target;
use quietus_core::base::units::Extent;
use quietus_detect::formats::format::{Format, Geometry, Kind, Probe};
use std::sync::LazyLock;

mod ext2;

static IMAGES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(ext2::images);
/// Superblock and descriptors lie before this.
const HEAD_BYTES: usize = 12 << 10;

fn check(format: &mut dyn Format, image: &[u8]) {
    let bytes = u64::from(format.block_bytes());
    assert!(u64::from(format.blocks()) * bytes <= image.len() as u64);
    let mut known = 0;
    for kind in [Kind::Geometry, Kind::Map, Kind::Inodes, Kind::Fixed] {
        let ranges = format.survey(kind);
        assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
        for block in ranges.into_iter().flatten() {
            assert_eq!(format.kind(block), kind);
            known += 1;
            let at = Extent::new(u64::from(block) * bytes, bytes);
            let content = ext2::at(image, at).expect("it ends within the disk");
            use_block(format, block, at, content);
        }
    }
    let data = (0..format.blocks()).filter(|block| format.kind(*block) == Kind::Data).count();
    assert_eq!(data + known, format.blocks() as usize);
}

fn use_block(format: &mut dyn Format, block: u32, at: Extent<quietus_core::base::units::Addr>, content: &[u8]) {
    match format.kind(block) {
        Kind::Geometry => {
            assert_eq!(format.geometry(block, content, content), Geometry::Same);
            format.geometry(block, &vec![0; content.len()], content);
            format.learn(block, content);
        }
        Kind::Map => {
            let _ = format.map(at, content);
            let _ = format.map_at_rest(at, content);
        }
        kind => {
            format.diff(block, kind, &vec![0; content.len()], content);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((sort, patches)) = data.split_first() else { return };
    let mut image = IMAGES[usize::from(*sort) % IMAGES.len()].clone();
    ext2::patch(&mut image[..HEAD_BYTES], patches);
    if let Probe::Is(mut format) = ext2::probe_all(&image) {
        check(&mut *format, &image);
    }
});
