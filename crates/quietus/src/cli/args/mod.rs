//! The command line.

#[macro_use]
mod help;
mod consent;
mod detect;
mod epochs;
mod files;
mod keys;
mod past;
mod repair;
mod values;
mod vault;

use super::complete::{epochs as epochs_of_disk, policies, roots};
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
pub use files::{DiskCatArgs, DiskFindArgs, DiskMountArgs, FileKind, HistoryArgs, ViewArg};
pub use keys::CredentialArgs;
use keys::VersionsArgs;
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

/// Virtual disks that destroy deleted content, and prove it.
#[derive(Debug, Parser)]
#[command(name = "quietus", version, after_help = help::PROGRAM, propagate_version = true)]
pub struct Cli {
    /// Print reports as JSON, one object a line.
    #[arg(long, global = true)]
    pub json: bool,
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a disk: empty, from an image or a device, or as an overlay over an image.
    Create(CreateArgs),
    /// Serve disks over NBD.
    Serve(ServeArgs),
    /// List the disks and vaults below directories.
    List(ListDisksArgs),
    /// Examine which guarantees of deletion the storage of this host allows, and which store gets the best.
    Doctor(DoctorArgs),
    /// Show whether all deleted content is destroyed, what still waits, and what the medium guarantees.
    Status(StatusArgs),
    /// List the content still to be destroyed, and the audit log of deaths and receipts.
    Deaths(DeathsArgs),
    /// Show which content is sensitive (`chattr +s`), what of it awaits destruction, and what is not covered and why.
    #[command(after_help = help!("quietus sensitive vm1"))]
    Sensitive(DiskArgs),
    /// Show how worn the flash chip of a disk is, and how long it lasts at the pace of the last days.
    #[command(after_help = help!("quietus wear box"))]
    Wear(DiskArgs),
    /// Destroy all queued content now.
    Shred(ShredArgs),
    /// Delete ranges of bytes.
    Purge(PurgeArgs),
    /// Write the live content of a disk to a new image; the disk may be served meanwhile.
    Export(ExportArgs),
    /// Move an overlay to another base image; its content stays the same.
    Rebase(RebaseArgs),
    /// Write the changes of an overlay to its base image, or all of its content to a new image.
    Commit(CommitArgs),
    /// Shrink the file of an overlay as far as possible.
    #[command(after_help = help!("quietus compact vm1"))]
    Compact(DiskArgs),
    /// Check every file of a disk for damage.
    Verify(VerifyArgs),
    /// Repair damaged files of a disk: rebuild the index of versions, and correct single wrong bytes.
    Repair(RepairArgs),
    /// Close the open epoch of a disk that keeps versions, which makes it a restore point.
    Epoch(EpochArgs),
    /// List the kept epochs of a disk.
    Versions(VersionsListArgs),
    /// List the ranges that differ between two epochs, or between an epoch and the current state.
    Diff(DiffArgs),
    /// List the versions of a file in the kept epochs and the current state.
    History(HistoryArgs),
    /// Find files in an epoch, in all epochs, or in the current state. No file system is mounted.
    Find(DiskFindArgs),
    /// Write the content of a file of an epoch, or of the current state, to standard output.
    Cat(DiskCatArgs),
    /// Mount the epochs and the current state of a disk as a read-only file system, until Ctrl-C.
    Mount(DiskMountArgs),
    /// Restore the disk to the state of an epoch; the state before is kept as an epoch.
    Restore(RestoreArgs),
    /// Forget epochs, or blocks in all epochs: destroy for ever the content that only they show.
    Forget(ForgetArgs),
    /// Protect epochs from being forgotten until the hold is released, such as for a legal hold.
    Hold(HoldArgs),
    /// Release a hold.
    Release(ReleaseArgs),
    /// List, add, remove and rotate the keys of a disk that keeps versions, while it is not served.
    Key(KeyArgs),
    /// Read the medium and sign the findings as a receipt, or check such a receipt.
    Prove(ProveArgs),
    /// Manage vaults: deduplicated backups that can be destroyed for good.
    Vault(VaultArgs),
    /// Print the completion script for a shell.
    #[command(after_help = help!("quietus completions bash > /etc/bash_completion.d/quietus"))]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus list /srv/disks", "quietus list /srv --depth 3"))]
pub struct ListDisksArgs {
    /// Directories to search.
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub directories: Vec<PathBuf>,
    /// Number of levels of directories to search. Names that begin with a dot are skipped.
    #[arg(long, value_name = "LEVELS", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub depth: u32,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus doctor /srv/disks", "quietus doctor /dev/sdb --root /mnt/hdd"))]
pub struct DoctorArgs {
    /// Place to examine: a directory, a block device, or a file, which need not exist yet.
    #[arg(default_value = ".", value_hint = ValueHint::AnyPath)]
    pub path: PathBuf,
    /// Place for the root of a disk with `--store sealed` or `versions`. Default: beside the disk.
    #[arg(long, add = ArgValueCompleter::new(roots))]
    pub root: Option<PathBuf>,
}

/// A disk.
#[derive(Debug, Args)]
pub struct DiskArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus create vm1 --size 20G", "quietus create vm2 --adopt image.raw --dry-run", "quietus create vm3 --store overlay --base golden.img", "quietus create vm4 --size 20G --store sealed --root /mnt/hdd/vm4.root --no-credential", "quietus create vm5 --size 20G --store versions --root /mnt/hdd/vm5.root"))]
pub struct CreateArgs {
    /// Directory to create for the disk.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Size of the disk: 512M, 20G, 1.5T. A size that is not a multiple of 512 bytes is
    /// rounded up to whole blocks of 4 KiB. Default: the size of the adopted image or of the
    /// base image, or four fifths of what fits on a flash chip; an overlay may be larger than its base image.
    #[arg(long, value_parser = parse_disk_size)]
    pub size: Option<u64>,
    /// Medium for the content: a block device, whose present content is destroyed, or a file to create; or a chip of raw NAND flash:
    /// `nand:/dev/mtd4`, or `nand:PATH,chip=slc-2k,blocks=4096` to create a file that stands for a chip, of a built-in kind (slc-2k, slc-4k,
    /// mlc-16k, tlc-16k) or one that a TOML file describes. Default: `data` in the directory.
    #[arg(long, value_hint = ValueHint::FilePath, conflicts_with = "adopt")]
    pub medium: Option<PathBuf>,
    /// Raw image or block device to use in place, with its present content. For an image of another format use --base.
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub adopt: Option<PathBuf>,
    /// How the medium holds the content.
    #[arg(long, value_enum, default_value_t = StoreKind::InPlace)]
    pub store: StoreKind,
    /// Base image of an overlay, which must not change. An image that is not raw is converted
    /// once, to a copy in the directory.
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub base: Option<PathBuf>,
    /// Raw image to copy into a disk with `--store sealed` or `versions`; the image itself stays as it is. Holes and blocks of zeros take
    /// up no space.
    /// Default of --size: the size of the image.
    #[arg(long, value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    pub from: Option<PathBuf>,
    /// When to shrink the file of an overlay. Default: lazy.
    #[arg(long, value_enum)]
    pub mode: Option<ModeArg>,
    /// Passes that overwrite dead content: clear, purge-2, 4, 6, dod-3, gutmann-35, or a list such as
    /// random,ff,zero. For an overlay also `none`, which frees space and destroys nothing.
    #[arg(long, default_value = "clear", value_parser = parse_policy, add = ArgValueCompleter::new(policies))]
    pub policy: String,
    /// Time without a request after which queued content is destroyed. Default: 250ms; on a flash chip 10s; with a root that wears out (a TPM, NOR flash)
    /// the deadline.
    #[arg(long, value_parser = parse_duration_ms)]
    pub idle_after: Option<u64>,
    /// Longest time that queued content waits while the disk is busy. Default: 10m; with a root that wears out, a time with which it
    /// lasts ten years, such as 1h in a TPM, or 10s on NOR flash in blocks of 64 KiB.
    #[arg(long, value_parser = parse_duration_ms)]
    pub deadline: Option<u64>,
    /// Treat a 4 KiB block that is overwritten with zeros as deleted.
    #[arg(long)]
    pub detect_zeroes: bool,
    /// Whether to go on.
    #[command(flatten)]
    pub consent: ConsentArgs,
    /// How versions are kept, or content is sealed.
    #[command(flatten)]
    pub versions: VersionsArgs,
    /// The first credential.
    #[command(flatten)]
    pub credential: CredentialArgs,
}

/// How the file of an overlay stays small.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ModeArg {
    /// Move the last blocks into free slots at once, and truncate the file.
    Packed,
    /// Do so when the disk is idle, many blocks at a time.
    Lazy,
    /// Punch holes into the file, and move no blocks.
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

#[derive(Debug, Args)]
#[command(after_help = help!("quietus serve vm1", "quietus serve vm1 vm2 --nbd unix:/run/q.sock --nbd tcp:127.0.0.1:10809"))]
pub struct ServeArgs {
    /// Directories of the disks; the first disk is also the default export.
    #[arg(required = true, value_hint = ValueHint::DirPath)]
    pub disks: Vec<PathBuf>,
    /// The protocols, and how clients reach them.
    #[command(flatten)]
    pub front_ends: FrontEnds,
    /// Refuse writes, and destroy nothing. The files of the disk are opened to be read only: they
    /// may lie on a read-only mount (with the sockets elsewhere), and several such servers may
    /// serve one disk.
    #[arg(long)]
    pub read_only: bool,
    /// Memory for all disks and clients together: 256M, 4G [default: 128M for each disk].
    /// A disk that keeps versions or is sealed uses half of its share for its index or keys; the rest is
    /// for the content that clients read and write. Requests wait for memory. The program itself
    /// takes about 20 MiB more, and half a MiB for each client.
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

#[derive(Debug, Args)]
#[command(after_help = help!("quietus status vm1", "quietus status vm1 --require clear || echo \"something is left\""))]
pub struct StatusArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Repeat the report every second until Ctrl-C.
    #[arg(long)]
    pub watch: bool,
    /// Also show all counters and details.
    #[arg(short, long)]
    pub verbose: bool,
    /// Exit with status 3 unless all content known to be deleted is destroyed to this degree.
    #[arg(long, value_enum, conflicts_with = "watch")]
    pub require: Option<Require>,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus deaths vm1 --follow"))]
pub struct DeathsArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Print new lines of the audit log as they are written, until Ctrl-C.
    #[arg(long)]
    pub follow: bool,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus shred vm1 --now"))]
pub struct ShredArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Destroy the content now and wait until that is done (required).
    #[arg(long)]
    pub now: bool,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus purge vm1 1G+64K 0-511", "quietus purge vm1 1G+64K --dry-run"))]
pub struct PurgeArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Ranges to delete: OFFSET+LENGTH or FIRST-LAST, in bytes or with units, such as 1G+64K.
    #[arg(required = true, value_parser = parse_range)]
    pub ranges: Vec<Range>,
    /// Keep the present content, and destroy older content that may remain below it (a conservative overwrite).
    #[arg(long)]
    pub conservative: bool,
    /// Destroy the ranges now and wait until that is done.
    #[arg(long, conflicts_with = "dry_run")]
    pub now: bool,
    /// Whether to go on.
    #[command(flatten)]
    pub consent: ConsentArgs,
}

/// What a copy of an epoch has where content is forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum GoneArg {
    /// Zeros.
    Zeros,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus export vm1 vm1.qcow2 --format qcow2", "quietus export vm1@before-upgrade old.img"))]
pub struct ExportArgs {
    /// The disk's directory, or DISK@EPOCH. The image of a served disk is its state at one instant.
    #[arg(value_hint = ValueHint::DirPath, add = ArgValueCompleter::new(epochs_of_disk))]
    pub disk: PathBuf,
    /// Image file to create.
    #[arg(value_hint = ValueHint::FilePath)]
    pub image: PathBuf,
    /// Format of the image.
    #[arg(long, value_enum, default_value_t = ImageFormat::Raw)]
    pub format: ImageFormat,
    /// What the image has where the epoch's content is forgotten. Default: there is no image then.
    #[arg(long, value_enum)]
    pub gone: Option<GoneArg>,
    /// The credential that opens the keys of a disk that is not served.
    #[command(flatten)]
    pub credential: CredentialArgs,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus rebase vm1 --base golden-2.img"))]
pub struct RebaseArgs {
    /// The overlay's directory. Stop its server first.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// New base image. An image that is not raw is converted, to a copy in the directory.
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub base: PathBuf,
    /// Do not compare with the old base image: blocks that the overlay does not hold read as in
    /// the new one, even where the old one had other content.
    #[arg(long)]
    pub as_it_is: bool,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus commit vm1 --dry-run", "quietus commit vm1 --to flat.img"))]
pub struct CommitArgs {
    /// The overlay's directory. Without --to, stop its server first.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Write all content to this new raw image, and leave the overlay and its base image unchanged.
    #[arg(long, value_hint = ValueHint::FilePath, conflicts_with_all = ["yes", "dry_run"])]
    pub to: Option<PathBuf>,
    /// Whether to go on.
    #[command(flatten)]
    pub consent: ConsentArgs,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus verify vm1 --read-data"))]
pub struct VerifyArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Also read all content of a sealed disk, or read and authenticate every version of a disk that keeps versions.
    #[arg(long)]
    pub read_data: bool,
    /// The credential that opens the keys of a disk that is not served.
    #[command(flatten)]
    pub credential: CredentialArgs,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus prove vm1 -o receipt.json", "quietus prove --check receipt.json --key vm1/key.pub"))]
pub struct ProveArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath, conflicts_with = "check", required_unless_present = "check")]
    pub disk: Option<PathBuf>,
    /// File for the signed receipt. An existing receipt is replaced.
    #[arg(short, long, value_hint = ValueHint::FilePath, conflicts_with = "check")]
    pub output: Option<PathBuf>,
    /// Check this receipt instead of reading a disk.
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub check: Option<PathBuf>,
    /// Public key that must have signed the receipt: `key.pub` of the disk.
    #[arg(long, value_hint = ValueHint::FilePath, requires = "check")]
    pub key: Option<PathBuf>,
    /// Exit with status 3 unless all content known to be deleted is destroyed to this degree.
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
