use super::open::Open;
use super::*;
use crate::host::media::SharedMedium;
use memchr::memmem;
use quietus_core::base::units::{Extent, Pos};
use quietus_core::media::medium::{Keep, Medium, MediumErrorKind};
use quietus_flash::chip::timing::SLC;
use quietus_flash::{DiskId, Flash};
use std::path::PathBuf;
use std::sync::Arc;

const TOML: &str = "page_bytes = 2048\nspare_bytes = 64\nblock_pages = 16\ncorrectable_bits = 4\nread_us = 25\n\
                    program_us = 300\nerase_us = 2000\nendurance = 100000\n";
const KIND: ChipKind = ChipKind {
    page_bytes: 2048,
    spare_bytes: 64,
    block_pages: 16,
    correctable_bits: 4,
    read_us: SLC.read_us,
    program_us: SLC.program_us,
    erase_us: SLC.erase_us,
    endurance: SLC.endurance,
};
const BLOCKS: u32 = 40;
const DISK: [u8; 16] = [7; 16];
const UNIT: u64 = 4096;
const BYTES: u64 = 40 * UNIT;
const SECRET: &[u8; 16] = b"a secret of ours";

/// A directory with a kind of chip.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("kind.toml"), TOML).expect("a kind");
        Self(dir)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("chip")
    }

    fn of(&self, options: &str) -> FlashPlace {
        format!("nand:{}{options}", self.path().display()).parse().expect("a place")
    }

    /// The place at which a chip is created.
    fn new_chip(&self) -> FlashPlace {
        self.of(&format!(",chip={}/kind.toml,blocks={BLOCKS}", self.0.path().display()))
    }

    fn create(&self) -> FlashDisk {
        FlashDisk::create(&self.new_chip(), DISK, BYTES, false).expect("a disk")
    }

    fn open(&self) -> FlashDisk {
        FlashDisk::open(&self.of(""), DISK).expect("the disk")
    }

    fn has_secret(&self) -> bool {
        memmem::find(&std::fs::read(self.path()).expect("a file"), SECRET).is_some()
    }
}

fn secret() -> Vec<u8> {
    SECRET.repeat(UNIT as usize / SECRET.len())
}

fn read(medium: &FlashMedium, unit: u64) -> Vec<u8> {
    let mut bytes = vec![1; UNIT as usize];
    medium.read(Pos(unit * UNIT), &mut bytes).expect("a read");
    bytes
}

fn whole(disk: &FlashDisk) -> FlashMedium {
    disk.region(Extent::new(0, disk.size()))
}

#[test]
fn content_outlives_the_process_and_two_parts_share_a_chip() {
    let place = Place::new();
    let disk = place.create();
    let (first, second) =
        (disk.region(Extent::new(0, 8 * UNIT)), disk.region(Extent::new(8 * UNIT, BYTES - 8 * UNIT)));
    first.write(Pos(0), &[1; 4096], false).expect("a write");
    second.write(Pos(0), &[2; 4096], true).expect("a durable write");
    // Another caller opens the same chip, by another name.
    let link = place.0.path().join("link");
    std::os::unix::fs::symlink(place.path(), &link).expect("a link");
    let other: FlashPlace = format!("nand:{}", link.display()).parse().expect("a place");
    let shared = FlashDisk::open(&other, DISK).expect("the same disk");
    assert_eq!(read(&whole(&shared), 8), [2; 4096]);
    drop((disk, first, second, shared));
    let medium = whole(&place.open());
    assert_eq!((read(&medium, 0), read(&medium, 8)), (vec![1; 4096], vec![2; 4096]));
    assert_eq!(read(&medium, 9), [0; 4096]);
    assert!(medium.read_cached(Pos(0), &mut []).is_none() && medium.check_whole().is_ok());
    let caps = medium.capabilities();
    assert!(caps.punch && caps.erases);
}

#[test]
#[should_panic(expected = "within their part")]
fn a_part_does_not_reach_into_its_neighbour() {
    let disk = Place::new().create();
    let part = disk.region(Extent::new(0, 8 * UNIT));
    let _ = part.write(Pos(8 * UNIT - 1), &[1; 2], false);
}

