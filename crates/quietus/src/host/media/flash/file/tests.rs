use super::*;
use quietus_flash::chip::timing::SLC;
use std::os::unix::fs::MetadataExt;

/// Small, so that every byte of a file can be changed.
const KIND: ChipKind = ChipKind {
    page_bytes: 2048,
    spare_bytes: 64,
    block_pages: 4,
    correctable_bits: 4,
    read_us: SLC.read_us,
    program_us: SLC.program_us,
    erase_us: SLC.erase_us,
    endurance: 100,
};
const BLOCKS: u32 = 8;

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("chip")
    }

    fn create(&self, kind: ChipKind, faults: Faults) -> FileChip {
        FileChip::create(&self.path(), kind, BLOCKS, faults).expect("a chip")
    }

    fn open(&self, faults: Faults) -> FileChip {
        FileChip::open(&self.path(), faults).expect("a chip")
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.path()).expect("a file")
    }

    /// Why the file, with these bytes, is refused.
    fn refused(&self, bytes: &[u8]) -> String {
        std::fs::write(self.path(), bytes).expect("a file");
        let error = FileChip::open(&self.path(), Faults::default()).expect_err("it is damaged").to_string();
        assert!(error.contains(&self.path().display().to_string()), "{error}");
        error
    }
}

fn cut(changes: u64) -> Faults {
    Faults { fuse: Some(Fuse { changes, end: || {} }), nature: None }
}

fn filled(byte: u8) -> Vec<u8> {
    vec![byte; 2048]
}

fn read(chip: &mut FileChip, page: u32) -> Result<(Reading, u8), NandError> {
    let mut into = filled(0);
    chip.read(Page(page), &mut into).map(|reading| (reading, into[0]))
}

fn holds(bytes: &[u8], byte: u8) -> bool {
    bytes.windows(8).any(|window| window == [byte; 8])
}

#[test]
fn a_page_reads_as_programmed_until_its_block_is_erased_and_the_file_then_holds_nothing_of_it() {
    let place = Place::new();
    let mut chip = place.create(KIND, Faults::default());
    assert_eq!(read(&mut chip, 4), Ok((Reading::Blank, 0xff)));
    chip.program(Page(4), &filled(0xa7)).expect("a program");
    chip.program(Page(5), &filled(0xa8)).expect("a program");
    drop(chip);
    let mut chip = place.open(Faults::default());
    assert_eq!(read(&mut chip, 4), Ok((Reading::Good, 0xa7)));
    assert_eq!(read(&mut chip, 5), Ok((Reading::Good, 0xa8)));
    assert_eq!(read(&mut chip, 6), Ok((Reading::Blank, 0xff)));
    assert!(holds(&place.bytes(), 0xa7));
    chip.erase(EraseBlock(1)).expect("an erase");
    assert_eq!(read(&mut chip, 4), Ok((Reading::Blank, 0xff)));
    assert!(!holds(&place.bytes(), 0xa7) && !holds(&place.bytes(), 0xa8));
    let micros = 5 * SLC.read_us + 2 * SLC.program_us + SLC.erase_us;
    let counts = Counts { reads: 5, programs: 2, erases: 1, micros };
    assert_eq!((chip.counts(), chip.erases()[1]), (counts, 1));
    drop(chip);
    assert_eq!(place.open(Faults::default()).counts(), counts);
}

#[test]
fn what_no_chip_allows_is_an_error_and_changes_nothing() {
    let place = Place::new();
    let mut chip = place.create(KIND, Faults::default());
    chip.program(Page(0), &filled(1)).expect("a program");
    chip.mark_bad(EraseBlock(2)).expect("a mark");
    let before = place.bytes();
    for (page, bytes, what) in [
        (0, 2048, "page 1 is next"),
        (2, 2048, "page 1 is next"),
        (1, 2047, "page 1 is next"),
        (8, 2048, "marked bad"),
        (32, 2048, "block 8 of 8"),
        (u32::MAX, 2048, "of 8 blocks"),
    ] {
        let error = chip.program(Page(page), &filled(2)[..bytes]).expect_err(what).to_string();
        assert!(error.contains(what), "{error}");
    }
    assert!(chip.erase(EraseBlock(2)).is_err() && chip.erase(EraseBlock(8)).is_err());
    assert_eq!((chip.is_bad(EraseBlock(2)), chip.is_bad(EraseBlock(1))), (Ok(true), Ok(false)));
    assert_eq!(place.bytes(), before);
    chip.program(Page(1), &filled(2)).expect("the chip goes on");
}

