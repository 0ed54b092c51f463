//! The value of an attribute: within a record, or in clusters.
//!
//! 1. Runs are decoded record by record: a file of many records takes no more memory than one of them.
//! 2. Each part goes on at the cluster where the part before it ends, so that a walk ends.
//! 3. A value is zeros from initialized_size on. No cluster behind that is shown.

use crate::ntfs::disk::{Disk, damaged};
use crate::{Error, Run};
use quietus_core::base::units::{Addr, Extent};
use quietus_detect::formats::ntfs::record::{Attribute, Clusters, Value};
use quietus_detect::formats::ntfs::runs;
use std::ops::Range;

/// Where a part of an attribute is described.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    /// The first cluster of the part.
    pub vcn: u64,
    /// The record, with its sequence number.
    pub mft_reference: u64,
}

/// The runs of a part.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Mapped {
    runs: Vec<runs::Run>,
    /// The cluster after the part.
    end_vcn: u64,
}

/// Where a value lies.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Place {
    Record(Vec<u8>),
    Clusters { first: Mapped, further: Vec<Part> },
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Stream {
    /// The file, by the number of its record.
    file: u64,
    /// Type and name of the attribute.
    what: (u32, Vec<u8>),
    /// Bytes of the value.
    pub bytes: u64,
    /// Bytes of its clusters.
    pub allocated_bytes: u64,
    /// Bytes from the first on that were written.
    written: u64,
    is_compressed: bool,
    is_encrypted: bool,
    place: Place,
}

/// Bytes of a value that lie together.
struct Piece {
    /// The first byte of the value.
    at: u64,
    place: Extent<Addr>,
}

/// The part `attribute` of `clusters`, on this disk.
fn mapped(disk: &Disk, file: u64, clusters: &Clusters) -> Result<Mapped, Error> {
    let runs = clusters.runs(disk.boot().clusters).map_err(|lie| damaged(file, lie))?;
    Ok(Mapped { runs, end_vcn: clusters.end_vcn() })
}

impl Stream {
    /// The value of `attribute` of `file`, which is its first part; the parts that follow are `further`.
    pub(super) fn new(
        disk: &Disk,
        file: u64,
        attribute: &Attribute,
        further: Vec<Part>,
    ) -> Result<Self, Error> {
        let (bytes, written, allocated_bytes, place) = match &attribute.value {
            Value::Resident(value) => {
                (value.len() as u64, value.len() as u64, 0, Place::Record(value.to_vec()))
            }
            Value::Elsewhere(clusters) => {
                let Clusters { data_size, initialized_size, allocated_bytes, .. } = *clusters;
                let first = mapped(disk, file, clusters)?;
                (data_size, initialized_size, allocated_bytes, Place::Clusters { first, further })
            }
        };
        for (field, value, max) in
            [("data_size", bytes, i64::MAX as u64), ("initialized_size", written, bytes)]
        {
            if value > max {
                return Err(damaged(file, format_args!("{field} {value}")));
            }
        }
        let (is_compressed, is_encrypted) = (attribute.is_compressed(), attribute.is_encrypted());
        let what = (attribute.kind, attribute.name.to_vec());
        Ok(Self { file, what, bytes, allocated_bytes, written, is_compressed, is_encrypted, place })
    }

    /// Whether the bytes are stored as they are.
    pub(super) fn is_plain(&self) -> bool {
        !self.is_compressed && !self.is_encrypted
    }

    /// The stream, if its bytes are stored as they are.
    pub(super) fn plain(self) -> Result<Self, Error> {
        if self.is_plain() {
            return Ok(self);
        }
        let how = if self.is_encrypted { "encrypted (EFS)" } else { "compressed (LZNT1)" };
        Err(Error::Unsupported(format!("record {}: the content is {how}", self.file)))
    }

    /// The parts after the first.
    pub(super) fn further(&self) -> &[Part] {
        match &self.place {
            Place::Record(_) => &[],
            Place::Clusters { further, .. } => further,
        }
    }

    /// The runs of a part after the first.
    pub(super) fn part_runs(&self, disk: &mut Disk, part: Part) -> Result<Vec<runs::Run>, Error> {
        Ok(self.part(disk, part)?.runs)
    }

