//! A disk, and what it may hold: the oracle.

use super::*;
use crate::chip::rng::Rng;
use crate::nand::{EraseBlock, Page};

const MAGIC: [u8; 8] = *b"PAYLOAD!";
/// Bytes that each part of a payload takes, so that parts of a page are found too.
const PART_BYTES: usize = 64;

/// Number of deletions after which the chip is audited.
const AUDIT_EVERY: u64 = 4;

/// A part of `version` of a unit.
fn part(unit: u64, version: u64) -> Vec<u8> {
    let mut part = MAGIC.to_vec();
    part.extend(unit.to_le_bytes());
    part.extend(version.to_le_bytes());
    part.resize(PART_BYTES, 1 + (version % 100) as u8);
    part
}

/// The content of `version` of a unit; version 0 is zeros.
fn payload(unit: u64, version: u64) -> Vec<u8> {
    if version == 0 { vec![0; UNIT_BYTES] } else { part(unit, version).repeat(UNIT_BYTES / PART_BYTES) }
}

/// The unit and version of each whole part of a payload in these bytes.
fn payloads(bytes: &[u8]) -> impl Iterator<Item = (u64, u64)> + '_ {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let parts = bytes.chunks_exact(PART_BYTES).filter(|part| part[..8] == MAGIC);
    let named = parts.map(move |bytes| (number(&bytes[8..16]), number(&bytes[16..24]), bytes));
    named
        .filter(|(unit, version, bytes)| part(*unit, *version) == *bytes)
        .map(|(unit, version, _)| (unit, version))
}

/// What is known of one unit.
#[derive(Clone, Debug)]
struct Known {
    /// The versions that it may have after a cut: the one at the last sync, and those since. The last one is read now.
    possible: Vec<u64>,
    /// Versions up to this one are destroyed,
    destroyed: u64,
    /// but this one.
    kept: u64,
}

/// A disk, and what it may hold.
pub(super) struct World {
    pub(super) flash: Option<Flash<MemoryChip>>,
    pub(super) rng: Rng,
    version: u64,
    known: Vec<Known>,
    /// Whether the chip may run out of good blocks.
    pub(super) may_wear_out: bool,
    /// Number of units, from unit 0 on, that are kept apart.
    pub(super) apart: u64,
    pub(super) starts: u64,
    pub(super) erases: u64,
}

impl World {
    pub(super) fn new(geometry: Geometry, nature: Nature, units: u64, seed: u64) -> Self {
        let mut chip = MemoryChip::new(geometry, SLC, nature, seed);
        let good = (0..geometry.blocks).filter(|block| !chip.is_bad(EraseBlock(*block)).unwrap()).count();
        let units = units.min(Flash::<MemoryChip>::size_max(geometry, good as u32) / UNIT);
        let flash = Flash::format(chip, DISK, units * UNIT).unwrap();
        let known = vec![Known { possible: vec![0], destroyed: 0, kept: 0 }; units as usize];
        let may_wear_out = nature != Nature::default();
        Self {
            flash: Some(flash),
            rng: Rng::new(seed),
            version: 0,
            known,
            may_wear_out,
            apart: 0,
            starts: 0,
            erases: 0,
        }
    }

    /// Keeps the first units apart, after this start and each later one.
    pub(super) fn set_apart(&mut self, units: u64) {
        self.apart = units;
        self.flash().set_apart(Extent::new(0, units * UNIT));
    }

    pub(super) fn units(&self) -> u64 {
        self.known.len() as u64
    }

    pub(super) fn flash(&mut self) -> &mut Flash<MemoryChip> {
        self.flash.as_mut().unwrap()
    }

    fn chip(&mut self) -> &mut MemoryChip {
        &mut self.flash().chip.nand
    }

    pub(super) fn write(&mut self, unit: u64) -> Result<(), FlashError> {
        self.version += 1;
        let bytes = payload(unit, self.version);
        let result = self.flash().write(Pos(unit * UNIT), &bytes);
        let version = self.version;
        self.known[unit as usize].possible.push(version);
        result
    }

    pub(super) fn trim(&mut self, first: u64, count: u64) -> Result<(), FlashError> {
        let result = self.flash().trim(Extent::new(first * UNIT, count * UNIT));
        self.known[first as usize..(first + count) as usize]
            .iter_mut()
            .for_each(|known| known.possible.push(0));
        result
    }

    pub(super) fn sync(&mut self) -> Result<(), FlashError> {
        self.flash().sync()?;
        self.settle();
        Ok(())
    }

    fn settle(&mut self) {
        for known in &mut self.known {
            known.possible = vec![*known.possible.last().unwrap()];
        }
    }

    pub(super) fn erase(&mut self, first: u64, count: u64, keep: Keep) -> Result<(), FlashError> {
        let result = self.flash().erase(&[Extent::new(first * UNIT, count * UNIT)], keep);
        let version = self.version;
        let known = &mut self.known[first as usize..(first + count) as usize];
        if keep == Keep::Nothing {
            known.iter_mut().for_each(|known| known.possible.push(0));
        }
        let is_remaining = match result {
            Ok(()) => false,
            Err(error) if error.kind == FlashErrorKind::Remains => true,
            Err(error) => return Err(error),
        };
        if !is_remaining {
            for known in known {
                (known.destroyed, known.kept) = (version, *known.possible.last().unwrap());
            }
            self.erases += 1;
        }
        self.settle();
        self.check_cells();
        if self.erases.is_multiple_of(AUDIT_EVERY) {
            self.check_audit(Extent::new(first * UNIT, count * UNIT), keep)?;
        }
        Ok(())
    }