#[test]
fn a_process_that_is_killed_before_it_notes_a_program_leaves_nothing_that_an_erase_spares() {
    let place = Place::new();
    let mut chip = place.create(KIND, Faults::default());
    let entry = Head::entry_at(0);
    let mut before = [0; ENTRY_BYTES];
    chip.file.read_exact_at(&mut before, entry).expect("an entry");
    chip.program(Page(0), &filled(0xa7)).expect("a program");
    chip.file.write_all_at(&before, entry).expect("the entry as it was");
    drop(chip);
    let mut chip = place.open(Faults::default());
    assert_eq!(read(&mut chip, 0), Ok((Reading::Blank, 0xff)));
    assert!(holds(&place.bytes(), 0xa7));
    chip.erase(EraseBlock(0)).expect("an erase");
    assert!(!holds(&place.bytes(), 0xa7));
}

#[test]
fn a_cut_within_a_program_leaves_a_page_that_is_blank_or_cannot_be_corrected() {
    let place = Place::new();
    drop(place.create(KIND, Faults::default()));
    let mut chip = place.open(cut(1));
    chip.program(Page(0), &filled(1)).expect("a program");
    let error = chip.program(Page(1), &filled(2)).expect_err("the power is cut").to_string();
    assert!(error.contains("the power was cut"), "{error}");
    assert!(matches!(read(&mut chip, 0), Err(NandError::Gone(_))));
    drop(chip);
    let mut chip = place.open(Faults::default());
    assert_eq!(read(&mut chip, 0), Ok((Reading::Good, 1)));
    assert!(matches!(read(&mut chip, 1), Err(NandError::Uncorrectable) | Ok((Reading::Blank, _))));
    let error = chip.program(Page(2), &filled(3)).expect_err("no erase went before").to_string();
    assert!(error.contains("after a cut"), "{error}");
    chip.erase(EraseBlock(0)).expect("an erase");
    chip.program(Page(0), &filled(3)).expect("a program");
    assert_eq!(read(&mut chip, 0), Ok((Reading::Good, 3)));
}

#[test]
fn a_cut_within_an_erase_leaves_some_pages_which_the_next_erase_destroys() {
    let mut seen = std::collections::BTreeSet::new();
    for before in 0..16 {
        let place = Place::new();
        let mut chip = place.create(KIND, Faults::default());
        // The number of changes so far decides what is left to chance.
        (0..before).for_each(|_| chip.erase(EraseBlock(7)).expect("an erase"));
        (0..3).for_each(|page| chip.program(Page(page), &filled(0xa7)).expect("a program"));
        drop(chip);
        let mut chip = place.open(cut(0));
        assert!(matches!(chip.erase(EraseBlock(0)), Err(NandError::Gone(_))));
        drop(chip);
        let mut chip = place.open(Faults::default());
        seen.extend((0..3).map(|page| format!("{:?}", read(&mut chip, page))));
        assert!(chip.program(Page(3), &filled(1)).is_err());
        chip.erase(EraseBlock(0)).expect("an erase");
        assert!(!holds(&place.bytes(), 0xa7));
    }
    for what in ["Ok((Blank, 255))", "Ok((Good, 167))", "Err(Uncorrectable)"] {
        assert!(seen.contains(what), "{what} in {seen:?}");
    }
}

#[test]
fn a_block_at_the_end_of_its_life_fails_and_is_blackened_unless_it_is_stubborn() {
    for is_stubborn in [false, true] {
        let place = Place::new();
        let mut chip = place.create(ChipKind { endurance: 1, ..KIND }, Faults::default());
        chip.table[0].is_stubborn = is_stubborn;
        chip.erase(EraseBlock(0)).expect("the one erase");
        assert_eq!(chip.program(Page(0), &filled(0xa7)), Err(NandError::Failed));
        assert_eq!(chip.erase(EraseBlock(0)), Err(NandError::Failed));
        let (mut raw, mut spare) = (filled(1), vec![1; 64]);
        for page in 0..4 {
            chip.blacken(Page(page)).expect("it is tried");
            chip.raw(Page(page), &mut raw, &mut spare).expect("a raw read");
            assert_eq!(raw == filled(0) && spare == [0; 64], !is_stubborn, "page {page}");
        }
        assert!(is_stubborn || !holds(&place.bytes(), 0xa7));
        chip.mark_bad(EraseBlock(0)).expect("a mark");
        drop(chip);
        assert_eq!(place.open(Faults::default()).is_bad(EraseBlock(0)), Ok(true));
    }
}

