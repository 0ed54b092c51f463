//! Raw NAND flash as the kernel's MTD devices have it (`include/uapi/mtd/mtd-abi.h`).
//!
//! The driver corrects wrong bits. A read succeeds whatever it found; only the device's counts of errors tell how it went
//! (`mtdchar_read` in `drivers/mtd/mtdchar.c`).

use super::kinds::check_geometry;
use crate::host::media::mtd_device::{
    self, Info, MTD_MLCNANDFLASH, MTD_NANDFLASH, MTD_NORFLASH, MTD_WRITEABLE,
};
use quietus_flash::{EraseBlock, Geometry, Nand, NandError, Page, Reading};
use rustix::io::Errno;
use rustix::ioctl::{Getter, IntegerSetter, Ioctl, IoctlOutput, Opcode, Setter, Updater, ioctl, opcode};
use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

const MEMGETBADBLOCK: Opcode = opcode::write::<i64>(b'M', 11);
const MEMSETBADBLOCK: Opcode = opcode::write::<i64>(b'M', 12);
const ECCGETSTATS: Opcode = opcode::read::<EccStats>(b'M', 18);
const MTDFILEMODE: Opcode = opcode::none(b'M', 19);
const MEMREADOOB64: Opcode = opcode::read_write::<OobBuffer>(b'M', 22);
const MEMWRITE: Opcode = opcode::read_write::<WriteRequest>(b'M', 24);
/// Reads and writes go around the correction of wrong bits.
const MTD_FILE_MODE_RAW: usize = 3;
const MTD_OPS_RAW: u8 = 2;
const MTD_UBIVOLUME: u8 = 7;
/// The driver uses one bit of each cell.
const MTD_SLC_ON_MLC_EMULATION: u32 = 0x4000;
/// Bytes at the beginning of a spare area that tell a good block from a bad one.
const MARK_BYTES: usize = 2;

/// `struct mtd_ecc_stats`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct EccStats {
    corrected: u32,
    failed: u32,
    badblocks: u32,
    bbtblocks: u32,
}

const _: () = assert!(size_of::<EccStats>() == 16);

/// `struct mtd_oob_buf64`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct OobBuffer {
    start: u64,
    pad: u32,
    length: u32,
    usr_ptr: u64,
}

const _: () = assert!(size_of::<OobBuffer>() == 24);

/// `struct mtd_write_req`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct WriteRequest {
    start: u64,
    len: u64,
    ooblen: u64,
    usr_data: u64,
    usr_oob: u64,
    mode: u8,
    padding: [u8; 7],
}

const _: () = assert!(size_of::<WriteRequest>() == 48);

/// Asks whether the block at an offset is bad.
struct GetBadBlock(i64);

// SAFETY: MEMGETBADBLOCK reads a `loff_t`, which the pointer names, changes nothing, and answers with its result alone.
unsafe impl Ioctl for GetBadBlock {
    type Output = bool;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        MEMGETBADBLOCK
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut self.0).cast()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<bool> {
        Ok(out != 0)
    }
}

/// An MTD device of raw NAND flash. Its name is open for one process at a time.
#[derive(Debug)]
pub struct MtdChip {
    file: File,
    /// The same device, around the correction of wrong bits.
    raw: File,
    device: PathBuf,
    geometry: Geometry,
    stats: EccStats,
}

