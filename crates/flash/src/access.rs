//! Reads and changes of the chip, with the last page that was read at hand.

use crate::layout::Layout;
use crate::nand::{EraseBlock, Nand, NandError, Page, Reading};
use crate::units::{Slot, UNIT_BYTES};

/// A chip, and the last page that was read from it: units that share a page are read together.
#[derive(Debug)]
pub(crate) struct Access<N> {
    pub(crate) nand: N,
    layout: Layout,
    page: Option<Page>,
    bytes: Vec<u8>,
}

impl<N: Nand> Access<N> {
    pub(crate) fn new(nand: N, layout: Layout) -> Self {
        Self { nand, layout, page: None, bytes: vec![0; layout.geometry.page_bytes as usize] }
    }

    /// The content of `page`, if it has any.
    pub(crate) fn page(&mut self, page: Page) -> Result<(Reading, &[u8]), NandError> {
        if self.page == Some(page) {
            return Ok((Reading::Good, &self.bytes));
        }
        self.page = None;
        let reading = self.nand.read(page, &mut self.bytes)?;
        self.page = (reading != Reading::Blank).then_some(page);
        Ok((reading, &self.bytes))
    }

    /// The content of `page`; `None` if it is blank or cannot be corrected.
    pub(crate) fn content(&mut self, page: Page) -> Result<Option<&[u8]>, NandError> {
        match self.page(page) {
            Ok((Reading::Blank, _)) | Err(NandError::Uncorrectable | NandError::Failed) => Ok(None),
            Ok((Reading::Good | Reading::Corrected(_), _)) => Ok(Some(&self.bytes)),
            Err(error @ NandError::Gone(_)) => Err(error),
        }
    }

    /// Fills `into` with the unit in `slot`. The reading is that of its worst page.
    pub(crate) fn unit(&mut self, slot: Slot, into: &mut [u8]) -> Result<Reading, NandError> {
        let (first, range) = self.layout.page(slot);
        let mut worst = Reading::Good;
        for (n, part) in into.chunks_exact_mut(range.len()).enumerate() {
            let (reading, bytes) = self.page(Page(first.0 + n as u32))?;
            part.copy_from_slice(&bytes[range.clone()]);
            worst = match (worst, reading) {
                (Reading::Blank, _) | (_, Reading::Blank) => Reading::Blank,
                (Reading::Corrected(bits), Reading::Corrected(others)) => {
                    Reading::Corrected(bits.max(others))
                }
                (Reading::Corrected(bits), Reading::Good) => Reading::Corrected(bits),
                (Reading::Good, reading) => reading,
            };
        }
        Ok(worst)
    }

    /// The pages that hold `units` side by side, the last one filled up with zeros.
    pub(crate) fn pages_of<'a>(&self, units: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
        let mut bytes: Vec<u8> = units.flatten().copied().collect();
        assert!(bytes.len().is_multiple_of(UNIT_BYTES), "units are whole");
        let page_bytes = self.bytes.len();
        bytes.resize(bytes.len().next_multiple_of(page_bytes), 0);
        bytes.chunks_exact(page_bytes).map(<[u8]>::to_vec).collect()
    }

    pub(crate) fn program(&mut self, page: Page, from: &[u8]) -> Result<(), NandError> {
        self.page = None;
        self.nand.program(page, from)
    }

    /// Erases `block`; false if it fails, or if a page of it does not look blank afterwards.
    pub(crate) fn erase(&mut self, block: EraseBlock) -> Result<bool, NandError> {
        self.page = None;
        match self.nand.erase(block) {
            Ok(()) => {}
            Err(NandError::Gone(reason)) => return Err(NandError::Gone(reason)),
            Err(NandError::Failed | NandError::Uncorrectable) => return Ok(false),
        }
        match self.page(self.layout.geometry.page(block, 1)) {
            Ok((reading, _)) => Ok(reading == Reading::Blank),
            Err(NandError::Gone(reason)) => Err(NandError::Gone(reason)),
            Err(NandError::Failed | NandError::Uncorrectable) => Ok(false),
        }
    }

    /// Programs all pages of `block` to zeros; true if a raw read then finds nothing else in any of them.
    pub(crate) fn blacken(&mut self, block: EraseBlock) -> Result<bool, NandError> {
        self.page = None;
        let mut spare = vec![0; self.layout.geometry.spare_bytes as usize];
        let mut bytes = vec![0; self.bytes.len()];
        let mut is_black = true;
        for page in self.layout.geometry.pages(block) {
            if let Err(NandError::Gone(reason)) = self.nand.blacken(page) {
                return Err(NandError::Gone(reason));
            }
            self.nand.raw(page, &mut bytes, &mut spare)?;
            is_black &= bytes.iter().all(|byte| *byte == 0);
        }
        Ok(is_black)
    }

    /// Marks `block` bad; false if the chip refuses.
    pub(crate) fn mark_bad(&mut self, block: EraseBlock) -> Result<bool, NandError> {
        match self.nand.mark_bad(block) {
            Err(NandError::Gone(reason)) => Err(NandError::Gone(reason)),
            result => Ok(result.is_ok()),
        }
    }
}
