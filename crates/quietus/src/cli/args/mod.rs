//! The command line.

#[macro_use]
mod help;
mod consent;
mod detect;
mod epochs;
mod keys;
mod past;
mod repair;
mod values;
mod vault;

use super::complete::{epochs as epochs_of_disk, policies};
use crate::base::duration::parse_duration_ms;
use crate::disk::StoreKind;
use crate::front::FrontEnds;
use crate::front::control::Require;
use crate::offline::ImageFormat;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::engine::ArgValueCompleter;
pub use consent::ConsentArgs;
pub use detect::{Detect, DetectArgs, GradeArg, SensitiveArg};
pub use epochs::{EpochArgs, ForgetArgs, HoldArgs, ReleaseArgs, VersionsListArgs};
use keys::{CredentialArgs, VersionsArgs};
pub use keys::{KeyAction, KeyArgs};
pub use past::{DiffArgs, RestoreArgs};
use quietus_core::store::overlay::Mode;
pub use repair::RepairArgs;
use std::path::PathBuf;
use values::{parse_disk_size, parse_memory, parse_policy, parse_range};
pub use vault::{
    CatArgs, FindArgs, GetArgs, InitArgs, ListArgs, MountArgs, OneVaultArgs, PutArgs, SanitizeArgs,
    VaultArgs, VaultCommand, VaultDiffArgs, VaultForgetArgs, VaultHoldArgs, VaultProveArgs, VaultReleaseArgs,
};

/// Memory for each disk, unless the operator says otherwise, bytes.
pub const MEMORY_BYTES: u64 = 128 << 20;

/// Virtual disks that know which of their bytes are dead, destroy them, and prove it.
#[derive(Debug, Parser)]
#[command(name = "quietus", version, after_help = help::PROGRAM, propagate_version = true)]
pub struct Cli {
    /// Print reports as JSON, a line each.
    #[arg(long, global = true)]
    pub json: bool,
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a disk: empty, from an image or a device, or above an image.
    Create(CreateArgs),
    /// Serve disks over NBD.
    Serve(ServeArgs),
    /// List the disks and vaults below directories.
    List(ListDisksArgs),
    /// Find out what this host, its media and file systems can promise, and which store gets more.
    Doctor(DoctorArgs),
    /// Show whether everything deleted is gone, what still waits, and what the medium guarantees.
    Status(StatusArgs),
    /// List what is still to be destroyed, and the audit log: deaths and receipts.
    Deaths(DeathsArgs),
    /// Show which content is sensitive: what is marked, what awaits its destruction, what is not covered and why.
    #[command(after_help = help!("quietus sensitive vm1"))]
    Sensitive(DiskArgs),
    /// Destroy queued content now.
    Shred(ShredArgs),
    /// Declare bytes dead.
    Purge(PurgeArgs),
    /// Write the live content of a disk to a new image, while it is served or not.
    Export(ExportArgs),
    /// Put an overlay above another base image; its content stays the same.
    Rebase(RebaseArgs),
    /// Write the changes of an overlay to its base image, or all of its content to a new image.
    Commit(CommitArgs),
    /// Shrink the file of an overlay as far as possible, now.
    #[command(after_help = help!("quietus compact vm1"))]
    Compact(DiskArgs),
    /// Check every file of a disk for damage.
    Verify(VerifyArgs),
    /// Repair a disk whose files are damaged: rebuild the index of versions, and mend single bytes.
    Repair(RepairArgs),
    /// Close the open epoch of a disk that keeps versions.
    Epoch(EpochArgs),
    /// List the kept epochs of a disk.
    Versions(VersionsListArgs),
    /// List the ranges in which an epoch differs from another one, or from the current state.
    Diff(DiffArgs),
    /// Make the state of an epoch the current one; the state before is kept as an epoch.
    Restore(RestoreArgs),
    /// Forget epochs, or blocks in all epochs: destroy what only they show, so that nobody can ever read it again.
    Forget(ForgetArgs),
    /// Refuse to forget epochs until the hold is released, as the law may demand.
    Hold(HoldArgs),
    /// Release a hold.
    Release(ReleaseArgs),
    /// List, add, remove and rotate the keys of a disk that keeps versions, while it is not served.
    Key(KeyArgs),
    /// Read the medium and sign the findings, or check such a receipt.
    Prove(ProveArgs),
    /// Vaults: deduplicated backups, of which nothing is left once it is forgotten.
    Vault(VaultArgs),
    /// Print completions for a shell.
    #[command(after_help = help!("quietus completions bash > /etc/bash_completion.d/quietus"))]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// `list`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus list /srv/disks", "quietus list /srv --depth 3"))]
pub struct ListDisksArgs {
    /// Directories to look into.
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub directories: Vec<PathBuf>,
    /// How many levels of directories to look into. Names that begin with a dot are left out.
    #[arg(long, value_name = "LEVELS", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub depth: u32,
}

/// `doctor`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus doctor /srv/disks", "quietus doctor /dev/sdb --root /mnt/hdd"))]
pub struct DoctorArgs {
    /// Where a disk would lie: a directory, a block device, or a file, which need not exist yet.
    #[arg(default_value = ".", value_hint = ValueHint::AnyPath)]
    pub path: PathBuf,
    /// Where the root of a disk with `--store versions` would lie. Default: with the disk.
    #[arg(long, value_hint = ValueHint::AnyPath)]
    pub root: Option<PathBuf>,
}

/// One disk.
#[derive(Debug, Args)]
pub struct DiskArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
}

