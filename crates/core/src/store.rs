//! The only part that knows where bytes live.

use crate::blocks::BlockSet;
use crate::units::{Addr, Extent, Pos};

/// Where the content of the disk lives on the medium, and which of it is data.
pub trait Store {
    /// Bytes of the disk that the guest sees.
    fn size(&self) -> u64;

    /// Where `extent` lives.
    fn place(&self, extent: Extent<Addr>) -> Extent<Pos>;

    /// `extent` is about to hold data.
    fn hold(&mut self, extent: Extent<Addr>);

    /// `extent` reads as zeros, and holds no data any more.
    fn void(&mut self, extent: Extent<Addr>);

    /// The first run within `extent` that holds data, or may hold some.
    fn first_held(&self, extent: Extent<Addr>) -> Option<Extent<Addr>>;

    /// Bytes in blocks that hold data, or may hold some.
    fn held_bytes(&self) -> u64;
}

/// The disk image or block device as it is: byte n lives at n.
///
/// Invariant: a block that holds no data reads as zeros.
#[derive(Clone, Debug)]
pub struct InPlace {
    size: u64,
    held: BlockSet,
}

impl InPlace {
    /// A disk of `size` bytes of which `held` may hold data.
    #[must_use]
    pub fn new(size: u64, held: BlockSet) -> Self {
        Self { size, held }
    }

    /// The blocks that hold data, or may hold some.
    #[must_use]
    pub fn held(&self) -> &BlockSet {
        &self.held
    }
}

impl Store for InPlace {
    fn size(&self) -> u64 {
        self.size
    }

    fn place(&self, extent: Extent<Addr>) -> Extent<Pos> {
        Extent::new(extent.start.0, extent.len)
    }

    fn hold(&mut self, extent: Extent<Addr>) {
        self.held.insert(extent);
    }

    fn void(&mut self, extent: Extent<Addr>) {
        // The last block may be cut off by the end of the disk.
        let end = if extent.end() == self.size { self.size.next_multiple_of(4096) } else { extent.end() };
        self.held.remove(Extent::between(extent.start.0, end));
    }

    fn first_held(&self, extent: Extent<Addr>) -> Option<Extent<Addr>> {
        self.held.first_run(extent)
    }

    fn held_bytes(&self) -> u64 {
        self.held.len() * crate::units::BLOCK_BYTES
    }
}