impl MtdChip {
    /// Opens the device at `path`.
    ///
    /// # Errors
    /// There is no such device, no disk can lie on it, or it is in use.
    pub fn open(path: &Path) -> io::Result<Self> {
        let failed =
            |what: String| io::Error::other(format!("cannot open the flash chip {}: {what}", path.display()));
        let (file, info) = mtd_device::open(path, false).map_err(|error| failed(error.to_string()))?;
        check_kind(&info).map_err(failed)?;
        let raw = OpenOptions::new().read(true).write(true).open(path);
        let raw = raw.map_err(|error| failed(error.to_string()))?;
        // SAFETY: MTDFILEMODE takes a number, and this is one of those that it knows.
        unsafe { ioctl(&raw, IntegerSetter::<MTDFILEMODE>::new_usize(MTD_FILE_MODE_RAW)) }
            .map_err(|error| failed(format!("the driver gives no access to raw pages: {error}")))?;
        let minor = file.metadata().map(|it| rustix::fs::minor(it.rdev()));
        let minor = minor.map_err(|error| failed(error.to_string()))?;
        let geometry = geometry(&info, Facts::of(Path::new("/sys"), minor)).map_err(failed)?;
        let mut chip = Self { file, raw, device: path.into(), geometry, stats: EccStats::default() };
        chip.stats = chip.ecc_stats().map_err(|error| failed(error.to_string()))?;
        Ok(chip)
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Path {
        &self.device
    }

    fn ecc_stats(&self) -> io::Result<EccStats> {
        // SAFETY: ECCGETSTATS fills a `struct mtd_ecc_stats`, which `EccStats` is.
        Ok(unsafe { ioctl(&self.file, Getter::<ECCGETSTATS, EccStats>::new()) }?)
    }

    fn page_at(&self, page: Page) -> u64 {
        u64::from(page.0) * u64::from(self.geometry.page_bytes)
    }

    fn block_at(&self, block: EraseBlock) -> u64 {
        u64::from(block.0) * self.block_bytes()
    }

    fn block_bytes(&self) -> u64 {
        u64::from(self.geometry.block_pages) * u64::from(self.geometry.page_bytes)
    }

    fn gone(&self, error: &io::Error) -> NandError {
        NandError::Gone(format!("{}: {error}", self.device.display()))
    }

    /// What the failure of a change means: `EIO` is the chip's own answer.
    fn changed(&self, result: io::Result<()>) -> Result<(), NandError> {
        result.map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::IO) => NandError::Failed,
            _ => self.gone(&error),
        })
    }

    /// What is to be said of a page that the driver read, given the counts of errors after it. The counts are of all parts of the page
    /// together, of which each is corrected by itself: the number of bits is at least that of the worst part.
    fn reading(&mut self, bytes: &[u8], stats: EccStats) -> Result<Reading, NandError> {
        let corrected = stats.corrected.wrapping_sub(self.stats.corrected);
        let has_failed = stats.failed != self.stats.failed;
        self.stats = stats;
        if has_failed {
            return Err(NandError::Uncorrectable);
        }
        Ok(match corrected {
            _ if bytes.iter().all(|byte| *byte == 0xff) => Reading::Blank,
            0 => Reading::Good,
            bits => Reading::Corrected(bits),
        })
    }
}

impl Nand for MtdChip {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&mut self, page: Page, into: &mut [u8]) -> Result<Reading, NandError> {
        let read = self.file.read_exact_at(into, self.page_at(page));
        let stats = self.ecc_stats().map_err(|error| self.gone(&error))?;
        match read {
            Ok(()) => self.reading(into, stats),
            // Some drivers give no bytes of a page that cannot be corrected.
            Err(error)
                if error.kind() == io::ErrorKind::UnexpectedEof
                    || Errno::from_io_error(&error) == Some(Errno::BADMSG) =>
            {
                self.stats = stats;
                Err(NandError::Uncorrectable)
            }
            Err(error) => Err(self.gone(&error)),
        }
    }

    fn program(&mut self, page: Page, from: &[u8]) -> Result<(), NandError> {
        self.changed(self.file.write_all_at(from, self.page_at(page)))
    }

    fn erase(&mut self, block: EraseBlock) -> Result<(), NandError> {
        self.changed(mtd_device::erase(&self.file, self.block_at(block), self.block_bytes()))
    }

    /// The spare area too, whose code tells something of the content; but for the mark of the block, which stays as it is.
    fn blacken(&mut self, page: Page) -> Result<(), NandError> {
        let data = vec![0_u8; self.geometry.page_bytes as usize];
        let mut spare = vec![0_u8; self.geometry.spare_bytes as usize];
        spare.iter_mut().take(MARK_BYTES).for_each(|byte| *byte = 0xff);
        let mut request = WriteRequest {
            start: self.page_at(page),
            len: data.len() as u64,
            ooblen: spare.len() as u64,
            usr_data: data.as_ptr() as u64,
            usr_oob: if spare.is_empty() { 0 } else { spare.as_ptr() as u64 },
            mode: MTD_OPS_RAW,
            padding: [0; 7],
        };
        // SAFETY: MEMWRITE takes a `struct mtd_write_req`, which `WriteRequest` is, and reads `len` bytes from `usr_data` and `ooblen` bytes
        // from `usr_oob`: `data` and `spare` have as many, and live until the call is over.
        let written = unsafe { ioctl(&self.file, Updater::<MEMWRITE, WriteRequest>::new(&mut request)) };
        match written {
            Err(Errno::OPNOTSUPP | Errno::NOTTY) => Err(NandError::Failed),
            written => self.changed(written.map_err(io::Error::from)),
        }
    }

    fn raw(&mut self, page: Page, into: &mut [u8], spare: &mut [u8]) -> Result<(), NandError> {
        self.raw.read_exact_at(into, self.page_at(page)).map_err(|error| self.gone(&error))?;
        if spare.is_empty() {
            return Ok(());
        }
        let length = u32::try_from(spare.len()).expect("a spare area has less than 4 GiB");
        let usr_ptr = spare.as_mut_ptr() as u64;
        let mut buffer = OobBuffer { start: self.page_at(page), pad: 0, length, usr_ptr };
        // SAFETY: MEMREADOOB64 takes a `struct mtd_oob_buf64`, which `OobBuffer` is, and writes at most `length` bytes to `usr_ptr`:
        // `spare` has as many, and is borrowed until the call is over.
        unsafe { ioctl(&self.raw, Updater::<MEMREADOOB64, OobBuffer>::new(&mut buffer)) }
            .map_err(|error| self.gone(&error.into()))
    }

    fn is_bad(&mut self, block: EraseBlock) -> Result<bool, NandError> {
        let at = GetBadBlock(self.block_at(block).cast_signed());
        // SAFETY: the request is as its implementation says.
        unsafe { ioctl(&self.file, at) }.map_err(|error| self.gone(&error.into()))
    }

    fn mark_bad(&mut self, block: EraseBlock) -> Result<(), NandError> {
        let at = self.block_at(block).cast_signed();
        // SAFETY: MEMSETBADBLOCK reads a `loff_t`, which is an `i64`.
        let marked = unsafe { ioctl(&self.file, Setter::<MEMSETBADBLOCK, i64>::new(at)) };
        match marked {
            Err(Errno::OPNOTSUPP) => Err(NandError::Failed),
            marked => self.changed(marked.map_err(io::Error::from)),
        }
    }
}

