//! Vaults of this host: their directories, what is put into them, and what comes out again.
//!
//! The vault itself, which decides what lives and what dies, is the crate `quietus-vault`. Here are the files, the clock
//! and the random numbers that it does not have.
//!
//! | question | where |
//! | --- | --- |
//! | the directory of a vault, its settings, its audit log; a vault that is open here | `place` |
//! | who has a vault open, and how others are served | `access::owner`; the asking end: `access::client` |
//! | how files are walked, read ahead and stored in order; files that are not read again (decision 32) | `transfer::source` |
//! | archives: headers, extended headers, sparse maps | `transfer::tar` |
//! | what a restore does about what is there; files that are not whole yet | `transfer::restore` |
//! | a disk as a file of a snapshot | `transfer::disk` |
//! | names, hosts and tags of snapshots; which of a series are kept | `choose` |
//! | sanitizations, proofs, a catalog made anew | `upkeep` |
//! | a path across snapshots | `across` |
//! | snapshots as a file system, by FUSE: the requests are answered on the thread of the command | `mount` |

mod access;
mod across;
mod choose;
mod error;
mod forget;
mod mount;
mod place;
mod transfer;
mod upkeep;

pub use crate::vault::access::client::{Client, Tell};
pub use crate::vault::access::owner::{peek, with_vault, with_vault_alone};
pub use crate::vault::access::request::{Control, Fill};
pub use crate::vault::choose::glob::Globs;
pub use crate::vault::choose::label::{Filter, Label, host_name};
pub use crate::vault::choose::retention::Keep;
pub use crate::vault::choose::select::{Line, outdated, select, select_one, snapshots};
pub use crate::vault::place::dir::{CreateVault, Home, VaultDir, create};
pub use crate::vault::place::record::{OwedForget, OwedLine, ReceiptLine};
pub use crate::vault::place::session::Session;
pub use crate::vault::place::settings::{Codec, VaultToml};
pub use crate::vault::transfer::disk::{DiskOf, put_disk};
pub use crate::vault::transfer::restore::{Overwrite, Restored, cat, entries, restore};
pub use crate::vault::transfer::source::{Put, Wanted, put_files};
pub use crate::vault::transfer::tar::{put_tar, write_tar_file};
pub use crate::vault::upkeep::prove::{VaultProof, VaultReceipt, Violation, prove};
pub use crate::vault::upkeep::repair::{LostHold, RepairedVault, repair};
pub use crate::vault::upkeep::sanitize::{Residue, Sanitize, SanitizeReceipt, Sanitized};
pub use across::{Change, Damaged, Difference, Version, damaged, diff, find};
pub use error::Error;
pub use forget::{Forgotten, forget_paths};
pub use mount::mount;

/// Is told how much was done, of how much, and says whether to go on.
pub type Step<'a> = &'a mut dyn FnMut(u64, u64) -> bool;
