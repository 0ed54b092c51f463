//! Arguments of `repair`.

use clap::{Args, ValueHint};
use std::path::PathBuf;

/// `repair`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus repair vm1 --dry-run"))]
pub struct RepairArgs {
    /// The disk's directory; it must not be served meanwhile.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Say what would be repaired, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask on a terminal.
    #[arg(long, conflicts_with = "dry_run")]
    pub yes: bool,
}
