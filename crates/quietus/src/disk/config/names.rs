//! Names of files in a disk's directory.

/// Name of the file with the content, unless `disk.toml` names another.
pub(in crate::disk) const DATA_FILE: &str = "data";
/// Name of the base of a disk whose base was not raw.
pub(in crate::disk) const BASE_RAW: &str = "base.raw";
/// Name of the file with the stubs, unless `disk.toml` names another.
pub(in crate::disk) const STUBS_FILE: &str = "stubs";
/// Name of the file with the root, unless `disk.toml` names another.
pub(in crate::disk) const ROOT_FILE: &str = "root";
/// Name of the key file.
pub(in crate::disk) const KEYS_FILE: &str = "keys";
/// Name of the file with the key tree of a sealed disk.
pub(in crate::disk) const KEYTREE_FILE: &str = "keytree";
