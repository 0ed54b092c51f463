//! NOR flash as the kernel's MTD devices have it (`include/uapi/mtd/mtd-abi.h`).

use super::log::{BLOCKS, Chip, Geometry};
use crate::host::media::mtd_device::{
    self, Info, MTD_MLCNANDFLASH, MTD_NANDFLASH, MTD_NORFLASH, MTD_RAM, MTD_WRITEABLE,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Single bits can be cleared, also of bytes that were programmed before.
const MTD_BIT_WRITEABLE: u32 = 0x800;
/// Longest block: two of them are in memory at a start.
const BLOCK_BYTES_MAX: u32 = 4 << 20;
/// Fewest records of a block: the slots, their labels, and room to go on.
const RECORDS_MIN: usize = 8;
/// Most devices that are listed.
const DEVICES_MAX: usize = 64;

/// The sizes, if a root can lie on such a device.
fn geometry(info: &Info) -> Result<Geometry, String> {
    let Info { kind, flags, size, erasesize, writesize, .. } = *info;
    if !matches!(kind, MTD_NORFLASH | MTD_RAM) {
        let what = match kind {
            MTD_NANDFLASH | MTD_MLCNANDFLASH => "raw NAND flash".to_string(),
            _ => format!("an MTD device of type {kind}"),
        };
        return Err(format!("{what}; a root needs NOR flash"));
    }
    if flags & MTD_WRITEABLE == 0 {
        return Err("the device cannot be written to; use one that can".into());
    }
    if erasesize > BLOCK_BYTES_MAX || u64::from(size) < BLOCKS as u64 * u64::from(erasesize) {
        return Err(format!(
            "{size} bytes in blocks of {erasesize}; a root needs {BLOCKS} blocks of at most {BLOCK_BYTES_MAX} bytes"
        ));
    }
    let geometry = Geometry {
        block_bytes: erasesize as usize,
        write_bytes: writesize.max(1) as usize,
        clears_bits: clears_bits(writesize.into(), flags.into()),
    };
    if geometry.records() < RECORDS_MIN {
        return Err(format!(
            "blocks of {erasesize} bytes, programmed in units of {writesize}, have no room for {RECORDS_MIN} records"
        ));
    }
    Ok(geometry)
}

/// Whether a device with these facts can program zeros over what was programmed.
fn clears_bits(writesize: u64, flags: u64) -> bool {
    writesize <= 1 && flags & u64::from(MTD_BIT_WRITEABLE) != 0
}

/// An MTD device. Its name is open for one process at a time.
#[derive(Debug)]
pub(super) struct Mtd {
    file: File,
    geometry: Geometry,
}

impl Mtd {
    pub(super) fn open(path: &Path, read_only: bool) -> io::Result<Self> {
        let (file, info) = mtd_device::open(path, read_only)?;
        let geometry = geometry(&info).map_err(io::Error::other)?;
        Ok(Self { file, geometry })
    }

    fn at(&self, block: usize, at: usize) -> u64 {
        (block * self.geometry.block_bytes + at) as u64
    }
}

impl Chip for Mtd {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&mut self, block: usize, at: usize, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, self.at(block, at))
    }

    fn program(&mut self, block: usize, at: usize, from: &[u8]) -> io::Result<()> {
        self.file.write_all_at(from, self.at(block, at))
    }

    fn erase(&mut self, block: usize) -> io::Result<()> {
        mtd_device::erase(&self.file, self.at(block, 0), self.geometry.block_bytes as u64)
    }
}

/// An MTD device on which a root can lie.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MtdAbout {
    /// The device, such as `/dev/mtd3`.
    pub device: String,
    /// The kind of memory.
    pub kind: MtdKind,
    /// The name of the partition.
    pub name: String,
    /// Bytes of the device.
    pub bytes: u64,
    /// Bytes that are erased together. A root needs two such blocks.
    pub block_bytes: u64,
    /// Whether bits can be programmed one by one: what dies is then programmed to zeros, and a block is erased when it is full.
    pub clears_bits: bool,
}

/// The kinds of MTD devices that take a root.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MtdKind {
    /// NOR flash.
    Nor,
    /// Memory, which may lose its content with the power.
    Ram,
}

impl MtdKind {
    /// The kind that `/sys` calls so.
    fn of(name: &str) -> Option<Self> {
        match name {
            "nor" => Some(Self::Nor),
            "ram" => Some(Self::Ram),
            _ => None,
        }
    }
}

impl MtdAbout {
    /// The MTD devices with room for a root of the machine whose `/sys` is at `sys`. Nothing is opened.
    #[must_use]
    pub fn all(sys: &Path) -> Vec<Self> {
        let folder = sys.join("class/mtd");
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(DEVICES_MAX * 2);
        let mut found: Vec<_> =
            entries.filter_map(|entry| Self::of(&entry.path())).take(DEVICES_MAX).collect();
        found.sort_by_key(|it| (it.device.len(), it.device.clone()));
        found
    }

