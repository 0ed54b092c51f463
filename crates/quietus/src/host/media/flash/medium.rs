//! A part of a disk on a chip as a medium.

use super::open::{FlashWear, Open};
use crate::host::media::SharedMedium;
use quietus_core::base::units::{Extent, Pos};
use quietus_core::media::medium::{Capabilities, Keep, Medium, MediumError, MediumErrorKind};
use quietus_flash::Audit;
use std::fmt;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A part of a disk on raw NAND flash.
#[derive(Debug)]
pub struct FlashMedium {
    open: Arc<Open>,
    /// Where the part lies on the disk.
    extent: Extent<Pos>,
    /// The size by now, of a medium that grows with writes; the part is the most that it takes.
    len: Option<AtomicU64>,
}

/// What is done, where: words that are only put together for a message.
struct Act<'a>(&'a str, Extent<Pos>);

impl fmt::Display for Act<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(act, at) = self;
        write!(f, "{act} {} bytes at {} of", at.len, at.start.0)
    }
}

impl FlashMedium {
    pub(super) fn new(open: Arc<Open>, extent: Extent<Pos>) -> Self {
        Self { open, extent, len: None }
    }

    /// The same part as a medium that grows with writes, and ends where its content does by now.
    pub(super) fn growing(open: Arc<Open>, extent: Extent<Pos>) -> Self {
        let end = open.look(|flash| flash.end_of_data(extent));
        let len = Some(AtomicU64::new(end.0 - extent.start.0));
        Self { open, extent, len }
    }

    /// Makes room for content up to byte `end`, if the medium grows.
    fn grow(&self, what: &str, end: u64) -> Result<(), MediumError> {
        let Some(len) = &self.len else { return Ok(()) };
        if end > self.extent.len {
            let message = format!(
                "{what} the flash chip: its part for this content, {} bytes, is full",
                self.extent.len
            );
            return Err(MediumError { kind: MediumErrorKind::NoSpace, message });
        }
        len.fetch_max(end, Ordering::Relaxed);
        Ok(())
    }

    /// How worn the chip is.
    #[must_use]
    pub fn wear(&self) -> FlashWear {
        self.open.wear()
    }

    /// Reads every page of the chip raw, and says where it holds what the first extents had, and what the others had before their present
    /// content. Each extent is of a medium of this chip.
    ///
    /// # Errors
    /// The chip's.
    pub fn audit(
        &self,
        dead: &[(&Self, Extent<Pos>)],
        older: &[(&Self, Extent<Pos>)],
    ) -> Result<Audit, MediumError> {
        let [dead, older] = [dead, older].map(|all| {
            let there = |(medium, extent): &(&Self, Extent<Pos>)| medium.place(extent.start, extent.len);
            all.iter().map(there).collect::<Vec<_>>()
        });
        self.open.with("reading all pages of", |flash| flash.audit(&dead, &older))
    }

    /// Where `len` bytes at `pos` of the part lie on the disk.
    fn place(&self, pos: Pos, len: u64) -> Extent<Pos> {
        let within = Extent::<Pos>::within(pos.0, len, self.extent.len);
        let within = within.expect("requests lie within their part of the disk");
        Extent::new(self.extent.start.0 + within.start.0, within.len)
    }

    /// Old content stays on the chip until it is erased.
    fn trim(&self, act: &str, extent: Extent<Pos>) -> Result<(), MediumError> {
        let at = self.place(extent.start, extent.len);
        self.open.with(Act(act, at), |flash| flash.trim(at))
    }
}

impl Medium for FlashMedium {
    fn size(&self) -> u64 {
        self.len.as_ref().map_or(self.extent.len, |len| len.load(Ordering::Relaxed))
    }

    fn read(&self, pos: Pos, into: &mut [u8]) -> Result<(), MediumError> {
        let at = self.place(pos, into.len() as u64);
        self.open.with(Act("reading", at), |flash| flash.read(at.start, into))
    }

    fn write(&self, pos: Pos, from: &[u8], durable: bool) -> Result<(), MediumError> {
        self.grow("writing to", pos.0 + from.len() as u64)?;
        let at = self.place(pos, from.len() as u64);
        let what = Act("writing", at);
        if durable {
            self.open.write_durable(what, at.start, from)
        } else {
            self.open.with(what, |flash| flash.write(at.start, from))
        }
    }

    fn sync(&self) -> Result<(), MediumError> {
        self.open.sync()
    }

    fn punch(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        self.trim("punching", extent)
    }

    fn zero(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        self.trim("zeroing", extent)
    }

    fn erase(&self, extents: &[Extent<Pos>], keep: Keep) -> Result<(), MediumError> {
        let places: Vec<_> = extents.iter().map(|extent| self.place(extent.start, extent.len)).collect();
        let bytes: u64 = places.iter().map(|extent| extent.len).sum();
        let what = format!("erasing {bytes} bytes in {} extents of", places.len());
        self.open.with(&what, |flash| flash.erase(&places, keep))
    }

    /// The chip always has space for its disk.
    fn reserve(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        self.grow("allocating space on", extent.end())
    }

    fn shrink(&self, bytes: u64) -> Result<(), MediumError> {
        let len = self.len.as_ref().expect("only a medium that grows is shortened");
        self.trim("shortening", Extent::between(bytes.min(self.size()), self.size()))?;
        len.fetch_min(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn allocated(&self, extent: Extent<Pos>) -> Vec<Extent<Pos>> {
        let at = self.place(extent.start, extent.len);
        let parts = self.open.look(|flash| flash.present(at));
        parts.into_iter().map(|part| Extent::new(part.start.0 - self.extent.start.0, part.len)).collect()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { punch: true, erases: true }
    }
}

impl SharedMedium for FlashMedium {
    /// Every read may wait for the chip.
    fn read_cached(&self, _: Pos, _: &mut [IoSliceMut<'_>]) -> Option<Result<(), MediumError>> {
        None
    }

    /// A chip does not change behind the back of its one process; a failure of it is remembered by the layer.
    fn check_whole(&self) -> Result<(), MediumError> {
        Ok(())
    }
}
