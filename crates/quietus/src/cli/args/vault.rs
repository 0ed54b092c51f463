//! `quietus vault`: deduplicated backups that can be sanitized.

use super::super::complete::{policies, snapshots};
use super::values::{parse_disk_size, parse_policy};
use super::{ConsentArgs, CredentialArgs, GoneArg};
use crate::base::duration::parse_duration_ms;
use crate::disk::parse_size;
use crate::vault::{Codec, Control, Filter, Keep, Label, Overwrite, host_name};
use clap::{Args, Subcommand, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use std::path::PathBuf;

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
    /// Create an empty vault.
    Init(InitArgs),
    /// Back up files and folders, an archive, or a disk as a new snapshot.
    Put(PutArgs),
    /// Restore a snapshot or a part of it, as files or as an archive.
    Get(GetArgs),
    /// Write a file of a snapshot to standard output.
    Cat(CatArgs),
    /// List the snapshots, or the files of one snapshot.
    List(ListArgs),
    /// Find paths in all snapshots.
    Find(FindArgs),
    /// List the differences between two snapshots: added (+), removed (-), changed (M).
    Diff(VaultDiffArgs),
    /// Mount the snapshots as a read-only file system, until Ctrl-C.
    Mount(MountArgs),
    /// Forget snapshots, or paths in all snapshots. `vault sanitize` then destroys content that no snapshot needs.
    Forget(VaultForgetArgs),
    /// Protect snapshots from being forgotten, in whole or in part, until the hold is released.
    Hold(VaultHoldArgs),
    /// Release a hold.
    Release(VaultReleaseArgs),
    /// Destroy all content that no snapshot needs: move live chunks to other containers, and overwrite the old containers.
    Sanitize(SanitizeArgs),
    /// Show the content still to be destroyed, how full the vault is, and what the medium guarantees.
    #[command(after_help = help!("quietus vault status backups"))]
    Status(OneVaultArgs),
    /// Measure the vault: live and dead chunks, and the savings by deduplication and compression.
    #[command(after_help = help!("quietus vault stats backups"))]
    Stats(OneVaultArgs),
    /// Read the whole vault, and check that every chunk is intact. Needs three bits of memory a chunk.
    #[command(after_help = help!("quietus vault verify backups"))]
    Verify(OneVaultArgs),
    /// Rebuild the catalog from the pool, and correct single changed bits in `vault.toml`, `secret` and the signing key. Reads the whole
    /// pool, and destroys nothing. Names the snapshots that may have been forgotten and are back.
    #[command(after_help = help!("quietus vault repair backups"))]
    Repair(OneVaultArgs),
    /// Read the whole medium and sign the findings as a receipt, or check such a receipt or that of a sanitization.
    Prove(VaultProveArgs),
}

/// A vault.
#[derive(Debug, Args)]
pub struct OneVaultArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault init backups --policy purge-2"))]
pub struct InitArgs {
    /// Directory to create for the vault.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Medium for the content: a block device, whose present content is destroyed by the policy, or a file to
    /// create. Default: `pool` in the directory.
    #[arg(long, value_hint = ValueHint::AnyPath)]
    pub medium: Option<PathBuf>,
    /// Largest size of the medium: 20G, 1.5T. A file takes space only as it fills, and gives it back when content is
    /// destroyed. The rest of a larger device is not used. Default: the size of the device, or 1T.
    #[arg(long, value_parser = parse_disk_size)]
    pub size: Option<u64>,
    /// Size of a container, 72K to 4.5M in multiples of 4K. Sanitization copies and overwrites whole containers: smaller
    /// containers make it faster, and reading slower. Default: 4.5M.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub container: Option<u64>,
    /// Passes that overwrite dead content: clear, purge-2, 4, 6, dod-3, gutmann-35, or a list such as random,ff,zero.
    #[arg(long, default_value = "clear", value_parser = parse_policy, add = ArgValueCompleter::new(policies))]
    pub policy: String,
    /// Compression of each chunk. A chunk that does not get smaller is stored uncompressed.
    #[arg(long, value_enum, default_value_t = Codec::Lz4)]
    pub compress: Codec,
    /// Whether to go on.
    #[command(flatten)]
    pub consent: ConsentArgs,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault put backups daily /home /etc --exclude '*.tmp'", "ssh server tar -C / -c srv | quietus vault put backups server --tar -"))]
pub struct PutArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Name of the snapshot. The snapshots with the same name and host are a series, which `vault forget --keep-daily` thins.
    pub name: String,
    /// Files and folders to back up. The snapshot stores absolute paths, without the first slash.
    #[arg(value_hint = ValueHint::AnyPath, required_unless_present_any = ["tar", "disk"], conflicts_with_all = ["tar", "disk"])]
    pub paths: Vec<PathBuf>,
    /// Back up this uncompressed `tar` archive instead; `-` is standard input. An archive without an end-of-archive marker is refused.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub tar: Option<PathBuf>,
    /// Back up this Quietus disk instead, or an epoch of it (`DISK@EPOCH`). The snapshot holds the live content at one instant, as the
    /// image `NAME.img` of a disk NAME. The disk may be served meanwhile.
    #[arg(long, value_name = "DISK", value_hint = ValueHint::DirPath, conflicts_with_all = ["tar", "exclude", "exclude_from"])]
    pub disk: Option<PathBuf>,
    /// What the image of an epoch has where content is forgotten. Default: such an epoch is refused.
    #[arg(long, value_enum, requires = "disk")]
    pub gone: Option<GoneArg>,
    /// Name of the host that the files are from. Default: this host's name.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Tag, by which `vault list --tag` and `vault forget --tag` select the snapshot. May be repeated.
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// Leave out the files and folders that match this pattern: a name such as `*.tmp`, or, with a slash, a path such as
    /// `/home/*/cache`, which may be relative to the current directory. May be repeated.
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// File of such patterns, one a line. Empty lines and lines that begin with `#` are ignored. May be repeated.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub exclude_from: Vec<PathBuf>,
    /// Leave out the content of cache folders: folders with a file `CACHEDIR.TAG` as in
    /// <https://bford.info/cachedir/>.
    #[arg(long, conflicts_with_all = ["tar", "disk"])]
    pub exclude_caches: bool,
    /// Do not cross into other file systems: of a mount point only the empty folder is stored.
    #[arg(long, conflicts_with_all = ["tar", "disk"])]
    pub one_file_system: bool,
    /// Read every file. Default: skip files whose inode, length and times are those of the series' last snapshot.
    #[arg(long, conflicts_with_all = ["tar", "disk"])]
    pub reread: bool,
    /// The credential that opens the keys of a disk that is not served.
    #[command(flatten)]
    pub credential: CredentialArgs,
}