#[test]
fn an_erase_leaves_nothing_in_the_file_and_spares_what_is_kept() {
    let place = Place::new();
    let medium = whole(&place.create());
    for unit in 0..6 {
        medium.write(Pos(unit * UNIT), &secret(), true).expect("a write");
    }
    medium.write(Pos(0), &[1; 4096], true).expect("a new version");
    medium.punch(Extent::new(UNIT, UNIT)).expect("a hole");
    assert!(place.has_secret());
    let kept = [Extent::new(0, 2 * UNIT)];
    medium.erase(&kept, Keep::Present).expect("an erase");
    assert!(place.has_secret(), "other units still hold it");
    medium
        .erase(&[Extent::new(2 * UNIT, 3 * UNIT), Extent::new(5 * UNIT, UNIT)], Keep::Nothing)
        .expect("an erase");
    assert!(!place.has_secret());
    assert_eq!(
        (read(&medium, 0), read(&medium, 1), read(&medium, 3)),
        (vec![1; 4096], vec![0; 4096], vec![0; 4096])
    );
    let wear = medium.wear();
    let counts = wear.counts.expect("a file counts");
    assert!(counts.erases > u64::from(BLOCKS) && counts.micros > 0 && wear.wear.erases_max > 1);
    assert_eq!((wear.disk_bytes, wear.chip_bytes), (BYTES, 40 * 16 * 2048));
    drop(medium);
    let medium = whole(&place.open());
    assert_eq!((read(&medium, 0), read(&medium, 3)), (vec![1; 4096], vec![0; 4096]));
    assert!(!place.has_secret());
}

#[test]
fn a_chip_that_holds_something_is_not_taken() {
    let place = Place::new();
    drop(place.create());
    let error = FlashDisk::create(&place.new_chip(), DISK, BYTES, false).expect_err("the file exists");
    assert!(error.to_string().contains("the file exists"), "{error}");
    let error = FlashDisk::open(&place.of(""), [8; 16]).expect_err("another disk");
    assert!(error.to_string().contains("another disk"), "{error}");
    let disk = place.open();
    let error = FlashDisk::open(&place.of(""), [8; 16]).expect_err("another disk, which is open");
    assert!(error.to_string().contains("another disk"), "{error}");
    let error = FlashDisk::create(&place.of(""), [8; 16], BYTES, true).expect_err("it is open");
    assert!(error.to_string().contains("close it first"), "{error}");
    drop(disk);
    let disk = FlashDisk::create(&place.of(""), [8; 16], BYTES, true).expect("it is overwritten");
    drop(disk);
    assert!(FlashDisk::open(&place.of(""), DISK).is_err());
}

#[test]
fn what_a_chip_holds_is_found_before_it_is_overwritten() {
    let place = Place::new();
    let mut chip = Chip::File(Box::new(
        FileChip::create(&place.path(), KIND, BLOCKS, Faults::default()).expect("a chip"),
    ));
    assert_eq!(chip.content(), Ok(None));
    quietus_flash::Nand::program(&mut chip, quietus_flash::Page(32), &[7; 2048]).expect("foreign content");
    assert_eq!(chip.content(), Ok(Some("block 2 is not blank".into())));
    let mut chip = Flash::format(chip, DiskId(DISK), BYTES).expect("a disk").into_nand();
    assert_eq!(chip.content(), Ok(Some("it holds a Quietus disk".into())));
}

#[test]
fn a_disk_that_cannot_be_made_leaves_no_file() {
    let place = Place::new();
    let size_max = FlashDisk::size_max(&place.new_chip()).expect("a size");
    for bytes in [0, 4095, size_max + UNIT] {
        let error = FlashDisk::create(&place.new_chip(), DISK, bytes, false).expect_err("a wrong size");
        assert!(error.to_string().contains(&size_max.to_string()), "{error}");
        assert!(!place.path().exists());
    }
    for options in ["", ",chip=slc-2k", ",blocks=40"] {
        let place = place.of(options);
        let created = FlashDisk::create(&place, DISK, BYTES, false).map(|_| ());
        for result in [created, FlashDisk::size_max(&place).map(|_| ())] {
            let error = result.expect_err("no kind").to_string();
            assert!(error.contains("chip=slc-2k,blocks=4096"), "{error}");
        }
    }
    assert!(FlashDisk::open(&place.of(""), DISK).is_err() && !place.path().exists());
    let disk = FlashDisk::create(&place.new_chip(), DISK, size_max, false).expect("the largest disk");
    assert_eq!((disk.size(), FlashDisk::size_max(&place.of("")).expect("a size")), (size_max, size_max));
    drop(disk);
    assert_eq!(FlashDisk::size_max(&place.of("")).expect("a size"), size_max);
    for (blocks, what) in [(7, "7 erase blocks"), (u32::MAX, "4294967295 erase blocks")] {
        let other = FlashPlace { path: "/absent/chip".into(), blocks: Some(blocks), ..place.new_chip() };
        assert!(FlashDisk::size_max(&other).expect_err(what).to_string().contains(what));
    }
    let error = FlashDisk::open(&place.new_chip(), DISK).expect_err("it is not created");
    assert!(error.to_string().contains("leave them out"), "{error}");
}

