//! Options of the commands about epochs.

use super::super::complete::epochs;
use super::values::{parse_name, parse_numbers, parse_range};
use super::{ConsentArgs, CredentialArgs, Range};
use clap::{Args, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use std::ops::RangeInclusive;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = help!("quietus epoch vm1 --name before-upgrade"))]
pub struct EpochArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Name for the epoch: a letter or _, then letters, digits, -, _ and single dots. If nothing was written since the last
    /// epoch closed, no other one is made: the last one gets the name, if it is kept.
    #[arg(long, value_parser = parse_name)]
    pub name: Option<String>,
    /// Confirm that the host's clock is right, so that epochs expire again. They stop expiring when the clock jumps, shows
    /// a time before the last epoch closed, or when no epoch closed in the last 90 days.
    #[arg(long)]
    pub confirm_clock: bool,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus versions vm1 --unique"))]
pub struct VersionsListArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Number of the first epoch to list. At most 1,000 are listed at once.
    #[arg(long, default_value_t = 0)]
    pub from: u64,
    /// Count for each epoch the content that forgetting it alone would destroy. Slow on a large disk.
    #[arg(long)]
    pub unique: bool,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus forget vm1@17..20 --dry-run", "quietus forget vm1@..2026-11-20T10:00 --wait", "quietus forget vm1@17..20 --range 1M+64K --wait", "quietus forget vm1 --chain 1M+64K --wait", "quietus forget vm1:/home/ann/tax.ods --dry-run"))]
pub struct ForgetArgs {
    /// Files in all epochs: DISK:/PATH, or a pattern such as "DISK:/mail/**". Or the disk's directory and the epochs: DISK@17, DISK@17..20, DISK@17.., DISK@last, DISK@before-upgrade, or all up to a time
    /// with DISK@..2026-11-20T10:00 (UTC). With --chain only the directory: DISK.
    #[arg(value_name = "DISK[:/PATH | @EPOCHS]", value_hint = ValueHint::DirPath, add = ArgValueCompleter::new(epochs))]
    pub target: PathBuf,
    /// Forget these blocks in all epochs, and keep the epochs: OFFSET+LENGTH or FIRST-LAST in whole blocks of 4096
    /// bytes, several with commas, such as 1M+64K,4096-8191. Refused while the current state shows content that would go.
    #[arg(long, value_name = "RANGES", value_parser = parse_range, value_delimiter = ',')]
    pub chain: Vec<Range>,
    /// Forget only what the epochs show of these blocks, and keep the epochs; ranges as for --chain. Refused while the current state or
    /// another epoch shows content that would go.
    #[arg(long, value_name = "RANGES", value_parser = parse_range, value_delimiter = ',', conflicts_with = "chain")]
    pub range: Vec<Range>,
    /// Of a file: only the versions with these numbers, as `quietus history` lists them: 3, 1..3, ..3 or 2.. .
    #[arg(long, value_name = "VERSIONS", value_parser = parse_numbers, conflicts_with_all = ["chain", "range", "before"])]
    pub versions: Option<RangeInclusive<usize>>,
    /// Of files: only what epochs show up to this one, which is named as for `cat`: 17, 2026-11-20T10:00, before-upgrade.
    #[arg(long, value_name = "EPOCH", conflicts_with_all = ["chain", "range"])]
    pub before: Option<String>,
    /// Of files: trust the program's own reader alone to say where a file lies. Needed where the second one does not understand the file
    /// system.
    #[arg(long, conflicts_with_all = ["chain", "range"])]
    pub one_witness: bool,
    /// With --chain: also delete the blocks from the current state, so that no content of them is left.
    #[arg(long, requires = "chain", conflicts_with = "dry_run")]
    pub current: bool,
    /// Wait until the forgotten content is destroyed.
    #[arg(long, conflicts_with = "dry_run")]
    pub wait: bool,
    /// Whether to go on; `--dry-run` counts what would die, and says which epochs keep the rest.
    #[command(flatten)]
    pub consent: ConsentArgs,
    /// Of files: the credential that opens the keys of a disk that is not served.
    #[command(flatten)]
    pub credential: CredentialArgs,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus hold vm1@17..20 --name case-4711 --who legal --why subpoena"))]
pub struct HoldArgs {
    /// The disk's directory and the epochs, as for `forget`.
    #[arg(value_name = "DISK@EPOCHS", value_hint = ValueHint::DirPath, add = ArgValueCompleter::new(epochs))]
    pub target: PathBuf,
    /// Name of the hold.
    #[arg(long, value_parser = parse_name)]
    pub name: String,
    /// Person or office that asks for the hold, for the audit log.
    #[arg(long)]
    pub who: String,
    /// Reason for the hold, for the audit log.
    #[arg(long)]
    pub why: String,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus release vm1 case-4711"))]
pub struct ReleaseArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Name of the hold.
    pub name: String,
}
