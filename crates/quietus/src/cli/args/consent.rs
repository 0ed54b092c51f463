//! Options of the commands whose work cannot be undone.

use clap::Args;

/// Whether to go on with what cannot be undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Args)]
pub struct ConsentArgs {
    /// Do not ask. Without a terminal, nothing is asked either.
    #[arg(short, long)]
    pub yes: bool,
    /// Say what would be done, and do nothing.
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
}
