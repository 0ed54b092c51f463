//! The seam to a chip of NAND flash.

/// An erase block of a chip, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EraseBlock(pub u32);

/// A page of a chip, by its number: those of a block lie side by side.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Page(pub u32);

/// The shape of a chip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Bytes of a page, without its spare area.
    pub page_bytes: u32,
    /// Bytes of the spare area of a page.
    pub spare_bytes: u32,
    /// Number of pages in an erase block.
    pub block_pages: u32,
    /// Number of erase blocks.
    pub blocks: u32,
    /// Number of wrong bits in a page, or in its worst part, that the chip's code corrects.
    pub correctable_bits: u32,
}

impl Geometry {
    /// Page `index` of `block`.
    #[must_use]
    pub fn page(&self, block: EraseBlock, index: u32) -> Page {
        assert!(index < self.block_pages, "page {index} of a block of {}", self.block_pages);
        Page(block.0 * self.block_pages + index)
    }

    /// The block that has `page`, and the number of the page in it.
    #[must_use]
    pub fn place(&self, page: Page) -> (EraseBlock, u32) {
        (EraseBlock(page.0 / self.block_pages), page.0 % self.block_pages)
    }

    /// The pages of `block`, in the order in which they are programmed.
    pub fn pages(&self, block: EraseBlock) -> impl Iterator<Item = Page> + use<> {
        let first = block.0 * self.block_pages;
        (first..first + self.block_pages).map(Page)
    }
}

/// A chip of NAND flash.
///
/// The methods block. Within a block, pages are programmed in ascending order, each at most once between two erases.
pub trait Nand {
    /// The shape of the chip, which does not change.
    fn geometry(&self) -> Geometry;

    /// Fills `into`, which has the length of a page, with the corrected content of `page`.
    ///
    /// # Errors
    /// [`NandError::Uncorrectable`], [`NandError::Gone`]; `into` then holds nothing of use.
    fn read(&mut self, page: Page, into: &mut [u8]) -> Result<Reading, NandError>;

    /// Programs `page` with `from`, which has the length of a page. Durable on return.
    ///
    /// # Errors
    /// [`NandError::Failed`]: any part of `from` may be in the page. [`NandError::Gone`]: as when the power is cut.
    fn program(&mut self, page: Page, from: &[u8]) -> Result<(), NandError>;

    /// Erases `block`. Durable on return.
    ///
    /// # Errors
    /// [`NandError::Failed`]: any page may hold what it held. [`NandError::Gone`]: as when the power is cut.
    fn erase(&mut self, block: EraseBlock) -> Result<(), NandError>;

    /// Programs every cell of `page` to zero, whatever it holds: the last resort for a block that will not erase. Data sheets do not
    /// promise that this works, so only a [raw read](Nand::raw) shows whether it did.
    ///
    /// # Errors
    /// [`NandError::Failed`], if the chip or its driver refuses; [`NandError::Gone`].
    fn blacken(&mut self, page: Page) -> Result<(), NandError>;

    /// Fills `into` and `spare` with the bits of `page` and of its spare area, without correction.
    ///
    /// # Errors
    /// [`NandError::Gone`].
    fn raw(&mut self, page: Page, into: &mut [u8], spare: &mut [u8]) -> Result<(), NandError>;

    /// Whether `block` is marked bad, by its maker or by [`Nand::mark_bad`].
    ///
    /// # Errors
    /// [`NandError::Gone`].
    fn is_bad(&mut self, block: EraseBlock) -> Result<bool, NandError>;

    /// Marks `block` bad for ever. It can then be neither programmed nor erased. Durable on return.
    ///
    /// # Errors
    /// [`NandError::Failed`], [`NandError::Gone`]: it may be marked or not.
    fn mark_bad(&mut self, block: EraseBlock) -> Result<(), NandError>;
}

/// How the read of a page went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// The page has content, without a wrong bit.
    Good,
    /// The page has content, in which so many wrong bits were corrected.
    Corrected(u32),
    /// The page looks as if it were erased. After a cut of the power it may hold remains that only look so.
    Blank,
}

/// Why an operation of a [`Nand`] failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NandError {
    /// The chip reports that a program or an erase failed. The block is at the end of its life.
    #[error("the chip reports a failure")]
    Failed,
    /// A page has more wrong bits than its code corrects.
    #[error("a page has more wrong bits than its code corrects")]
    Uncorrectable,
    /// The chip or the way to it fails: no operation succeeds from now on.
    #[error("the flash chip does not answer: {0}; check the device and the kernel's log")]
    Gone(String),
}

impl<N: Nand> Nand for &mut N {
    fn geometry(&self) -> Geometry {
        (**self).geometry()
    }
    fn read(&mut self, page: Page, into: &mut [u8]) -> Result<Reading, NandError> {
        (**self).read(page, into)
    }
    fn program(&mut self, page: Page, from: &[u8]) -> Result<(), NandError> {
        (**self).program(page, from)
    }
    fn erase(&mut self, block: EraseBlock) -> Result<(), NandError> {
        (**self).erase(block)
    }
    fn blacken(&mut self, page: Page) -> Result<(), NandError> {
        (**self).blacken(page)
    }
    fn raw(&mut self, page: Page, into: &mut [u8], spare: &mut [u8]) -> Result<(), NandError> {
        (**self).raw(page, into, spare)
    }
    fn is_bad(&mut self, block: EraseBlock) -> Result<bool, NandError> {
        (**self).is_bad(block)
    }
    fn mark_bad(&mut self, block: EraseBlock) -> Result<(), NandError> {
        (**self).mark_bad(block)
    }
}