#[test]
fn the_nature_of_a_chip_gives_it_bad_and_weak_blocks() {
    let place = Place::new();
    let faults = Faults { fuse: None, nature: Some(1) };
    let mut chip = FileChip::create(&place.path(), KIND, 1000, faults).expect("a chip");
    let bad = (0..1000).filter(|block| chip.is_bad(EraseBlock(*block)) == Ok(true)).count();
    let weak = (0..1000).find(|block| {
        let entry = chip.table[*block as usize];
        entry.is_weak && !entry.is_marked
    });
    assert!((5..60).contains(&bad), "{bad} of 1000");
    let page = Page(weak.expect("a weak block") * 4);
    chip.program(page, &filled(7)).expect("a program");
    let last = (0..100_000).map_while(|_| read(&mut chip, page.0).ok()).last();
    assert_eq!(last, Some((Reading::Corrected(KIND.correctable_bits), 7)));
}

#[test]
fn a_file_with_a_flipped_bit_of_its_head_counts_or_table_is_refused() {
    let place = Place::new();
    drop(place.create(KIND, Faults::default()));
    let whole = place.bytes();
    let ranges = [0..HEAD_BYTES, 512..512 + COUNTS_BYTES, 4096..4096 + ENTRY_BYTES * BLOCKS as usize];
    for at in ranges.into_iter().flatten() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        let error = place.refused(&bytes);
        let what = match at {
            0..8 => "is no chip",
            8..12 => "version",
            12..64 => "checksum of its head",
            64..4096 => "checksum of its counts",
            _ => "the entry of block",
        };
        assert!(error.contains(what), "{at}: {error}");
    }
    std::fs::write(place.path(), &whole).expect("a file");
    drop(place.open(Faults::default()));
}

#[test]
fn a_file_that_is_cut_off_too_long_or_foreign_is_refused() {
    let place = Place::new();
    drop(place.create(KIND, Faults::default()));
    let whole = place.bytes();
    for len in [0, 7, 8, 11, 12, 40, 63, 64, 600, 4096, 4200, whole.len() - 1] {
        let error = place.refused(&whole[..len]);
        let what = if len < 64 { "is shorter" } else { "its head says" };
        assert!(error.contains(what), "{len}: {error}");
    }
    assert!(place.refused(&[&whole[..], &[0]].concat()).contains("its head says"));
    assert!(place.refused(&vec![b'a'; 1 << 16]).contains("is no chip"));
    // The checksum is right, and the numbers are not.
    for (field, number, what) in [
        (12, 3000_u32, "power of two"),
        (16, u32::MAX, "`spare_bytes`"),
        (20, u32::MAX, "`block_pages`"),
        (24, u32::MAX, "erase blocks"),
        (24, 0, "erase blocks"),
        (28, 0, "`correctable_bits`"),
        (32, 0, "`endurance`"),
        (40, u32::MAX, "`read_us`"),
    ] {
        let mut head = whole[..HEAD_BYTES - 4].to_vec();
        head[field..field + 4].copy_from_slice(&number.to_le_bytes());
        let error = place.refused(&[&head::sealed(head), &whole[HEAD_BYTES..]].concat());
        assert!(error.contains(what), "{error}");
    }
    // A table with an entry that cannot be, though its checksum is right.
    let mut bytes = whole.clone();
    bytes[4096..4112].copy_from_slice(&Entry { next: 5, ..Entry::NEW }.to_bytes(0));
    assert!(place.refused(&bytes).contains("block 0, at byte 4096"));
}

#[test]
fn a_chip_is_for_one_process_at_a_time_and_a_new_one_takes_the_place_of_no_file() {
    let place = Place::new();
    let chip = place.create(KIND, Faults::default());
    let error = FileChip::open(&place.path(), Faults::default()).expect_err("it is in use").to_string();
    assert!(error.contains("another process"), "{error}");
    drop(chip);
    let before = place.bytes();
    let error = FileChip::create(&place.path(), KIND, BLOCKS, Faults::default()).expect_err("it exists");
    assert!(error.to_string().contains("exists") && place.bytes() == before, "{error}");
    let error = FileChip::open(place.dir.path(), Faults::default()).expect_err("a directory");
    assert!(error.to_string().contains("regular file"), "{error}");
    let other = place.dir.path().join("other");
    let error = FileChip::create(&other, KIND, 2, Faults::default()).expect_err("too few blocks");
    assert!(error.to_string().contains("2 erase blocks") && !other.exists(), "{error}");
}

#[test]
fn a_large_chip_takes_space_for_what_is_programmed_alone() {
    let place = Place::new();
    let kind = ChipKind { block_pages: 64, ..KIND };
    let mut chip = FileChip::create(&place.path(), kind, 8192, Faults::default()).expect("a chip of 1 GiB");
    chip.program(Page(8191 * 64), &filled(7)).expect("a program");
    let about = std::fs::metadata(place.path()).expect("a file");
    assert!(about.len() > 1 << 30 && about.blocks() * 512 < 4 << 20, "{} sectors", about.blocks());
}
