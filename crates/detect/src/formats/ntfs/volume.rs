//! The head of a volume: the places of `$MFT` and `$Bitmap`, and the volume's condition. A function
//! of the content read and nothing else, so that it can run again whenever a part is written.

use crate::formats::format::{Contents, Probe, Reason};
use crate::formats::ntfs::boot::{BOOT_BYTES, Boot, is_boot};
use crate::formats::ntfs::lie::Lie;
use crate::formats::ntfs::list::{LIST_BYTES_MAX, entries, number_of};
use crate::formats::ntfs::log;
use crate::formats::ntfs::record::{ATTRIBUTE_LIST, Clusters, DATA, Record, Value};
use crate::formats::ntfs::runs::Pieces;
use crate::input::bytes::head;
use quietus_core::base::units::{Addr, Extent};
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

pub(super) const MFT: u64 = 0;
const LOG_FILE: u64 = 2;
const VOLUME: u64 = 3;
const BITMAP: u64 = 6;
/// Number of records at the start of `$MFT` that are read: all of the system's.
const HEAD_RECORDS: u64 = 16;
/// Number of those records that `$MFTMirr` repeats.
const MIRRORED_RECORDS: u64 = 4;
/// Types of attributes.
const VOLUME_INFORMATION: u32 = 0x70;
/// Flags of [`VOLUME_INFORMATION`]: the volume may be inconsistent; chkdsk is at work.
const NOT_CLEAN: u16 = 0x0001 | 0x4000;
/// Major version that is understood: 3.0 and 3.1.
const MAJOR_VERSION: u8 = 3;
/// Most records that extend `$MFT`'s own record.
const EXTENSIONS_MAX: usize = 512;
/// Most pieces of `$MFT` or `$Bitmap`.
const PIECES_MAX: usize = 1 << 16;

/// Value of [`VOLUME_INFORMATION`].
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawInformation {
    _reserved: U64,
    major_ver: u8,
    _minor_ver: u8,
    flags: U16,
}

const _: () = {
    assert!(size_of::<RawInformation>() == 12 && offset_of!(RawInformation, flags) == 10);
};

#[derive(Debug)]
pub(super) struct Volume {
    pub boot: Boot,
    pub mft: Pieces,
    /// Bytes of `$MFT` that were ever written.
    pub mft_bytes: u64,
    pub bitmap: Pieces,
    /// The volume is marked inconsistent.
    pub is_dirty: bool,
    /// A recovery may still undo changes of the metadata.
    pub is_logged: bool,
    /// Extents from which the volume was read.
    pub sources: Vec<Extent<Addr>>,
}

fn refused(text: impl Into<String>) -> Probe {
    Probe::Refused(Reason(text.into()))
}

/// The reason for refusing record `number` with `lie`.
pub(super) fn lies(number: u64, lie: Lie) -> Reason {
    Reason(format!("record {number} of $MFT is invalid: {lie}"))
}

/// Looks for a volume on a disk of `disk_bytes`.
pub(super) fn find(disk_bytes: u64, contents: &Contents) -> Result<Volume, Probe> {
    let sector = contents.head(0, BOOT_BYTES, disk_bytes)?;
    if !is_boot(sector) {
        return Err(Probe::IsNot);
    }
    let boot = Boot::from_bytes(sector, disk_bytes)?;
    boot.check_blocks()?;
    (Reader { boot: &boot, contents, sources: vec![Extent::new(0, BOOT_BYTES)] }).volume()
}

/// Collects the content that a volume is read from.
struct Reader<'a> {
    boot: &'a Boot,
    contents: &'a Contents,
    sources: Vec<Extent<Addr>>,
}

impl<'a> Reader<'a> {
    fn volume(mut self) -> Result<Volume, Probe> {
        let record = self.head_record(MFT)?;
        let (mut mft, mft_bytes) = self.first_piece(&record, MFT)?;
        self.extend(&record, &mut mft)?;
        let is_head = mft.place(0, HEAD_RECORDS * self.boot.record_bytes);
        if is_head.is_none_or(|at| at.start.0 != self.boot.mft_lcn * self.boot.cluster_bytes) {
            return Err(refused("$MFT does not begin where the boot sector says"));
        }
        if mft_bytes > mft.bytes() {
            return Err(refused("$MFT is larger than what it lies in"));
        }
        let bitmap = self.bitmap()?;
        let (is_dirty, is_logged) = (self.is_dirty()?, !self.is_log_at_rest()?);
        let Self { boot, sources, .. } = self;
        Ok(Volume { boot: boot.clone(), mft, mft_bytes, bitmap, is_dirty, is_logged, sources })
    }

