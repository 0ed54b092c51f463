//! The extents of a file, as its file system maps them (`FIEMAP`, Documentation/filesystems/fiemap.rst of Linux).

use quietus_core::base::units::{Extent, Pos};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use std::fs::File;
use std::vec;

const FS_IOC_FIEMAP: Opcode = opcode::read_write::<FiemapHead>(b'f', 11);
/// Content that is not written yet gets its place first.
const FIEMAP_FLAG_SYNC: u32 = 0x1;
const FIEMAP_EXTENT_LAST: u32 = 0x1;
const FIEMAP_EXTENT_SHARED: u32 = 0x2000;
/// Extents that are asked for at once.
const EXTENTS: usize = 128;

/// `struct fiemap_extent` (linux/fiemap.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    fe_logical: u64,
    fe_physical: u64,
    fe_length: u64,
    fe_reserved64: [u64; 2],
    fe_flags: u32,
    fe_reserved: [u32; 3],
}

/// `struct fiemap` without its extents, whose size is in the request's number.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapHead {
    fm_start: u64,
    fm_length: u64,
    fm_flags: u32,
    fm_mapped_extents: u32,
    fm_extent_count: u32,
    fm_reserved: u32,
}

#[repr(C)]
struct Fiemap {
    head: FiemapHead,
    extents: [FiemapExtent; EXTENTS],
}

const _: () = assert!(size_of::<Fiemap>() == 32 + EXTENTS * 56);

/// A part of a file that has space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mapped {
    pub(crate) extent: Extent<Pos>,
    /// Whether another file, or a snapshot, has the same space.
    pub(crate) is_shared: bool,
}

/// Whether data that has no place on the medium yet gets one before the file system answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unwritten {
    Placed,
    LeftOut,
}

/// The extents that overlap a part of a file, in order.
pub(crate) struct Extents<'a> {
    file: &'a File,
    /// The part that was not asked for yet.
    rest: Extent<Pos>,
    flags: u32,
    found: vec::IntoIter<FiemapExtent>,
}

impl<'a> Extents<'a> {
    pub(crate) fn new(file: &'a File, within: Extent<Pos>, unwritten: Unwritten) -> Self {
        let flags = if unwritten == Unwritten::Placed { FIEMAP_FLAG_SYNC } else { 0 };
        Self { file, rest: within, flags, found: Vec::new().into_iter() }
    }

    /// Asks for the next extents.
    fn ask(&mut self) -> Result<(), Errno> {
        let asked = std::mem::replace(&mut self.rest, Extent::new(0, 0));
        let found = some(self.file, asked, self.flags)?;
        if let Some(last) = found.last().filter(|it| it.fe_flags & FIEMAP_EXTENT_LAST == 0) {
            let end = last.fe_logical.saturating_add(last.fe_length);
            // A file system that repeats itself does not go on for ever.
            if end > asked.start.0 {
                self.rest = Extent::between(end.min(asked.end()), asked.end());
            }
        }
        self.found = found.into_iter();
        Ok(())
    }
}

impl Iterator for Extents<'_> {
    type Item = Result<Mapped, Errno>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.found.len() == 0
            && !self.rest.is_empty()
            && let Err(error) = self.ask()
        {
            return Some(Err(error));
        }
        let FiemapExtent { fe_logical: start, fe_length: len, fe_flags: flags, .. } = self.found.next()?;
        let extent = Extent::new(start, len.min(u64::MAX - start));
        Some(Ok(Mapped { extent, is_shared: flags & FIEMAP_EXTENT_SHARED != 0 }))
    }
}

fn some(file: &File, within: Extent<Pos>, flags: u32) -> Result<Vec<FiemapExtent>, Errno> {
    let head = FiemapHead {
        fm_start: within.start.0,
        fm_length: within.len,
        fm_flags: flags,
        fm_extent_count: EXTENTS as u32,
        ..FiemapHead::default()
    };
    let mut fiemap = Box::new(Fiemap { head, extents: [FiemapExtent::default(); EXTENTS] });
    // SAFETY: FS_IOC_FIEMAP takes a `struct fiemap` and fills at most `fm_extent_count` of the extents that follow it, which are
    // there and outlive the call.
    unsafe { ioctl(file, Updater::<FS_IOC_FIEMAP, Fiemap>::new(&mut fiemap)) }?;
    let found = (fiemap.head.fm_mapped_extents as usize).min(EXTENTS);
    Ok(fiemap.extents[..found].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};

    #[test]
    fn the_request_has_the_number_of_the_kernel() {
        assert_eq!(FS_IOC_FIEMAP as u64, 0xc020_660b);
    }

    #[test]
    fn more_extents_than_one_answer_has_are_found_in_order() {
        let mut file = tempfile::tempfile().expect("a file");
        let places: Vec<u64> = (0..300).map(|n| n * (64 << 10)).collect();
        for at in &places {
            file.seek(SeekFrom::Start(*at)).and_then(|_| file.write_all(&[7; 4096])).expect("a write");
        }
        let whole = Extent::new(0, 300 * (64 << 10));
        let found: Result<Vec<_>, _> = Extents::new(&file, whole, Unwritten::Placed).collect();
        match found {
            Ok(found) => assert_eq!(found.iter().map(|it| it.extent.start.0).collect::<Vec<_>>(), places),
            Err(Errno::OPNOTSUPP | Errno::NOTTY) => {
                println!("skipped: the file system has no map of extents")
            }
            Err(error) => panic!("{error}"),
        }
    }
}
