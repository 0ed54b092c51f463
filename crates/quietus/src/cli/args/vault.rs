//! `quietus vault`: deduplicated backups that can be sanitized.

use super::super::complete::{policies, snapshots};
use super::values::{parse_disk_size, parse_policy};
use super::{ConsentArgs, CredentialArgs};
use crate::base::duration::parse_duration_ms;
use crate::disk::parse_size;
use crate::vault::{Codec, Control, Filter, Keep, Label, Overwrite, host_name};
use clap::{Args, Subcommand, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use std::path::PathBuf;

/// `vault`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault init backups", "quietus vault put backups daily /home", "quietus vault get backups daily --into restored"))]
pub struct VaultArgs {
    /// The command.
    #[command(subcommand)]
    pub command: VaultCommand,
}

/// The commands of a vault.
#[derive(Debug, Subcommand)]
pub enum VaultCommand {
    /// Make an empty vault.
    Init(InitArgs),
    /// Put files and folders, an archive, or a disk into a vault: a snapshot.
    Put(PutArgs),
    /// Restore a snapshot, or a part of it, as files or as an archive.
    Get(GetArgs),
    /// Write the content of a file of a snapshot to standard output.
    Cat(CatArgs),
    /// List the snapshots, or what is in one of them.
    List(ListArgs),
    /// Find paths in all snapshots.
    Find(FindArgs),
    /// List what differs between two snapshots: added (+), removed (-), changed (M).
    Diff(VaultDiffArgs),
    /// Show snapshots as a file system, to read, until Ctrl-C.
    Mount(MountArgs),
    /// Forget snapshots, or paths in all of them. `sanitize` then destroys what nothing else has.
    Forget(VaultForgetArgs),
    /// Refuse to forget snapshots, in whole or in part, until the hold is released.
    Hold(VaultHoldArgs),
    /// Release a hold.
    Release(VaultReleaseArgs),
    /// Destroy all that no snapshot has: copy what is live out of the containers that hold it, overwrite them.
    Sanitize(SanitizeArgs),
    /// Show what is still to be destroyed, how full the vault is, and what the medium guarantees.
    #[command(after_help = help!("quietus vault status backups"))]
    Status(OneVaultArgs),
    /// Measure what lies in the vault: live and dead chunks, and what deduplication and compression gain.
    #[command(after_help = help!("quietus vault stats backups"))]
    Stats(OneVaultArgs),
    /// Read everything, and check that all of it is as it was put. Memory: three bits a chunk.
    #[command(after_help = help!("quietus vault verify backups"))]
    Verify(OneVaultArgs),
    /// Make the catalog anew of what the pool holds, and set a changed bit of `vault.toml`, `secret` and the signing key right. All of the pool
    /// is read. Nothing is destroyed; what may have been forgotten and is back is named.
    #[command(after_help = help!("quietus vault repair backups"))]
    Repair(OneVaultArgs),
    /// Read the whole medium and sign the findings, or check such a receipt or that of a sanitization.
    Prove(VaultProveArgs),
}

/// One vault.
#[derive(Debug, Args)]
pub struct OneVaultArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
}

/// `vault init`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault init backups --policy purge-2"))]
pub struct InitArgs {
    /// The directory to make.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Medium for the content: a block device, whose present content is destroyed by the policy, or a file to
    /// make. Default: `pool` in the directory.
    #[arg(long, value_hint = ValueHint::AnyPath)]
    pub medium: Option<PathBuf>,
    /// Largest size of the medium: 20G, 1.5T. A file takes space only as it fills, and gives it back when content is
    /// destroyed. What a device has beyond that is left alone. Default: the size of the device, or 1T.
    #[arg(long, value_parser = parse_disk_size)]
    pub size: Option<u64>,
    /// Size of a container, a multiple of 4K, 72K to 4.5M. Sanitization copies and overwrites whole containers: smaller ones
    /// cost it less, and reading more. Default: 4.5M.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub container: Option<u64>,
    /// Passes that destroy content: clear, purge-2, 4, 6, dod-3, gutmann-35, or a list such as random,ff,zero.
    #[arg(long, default_value = "clear", value_parser = parse_policy, add = ArgValueCompleter::new(policies))]
    pub policy: String,
    /// How each chunk is compressed. One that does not get smaller is stored as it is.
    #[arg(long, value_enum, default_value_t = Codec::Lz4)]
    pub compress: Codec,
    /// Whether to go on.
    #[command(flatten)]
    pub consent: ConsentArgs,
}