    /// The content of all of `places`, on which the result depends from now on.
    fn read_all(&mut self, places: &[Extent<Addr>]) -> Result<Vec<&'a [u8]>, Probe> {
        let found = self.contents.all_needed(places)?;
        self.sources.extend(places);
        Ok(found)
    }

    fn read(&mut self, place: Extent<Addr>) -> Result<&'a [u8], Probe> {
        Ok(self.read_all(&[place])?.first().copied().unwrap_or_default())
    }

    fn records_at(&self, lcn: u64, count: u64) -> Result<Extent<Addr>, Probe> {
        let end = self.boot.clusters * self.boot.cluster_bytes;
        let place = Extent::within(lcn * self.boot.cluster_bytes, count * self.boot.record_bytes, end);
        place.ok_or_else(|| {
            refused("the boot sector has an invalid field: `mft_lcn` is beyond the end of the disk")
        })
    }

    /// One of the system's records, from `$MFTMirr` if the original is damaged.
    fn head_record(&mut self, number: u64) -> Result<Record, Probe> {
        let head = self.read(self.records_at(self.boot.mft_lcn, HEAD_RECORDS)?)?;
        let found = self.record_in(head, number);
        if found.is_ok() || number >= MIRRORED_RECORDS {
            return Ok(found?);
        }
        let mirror = self.read(self.records_at(self.boot.mftmirr_lcn, MIRRORED_RECORDS)?)?;
        Ok(self.record_in(mirror, number)?)
    }

    fn record_in(&self, records: &[u8], number: u64) -> Result<Record, Reason> {
        let bytes = records.chunks_exact(self.boot.record_bytes as usize).nth(number as usize);
        let found = Record::from_bytes(bytes.unwrap_or_default()).map_err(|lie| lies(number, lie))?;
        found.ok_or_else(|| lies(number, Lie::of("it is not in use")))
    }

    /// The clusters of the unnamed `$DATA` of `record`, or of its first part.
    fn data<'b>(&self, record: &'b Record, number: u64) -> Result<Clusters<'b>, Reason> {
        let found = record.unnamed(DATA).map_err(|lie| lies(number, lie))?;
        match found.map(|it| it.value) {
            Some(Value::Elsewhere(clusters)) => Ok(clusters),
            _ => Err(lies(number, Lie::of("it has no $DATA in clusters"))),
        }
    }

    /// The first pieces of the `$DATA` of `record`, and the number of bytes ever written.
    fn first_piece(&self, record: &Record, number: u64) -> Result<(Pieces, u64), Reason> {
        let data = self.data(record, number)?;
        let runs = data.runs(self.boot.clusters).map_err(|lie| lies(number, lie))?;
        let pieces = Pieces::new(runs, self.boot.cluster_bytes).filter(|_| data.lowest_vcn == 0);
        let pieces = pieces.ok_or_else(|| lies(number, Lie::of("its $DATA has holes")))?;
        Ok((pieces, data.initialized_size))
    }

    /// Adds the pieces in the records that extend `$MFT`'s own.
    fn extend(&mut self, record: &Record, mft: &mut Pieces) -> Result<(), Probe> {
        let mut wanted = self.extensions(record)?;
        wanted.sort_unstable();
        while let Some((vcn, _)) = wanted.first().copied() {
            let known = wanted.iter().map_while(|(_, number)| self.place_of(*number, mft));
            let places: Vec<_> = known.collect();
            if places.is_empty() || vcn != mft.end_vcn() {
                return Err(lies(MFT, Lie::of("its list of attributes is invalid")).into());
            }
            let found = self.read_all(&places)?;
            for ((vcn, number), bytes) in wanted.drain(..places.len()).zip(found) {
                self.extend_by(bytes, vcn, number, mft)?;
            }
        }
        Ok(())
    }

    fn place_of(&self, number: u64, mft: &Pieces) -> Option<Extent<Addr>> {
        let bytes = self.boot.record_bytes;
        mft.place(number.checked_mul(bytes)?, bytes)
    }

    fn extend_by(&self, bytes: &[u8], vcn: u64, number: u64, mft: &mut Pieces) -> Result<(), Reason> {
        let record = Record::from_bytes(bytes).map_err(|lie| lies(number, lie))?;
        let record = record.filter(|it| number_of(it.base_mft_record) == MFT);
        let record = record.filter(|it| it.base_mft_record != 0);
        let record = record.ok_or_else(|| lies(number, Lie::of("it does not extend $MFT")))?;
        let data = self.data(&record, number)?;
        let runs = data.runs(self.boot.clusters).map_err(|lie| lies(number, lie))?;
        if data.lowest_vcn != vcn || mft.runs.len() + runs.len() > PIECES_MAX {
            return Err(lies(number, Lie::field("lowest_vcn", data.lowest_vcn)));
        }
        mft.extend(runs).ok_or_else(|| lies(number, Lie::of("its $DATA has holes")))
    }

    /// First cluster and record of each part of `$MFT`'s `$DATA` but the first.
    fn extensions(&mut self, record: &Record) -> Result<Vec<(u64, u64)>, Probe> {
        let list = self.list(record)?;
        let mut found = Vec::new();
        for entry in entries(&list) {
            let entry = entry.map_err(|lie| lies(MFT, lie))?;
            if entry.kind == DATA && entry.name.is_empty() && entry.lowest_vcn != 0 {
                found.push((entry.lowest_vcn, number_of(entry.mft_reference)));
            }
        }
        if found.len() > EXTENSIONS_MAX {
            return Err(refused("$MFT lies in too many pieces"));
        }
        Ok(found)
    }

    /// The content of the list of attributes; nothing if there is none.
    fn list(&mut self, record: &Record) -> Result<Vec<u8>, Probe> {
        let lie = |lie| lies(MFT, lie);
        match record.unnamed(ATTRIBUTE_LIST).map_err(lie)?.map(|it| it.value) {
            None => Ok(Vec::new()),
            Some(Value::Resident(bytes)) => Ok(bytes.to_vec()),
            Some(Value::Elsewhere(list)) => {
                let runs = list.runs(self.boot.clusters).map_err(lie)?;
                let pieces = Pieces::new(runs, self.boot.cluster_bytes);
                let pieces = pieces.filter(|it| list.data_size <= LIST_BYTES_MAX.min(it.bytes()));
                let pieces = pieces.ok_or_else(|| lie(Lie::of("its list of attributes is invalid")))?;
                let places: Vec<_> = pieces.extents(0, list.data_size).collect();
                Ok(self.read_all(&places)?.concat())
            }
        }
    }

    fn bitmap(&mut self) -> Result<Pieces, Probe> {
        let record = self.head_record(BITMAP)?;
        let (pieces, bytes) = self.first_piece(&record, BITMAP)?;
        let needed = self.boot.clusters.div_ceil(8);
        if bytes < needed || pieces.bytes() < needed {
            return Err(refused("$Bitmap is too short, or lies in too many pieces"));
        }
        Ok(pieces)
    }

    fn is_dirty(&mut self) -> Result<bool, Probe> {
        let record = self.head_record(VOLUME)?;
        let found = record.unnamed(VOLUME_INFORMATION).map_err(|lie| lies(VOLUME, lie))?;
        let Some(Value::Resident(information)) = found.map(|it| it.value) else {
            return Err(lies(VOLUME, Lie::of("it has no $VOLUME_INFORMATION")).into());
        };
        let information: &RawInformation =
            head(information).ok_or_else(|| lies(VOLUME, Lie::of("its $VOLUME_INFORMATION is cut off")))?;
        let RawInformation { major_ver, flags, .. } = information;
        if *major_ver != MAJOR_VERSION {
            return Err(refused(format!("it is of version {major_ver}, which is not understood")));
        }
        Ok(flags.get() & NOT_CLEAN != 0)
    }

    fn is_log_at_rest(&mut self) -> Result<bool, Probe> {
        let record = self.head_record(LOG_FILE)?;
        let (pieces, _) = self.first_piece(&record, LOG_FILE)?;
        let places: Vec<_> = pieces.extents(0, 2 * log::PAGE_BYTES).collect();
        let pages = self.read_all(&places)?.concat();
        Ok(log::is_at_rest(&pages))
    }
}