    fn part(&self, disk: &mut Disk, part: Part) -> Result<Mapped, Error> {
        let record = disk.extension(self.file, part.mft_reference)?;
        let is_it = |it: &Attribute| (it.kind, it.name) == (self.what.0, &*self.what.1);
        for attribute in record.attributes() {
            let attribute = attribute.map_err(|lie| damaged(self.file, lie))?;
            match attribute.value {
                Value::Elsewhere(clusters) if is_it(&attribute) && clusters.lowest_vcn == part.vcn => {
                    return mapped(disk, self.file, &clusters);
                }
                _ => {}
            }
        }
        Err(damaged(
            self.file,
            format_args!("the part with lowest_vcn {} is not where it is listed", part.vcn),
        ))
    }

    /// Calls `found` for each piece of the bytes `asked` that was written, without holes, until it returns `false`.
    fn pieces(
        &self,
        disk: &mut Disk,
        asked: Range<u64>,
        found: &mut dyn FnMut(&mut Disk, Piece) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let Place::Clusters { first, further } = &self.place else { return Ok(()) };
        let asked = asked.start..asked.end.min(self.written);
        let cluster_bytes = disk.boot().cluster_bytes;
        let mut next = further.partition_point(|it| it.vcn <= asked.start / cluster_bytes);
        let mut part = match next.checked_sub(1) {
            Some(n) => self.part(disk, further[n])?,
            None => first.clone(),
        };
        while !asked.is_empty() {
            for piece in part.runs.iter().filter_map(|run| piece(run, &asked, cluster_bytes)) {
                if !found(disk, piece)? {
                    return Ok(());
                }
            }
            let reached = part.end_vcn.saturating_mul(cluster_bytes);
            if reached >= asked.end {
                break;
            }
            let follows = further.get(next).filter(|it| it.vcn == part.end_vcn);
            let follows = follows.ok_or_else(|| {
                damaged(
                    self.file,
                    format_args!("the runs end at byte {reached}, and initialized_size is {}", self.written),
                )
            })?;
            (part, next) = (self.part(disk, *follows)?, next + 1);
        }
        Ok(())
    }

    /// The bytes from `at` on, as many as there are up to `bytes`.
    pub(super) fn read(&self, disk: &mut Disk, at: u64, bytes: usize) -> Result<Vec<u8>, Error> {
        let end = at.saturating_add(bytes as u64).min(self.bytes).max(at);
        if let Place::Record(value) = &self.place {
            let part = usize::try_from(at).ok().and_then(|at| value.get(at..end as usize));
            return Ok(part.unwrap_or_default().to_vec());
        }
        let mut content = vec![0; (end - at) as usize];
        self.pieces(disk, at..end, &mut |disk, piece| {
            let into = (piece.at - at) as usize;
            content[into..into + piece.place.len as usize].copy_from_slice(&disk.bytes(piece.place)?);
            Ok(true)
        })?;
        Ok(content)
    }

    /// The whole value, which has `bytes_max` at most.
    pub(super) fn whole(&self, disk: &mut Disk, bytes_max: u64) -> Result<Vec<u8>, Error> {
        if self.bytes > bytes_max {
            let what = format!("data_size {} of the attribute of type {:#x}", self.bytes, self.what.0);
            return Err(damaged(self.file, what));
        }
        self.read(disk, 0, self.bytes as usize)
    }

    /// Calls `found` for each run, as [`crate::Volume::runs`] does.
    pub(super) fn runs(&self, disk: &mut Disk, found: &mut dyn FnMut(Run) -> bool) -> Result<(), Error> {
        if let Place::Record(value) = &self.place {
            if !value.is_empty() {
                found(Run { at: 0, bytes: self.bytes, place: None });
            }
            return Ok(());
        }
        self.pieces(disk, 0..self.bytes, &mut |_, Piece { at, place }| {
            Ok(found(Run { at, bytes: place.len, place: Some(place.start) }))
        })
    }
}

/// What of `run` belongs to the bytes `asked`.
fn piece(run: &runs::Run, asked: &Range<u64>, cluster_bytes: u64) -> Option<Piece> {
    let first = run.vcn.saturating_mul(cluster_bytes);
    let at = asked.start.max(first);
    let end = asked.end.min(first.saturating_add(run.len * cluster_bytes));
    let start = run.lcn * cluster_bytes + at.saturating_sub(first);
    (at < end).then(|| Piece { at, place: Extent::new(start, end - at) })
}