impl PutArgs {
    /// Name, host and tags of the snapshot.
    pub fn label(&self) -> Label {
        let host = self.host.clone().unwrap_or_else(host_name);
        Label { name: self.name.clone(), host, tags: self.tags.clone() }
    }
}

/// Which snapshots are meant.
#[derive(Debug, Args)]
#[group(id = "filter", multiple = true)]
pub struct FilterArgs {
    /// Select only snapshots of this host.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Select only snapshots with this tag. If repeated: with all of these tags.
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

#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault get backups daily --into restored home/ann"))]
pub struct GetArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Number of the snapshot, or a name: the newest snapshot of that name.
    #[arg(add = ArgValueCompleter::new(snapshots))]
    pub snapshot: String,
    /// Folder to restore into.
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub into: PathBuf,
    /// What to do with an existing file that differs from the snapshot in length or time of modification. A file that does not differ is
    /// left as it is, so that an interrupted restore can be repeated.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Overwrite::Never)]
    pub overwrite: Overwrite,
    /// Write a `tar` archive instead: a file to create, or `-` for standard output, as in `--tar - | ssh host tar -x`.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["into", "overwrite"])]
    pub tar: Option<PathBuf>,
    /// Paths to restore, as `vault list` shows them. Default: all.
    pub paths: Vec<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault cat backups 3 etc/fstab"))]
pub struct CatArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Number of the snapshot, or a name: the newest snapshot of that name.
    #[arg(add = ArgValueCompleter::new(snapshots))]
    pub snapshot: String,
    /// Path of the file, as `vault list` shows it.
    pub path: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault list backups 3 etc"))]
pub struct ListArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Number or name of the snapshot whose files to list. Default: list the snapshots.
    #[arg(conflicts_with = "filter", add = ArgValueCompleter::new(snapshots))]
    pub snapshot: Option<String>,
    /// List only this file or folder, and what the folder holds.
    pub path: Option<PathBuf>,
    /// List only snapshots of this name.
    #[arg(long, value_name = "NAME", conflicts_with = "snapshot")]
    pub name: Option<String>,
    /// Which snapshots to list.
    #[command(flatten)]
    pub filter: FilterArgs,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault mount backups /mnt"))]
pub struct MountArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Folder to mount at. Each snapshot is a folder NUMBER-NAME in it.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub at: PathBuf,
    /// Mount only this snapshot, by number or name, without a folder of its own.
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(snapshots))]
    pub snapshot: Option<String>,
}

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

#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault diff backups 3 daily"))]
pub struct VaultDiffArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Number of the first snapshot, or a name: the newest snapshot of that name.
    #[arg(add = ArgValueCompleter::new(snapshots))]
    pub one: String,
    /// Number or name of the second snapshot.
    #[arg(add = ArgValueCompleter::new(snapshots))]
    pub other: String,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault forget backups --keep-daily 7 --keep-weekly 5 --dry-run", "quietus vault forget backups --path 'home/ann/**'"))]
