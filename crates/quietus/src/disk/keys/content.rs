//! What the content of a disk is sealed and opened with.

use quietus_core::media::cipher::{Cipher, Keys};
use quietus_core::media::sealing::Sealer;
use std::sync::Arc;

/// [`Keys`] that all who serve the disk share.
#[derive(Clone, Debug)]
pub enum ContentKeys {
    /// Of a disk that keeps versions.
    Sealer(Arc<dyn Sealer>),
    /// Of a disk whose blocks lie under cells.
    Cipher(Arc<dyn Cipher>),
}

impl ContentKeys {
    /// The keys themselves.
    #[must_use]
    pub fn keys(&self) -> Keys<'_> {
        match self {
            Self::Sealer(sealer) => Keys::Sealer(&**sealer),
            Self::Cipher(cipher) => Keys::Cipher(&**cipher),
        }
    }
}
