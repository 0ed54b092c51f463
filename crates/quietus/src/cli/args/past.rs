//! Options of the commands about states of the past.

use super::EXIT;
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// `diff`.
#[derive(Debug, Args)]
#[command(after_help = EXIT)]
pub struct DiffArgs {
    /// The disk's directory and an epoch: DISK@17, DISK@before-upgrade, or DISK@2026-11-20T10:00 (UTC), the last
    /// one that had closed by then.
    #[arg(value_name = "DISK@EPOCH", value_hint = ValueHint::DirPath)]
    pub from: PathBuf,
    /// The same disk and another epoch. Default: the current state.
    #[arg(value_name = "DISK@EPOCH", value_hint = ValueHint::DirPath)]
    pub to: Option<PathBuf>,
}