/// `create`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus create vm1 --size 20G", "quietus create vm2 --adopt image.raw --dry-run", "quietus create vm3 --store overlay --base golden.img", "quietus create vm4 --size 20G --store versions --root /mnt/hdd/vm4.root"))]
pub struct CreateArgs {
    /// The directory to make.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Size of the disk: 512M, 20G, 1.5T. A size that is not a multiple of 512 bytes is
    /// rounded up to whole blocks of 4 KiB. Default: the size of the adopted image or of the
    /// base image; an overlay may be larger than its base image.
    #[arg(long, value_parser = parse_disk_size)]
    pub size: Option<u64>,
    /// Medium for the content: a block device, whose present content is destroyed, or a file
    /// to make. Default: `data` in the directory.
    #[arg(long, value_hint = ValueHint::FilePath, conflicts_with = "adopt")]
    pub medium: Option<PathBuf>,
    /// Raw image or block device to use in place, with its content. An image of another format goes below an overlay: --base.
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub adopt: Option<PathBuf>,
    /// Store: how the medium holds the content.
    #[arg(long, value_enum, default_value_t = StoreKind::InPlace)]
    pub store: StoreKind,
    /// Image below an overlay, which must not change. An image that is not raw is converted
    /// into the directory once.
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub base: Option<PathBuf>,
    /// Raw image whose content a disk with `--store versions` begins with. Holes and blocks of zeros take up no space.
    /// Default of --size: the size of the image.
    #[arg(long, value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    pub from: Option<PathBuf>,
    /// How the file of an overlay is kept small. Default: lazy.
    #[arg(long, value_enum)]
    pub mode: Option<ModeArg>,
    /// Passes that destroy content: clear, purge-2, 4, 6, dod-3, gutmann-35, or a list such as
    /// random,ff,zero. An overlay may also have none, which only frees space.
    #[arg(long, default_value = "clear", value_parser = parse_policy, add = ArgValueCompleter::new(policies))]
    pub policy: String,
    /// Idle time without a request after which queued content is destroyed.
    #[arg(long, default_value = "250ms", value_parser = parse_duration_ms)]
    pub idle_after: u64,
    /// Time after which queued content is destroyed even if the disk is busy.
    #[arg(long, default_value = "10m", value_parser = parse_duration_ms)]
    pub deadline: u64,
    /// Treat each written 4 KiB block of zeros as deleted.
    #[arg(long)]
    pub detect_zeroes: bool,
    /// Whether to go on.
    #[command(flatten)]
    pub consent: ConsentArgs,
    /// How versions are kept.
    #[command(flatten)]
    pub versions: VersionsArgs,
    /// The first credential.
    #[command(flatten)]
    pub credential: CredentialArgs,
}

/// How the file of an overlay stays small.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ModeArg {
    /// Move the last blocks into holes at once.
    Packed,
    /// Move the last blocks into holes when the disk is idle, many at a time.
    Lazy,
    /// Punch holes, and leave them to the host's file system.
    Punch,
}

impl From<ModeArg> for Mode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::Packed => Self::Packed,
            ModeArg::Lazy => Self::Lazy,
            ModeArg::Punch => Self::Punch,
        }
    }
}

/// `serve`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus serve vm1", "quietus serve vm1 vm2 --nbd unix:/run/q.sock --nbd tcp:127.0.0.1:10809"))]
pub struct ServeArgs {
    /// The disks' directories; the first is also the default export.
    #[arg(required = true, value_hint = ValueHint::DirPath)]
    pub disks: Vec<PathBuf>,
    /// The protocols, and how clients reach them.
    #[command(flatten)]
    pub front_ends: FrontEnds,
    /// Refuse writes and destroy nothing. No file of the disk is opened for writing, so a
    /// read-only mount suffices (with sockets outside of it), and several such servers may
    /// serve one disk.
    #[arg(long)]
    pub read_only: bool,
    /// Memory for all disks and clients together: 256M, 4G [default: 128M for each disk].
    /// A disk that keeps versions has half of its share for its index and stubs; the rest is
    /// for the data that clients read and write. What does not fit waits. The program itself
    /// takes some 20 MiB more, and half a MiB for each client.
    #[arg(long, help_heading = "Limits", value_name = "SIZE", value_parser = parse_memory)]
    pub memory: Option<u64>,
    /// Run this shell command with NBD_URI and NBD_SOCKET set, and exit with its
    /// status when it ends.
    #[arg(long)]
    pub run: Option<String>,
    /// File to write the process ID to when ready.
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub pidfile: Option<PathBuf>,
    /// Stop when the parent process ends.
    #[arg(long)]
    pub exit_with_parent: bool,
    /// How deaths are inferred.
    #[command(flatten)]
    pub detect: DetectArgs,
    /// The credentials for disks that have keys.
    #[command(flatten)]
    pub credential: CredentialArgs,
}

