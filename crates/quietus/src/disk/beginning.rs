//! What a creation begins with.

use super::DiskToml;
use crate::host::media::flash::FlashDisk;
use quietus_core::base::units::{Addr, Extent};

/// Initial content of a new disk.
pub(super) struct Beginning {
    pub(super) toml: DiskToml,
    /// Extent that holds data, or may hold some.
    pub(super) held: Option<Extent<Addr>>,
    /// Extent that lies on the medium and belongs to no file system.
    pub(super) dead: Option<Extent<Addr>>,
    /// The chip on which the disk lies, open until the disk is made.
    pub(super) chip: Option<FlashDisk>,
}