/// `vault put`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault put backups daily /home /etc --exclude '*.tmp'", "ssh server tar -C / -c srv | quietus vault put backups server --tar -"))]
pub struct PutArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Name of the snapshot. Snapshots of one name are a series: `vault forget --keep-daily` thins each by itself.
    pub name: String,
    /// Files and folders to put. Paths are kept from the root on, without the first slash.
    #[arg(value_hint = ValueHint::AnyPath, required_unless_present_any = ["tar", "disk"], conflicts_with_all = ["tar", "disk"])]
    pub paths: Vec<PathBuf>,
    /// Archive to put instead, as `tar` writes it, not compressed; `-` is standard input. One without an end-of-archive marker is refused.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub tar: Option<PathBuf>,
    /// Quietus disk to put instead, served or not, as it is at one instant, or `DISK@EPOCH`: what is live of it becomes an image,
    /// the file `NAME.img` of a disk NAME.
    #[arg(long, value_name = "DISK", value_hint = ValueHint::DirPath, conflicts_with_all = ["tar", "exclude", "exclude_from"])]
    pub disk: Option<PathBuf>,
    /// Host whose files these are. Snapshots of one name and host are a series. Default: this host's name.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Word to select the snapshot by: `list --tag`, `forget --tag`. May be given again.
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// Leave out what this pattern is of: a name such as `*.tmp`, or, with a slash, a path such as `/home/*/cache`, also from the
    /// current directory on. May be given again.
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// File of such patterns, one a line. Empty lines, and those that begin with `#`, count for nothing. May be given again.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub exclude_from: Vec<PathBuf>,
    /// Leave out what is in folders that are marked as caches: those with a file `CACHEDIR.TAG` that begins as
    /// <https://bford.info/cachedir/> says.
    #[arg(long, conflicts_with_all = ["tar", "disk"])]
    pub exclude_caches: bool,
    /// Stay on the file systems of the paths: a folder where another one is mounted is kept, and nothing in it.
    #[arg(long, conflicts_with_all = ["tar", "disk"])]
    pub one_file_system: bool,
    /// Read every file. Default: a file is not read if its inode, length and times are those of the series' last snapshot.
    #[arg(long, conflicts_with_all = ["tar", "disk"])]
    pub reread: bool,
    /// The credential that opens the keys of a disk that is not served.
    #[command(flatten)]
    pub credential: CredentialArgs,
}

impl PutArgs {
    /// What the snapshot is to be called.
    pub fn label(&self) -> Label {
        let host = self.host.clone().unwrap_or_else(host_name);
        Label { name: self.name.clone(), host, tags: self.tags.clone() }
    }
}

/// Which snapshots are meant.
#[derive(Debug, Args)]
#[group(id = "filter", multiple = true)]
pub struct FilterArgs {
    /// Only snapshots of this host.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Only snapshots with this tag. May be given again: then those with all of them.
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
}

impl FilterArgs {
    /// Whether all snapshots are meant.
    pub fn is_empty(&self) -> bool {
        self.host.is_none() && self.tags.is_empty()
    }

    /// The filter; `name` is that of the series.
    pub fn of(&self, name: Option<&str>) -> Filter {
        Filter { name: name.map(Into::into), host: self.host.clone(), tags: self.tags.clone() }
    }
}

/// `vault get`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault get backups daily --into restored home/ann"))]
pub struct GetArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Number of the snapshot, or its name: then the newest of that name.
    #[arg(add = ArgValueCompleter::new(snapshots))]
    pub snapshot: String,
    /// Folder to restore into.
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub into: PathBuf,
    /// What to do about a file that is there and is not as the snapshot has it, by length and time of modification. What is there and is
    /// the same is left as it is, so that a restore that was interrupted can be repeated.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Overwrite::Never)]
    pub overwrite: Overwrite,
    /// Archive to write instead: a file to make, or `-` for standard output, as in `--tar - | ssh host tar -x`.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["into", "overwrite"])]
    pub tar: Option<PathBuf>,
    /// Paths to restore, as `list` shows them. Default: all.
    pub paths: Vec<PathBuf>,
}