/// `status`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus status vm1", "quietus status vm1 --require clear || echo \"something is left\""))]
pub struct StatusArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Repeat the report each second, until Ctrl-C.
    #[arg(long)]
    pub watch: bool,
    /// Show all counters and details too.
    #[arg(short, long)]
    pub verbose: bool,
    /// Exit with status 3 unless everything that is known to be deleted is gone to this degree.
    #[arg(long, value_enum, conflicts_with = "watch")]
    pub require: Option<Require>,
}

/// `deaths`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus deaths vm1 --follow"))]
pub struct DeathsArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Print new lines of the audit log as they come, until Ctrl-C.
    #[arg(long)]
    pub follow: bool,
}

/// `shred`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus shred vm1 --now"))]
pub struct ShredArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Destroy now, and wait until it is done (required).
    #[arg(long)]
    pub now: bool,
}

/// `purge`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus purge vm1 1G+64K 0-511", "quietus purge vm1 1G+64K --dry-run"))]
pub struct PurgeArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Ranges that are dead: OFFSET+LENGTH or FIRST-LAST, in bytes or with units, such as 1G+64K.
    #[arg(required = true, value_parser = parse_range)]
    pub ranges: Vec<Range>,
    /// Keep the content, and destroy older content that may remain below it.
    #[arg(long)]
    pub conservative: bool,
    /// Destroy the ranges now, and wait until that is done.
    #[arg(long, conflicts_with = "dry_run")]
    pub now: bool,
    /// Whether to go on.
    #[command(flatten)]
    pub consent: ConsentArgs,
}

/// `export`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus export vm1 vm1.qcow2 --format qcow2", "quietus export vm1@before-upgrade old.img"))]
pub struct ExportArgs {
    /// The disk's directory. If it is served, the image is the disk at one instant.
    #[arg(value_hint = ValueHint::DirPath, add = ArgValueCompleter::new(epochs_of_disk))]
    pub disk: PathBuf,
    /// Image file to make.
    #[arg(value_hint = ValueHint::FilePath)]
    pub image: PathBuf,
    /// Format of the image.
    #[arg(long, value_enum, default_value_t = ImageFormat::Raw)]
    pub format: ImageFormat,
    /// The credential that opens the keys of a disk that is not served.
    #[command(flatten)]
    pub credential: CredentialArgs,
}

/// `rebase`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus rebase vm1 --base golden-2.img"))]
pub struct RebaseArgs {
    /// The overlay's directory; it must not be served meanwhile.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// New base image. An image that is not raw is converted into the directory.
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub base: PathBuf,
    /// Do not compare with the old base image: blocks that the disk has not changed read as in
    /// the new one.
    #[arg(long)]
    pub as_it_is: bool,
}

/// `commit`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus commit vm1 --dry-run", "quietus commit vm1 --to flat.img"))]
pub struct CommitArgs {
    /// The overlay's directory; without --to it must not be served meanwhile.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Write all content to this new raw image, and leave the overlay and its base image unchanged.
    #[arg(long, value_hint = ValueHint::FilePath, conflicts_with_all = ["yes", "dry_run"])]
    pub to: Option<PathBuf>,
    /// Whether to go on.
    #[command(flatten)]
    pub consent: ConsentArgs,
}

/// `verify`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus verify vm1 --read-data"))]
pub struct VerifyArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Also read the content of every version, of a disk that keeps versions: sealed content opens only as it was written.
    #[arg(long)]
    pub read_data: bool,
    /// The credential that opens the keys of a disk that is not served.
    #[command(flatten)]
    pub credential: CredentialArgs,
}

/// `prove`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus prove vm1 -o receipt.json", "quietus prove --check receipt.json --key vm1/key.pub"))]
pub struct ProveArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath, conflicts_with = "check", required_unless_present = "check")]
    pub disk: Option<PathBuf>,
    /// File for the signed receipt; an older receipt is replaced.
    #[arg(short, long, value_hint = ValueHint::FilePath, conflicts_with = "check")]
    pub output: Option<PathBuf>,
    /// Receipt to check, instead of a disk to read.
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub check: Option<PathBuf>,
    /// Public key that must have signed the receipt: `key.pub` of the disk.
    #[arg(long, value_hint = ValueHint::FilePath, requires = "check")]
    pub key: Option<PathBuf>,
    /// Exit with status 3 unless everything that is known to be deleted is gone to this degree.
    #[arg(long, value_enum)]
    pub require: Option<Require>,
}

/// A range of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    pub(super) start: u64,
    pub(super) len: u64,
}

#[cfg(test)]
mod tests;
