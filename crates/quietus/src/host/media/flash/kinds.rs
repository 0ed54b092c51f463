//! Kinds of flash chips that a file can stand for.

use quietus_flash::Geometry;
use quietus_flash::chip::timing::{MLC, SLC, TLC, Timing};
use serde::Deserialize;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

/// Longest file that describes a kind.
const TOML_BYTES_MAX: u64 = 65_536;
/// Longest time of an operation, in microseconds.
const MICROS_MAX: u64 = 10_000_000;
/// Fewest and most erase blocks of a chip.
const BLOCKS: std::ops::RangeInclusive<u32> = 8..=1 << 20;
/// Most bytes of memory that the map of a chip may take: 8 bytes for each 4096 bytes of the chip.
const MAP_BYTES_MAX: u64 = 1 << 30;

/// A kind of chip: sizes, and how long operations take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChipKind {
    /// Bytes of a page: a power of two from 2048 to 65,536.
    pub page_bytes: u32,
    /// Bytes of the spare area of a page, at most as many as the page has.
    pub spare_bytes: u32,
    /// Number of pages in an erase block: 4 to 65,535, and even with pages of 2048 bytes.
    pub block_pages: u32,
    /// Number of wrong bits in a page that the chip's code corrects: 1 to 1024.
    pub correctable_bits: u32,
    /// Microseconds to read a page, without its transfer: at most 10 s.
    pub read_us: u64,
    /// Microseconds to program a page: at most 10 s.
    pub program_us: u64,
    /// Microseconds to erase a block: at most 10 s.
    pub erase_us: u64,
    /// Number of erases after which a block fails, at least 1.
    pub endurance: u32,
}

/// Names and numbers of the kinds that are built in. Sizes of spare areas and the numbers of correctable bits are round ones that suit
/// such chips; a description of one's own has those of a data sheet.
const BUILT_IN: [(&str, ChipKind); 4] = [
    ("slc-2k", kind(2048, 64, 64, 4, SLC)),
    ("slc-4k", kind(4096, 128, 64, 4, SLC)),
    ("mlc-16k", kind(16_384, 1024, 512, 40, MLC)),
    ("tlc-16k", kind(16_384, 1024, 768, 40, TLC)),
];

const fn kind(
    page_bytes: u32,
    spare_bytes: u32,
    block_pages: u32,
    correctable_bits: u32,
    timing: Timing,
) -> ChipKind {
    let Timing { read_us, program_us, erase_us, endurance } = timing;
    ChipKind {
        page_bytes,
        spare_bytes,
        block_pages,
        correctable_bits,
        read_us,
        program_us,
        erase_us,
        endurance,
    }
}

/// The name of a kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KindName {
    /// A kind that is built in.
    BuiltIn(&'static str, ChipKind),
    /// A file that describes the kind, in TOML.
    File(PathBuf),
}

impl KindName {
    /// The kind that is named.
    ///
    /// # Errors
    /// The file cannot be read, or describes no kind.
    pub fn load(&self) -> io::Result<ChipKind> {
        let path = match self {
            Self::BuiltIn(_, kind) => return Ok(*kind),
            Self::File(path) => path,
        };
        let failed = |what: String| {
            io::Error::other(format!("cannot use the chip kind in {}: {what}", path.display()))
        };
        let bytes = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
        if bytes > TOML_BYTES_MAX {
            return Err(failed(format!("the file has {bytes} bytes; expected at most {TOML_BYTES_MAX}")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        let kind: ChipKind = toml::from_str(&text).map_err(|error| failed(error.to_string()))?;
        kind.check().map_err(failed)?;
        Ok(kind)
    }
}

impl FromStr for KindName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > ".toml".len() && text.ends_with(".toml") {
            return Ok(Self::File(text.into()));
        }
        let found = BUILT_IN.iter().find(|(name, _)| *name == text);
        found.map(|(name, kind)| Self::BuiltIn(name, *kind)).ok_or_else(|| {
            let names = BUILT_IN.map(|(name, _)| name).join(", ");
            format!("unknown chip kind {text:?}; expected {names}, or a file FILE.toml that describes one")
        })
    }
}

impl fmt::Display for KindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(name, _) => f.write_str(name),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl ChipKind {
    /// Checks the numbers.
    ///
    /// # Errors
    /// The field that is wrong, its value, and what is right.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |field: &str, value: u64, right: &str| {
            Err(format!("the field `{field}` is {value}; expected {right}"))
        };
        check_page(self.page_bytes)?;
        if self.spare_bytes > self.page_bytes {
            return wrong("spare_bytes", self.spare_bytes.into(), "at most the bytes of the page");
        }
        if !(4..=65_535).contains(&self.block_pages) {
            return wrong("block_pages", self.block_pages.into(), "4 to 65535");
        }
        if self.page_bytes == 2048 && !self.block_pages.is_multiple_of(2) {
            return wrong(
                "block_pages",
                self.block_pages.into(),
                "an even number, since pages have 2048 bytes",
            );
        }
        if !(1..=1024).contains(&self.correctable_bits) {
            return wrong("correctable_bits", self.correctable_bits.into(), "1 to 1024");
        }
        let times = [("read_us", self.read_us), ("program_us", self.program_us), ("erase_us", self.erase_us)];
        if let Some((field, value)) = times.into_iter().find(|(_, value)| *value > MICROS_MAX) {
            return wrong(field, value, &format!("at most {MICROS_MAX}"));
        }
        if self.endurance == 0 { wrong("endurance", 0, "at least 1") } else { Ok(()) }
    }

    /// The shape of a chip of this kind with so many blocks.
    #[must_use]
    pub fn geometry(&self, blocks: u32) -> Geometry {
        let Self { page_bytes, spare_bytes, block_pages, correctable_bits, .. } = *self;
        Geometry { page_bytes, spare_bytes, block_pages, blocks, correctable_bits }
    }

    /// How long its operations take.
    #[must_use]
    pub fn timing(&self) -> Timing {
        let Self { read_us, program_us, erase_us, endurance, .. } = *self;
        Timing { read_us, program_us, erase_us, endurance }
    }
}

