//! Arguments of `repair`.

use clap::{Args, ValueHint};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = help!("quietus repair vm1 --dry-run"))]
pub struct RepairArgs {
    /// The disk's directory. Stop its server first.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Show what would be repaired, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask for confirmation. Without a terminal the command never asks.
    #[arg(long, conflicts_with = "dry_run")]
    pub yes: bool,
}
