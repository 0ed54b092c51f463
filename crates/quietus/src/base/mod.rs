//! Memory, text and signatures: what the program is built on, and what knows nothing of disks.

pub mod aligned;
pub mod buffers;
pub mod duration;
pub mod hex;
pub mod lock;
pub mod locked;
pub mod naming;
pub mod path_text;
pub mod refused_paths;
pub mod rfc3339;
pub mod signed;
pub mod wiping;
pub mod zeros;