fn check_page(page_bytes: u32) -> Result<(), String> {
    if page_bytes.is_power_of_two() && (2048..=65_536).contains(&page_bytes) {
        return Ok(());
    }
    Err(format!("pages have {page_bytes} bytes; expected a power of two from 2048 to 65536"))
}

/// Checks that a disk can lie on a chip of this shape.
pub(super) fn check_geometry(geometry: Geometry) -> Result<(), String> {
    check_page(geometry.page_bytes)?;
    if !BLOCKS.contains(&geometry.blocks) {
        let (blocks, first, last) = (geometry.blocks, BLOCKS.start(), BLOCKS.end());
        return Err(format!("the chip has {blocks} erase blocks; expected {first} to {last}"));
    }
    let bytes = chip_bytes(geometry);
    if bytes / 4096 * 8 > MAP_BYTES_MAX {
        let bytes_max = MAP_BYTES_MAX / 8 * 4096;
        return Err(format!(
            "the chip has {bytes} bytes, whose map would take more than 1 GiB of memory; expected at most {bytes_max} bytes: use \
             fewer blocks or a smaller partition"
        ));
    }
    Ok(())
}

/// Bytes of all pages of a chip, without spare areas.
pub(super) fn chip_bytes(geometry: Geometry) -> u64 {
    u64::from(geometry.blocks) * u64::from(geometry.block_pages) * u64::from(geometry.page_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: &str = "page_bytes = 8192\nspare_bytes = 448\nblock_pages = 128\ncorrectable_bits = 24\n\
                        read_us = 50\nprogram_us = 900\nerase_us = 2500\nendurance = 5000\n";

    fn load(text: &str) -> io::Result<ChipKind> {
        let file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a file");
        std::fs::write(file.path(), text).expect("a kind");
        let name: KindName = file.path().to_str().expect("text").parse().expect("a name");
        assert_eq!(name, KindName::File(file.path().into()));
        name.load()
    }

    #[test]
    fn the_kinds_that_are_built_in_are_right() {
        for (name, kind) in BUILT_IN {
            let found: KindName = name.parse().expect(name);
            assert_eq!((found.to_string(), found.load().expect(name)), (name.to_string(), kind));
            assert_eq!(kind.check(), Ok(()), "{name}");
            assert_eq!(check_geometry(kind.geometry(64)), Ok(()), "{name}");
        }
    }

    #[test]
    fn a_kind_of_ones_own_is_read_from_its_file() {
        let kind = load(TOML).expect("a kind");
        assert_eq!((kind.page_bytes, kind.timing().program_us, kind.endurance), (8192, 900, 5000));
    }

    #[test]
    fn a_wrong_number_is_refused_with_its_field() {
        for (right, wrong, what) in [
            ("page_bytes = 8192", "page_bytes = 6000", "6000 bytes; expected a power of two"),
            ("page_bytes = 8192", "page_bytes = 1024", "1024 bytes; expected a power of two"),
            ("spare_bytes = 448", "spare_bytes = 8193", "`spare_bytes` is 8193"),
            ("block_pages = 128", "block_pages = 3", "`block_pages` is 3"),
            ("block_pages = 128", "block_pages = 65536", "`block_pages` is 65536"),
            ("correctable_bits = 24", "correctable_bits = 0", "`correctable_bits` is 0"),
            ("erase_us = 2500", "erase_us = 10000001", "`erase_us` is 10000001"),
            ("endurance = 5000", "endurance = 0", "`endurance` is 0"),
            ("endurance = 5000", "endurance = -1", "endurance"),
            ("endurance = 5000", "planes = 2", "planes"),
            ("endurance = 5000\n", "", "endurance"),
        ] {
            let error = load(&TOML.replace(right, wrong)).expect_err(wrong).to_string();
            assert!(error.contains(what) && error.contains(".toml"), "{error}");
        }
        let odd = TOML.replace("8192", "2048").replace("128", "127");
        assert!(load(&odd).expect_err("an odd number").to_string().contains("even"));
    }

    #[test]
    fn a_chip_is_not_too_large_for_its_map() {
        let (_, kind) = BUILT_IN[2];
        let blocks = (512_u64 << 30) / u64::from(kind.block_pages * kind.page_bytes);
        assert_eq!(check_geometry(kind.geometry(blocks as u32)), Ok(()));
        let error = check_geometry(kind.geometry(blocks as u32 + 1)).expect_err("too large");
        assert!(error.contains("1 GiB of memory"), "{error}");
        for blocks in [0, 7, (1 << 20) + 1] {
            assert!(check_geometry(BUILT_IN[0].1.geometry(blocks)).expect_err("blocks").contains("8 to"));
        }
    }
}
