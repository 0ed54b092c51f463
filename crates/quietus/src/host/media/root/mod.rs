//! Where the root of a sealed disk lies, if not in a file or on a block device: 12 KiB, of which 112 bytes hold something.
//!
//! | question | where |
//! | --- | --- |
//! | how `--root` is written | `kind` |
//! | a label and two slots as a medium of 12 KiB | `slots` |
//! | two NV indices of a TPM | `tpm` |
//! | NOR flash, by way of the kernel's MTD devices | `nor` |
//! | memory that is lost with the server | `memory` |
//! | how long such a medium lives | `life` |
//!
//! Invariants:
//! 1. A write or pass that has returned is durable: no cache lies between. A sync has nothing to do.
//! 2. A pass over a slot leaves nothing of what the slot held, as far as the medium's own interface can tell; what the maker keeps below
//!    it cannot be seen. A pass that does not achieve this is answered [`MediumErrorKind::Remains`].
//! 3. Only what the medium certainly has not done is [`MediumErrorKind::Busy`].
//! 4. Whose medium it is stands on it. A creation never takes a medium that is in use.
//!
//! [`MediumErrorKind::Remains`]: quietus_core::media::medium::MediumErrorKind::Remains
//! [`MediumErrorKind::Busy`]: quietus_core::media::medium::MediumErrorKind::Busy

mod kind;
mod life;
mod memory;
mod nor;
mod slots;
mod tpm;

pub use kind::{RootKind, TpmPlace, TpmWay};
pub use life::Wear;
pub use memory::MemoryMedium;
pub use nor::{MtdAbout, MtdKind, MtdMedium};
pub use tpm::{TpmAbout, TpmMaker, TpmMedium};

/// Bytes of the medium.
pub const ROOT_BYTES: u64 = 3 * AREA_BYTES;
/// Bytes from one part to the next: the label, and each slot.
const AREA_BYTES: u64 = 4096;
/// Bytes of the label at the beginning.
const LABEL_BYTES: usize = 32;
/// Bytes of a slot. Those behind them, up to the next part, are zeros.
const SLOT_BYTES: usize = 40;

/// The label of a root.
pub type Label = [u8; LABEL_BYTES];
/// The content of a slot, which is a secret.
pub type SlotContent = zeroize::Zeroizing<[u8; SLOT_BYTES]>;