    /// An audit after a deletion of `extent` finds what the cells hold.
    fn check_audit(&mut self, extent: Extent<Pos>, keep: Keep) -> Result<(), FlashError> {
        let (dead, older) = match keep {
            Keep::Nothing => (vec![extent], Vec::new()),
            Keep::Present => (Vec::new(), vec![extent]),
        };
        let audit = self.flash().audit(&dead, &older)?;
        let geometry = self.chip().geometry();
        let (mut parts, mut forbidden) = (0, 0);
        for page in (0..geometry.blocks * geometry.block_pages).map(Page) {
            for (unit, version) in payloads(&self.chip().cells(page)) {
                let is_present = self.known[unit as usize].possible.last() == Some(&version);
                let is_deleted = extent.overlaps(Extent::new(unit * UNIT, UNIT));
                forbidden += u64::from(is_deleted && !is_present);
                parts += 1;
            }
        }
        assert_eq!(audit.pages_read, u64::from(geometry.blocks * geometry.block_pages));
        assert!(forbidden == 0 || audit.remains_count > 0, "{forbidden} parts of deleted units: {audit:?}");
        if self.flash().wear().stuck_blocks.is_empty() {
            assert_eq!(audit.remains, [], "{audit:?}");
            let live: u32 = self.flash().space.blocks.iter().map(|(_, info)| info.live).sum();
            let versions = audit.stale_units + u64::from(live);
            assert_eq!(parts, versions * (UNIT_BYTES / PART_BYTES) as u64, "versions on the chip: {audit:?}");
        }
        Ok(())
    }

    /// No cell of the chip holds what was destroyed.
    pub(super) fn check_cells(&mut self) {
        let geometry = self.chip().geometry();
        for page in (0..geometry.blocks * geometry.block_pages).map(Page) {
            let bytes = self.chip().cells(page);
            for (unit, version) in payloads(&bytes) {
                let known = &self.known[unit as usize];
                let is_dead = version <= known.destroyed && version != known.kept;
                assert!(!is_dead, "page {page:?} holds version {version} of unit {unit}: {known:?}");
            }
        }
    }

    /// Each unit reads as it may, and stays so.
    pub(super) fn check_content(&mut self) -> Result<(), FlashError> {
        for unit in 0..self.units() {
            self.check_unit(unit)?;
        }
        Ok(())
    }

    pub(super) fn check_unit(&mut self, unit: u64) -> Result<(), FlashError> {
        let mut bytes = vec![0; UNIT_BYTES];
        self.flash().read(Pos(unit * UNIT), &mut bytes)?;
        let version = payloads(&bytes).next().map_or(0, |(_, version)| version);
        assert_eq!(bytes, payload(unit, version), "unit {unit} reads as one version");
        let last = self.known[unit as usize].possible.last();
        assert_eq!(Some(&version), last, "unit {unit} reads as written");
        Ok(())
    }

    /// Starts again and again, each time with the power cut after so many changes, then without a cut.
    pub(super) fn restart(&mut self, cuts: &[u64]) -> Result<(), FlashError> {
        let mut chip = self.flash.take().unwrap().into_nand();
        for cut in cuts {
            chip.restore();
            chip.cut_after(*cut);
            match Flash::open(&mut chip) {
                Ok(flash) => drop(flash),
                Err(error) => assert_eq!(error.kind, FlashErrorKind::Io, "{error}"),
            }
        }
        chip.restore();
        self.flash = Some(Flash::open(chip)?);
        self.set_apart(self.apart);
        self.starts += 1 + cuts.len() as u64;
        self.find()
    }

    /// Notes which of its possible versions each unit has after a start.
    fn find(&mut self) -> Result<(), FlashError> {
        for unit in 0..self.units() {
            let mut bytes = vec![0; UNIT_BYTES];
            self.flash().read(Pos(unit * UNIT), &mut bytes)?;
            let version = payloads(&bytes).next().map_or(0, |(_, version)| version);
            let known = &mut self.known[unit as usize];
            assert_eq!(bytes, payload(unit, version), "unit {unit} reads as one version");
            assert!(known.possible.contains(&version), "unit {unit} reads as version {version} of {known:?}");
            known.possible = vec![version];
        }
        self.check_cells();
        self.check_tables();
        Ok(())
    }

    /// The tables of the layer agree.
    pub(super) fn check_tables(&mut self) {
        let flash = self.flash();
        for (block, info) in flash.space.blocks.iter() {
            let live = flash.map.live(block).count() as u32;
            assert_eq!(info.live, live, "live units of block {}", block.0);
        }
        let of_units =
            (0..flash.map.len()).filter(|unit| matches!(flash.map.find(Unit(*unit)), Where::At(_)));
        let live: u32 = flash.space.blocks.iter().map(|(_, info)| info.live).sum();
        assert_eq!(live as usize, of_units.count(), "each unit is live in one block");
    }
}