/// `vault cat`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault cat backups 3 etc/fstab"))]
pub struct CatArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Number of the snapshot, or its name: then the newest of that name.
    #[arg(add = ArgValueCompleter::new(snapshots))]
    pub snapshot: String,
    /// The file, as `list` shows it.
    pub path: PathBuf,
}

/// `vault list`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault list backups 3 etc"))]
pub struct ListArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Number of the snapshot to list, or its name. Default: list the snapshots.
    #[arg(conflicts_with = "filter", add = ArgValueCompleter::new(snapshots))]
    pub snapshot: Option<String>,
    /// Only this and what is below it.
    pub path: Option<PathBuf>,
    /// Only the snapshots of this name.
    #[arg(long, value_name = "NAME", conflicts_with = "snapshot")]
    pub name: Option<String>,
    /// Which snapshots to list.
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// `vault mount`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault mount backups /mnt"))]
pub struct MountArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Folder to mount at: each snapshot is a folder there, NUMBER-NAME.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub at: PathBuf,
    /// Number of a snapshot, or its name (then the newest of that name): only its files, without a folder of its own.
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(snapshots))]
    pub snapshot: Option<String>,
}

/// `vault find`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault find backups '*.pst'"))]
pub struct FindArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Name or path to find: a name such as `*.pst`, or, with a slash, a path such as `home/*/cache`.
    #[arg(value_name = "GLOB")]
    pub pattern: String,
}

/// `vault diff`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault diff backups 3 daily"))]
pub struct VaultDiffArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Number of the first snapshot, or its name: then the newest of that name.
    #[arg(add = ArgValueCompleter::new(snapshots))]
    pub one: String,
    /// Number or name of the second one.
    #[arg(add = ArgValueCompleter::new(snapshots))]
    pub other: String,
}

/// `vault forget`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault forget backups --keep-daily 7 --keep-weekly 5 --dry-run", "quietus vault forget backups --path 'home/ann/**'"))]
pub struct VaultForgetArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Numbers of snapshots, or names that only one has. With `--path`: the snapshots that lose the paths; default: all.
    #[arg(conflicts_with = "filter", add = ArgValueCompleter::new(snapshots))]
    pub snapshots: Vec<String>,
    /// Forget what this pattern is of, in all snapshots at once, and keep the rest of them: a name such as `*.pst`, or, with
    /// a slash, a path such as `home/ann/**`. May be given again.
    #[arg(long = "path", value_name = "GLOB", conflicts_with = "keep")]
    pub paths: Vec<String>,
    /// Which snapshots the rules are of, or lose paths.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Whether to go on.
    #[command(flatten)]
    pub consent: ConsentArgs,
    /// The snapshots to keep of each series; all others are forgotten.
    #[command(flatten)]
    pub keep: KeepArgs,
    /// Only the series of this name, with the rules above.
    #[arg(long, value_name = "NAME", requires = "keep", help_heading = RULES)]
    pub name: Option<String>,
}

/// Heading of the rules of retention.
const RULES: &str =
    "Rules: what is kept of each series, which has one name and one host (days are those of UTC)";

/// Rules of retention.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = RULES)]
#[group(id = "keep", multiple = true, conflicts_with = "snapshots")]
pub struct KeepArgs {
    /// Keep the last N snapshots.
    #[arg(long, value_name = "N")]
    pub keep_last: Option<usize>,
    /// Keep the snapshots that were made so shortly before the last one: 36h, 30d.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_ms)]
    pub keep_within: Option<u64>,
    /// Keep the last snapshot of each of the last N hours that have any.
    #[arg(long, value_name = "N")]
    pub keep_hourly: Option<usize>,
    /// Keep the last snapshot of each of the last N days that have any.
    #[arg(long, value_name = "N")]
    pub keep_daily: Option<usize>,
    /// The same of weeks.
    #[arg(long, value_name = "N")]
    pub keep_weekly: Option<usize>,
    /// The same of months.
    #[arg(long, value_name = "N")]
    pub keep_monthly: Option<usize>,
    /// The same of years.
    #[arg(long, value_name = "N")]
    pub keep_yearly: Option<usize>,
}