/// What `/sys` says of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Facts {
    /// Bytes of the device.
    size: Option<u64>,
    /// Number of wrong bits in the worst part of a page that the driver corrects.
    ecc_strength: Option<u32>,
}

impl Facts {
    /// The facts of a device. Each has two minor numbers: the odd one is for reading.
    fn of(sys: &Path, minor: u32) -> Self {
        let folder = sys.join(format!("class/mtd/mtd{}", minor / 2));
        let text = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
        Self {
            size: text("size").and_then(|text| text.trim().parse().ok()),
            ecc_strength: text("ecc_strength").and_then(|text| text.trim().parse().ok()),
        }
    }
}

fn check_kind(info: &Info) -> Result<(), String> {
    if info.flags & MTD_WRITEABLE == 0 {
        return Err("the device cannot be written to; use one that can".into());
    }
    match info.kind {
        MTD_NANDFLASH => Ok(()),
        MTD_MLCNANDFLASH if info.flags & MTD_SLC_ON_MLC_EMULATION != 0 => Ok(()),
        MTD_MLCNANDFLASH => Err(
            "the flash has two bits or more in each cell, and a cut of the power can harm pages that were written before; use a partition \
             in SLC mode (`slc-mode` in the device tree), or a chip with one bit in each cell"
                .into(),
        ),
        MTD_NORFLASH => Err("the device is NOR flash; a disk needs raw NAND flash with one bit in each cell".into()),
        MTD_UBIVOLUME => {
            Err("the device is a UBI volume, below which copies remain; name the MTD device of the chip".into())
        }
        kind => Err(format!("the MTD device has type {kind}; a disk needs raw NAND flash, of type {MTD_NANDFLASH}")),
    }
}

