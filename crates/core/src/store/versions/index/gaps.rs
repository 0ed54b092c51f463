//! Blocks that were forgotten in all versions up to an epoch: *gaps* in what these epochs show. (*Secure Deletion for a
//! Versioning File System*, section 3.3.1, calls all versions of a block its chain.)
//!
//! A read of a gap is refused: the index has nothing there any more, and zeros would be a lie. So a gap stays known as
//! long as an epoch is kept that has it.

use crate::base::extents::{ExtentMap, Value};
use crate::base::units::{Addr, BLOCK_BYTES, Epoch, Extent};
use crate::mutant::{self, Mutant};
use crate::store::versions::index::key::{NUMBER, number, pack};
use crate::store::versions::index::twin::Twin;
use crate::tree::{Absent, Pages};
use roaring::RoaringBitmap;

/// See the module's documentation.
#[derive(Debug)]
pub(in super::super) struct Gaps {
    /// By last epoch and first block: how many blocks.
    pub(in super::super) table: Twin<{ 2 * NUMBER }, NUMBER>,
    /// The last epoch that has the gap. Also the gaps that are not in the table yet.
    last: ExtentMap<Addr, Last>,
}

/// The last epoch that has a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Last(Epoch);

impl Value for Last {
    fn merged(&self, next: &Self) -> Option<Self> {
        (self == next).then_some(*self)
    }
}

impl Gaps {
    pub(in super::super) fn new(table: Twin<{ 2 * NUMBER }, NUMBER>) -> Self {
        Self { table, last: ExtentMap::default() }
    }

    #[cfg(test)]
    pub(in super::super) fn is_empty(&self) -> bool {
        self.table.tree().is_empty() && self.last.is_empty()
    }

    /// Reads the table, and adds its pages to `used`.
    pub(in super::super) fn reach(&mut self, pages: &Pages, used: &mut RoaringBitmap) -> Result<(), Absent> {
        self.table.reach(pages, used)?;
        let mut from = [0; 2 * NUMBER];
        while let Some((key, blocks)) = self.table.tree().at_or_after(pages, &from)? {
            let (to, first) = (number(&key, 0), number(&key, 1));
            self.note(Extent::new(first * BLOCK_BYTES, number(&blocks, 0) * BLOCK_BYTES), Epoch(to));
            from = pack(&[to, first + 1]);
        }
        Ok(())
    }

    /// Notes that no epoch up to this one shows these blocks any more.
    pub(in super::super) fn note(&mut self, blocks: Extent<Addr>, to: Epoch) {
        let mut parts = self.last.gaps(blocks);
        parts.extend(self.last.within(blocks).filter(|(_, last)| last.0 < to).map(|(part, _)| part));
        parts.into_iter().for_each(|part| self.last.insert(part, Last(to)));
    }

    /// The gaps of `epoch` within `extent`, in order.
    pub(in super::super) fn of(
        &self,
        epoch: Epoch,
        extent: Extent<Addr>,
    ) -> impl Iterator<Item = Extent<Addr>> {
        let has = move |last: &Last| epoch <= last.0 && !mutant::is(Mutant::HideGap);
        self.last.within(extent).filter(move |(_, last)| has(last)).map(|(part, _)| part)
    }

    /// The first epochs that show blocks of `extent` again that were forgotten before.
    pub(in super::super) fn ends(&self, extent: Extent<Addr>) -> impl Iterator<Item = Epoch> {
        self.last.within(extent).map(|(_, last)| Epoch(last.0.0 + 1))
    }

    pub(in super::super) fn write(
        &mut self,
        pages: &mut Pages,
        blocks: Extent<Addr>,
        to: Epoch,
    ) -> Result<(), Absent> {
        let key = pack(&[to.0, blocks.start.0 / BLOCK_BYTES]);
        let known = self.table.tree().get(pages, &key)?.map_or(0, |known| number(&known, 0));
        let blocks = known.max(blocks.len / BLOCK_BYTES);
        self.table.insert(pages, &key, &pack(&[blocks]))
    }

    /// Removes a gap that no epoch from `first` on has: whether there was one.
    pub(in super::super) fn drop_idle(&mut self, pages: &mut Pages, first: Epoch) -> Result<bool, Absent> {
        let oldest = self.table.tree().at_or_after(pages, &[0; 2 * NUMBER])?;
        let Some((key, _)) = oldest.filter(|(key, _)| number(key, 0) < first.0) else { return Ok(false) };
        self.table.remove(pages, &key)?;
        let idle: Vec<_> =
            self.last.iter().filter(|(_, last)| last.0 < first).map(|(part, _)| part).collect();
        idle.into_iter().for_each(|part| self.last.remove(part));
        Ok(true)
    }
}
