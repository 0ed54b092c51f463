//! Vaults of this host: their directories, what is put into them, and what comes out again.
//!
//! The vault itself, which decides what lives and what dies, is the crate `quietus-vault`. Here are the files, the clock
//! and the random numbers that it does not have.

mod across;
mod ahead;
mod attributes;
mod client;
mod dir;
mod disk;
mod error;
mod forget;
mod glob;
mod label;
mod mount;
mod owner;
mod peek;
mod prove;
mod record;
mod repair;
mod restore;
mod retention;
mod sanitize;
mod select;
mod session;
mod settings;
mod source;
mod tar;

pub use across::{Change, Damaged, Difference, Version, damaged, diff, find};
pub use client::{Client, Tell};
pub use dir::{CreateVault, Home, VaultDir, create};
pub use disk::{DiskOf, put_disk};
pub use error::Error;
pub use forget::{Forgotten, forget_paths};
pub use glob::Globs;
pub use label::{Filter, Label, host_name};
pub use mount::mount;
pub use owner::{Control, Fill, with_vault, with_vault_alone};
pub use peek::peek;
pub use prove::{VaultProof, VaultReceipt, Violation, check, prove};
pub use record::{OwedForget, OwedLine, ReceiptLine};
pub use repair::{LostHold, RepairedVault, repair};
pub use restore::{Overwrite, Restored, cat, entries, restore};
pub use retention::Keep;
pub use sanitize::{Residue, Sanitize, SanitizeReceipt, Sanitized, check as check_sanitized};
pub use select::{Line, outdated, select, select_one, snapshots};
pub use session::Session;
pub use settings::{Codec, VaultToml};
pub use source::{Put, Wanted, put_files};
pub use tar::{put_tar, write_tar_file};

/// Is told how much was done, of how much, and says whether to go on.
pub type Step<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// Milliseconds since 1970.
fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_millis() as u64
}
