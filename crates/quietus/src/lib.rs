//! The server and its tools: everything around the core that touches the world.
//!
//! Each module uses only those above it in this list:
//!
//! | module | what it owns |
//! | --- | --- |
//! | [`base`] | memory, text and signatures: what knows nothing of disks |
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
//!
//! The audit log is apart from the proof: the engine writes the one, and the other reads a running engine. Files and paths
//! are the host's and not a disk's, as vaults have them too.

pub mod base;
pub mod cli;
pub mod disk;
pub mod engine;
pub mod epochs;
pub mod evidence;
pub mod files;
pub mod front;
pub mod host;
pub mod offline;
pub mod open_disk;
pub mod proof;
pub mod vault;
