//! Options of the commands about epochs.

use super::EXIT;
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// `epoch`.
#[derive(Debug, Args)]
#[command(after_help = EXIT)]
pub struct EpochArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Name for the epoch that closes. If nothing was written since the last one closed, that one gets the name.
    #[arg(long)]
    pub name: Option<String>,
}

/// `versions`.
#[derive(Debug, Args)]
#[command(after_help = EXIT)]
pub struct VersionsListArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Number of the first epoch to list. At most 1,000 are listed at once.
    #[arg(long, default_value_t = 0)]
    pub from: u64,
    /// Count for each epoch what forgetting it alone would destroy. Takes as long as there is to count.
    #[arg(long)]
    pub unique: bool,
}

/// `forget`.
#[derive(Debug, Args)]
#[command(after_help = EXIT)]
pub struct ForgetArgs {
    /// The disk's directory and the epochs: DISK@17, DISK@17..20, DISK@before-upgrade, or all up to a time with
    /// DISK@..2026-11-20T10:00 (UTC).
    #[arg(value_name = "DISK@EPOCHS", value_hint = ValueHint::DirPath)]
    pub target: PathBuf,
    /// Wait until everything that died is destroyed.
    #[arg(long)]
    pub wait: bool,
}

/// `hold`.
#[derive(Debug, Args)]
#[command(after_help = EXIT)]
pub struct HoldArgs {
    /// The disk's directory and the epochs, as for `forget`.
    #[arg(value_name = "DISK@EPOCHS", value_hint = ValueHint::DirPath)]
    pub target: PathBuf,
    /// Name of the hold.
    #[arg(long)]
    pub name: String,
    /// Who asks for it.
    #[arg(long)]
    pub who: String,
    /// Why.
    #[arg(long)]
    pub why: String,
}

/// `release`.
#[derive(Debug, Args)]
#[command(after_help = EXIT)]
pub struct ReleaseArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Name of the hold.
    pub name: String,
}
