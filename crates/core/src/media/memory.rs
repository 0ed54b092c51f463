//! The medium of tests.

use crate::base::units::{BLOCK_BYTES, Extent, Pos};
use crate::media::medium::{Capabilities, Keep, Medium, MediumError, MediumErrorKind};
use std::cell::{Cell, RefCell};
use std::io::IoSliceMut;

/// Contents, each with its place.
type Older = Vec<(Extent<Pos>, Vec<u8>)>;

/// A medium without a cache, which can be told to fail.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) bytes: RefCell<Vec<u8>>,
    /// The reads and the writes: position and length.
    pub(crate) reads: RefCell<Vec<(u64, usize)>>,
    pub(crate) writes: RefCell<Vec<(u64, usize)>>,
    pub(crate) broken: Cell<bool>,
    /// The medium takes no writes for a while.
    pub(crate) busy: Cell<bool>,
    /// Reads fail.
    pub(crate) blind: Cell<bool>,
    /// The medium cannot give space back.
    pub(crate) keeps: Cell<bool>,
    /// The medium cannot grow.
    pub(crate) full: Cell<bool>,
    /// No part of the medium has space, and the host has no more.
    pub(crate) starved: Cell<bool>,
    /// What writes have replaced and no erase destroyed, if the medium keeps that elsewhere.
    pub(crate) older: RefCell<Option<Older>>,
    /// Bytes that will not be erased.
    pub(crate) stubborn: Cell<Extent<Pos>>,
    pub(crate) syncs: Cell<usize>,
}

impl Memory {
    pub(crate) fn new(size: u64) -> Self {
        Self { bytes: RefCell::new(vec![0; size as usize]), ..Self::default() }
    }

    /// A medium of which only an erase destroys what was written.
    pub(crate) fn erasing(size: u64) -> Self {
        Self { older: RefCell::new(Some(Vec::new())), ..Self::new(size) }
    }

    /// Whether the medium has this byte anywhere in what lay in `extent`, now or before.
    pub(crate) fn has(&self, extent: Extent<Pos>, byte: u8) -> bool {
        let older = self.older.borrow();
        let before = older.iter().flatten().filter(|(at, _)| at.overlaps(extent));
        let now = &self.bytes.borrow()[extent.start.0 as usize..extent.end() as usize];
        now.contains(&byte) || before.into_iter().any(|(_, bytes)| bytes.contains(&byte))
    }

    fn refuse(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        fails(self.stubborn.get().overlaps(extent), MediumErrorKind::Remains, "stubborn")
    }

    pub(crate) fn put(&self, pos: Pos, from: &[u8]) -> Result<(), MediumError> {
        fails(self.broken.get(), MediumErrorKind::Io, "broken")?;
        fails(self.busy.get(), MediumErrorKind::Busy, "busy")?;
        let mut bytes = self.bytes.borrow_mut();
        self.reserve(Extent::new(pos.0, from.len() as u64))?;
        let end = bytes.len().max(pos.0 as usize + from.len());
        fails(self.full.get() && end > bytes.len(), MediumErrorKind::NoSpace, "full")?;
        bytes.resize(end, 0);
        if let Some(older) = &mut *self.older.borrow_mut() {
            let old = Extent::<Pos>::new(pos.0, from.len() as u64).pieces(BLOCK_BYTES);
            older.extend(old.map(|at| (at, bytes[at.start.0 as usize..at.end() as usize].to_vec())));
        }
        bytes[pos.0 as usize..][..from.len()].copy_from_slice(from);
        Ok(())
    }
}

impl Medium for Memory {
    fn size(&self) -> u64 {
        self.bytes.borrow().len() as u64
    }
    fn read(&self, pos: Pos, into: &mut [u8]) -> Result<(), MediumError> {
        fails(self.blind.get(), MediumErrorKind::Io, "unreadable")?;
        self.reads.borrow_mut().push((pos.0, into.len()));
        into.copy_from_slice(&self.bytes.borrow()[pos.0 as usize..][..into.len()]);
        Ok(())
    }
    fn read_vectored(&self, pos: Pos, into: &mut [IoSliceMut<'_>]) -> Result<(), MediumError> {
        let mut bytes = vec![0; into.iter().map(|part| part.len()).sum()];
        self.read(pos, &mut bytes)?;
        let mut rest = &bytes[..];
        for part in into {
            let (own, others) = rest.split_at(part.len());
            part.copy_from_slice(own);
            rest = others;
        }
        Ok(())
    }
    fn write(&self, pos: Pos, from: &[u8], _: bool) -> Result<(), MediumError> {
        self.writes.borrow_mut().push((pos.0, from.len()));
        self.put(pos, from)
    }
    fn sync(&self) -> Result<(), MediumError> {
        self.syncs.set(self.syncs.get() + 1);
        self.put(Pos(0), &[])
    }
    fn overwrite(&self, pos: Pos, from: &[u8]) -> Result<(), MediumError> {
        self.refuse(Extent::new(pos.0, from.len() as u64))?;
        self.put(pos, from)
    }
    fn punch(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        self.refuse(extent)?;
        self.zero(extent)
    }
    fn zero(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        self.put(extent.start, &vec![0; extent.len as usize])
    }
    fn erase(&self, extents: &[Extent<Pos>], keep: Keep) -> Result<(), MediumError> {
        extents.iter().try_for_each(|extent| self.refuse(*extent))?;
        if keep == Keep::Nothing {
            extents.iter().try_for_each(|extent| self.zero(*extent))?;
        }
        let is_meant = |at: &Extent<Pos>| extents.iter().any(|extent| extent.overlaps(*at));
        self.older.borrow_mut().iter_mut().for_each(|older| older.retain(|(at, _)| !is_meant(at)));
        Ok(())
    }
    fn reserve(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        fails(self.starved.get() && !extent.is_empty(), MediumErrorKind::NoSpace, "starved")
    }
    fn shrink(&self, size: u64) -> Result<(), MediumError> {
        self.bytes.borrow_mut().truncate(size as usize);
        Ok(())
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { punch: !self.keeps.get(), erases: self.older.borrow().is_some() }
    }
}

fn fails(is_so: bool, kind: MediumErrorKind, message: &str) -> Result<(), MediumError> {
    if is_so { Err(MediumError { kind, message: message.into() }) } else { Ok(()) }
}