pub struct VaultForgetArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Numbers of snapshots, or names that only one snapshot has. With `--path`: the snapshots that lose the paths. Default: all.
    #[arg(conflicts_with = "filter", add = ArgValueCompleter::new(snapshots))]
    pub snapshots: Vec<String>,
    /// Forget only the files and folders that match this pattern, in all snapshots at once: a name such as `*.pst`, or, with
    /// a slash, a path such as `home/ann/**`. May be repeated.
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
    /// Apply the rules only to series of this name.
    #[arg(long, value_name = "NAME", requires = "keep", help_heading = RULES)]
    pub name: Option<String>,
}

/// Heading of the rules of retention.
const RULES: &str = "Rules, for each series (the snapshots with the same name and host; days in UTC); all other snapshots are forgotten";

/// Rules of retention.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = RULES)]
#[group(id = "keep", multiple = true, conflicts_with = "snapshots")]
pub struct KeepArgs {
    /// Keep the last N snapshots.
    #[arg(long, value_name = "N")]
    pub keep_last: Option<usize>,
    /// Keep the snapshots made within this time before the last one, such as 36h or 30d.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_ms)]
    pub keep_within: Option<u64>,
    /// Keep the last snapshot of each of the last N hours that have any.
    #[arg(long, value_name = "N")]
    pub keep_hourly: Option<usize>,
    /// Keep the last snapshot of each of the last N days that have any.
    #[arg(long, value_name = "N")]
    pub keep_daily: Option<usize>,
    /// Keep the last snapshot of each of the last N weeks that have any.
    #[arg(long, value_name = "N")]
    pub keep_weekly: Option<usize>,
    /// Keep the last snapshot of each of the last N months that have any.
    #[arg(long, value_name = "N")]
    pub keep_monthly: Option<usize>,
    /// Keep the last snapshot of each of the last N years that have any.
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

#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault hold backups 17 --name case-5 --why subpoena"))]
pub struct VaultHoldArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Numbers of snapshots, or names: the newest snapshot of each name.
    #[arg(required = true, add = ArgValueCompleter::new(snapshots))]
    pub snapshots: Vec<String>,
    /// Name of the hold, at most 64 bytes. The name is not destroyed with the snapshots.
    #[arg(long)]
    pub name: String,
    /// Reason for the hold, for the audit log, at most 4096 bytes.
    #[arg(long, default_value = "")]
    pub why: String,
}

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

#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault sanitize backups -o receipt.json"))]
pub struct SanitizeArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub vault: PathBuf,
    /// Refuse new snapshots meanwhile. Fails while a `vault put` is running.
    #[arg(long)]
    pub read_only: bool,
    /// Share of the medium's bandwidth and of the time for the sanitization while other commands use the vault, 1% to 90%. Either side
    /// may use the share that the other leaves.
    #[arg(long, value_name = "PERCENT", default_value = "50%", value_parser = parse_share)]
    pub share: u32,
    /// Show what would be copied and destroyed, and destroy nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// File for the signed receipt.
    #[arg(short, long, value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Show the progress of a running sanitization until it ends. Ctrl-C stops only the display.
    #[arg(long, conflicts_with_all = ["read_only", "share", "dry_run"])]
    pub watch: bool,
    /// Pause a running sanitization.
    #[arg(long, conflicts_with_all = ["read_only", "share", "dry_run", "output", "watch"])]
    pub pause: bool,
    /// Resume a paused sanitization.
    #[arg(long, conflicts_with_all = ["read_only", "share", "dry_run", "output", "watch", "pause"])]
    pub resume: bool,
    /// Cancel a running sanitization. The next one destroys what this one leaves.
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

#[derive(Debug, Args)]
#[command(after_help = help!("quietus vault prove backups -o proof.json", "quietus vault prove --check proof.json --key backups/key.pub"))]
pub struct VaultProveArgs {
    /// The vault's directory.
    #[arg(value_hint = ValueHint::DirPath, conflicts_with = "check", required_unless_present = "check")]
    pub vault: Option<PathBuf>,
    /// File for the signed receipt.
    #[arg(short, long, value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Check this receipt, of a proof or a sanitization, instead of reading a vault.
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub check: Option<PathBuf>,
    /// Public key that must have signed the receipt: `key.pub` of the vault.
    #[arg(long, value_hint = ValueHint::FilePath, requires = "check")]
    pub key: Option<PathBuf>,
}

fn parse_share(text: &str) -> Result<u32, String> {
    match text.trim_end_matches('%').parse() {
        Ok(share @ 1..=90) => Ok(share),
        _ => Err("expected a share from 1% to 90%".into()),
    }
}
