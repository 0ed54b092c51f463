//! Options of the commands about states of the past.

use super::super::complete::epochs;
use super::ConsentArgs;
use super::keys::CredentialArgs;
use clap::{Args, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = help!("quietus diff vm1@17 vm1@20", "quietus diff vm1@17:/home vm1@20"))]
pub struct DiffArgs {
    /// The disk's directory and an epoch: DISK@17, DISK@last, DISK@before-upgrade, or DISK@2026-11-20T10:00 (UTC), the
    /// last one closed by then. With a path behind it, DISK@17:/home, the files there are compared.
    #[arg(value_name = "DISK@EPOCH", value_hint = ValueHint::DirPath, add = ArgValueCompleter::new(epochs))]
    pub from: PathBuf,
    /// The same disk and another epoch. Default: the current state.
    #[arg(value_name = "DISK@EPOCH", value_hint = ValueHint::DirPath, add = ArgValueCompleter::new(epochs))]
    pub to: Option<PathBuf>,
    /// The credential that opens the keys of a disk that is not served, if files are compared.
    #[command(flatten)]
    pub credential: CredentialArgs,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus restore vm1@before-upgrade --dry-run", "quietus restore vm1@14:/home/ann --into ann"))]
pub struct RestoreArgs {
    /// The disk's directory and the epoch: DISK@17, DISK@before-upgrade, or DISK@2026-11-20T10:00 (UTC). Its server may run, but
    /// no client may be connected.
    #[arg(value_name = "DISK@EPOCH", value_hint = ValueHint::DirPath, add = ArgValueCompleter::new(epochs))]
    pub target: PathBuf,
    /// Folder for the files of DISK@EPOCH:/PATH, which are brought back onto this host; the disk stays as it is, and may be in use. Entries that exist are
    /// not replaced.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub into: Option<PathBuf>,
    /// Whether to go on.
    #[command(flatten)]
    pub consent: ConsentArgs,
    /// The credential that opens the keys of a disk that is not served.
    #[command(flatten)]
    pub credential: CredentialArgs,
}
