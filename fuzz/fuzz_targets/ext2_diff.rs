//! Whatever inodes, pointers and maps say: what is linked over a history is
//! what a single look at its end shows, and a map shows its own blocks once.
#![no_main]
use libfuzzer_sys::fuzz_target;
use names::Names;
use quietus_core::base::units::Extent;
use quietus_detect::formats::format::{Change, Format, Kind, Probe, Reason, Shown};

mod ext2;
mod names;

struct Seeds(Vec<(Vec<u8>, Box<dyn Format>)>);

// The fuzzer has one thread.
thread_local! {
    static SEEDS: Seeds = seeds();
}

fn seeds() -> Seeds {
    let with_format = |image: Vec<u8>| match ext2::probe_all(&image) {
        Probe::Is(format) => (image, format),
        other => panic!("{other:?}"),
    };
    Seeds(ext2::images().into_iter().map(with_format).collect())
}

fn check_names(format: &dyn Format, block: u32, kind: Kind, old: &[u8], new: &[u8]) {
    let is_data = |kind: Kind| kind == Kind::Data;
    let mut look = names::check(format, (block, kind), [old, new], is_data);
    let mut sight = Names::new();
    for change in format.pointers(block, kind, new) {
        let Change::Linked(link) = change else { panic!("nothing was there before: {change:?}") };
        link.blocks.for_each(|at| *sight.entry((at, link.kind)).or_default() += 1);
    }
    assert_eq!(sight, look);
    let nothing = vec![0; new.len()];
    names::count(format, (block, kind), [new, &nothing], &mut look, is_data);
    assert_eq!(look, Names::new());
}

fn check_map(format: &dyn Format, at: Extent<quietus_core::base::units::Addr>, bytes: &[u8]) {
    check_shown(format, format.map(at, bytes));
    check_shown(format, format.map_at_rest(at, bytes));
}

fn check_shown(format: &dyn Format, shown: Result<Vec<Shown>, Reason>) {
    let Ok(shown) = shown else { return };
    assert!(shown.windows(2).all(|pair| pair[0].blocks.end == pair[1].blocks.start));
    assert!(shown.windows(2).all(|pair| pair[0].allocated != pair[1].allocated));
    for block in shown.into_iter().filter(|part| !part.allocated).flat_map(|part| part.blocks) {
        assert_eq!(format.kind(block), Kind::Data);
    }
}

fn check(image: &[u8], format: &dyn Format, level: u8, at: u8, data: &[u8]) {
    let bytes = u64::from(format.block_bytes());
    let block = u32::from(at) % format.blocks();
    let extent = Extent::new(u64::from(block) * bytes, bytes);
    let seed = ext2::at(image, extent).expect("it ends within the disk");
    let (first, second) = data.split_at(data.len() / 2 / 4 * 4);
    let mut old = seed.to_vec();
    ext2::patch(&mut old, first);
    let mut new = old.clone();
    ext2::patch(&mut new, second);
    match format.kind(block) {
        Kind::Map => check_map(format, extent, &new),
        Kind::Data => check_names(format, block, Kind::Pointers(level % 0x18), &old, &new),
        kind => check_names(format, block, kind, &old, &new),
    }
}

fuzz_target!(|data: &[u8]| {
    let [sort, level, at, patches @ ..] = data else { return };
    SEEDS.with(|seeds| {
        let (image, format) = &seeds.0[usize::from(*sort) % seeds.0.len()];
        check(image, &**format, *level, *at, patches);
    });
});
