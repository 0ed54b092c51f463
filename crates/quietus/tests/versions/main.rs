//! Disks that keep versions.

mod chains;
#[path = "../nbd/client.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "a client that can say all that there is")]
mod client;
mod clock;
#[path = "../nbd/ext2.rs"]
mod ext2;
mod judge;
#[path = "../cli/program.rs"]
#[allow(dead_code, reason = "disks of other kinds are made there too")]
mod program;
mod proof;
mod restored;
mod served;
mod verify;
