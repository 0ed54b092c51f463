//! The server and its tools: everything around the core that touches the world.
//!
//! Each module uses only those above it in this list:
//!
//! | module | what it owns |
//! | --- | --- |
//! | [`base`] | memory, text and signatures, without a thought of disks |
//! | [`host`] | files, directories and media of the host, and what it guarantees |
//! | [`evidence`] | the audit log |
//! | [`disk`] | the directory of a disk: `disk.toml`, keys, base, names of epochs |
//! | [`engine`] | a volume that runs |
//! | [`open_disk`] | a disk that is open here: directory, engine, clock; copies of it |
//! | [`epochs`] | what is done with epochs: finding, closing, comparing, forgetting them |
//! | [`proof`] | whether what is dead is gone, and whether what lives is whole |
//! | [`front`] | ways in: NBD, the control socket |
//! | [`offline`], [`vault`] | operations on whole disks; vaults |
//! | [`cli`] | commands and reports |

pub mod base;
pub mod cli;
pub mod disk;
pub mod engine;
pub mod epochs;
pub mod evidence;
pub mod front;
pub mod host;
pub mod offline;
pub mod open_disk;
pub mod proof;
pub mod vault;
