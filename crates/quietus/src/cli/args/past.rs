//! Options of the commands about states of the past.

use super::EXIT;
use super::keys::CredentialArgs;
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// `diff`.
#[derive(Debug, Args)]
#[command(after_help = EXIT)]
pub struct DiffArgs {
    /// The disk's directory and an epoch: DISK@17, DISK@last, DISK@before-upgrade, or DISK@2026-11-20T10:00 (UTC), the
    /// last one that had closed by then.
    #[arg(value_name = "DISK@EPOCH", value_hint = ValueHint::DirPath)]
    pub from: PathBuf,
    /// The same disk and another epoch. Default: the current state.
    #[arg(value_name = "DISK@EPOCH", value_hint = ValueHint::DirPath)]
    pub to: Option<PathBuf>,
}

/// `restore`.
#[derive(Debug, Args)]
#[command(after_help = EXIT)]
pub struct RestoreArgs {
    /// The disk's directory and the epoch: DISK@17, DISK@before-upgrade, or DISK@2026-11-20T10:00 (UTC). The disk may be
    /// served, without a client.
    #[arg(value_name = "DISK@EPOCH", value_hint = ValueHint::DirPath)]
    pub target: PathBuf,
    /// The credential that opens the keys of a disk that is not served.
    #[command(flatten)]
    pub credential: CredentialArgs,
}
