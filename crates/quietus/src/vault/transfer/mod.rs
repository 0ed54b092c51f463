//! Files into a vault and out of it: folders, archives, disks.

pub(super) mod disk;
pub(super) mod restore;
pub(super) mod source;
pub(super) mod tar;