#[test]
fn a_chip_that_fails_is_never_said_to_have_made_anything_durable_again() {
    let place = Place::new();
    drop(place.create());
    let faults = Faults { fuse: Some(Fuse { changes: 150, end: || {} }), nature: None };
    let chip = Chip::File(Box::new(FileChip::open(&place.path(), faults).expect("a chip")));
    let open = Open::new(Flash::open(chip).expect("the disk"), "the chip".into());
    let medium = FlashMedium::new(Arc::new(open), Extent::new(0, BYTES));
    let mut writes = (0..1000_u64).map(|n| medium.write(Pos(n % 40 * UNIT), &[1; 4096], true));
    let error = writes.find_map(Result::err).expect("the power is cut");
    assert_eq!(error.kind, MediumErrorKind::Io);
    assert!(error.message.contains("of the chip: ") && error.message.contains("power"), "{error}");
    let all = Extent::new(0, UNIT);
    for result in [
        medium.sync(),
        medium.write(Pos(0), &[1; 4096], true),
        medium.erase(&[all], Keep::Present),
        medium.punch(all),
        medium.read(Pos(0), &mut [0; 4096]),
    ] {
        assert_eq!(result.expect_err("the chip is gone").kind, MediumErrorKind::Io);
    }
}

/// Opens the chip, writes and erases until the power is cut. The number of units whose new content was synced.
fn write_until_cut(place: &Place, changes: u64) -> Option<u64> {
    let faults = Faults { fuse: Some(Fuse { changes, end: || {} }), nature: None };
    let chip = FileChip::open(&place.path(), faults).expect("a chip");
    let mut flash = Flash::open(chip).ok()?;
    let mut synced = 0;
    for unit in 0..8 {
        let all = Extent::new(unit * UNIT, UNIT);
        let done =
            flash.write(all.start, &[unit as u8 + 1; 4096]).and_then(|()| flash.erase(&[all], Keep::Present));
        if done.is_err() {
            return Some(synced);
        }
        synced = unit + 1;
    }
    None
}

#[test]
fn wherever_the_power_is_cut_synced_content_stays_and_a_second_erase_destroys_the_old() {
    let mut cuts = 0;
    for changes in (0..).step_by(3) {
        let place = Place::new();
        let chip = FileChip::create(&place.path(), KIND, BLOCKS, Faults::default()).expect("a chip");
        let mut flash = Flash::format(chip, DiskId(DISK), BYTES).expect("a disk");
        (0..8).for_each(|unit| flash.write(Pos(unit * UNIT), &secret()).expect("a write"));
        flash.sync().expect("a sync");
        drop(flash);
        let synced = write_until_cut(&place, changes);
        let medium = whole(&place.open());
        for unit in 0..8 {
            let (found, new) = (read(&medium, unit), vec![unit as u8 + 1; 4096]);
            let is_old = found == secret() && unit >= synced.unwrap_or(0);
            assert!(found == new || is_old, "unit {unit} after {changes} changes");
        }
        medium.erase(&[Extent::new(0, 8 * UNIT)], Keep::Nothing).expect("an erase");
        assert!(!place.has_secret(), "after {changes} changes");
        cuts += 1;
        if synced.is_none() && changes > 100 {
            break;
        }
    }
    assert!(cuts > 30, "{cuts} cuts");
}

#[test]
fn a_chip_whose_blocks_are_bad_weak_and_dying_keeps_its_content() {
    let place = Place::new();
    let new = FlashPlace { nature: Some(3), blocks: Some(100), ..place.new_chip() };
    let stored = new.stored();
    drop(FlashDisk::create(&new, DISK, BYTES, false).expect("a disk"));
    for round in 0..40_u64 {
        let medium = whole(&FlashDisk::open(&stored, DISK).expect("the disk"));
        for unit in 0..40 {
            let byte = ((round + unit) % 251) as u8;
            medium.write(Pos(unit * UNIT), &[byte; 4096], unit % 5 == 0).expect("a write");
        }
        medium.sync().expect("a sync");
        drop(medium);
        let medium = whole(&FlashDisk::open(&stored, DISK).expect("the disk"));
        for unit in 0..40 {
            assert_eq!(read(&medium, unit)[0], ((round + unit) % 251) as u8, "round {round}, unit {unit}");
        }
    }
    let disk = FlashDisk::open(&stored, DISK).expect("the disk");
    disk.scrub(1600).expect("a scrub");
    assert!(disk.wear().wear.bad_blocks > 0);
}