    /// The device that a folder of `/sys/class/mtd` describes, if a root can lie there.
    fn of(folder: &Path) -> Option<Self> {
        let text = |name: &str| Some(std::fs::read_to_string(folder.join(name)).ok()?.trim().to_string());
        let number = |name: &str| text(name)?.parse::<u64>().ok();
        let device = folder.file_name()?.to_str()?;
        // Each device has a second name for reading.
        let is_device = device.strip_prefix("mtd").is_some_and(|number| number.parse::<u32>().is_ok());
        let (bytes, block_bytes) = (number("size")?, number("erasesize")?);
        let flags = text("flags").and_then(|it| u64::from_str_radix(it.strip_prefix("0x")?, 16).ok())?;
        let kind = MtdKind::of(&text("type")?)?;
        let is_fit = bytes >= BLOCKS as u64 * block_bytes;
        (is_device && is_fit).then_some(Self {
            device: format!("/dev/{device}"),
            kind,
            name: text("name")?,
            bytes,
            block_bytes,
            clears_bits: clears_bits(number("writesize")?, flags),
        })
    }
}

impl fmt::Display for MtdAbout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, kind, name, bytes, block_bytes, .. } = self;
        let what = match kind {
            MtdKind::Nor => "NOR flash",
            MtdKind::Ram => "RAM, which may lose its content with the power,",
        };
        write!(f, "{what} {device} ({name}), {bytes} bytes in blocks of {block_bytes}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOR: Info = Info {
        kind: MTD_NORFLASH,
        flags: 0xc00,
        size: 1 << 20,
        erasesize: 65536,
        writesize: 1,
        oobsize: 0,
        padding: 0,
    };

    #[test]
    fn a_device_that_cannot_hold_a_root_is_refused_with_what_is_wrong() {
        let expected = Geometry { block_bytes: 65536, write_bytes: 1, clears_bits: true };
        assert_eq!(geometry(&NOR), Ok(expected));
        for (info, what) in [
            (Info { kind: 4, ..NOR }, "raw NAND flash; a root needs NOR flash"),
            (Info { kind: 6, ..NOR }, "type 6; a root needs NOR flash"),
            (Info { flags: 0x800, ..NOR }, "cannot be written"),
            (Info { size: 131_071, ..NOR }, "2 blocks"),
            (Info { erasesize: 8 << 20, size: 64 << 20, ..NOR }, "2 blocks"),
            (Info { erasesize: 0, ..NOR }, "no room"),
            (Info { erasesize: 4096, writesize: 1024, ..NOR }, "no room"),
        ] {
            let error = geometry(&info).expect_err(what);
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn a_chip_that_does_not_say_that_single_bits_can_be_cleared_is_not_programmed_twice() {
        for (info, clears_bits) in [
            (NOR, true),
            (Info { flags: 0x400, ..NOR }, false),
            (Info { writesize: 16, ..NOR }, false),
            (Info { writesize: 16, flags: 0x400, ..NOR }, false),
            (Info { kind: MTD_RAM, flags: 0x1c00, ..NOR }, true),
        ] {
            assert_eq!(geometry(&info).map(|it| it.clears_bits), Ok(clears_bits), "{info:?}");
        }
    }

    #[test]
    fn the_nor_flash_and_ram_of_a_machine_are_listed_and_other_flash_is_not() {
        let sys = tempfile::tempdir().expect("a directory");
        for (name, kind, size, writesize, flags) in [
            ("mtd10", "nor", 1 << 20, 1, "0xc00"),
            ("mtd11", "nor", 1 << 20, 1, "0x400"),
            ("mtd2", "nor", 1 << 20, 16, "0x400"),
            ("mtd2ro", "nor", 1 << 20, 16, "0x400"),
            ("mtd3", "nand", 1 << 20, 2048, "0x400"),
            ("mtd4", "nor", 65536, 1, "0xc00"),
            ("mtd5", "ram", 1 << 20, 1, "0x1c00"),
            ("mtd6", "rom", 1 << 20, 1, "0x0"),
        ] {
            let folder = sys.path().join("class/mtd").join(name);
            std::fs::create_dir_all(&folder).expect("a folder");
            let facts = [
                ("type", kind.to_string()),
                ("size", format!("{size}\n")),
                ("erasesize", "65536\n".into()),
                ("writesize", format!("{writesize}\n")),
                ("name", "root\n".into()),
                ("flags", format!("{flags}\n")),
            ];
            facts.iter().for_each(|(file, text)| std::fs::write(folder.join(file), text).expect("a fact"));
        }
        let found: Vec<_> =
            MtdAbout::all(sys.path()).into_iter().map(|it| (it.device, it.kind, it.clears_bits)).collect();
        let expected = [
            ("/dev/mtd2", MtdKind::Nor, false),
            ("/dev/mtd5", MtdKind::Ram, true),
            ("/dev/mtd10", MtdKind::Nor, true),
            ("/dev/mtd11", MtdKind::Nor, false),
        ];
        assert_eq!(found, expected.map(|(device, kind, clears)| (device.to_string(), kind, clears)));
        assert!(MtdAbout::all(&sys.path().join("none")).is_empty());
    }

    #[test]
    fn a_file_that_is_no_mtd_device_is_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let error = Mtd::open(file.path(), true).expect_err("it is a file");
        assert!(error.to_string().contains("not an MTD device"), "{error}");
    }
}
