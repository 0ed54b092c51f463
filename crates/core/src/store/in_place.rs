//! The disk image or block device as it is: byte n lives at n.

use super::allocated::Allocated;
use super::{Content, Destruction, Geometry, Opening, Store, StoreError, StoreStatus, WritePlan};
use crate::base::blocks::BlockSet;
use crate::base::units::{Addr, Epoch, Extent};
use crate::media::MediumId;
use crate::media::medium::Medium;
use crate::media::place::Place;
use crate::media::places::Places;

/// See the module's documentation.
///
/// Invariants:
/// 1. Bytes without data read as zeros.
/// 2. There is no map: nothing is ever missing, behind or moved. Only on a medium that erases is something owed by place: what lay there
///    before the present content.
#[derive(Clone, Debug)]
pub struct InPlace {
    size: u64,
    allocated: Allocated,
}

impl InPlace {
    /// A disk of `size` bytes of which the blocks `allocated` may have data.
    #[must_use]
    pub fn new(size: u64, allocated: BlockSet) -> Self {
        Self { size, allocated: Allocated::new(size, allocated) }
    }

    /// The disk on `data`, and whether it is known which blocks have data.
    pub(super) fn open(opening: &Opening<'_>, data: &dyn Medium) -> Result<(Self, bool), StoreError> {
        let (medium, disk) = (data.size(), opening.size);
        if medium < disk {
            return Err(StoreError::Short { medium, disk });
        }
        if !opening.owed.is_empty() && !data.capabilities().erases {
            return Err(StoreError::OwesByPlace(opening.owed.len()));
        }
        let (allocated, knows) = Self::known(opening);
        Ok((Self { size: disk, allocated }, knows))
    }

    /// Which bytes may have data, and whether that is known.
    pub(super) fn known(opening: &Opening<'_>) -> (Allocated, bool) {
        let blocks = opening.kept.and_then(|bytes| BlockSet::from_bytes(bytes).ok());
        let knows = blocks.is_some();
        (Allocated::new(opening.size, blocks.unwrap_or_else(|| everything(opening.size))), knows)
    }
}

/// Every block of a disk: until more is known, each may have data.
fn everything(size: u64) -> BlockSet {
    let mut allocated = BlockSet::default();
    allocated.insert(Extent::new(0, size));
    allocated
}

impl Store for InPlace {
    fn geometry(&self) -> Geometry {
        Geometry { size: self.size, block_bytes: 1, write_bytes: 1, death_bytes: 1 }
    }

    fn destruction(&self) -> Destruction {
        Destruction::InPlace
    }

    fn status(&self) -> StoreStatus {
        StoreStatus::InPlace
    }

    fn allocated_bytes(&self) -> u64 {
        self.allocated.bytes()
    }

    fn view(&self) -> Vec<u8> {
        self.allocated.blocks().to_bytes()
    }

    fn first(&self, content: Content, extent: Extent<Addr>) -> Option<Extent<Addr>> {
        match content {
            Content::Own | Content::Visible | Content::Discardable => self.allocated.first(extent),
        }
    }

    fn locate(&self, extent: Extent<Addr>) -> Places {
        Place { on: MediumId::Data, extent: Extent::new(extent.start.0, extent.len) }.into()
    }

    fn begin_write(&mut self, extent: Extent<Addr>, _: Epoch) -> WritePlan {
        assert!(extent.end() <= self.size, "a write lies on the disk");
        self.allocated.allocate(extent);
        WritePlan::To(self.locate(extent))
    }

    fn unmap(&mut self, extent: Extent<Addr>) {
        self.allocated.unmap(extent);
    }
}