impl KeepArgs {
    /// The rules.
    pub fn rules(&self) -> Keep {
        let of = |count: Option<usize>| count.unwrap_or(0);
        Keep {
            last: of(self.keep_last),
            within_ms: self.keep_within.unwrap_or(0),
            hourly: of(self.keep_hourly),
            daily: of(self.keep_daily),
            weekly: of(self.keep_weekly),
            monthly: of(self.keep_monthly),
            yearly: of(self.keep_yearly),
        }
    }

    /// Whether any rule was given.
    pub fn are_given(&self) -> bool {
        let counts = [self.keep_last, self.keep_hourly, self.keep_daily, self.keep_weekly];
        let more = [self.keep_monthly, self.keep_yearly];
        self.keep_within.is_some() || counts.iter().chain(&more).any(Option::is_some)
    }
}

/// `vault hold`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault hold backups 17 --name case-5 --why subpoena"))]
pub struct VaultHoldArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Numbers of snapshots, or their names: then the newest of that name.
    #[arg(required = true, add = ArgValueCompleter::new(snapshots))]
    pub snapshots: Vec<String>,
    /// Name of the hold, at most 64 bytes. It is not destroyed with the snapshots.
    #[arg(long)]
    pub name: String,
    /// The reason, for the audit log, of at most 4096 bytes.
    #[arg(long, default_value = "")]
    pub why: String,
}

/// `vault release`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault release backups --name case-5"))]
pub struct VaultReleaseArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Name of the hold.
    #[arg(long)]
    pub name: String,
}

/// `vault sanitize`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault sanitize backups -o receipt.json"))]
pub struct SanitizeArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Let nobody put anything meanwhile. Refused while somebody does.
    #[arg(long)]
    pub read_only: bool,
    /// Share of the sanitization, 1% to 90%, of the bytes moved and of the time while other commands use the vault. Each side takes what
    /// the other leaves.
    #[arg(long, value_name = "PERCENT", default_value = "50%", value_parser = parse_share)]
    pub share: u32,
    /// Show what would be copied and destroyed, and destroy nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// File for the signed receipt.
    #[arg(short, long, value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Show the progress of the sanitization that another command has begun, until it ends. Ctrl-C ends only the showing.
    #[arg(long, conflicts_with_all = ["read_only", "share", "dry_run"])]
    pub watch: bool,
    /// Let the sanitization that another command has begun pause.
    #[arg(long, conflicts_with_all = ["read_only", "share", "dry_run", "output", "watch"])]
    pub pause: bool,
    /// Let it go on.
    #[arg(long, conflicts_with_all = ["read_only", "share", "dry_run", "output", "watch", "pause"])]
    pub resume: bool,
    /// End it. What it had to destroy is still owed, and the next sanitization destroys it.
    #[arg(long, conflicts_with_all = ["read_only", "share", "dry_run", "output", "watch", "pause", "resume"])]
    pub cancel: bool,
}

impl SanitizeArgs {
    /// What to do with the sanitization of another command.
    pub fn control(&self) -> Option<Control> {
        let all =
            [(self.pause, Control::Pause), (self.resume, Control::Resume), (self.cancel, Control::Cancel)];
        all.into_iter().find(|(is_asked, _)| *is_asked).map(|(_, control)| control)
    }
}

/// `vault prove`.
#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault prove backups -o proof.json", "quietus vault prove --check proof.json --key backups/key.pub"))]
pub struct VaultProveArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath, conflicts_with = "check", required_unless_present = "check")]
    pub vault: Option<PathBuf>,
    /// File for the signed receipt.
    #[arg(short, long, value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Receipt to check, instead of a vault to read: of a proof, or of a sanitization.
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub check: Option<PathBuf>,
    /// Public key that must have signed the receipt: `key.pub` of the vault.
    #[arg(long, value_hint = ValueHint::FilePath, requires = "check")]
    pub key: Option<PathBuf>,
}

fn parse_share(text: &str) -> Result<u32, String> {
    match text.trim_end_matches('%').parse() {
        Ok(share @ 1..=90) => Ok(share),
        _ => Err("expected a share, 1% to 90%".into()),
    }
}
