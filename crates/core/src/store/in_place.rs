//! The disk image or block device as it is: byte n lives at n.

use super::Store;
use super::held::Held;
use crate::blocks::BlockSet;
use crate::media::MediumId;
use crate::place::{Place, Places};
use crate::units::{Addr, Extent};

/// See the module's documentation.
///
/// Invariant: what holds no data reads as zeros.
#[derive(Clone, Debug)]
pub struct InPlace {
    size: u64,
    held: Held,
}

impl InPlace {
    /// A disk of `size` bytes of which `held` may hold data.
    #[must_use]
    pub fn new(size: u64, held: BlockSet) -> Self {
        Self { size, held: Held::new(size, held) }
    }
}

impl Store for InPlace {
    fn size(&self) -> u64 {
        self.size
    }

    fn place(&self, extent: Extent<Addr>) -> Places {
        Place { on: MediumId::Data, extent: Extent::new(extent.start.0, extent.len) }.into()
    }

    fn hold(&mut self, extent: Extent<Addr>) -> Places {
        self.held.hold(extent);
        self.place(extent)
    }

    fn void(&mut self, extent: Extent<Addr>) {
        self.held.void(extent);
    }

    fn first_held(&self, extent: Extent<Addr>) -> Option<Extent<Addr>> {
        self.held.first(extent)
    }

    fn held_bytes(&self) -> u64 {
        self.held.bytes()
    }

    fn view(&self) -> Vec<u8> {
        self.held.blocks().to_bytes()
    }
}
