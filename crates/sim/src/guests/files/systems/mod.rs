//! The file systems that guests have, each as plain as its rules allow, and the truth about which blocks they own.

pub(super) mod ext2;
pub(super) mod ext4;
pub(super) mod fat;
pub(super) mod system;
pub(super) mod truth;
