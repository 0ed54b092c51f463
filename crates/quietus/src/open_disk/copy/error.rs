//! Why a disk is not copied.

use quietus_core::base::units::{Addr, Epoch, Extent};
use quietus_core::request::Refusal;
use std::io;

/// Reason why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The disk refused to be read.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// These bytes are forgotten in the epoch.
    #[error(
        "the {} bytes at {} are forgotten in epoch {}: they cannot be read again; --gone zeros has zeros in their place",
        .1.len, .1.start.0, .0.0
    )]
    Gone(Epoch, Extent<Addr>),
    /// The sink does not take the copy.
    #[error("cannot write the image: {0}")]
    Image(#[from] io::Error),
    /// The file has content, or is no regular file and no pipe.
    #[error(
        "cannot write the image: the file that came with the call is neither an empty regular file nor a pipe"
    )]
    NoSink,
    /// Copying is slower than the guest.
    #[error(
        "cannot export: the guest writes faster than the disk can be copied; try again when it is less busy"
    )]
    Restless,
    /// The copy was interrupted.
    #[error("interrupted; run the command again")]
    Interrupted,
}