fn geometry(info: &Info, facts: Facts) -> Result<Geometry, String> {
    let Info { size, erasesize, writesize, oobsize, .. } = *info;
    // The kernel's older field has 32 bits.
    let size = facts.size.unwrap_or(size.into());
    let sizes = || format!("{size} bytes in blocks of {erasesize} bytes and pages of {writesize}");
    if writesize == 0 || erasesize == 0 || !erasesize.is_multiple_of(writesize) {
        return Err(format!("the driver says {}; expected whole pages in a block", sizes()));
    }
    let blocks = u32::try_from(size / u64::from(erasesize));
    let blocks = blocks.map_err(|_| format!("the driver says {}: too many blocks", sizes()))?;
    let ecc =
        facts.ecc_strength.ok_or("/sys does not say how many wrong bits the driver corrects; mount /sys")?;
    if ecc == 0 {
        return Err("the driver corrects no wrong bits; turn error correction on".into());
    }
    let block_pages = erasesize / writesize;
    let geometry =
        Geometry { page_bytes: writesize, spare_bytes: oobsize, block_pages, blocks, correctable_bits: ecc };
    check_geometry(geometry)?;
    Ok(geometry)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAND: Info = Info {
        kind: MTD_NANDFLASH,
        flags: 0x400,
        size: 128 << 20,
        erasesize: 128 << 10,
        writesize: 2048,
        oobsize: 64,
        padding: 0,
    };
    const FACTS: Facts = Facts { size: Some(128 << 20), ecc_strength: Some(4) };

    #[test]
    fn the_requests_have_the_numbers_of_the_kernel() {
        assert_eq!((MEMGETBADBLOCK as u64, MEMSETBADBLOCK as u64), (0x4008_4d0b, 0x4008_4d0c));
        assert_eq!((ECCGETSTATS as u64, MTDFILEMODE as u64), (0x8010_4d12, 0x4d13));
        assert_eq!((MEMREADOOB64 as u64, MEMWRITE as u64), (0xc018_4d16, 0xc030_4d18));
    }

    #[test]
    fn a_device_on_which_no_disk_can_lie_is_refused_with_what_is_wrong() {
        let expected = Geometry {
            page_bytes: 2048,
            spare_bytes: 64,
            block_pages: 64,
            blocks: 1024,
            correctable_bits: 4,
        };
        assert_eq!((check_kind(&NAND), geometry(&NAND, FACTS)), (Ok(()), Ok(expected)));
        let emulated = Info { kind: MTD_MLCNANDFLASH, flags: 0x4400, ..NAND };
        assert_eq!(check_kind(&emulated), Ok(()));
        for (info, what) in [
            (Info { kind: MTD_MLCNANDFLASH, ..NAND }, "slc-mode"),
            (Info { kind: MTD_NORFLASH, ..NAND }, "NOR flash"),
            (Info { kind: MTD_UBIVOLUME, ..NAND }, "UBI volume"),
            (Info { kind: 6, ..NAND }, "type 6"),
            (Info { flags: 0, ..NAND }, "cannot be written"),
        ] {
            assert!(check_kind(&info).expect_err(what).contains(what), "{info:?}");
        }
        let large = Facts { size: Some(1 << 40), ..FACTS };
        for (info, facts, what) in [
            (Info { writesize: 0, ..NAND }, FACTS, "whole pages"),
            (Info { erasesize: 0, ..NAND }, FACTS, "whole pages"),
            (Info { writesize: 512, ..NAND }, FACTS, "power of two from 2048"),
            (Info { writesize: 3072, erasesize: 6144, ..NAND }, FACTS, "power of two from 2048"),
            (Info { erasesize: 1 << 20, ..NAND }, large, "1 GiB of memory"),
            (Info { erasesize: 64 << 20, ..NAND }, FACTS, "2 erase blocks"),
            (NAND, Facts { ecc_strength: None, ..FACTS }, "/sys"),
            (NAND, Facts { ecc_strength: Some(0), ..FACTS }, "error correction"),
        ] {
            let error = geometry(&info, facts).expect_err(what);
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn the_facts_of_a_device_come_from_the_folder_of_its_number() {
        let sys = tempfile::tempdir().expect("a directory");
        let folder = sys.path().join("class/mtd/mtd4");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("size"), "8589934592\n").expect("a fact");
        std::fs::write(folder.join("ecc_strength"), "8\n").expect("a fact");
        let expected = Facts { size: Some(8 << 30), ecc_strength: Some(8) };
        assert_eq!((Facts::of(sys.path(), 8), Facts::of(sys.path(), 9)), (expected, expected));
        assert_eq!(Facts::of(sys.path(), 10), Facts::default());
    }

    #[test]
    fn a_file_that_is_no_mtd_device_is_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let error = MtdChip::open(file.path()).expect_err("it is a file").to_string();
        assert!(error.contains("not an MTD device"), "{error}");
    }
}
