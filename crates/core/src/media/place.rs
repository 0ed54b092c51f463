//! Where bytes lie.

use crate::base::units::{Extent, Pos};
use crate::media::MediumId;

/// A run of bytes on one medium.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place {
    /// The medium.
    pub on: MediumId,
    /// The bytes of the medium.
    pub extent: Extent<Pos>,
}

impl Place {
    /// The beginning of `on`: the place of an operation on the whole medium.
    #[must_use]
    pub fn all_of(on: MediumId) -> Self {
        Self { on, extent: Extent::new(0, 0) }
    }
}
