//! Options of the commands whose work cannot be undone.

use clap::Args;

/// Whether to go on with what cannot be undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Args)]
pub struct ConsentArgs {
    /// Do not ask for confirmation. Without a terminal the command never asks.
    #[arg(short, long)]
    pub yes: bool,
    /// Show what would be done, and change nothing.
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
}
