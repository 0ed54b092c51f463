//! The command line.

mod epochs;
mod keys;
mod past;
mod repair;
mod vault;

use crate::attached::Mode as AttachedMode;
use crate::disk::{StoreKind, parse_duration_ms, parse_size};
use crate::offline::ImageFormat;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
pub use epochs::{EpochArgs, ForgetArgs, HoldArgs, ReleaseArgs, VersionsListArgs};
use keys::{CredentialArgs, VersionsArgs};
pub use keys::{KeyAction, KeyArgs};
pub use past::{DiffArgs, RestoreArgs};
use quietus_core::store::overlay::Mode;
use quietus_detect::options::Sensitive;
pub use repair::RepairArgs;
use std::path::PathBuf;
pub use vault::{
    CatArgs, FindArgs, GetArgs, InitArgs, ListArgs, MountArgs, OneVaultArgs, PutArgs, SanitizeArgs,
    VaultArgs, VaultCommand, VaultDiffArgs, VaultForgetArgs, VaultHoldArgs, VaultProveArgs, VaultReleaseArgs,
};

const EXIT: &str = "Exit status:\n  0  success\n  1  failure; the error says why and what to do\n  \
    2  invalid command line\n  3  success with a bad result: a check failed, dead content was found, an epoch \
     that was named is forgotten, or files were left out";

/// Memory for each disk, unless the operator says otherwise, bytes.
pub const MEMORY_BYTES: u64 = 128 << 20;
/// Least memory, bytes: half of it is for data, and has room for the largest request.
const MEMORY_BYTES_MIN: u64 = 64 << 20;

/// Virtual disks that know which of their bytes are dead, destroy them, and prove it.
#[derive(Debug, Parser)]
#[command(name = "quietus", version, after_help = EXIT, propagate_version = true)]
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
    /// Show whether everything deleted is gone, what still waits, and what the medium guarantees.
    Status(StatusArgs),
    /// List what is still to be destroyed, and the audit log: deaths and receipts.
    Deaths(DeathsArgs),
    /// Show which content is sensitive: what is marked, what awaits its destruction, what is not covered and why.
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
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
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
#[command(after_help = EXIT)]
pub struct CreateArgs {
    /// The directory to make.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Size of the disk: 512M, 20G, 1.5T. A size that is not a multiple of 512 bytes is
    /// rounded up to whole blocks of 4 KiB. Default: the size of the adopted image or of the
    /// base image; an overlay may be larger than its base image.
    #[arg(long, value_parser = parse_size)]
    pub size: Option<u64>,
    /// Medium for the content: a block device, whose present content is destroyed, or a file
    /// to make. Default: `data` in the directory.
    #[arg(long, value_hint = ValueHint::FilePath, conflicts_with = "adopt")]
    pub medium: Option<PathBuf>,
    /// Raw image or block device to use in place, with its content.
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
    #[arg(long, default_value = "clear")]
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
#[command(after_help = EXIT)]
pub struct ServeArgs {
    /// The disks' directories; the first is also the default export.
    #[arg(required = true, value_hint = ValueHint::DirPath)]
    pub disks: Vec<PathBuf>,
    /// Address to listen at: unix:PATH, unix:@NAME, tcp:ADDRESS:PORT or stdio; may be given
    /// again. `unix:@NAME`: a socket with an abstract name, without a file. `stdio`: serve one client on standard input and output, and exit when it
    /// disconnects. Default: the sockets that systemd passed, else unix:DISK/nbd.sock of
    /// the first disk.
    #[arg(long)]
    pub nbd: Vec<String>,
    /// Refuse writes and destroy nothing. No file of the disk is opened for writing, so a
    /// read-only mount suffices (with `--nbd` outside of it), and several such servers may
    /// serve one disk.
    #[arg(long)]
    pub read_only: bool,
    /// How deaths are inferred.
    #[command(flatten)]
    pub detect: DetectArgs,
    /// The credentials for disks that have keys.
    #[command(flatten)]
    pub credential: CredentialArgs,
    /// Certificates of the server, PEM; turns TLS on.
    #[arg(long, value_hint = ValueHint::FilePath, requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the first certificate, PEM.
    #[arg(long, value_hint = ValueHint::FilePath, requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Accept only clients with a certificate from these authorities, PEM.
    #[arg(long, value_hint = ValueHint::FilePath, requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
    /// Accept clients without TLS too.
    #[arg(long, requires = "tls_cert")]
    pub tls_optional: bool,
    /// Maximum number of clients at once.
    #[arg(long, value_name = "NUMBER", default_value = "256", value_parser = parse_connections)]
    pub connections: usize,
    /// Time limit for the NBD handshake of a client.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_timeout_ms)]
    pub handshake_timeout: u64,
    /// Time limit for a pause in the middle of a request or of a reply. Between
    /// requests a client may be idle for any time.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_timeout_ms)]
    pub stall_timeout: u64,
    /// Offer NBD's extended headers, which allow requests beyond 4 GiB. With `no`, clients use
    /// structured replies instead: for a client whose extended headers are defective.
    #[arg(long, value_enum, default_value_t = Answer::Yes)]
    pub extended_headers: Answer,
    /// Idle time after which a client may lose its connection to a new client that finds all of
    /// `--connections` in use. A client that has never made a request may lose it after
    /// `--handshake-timeout`, and a client in its handshake at once.
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = parse_timeout_ms)]
    pub idle_timeout: u64,
    /// Memory for all disks and clients together: 256M, 4G [default: 128M for each disk].
    /// A disk that keeps versions has half of its share for its index and stubs; the rest is
    /// for the data that clients read and write. What does not fit waits. The program itself
    /// takes some 20 MiB more, and half a MiB for each client.
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
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
}

/// How `serve` infers deaths from what is written.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "What is inferred")]
pub struct DetectArgs {
    /// File system to watch for deaths: the one that is found, none, or only this
    /// kind. The order of writes is evidence, so a watched disk does not offer
    /// several connections at once (NBD multi-conn). A second connection is served
    /// all the same; while two are open, some deaths are confirmed later.
    #[arg(long, value_enum, default_value_t = Detect::Auto)]
    pub detect: Detect,
    /// Which deaths count: of a block's last content; also of its content from
    /// files that are gone; or of everything that is overwritten.
    #[arg(long, value_enum, default_value_t = GradeArg::Generation)]
    pub grade: GradeArg,
    /// Which content is destroyed when it dies: all of it; or only that of files marked with `chattr +s`, of folders
    /// marked so and what they name, and what nothing can tell of. Other content is freed. Below ext3 and ext4, the first
    /// mark makes all content sensitive; below a file system without marks, all of it is.
    #[arg(long, value_enum, default_value_t = SensitiveArg::All)]
    pub sensitive: SensitiveArg,
    /// Trust an allocation map alone, without waiting until no inode names the block. Faster, but
    /// after a crash of the guest a deleted file may come back full of zeros.
    #[arg(long)]
    pub eager: bool,
    /// Destroy discarded blocks at once. With `no`, only when the file system shows them free too.
    #[arg(long, value_enum, default_value_t = Answer::Yes)]
    pub trust_discard: Answer,
    /// Age that a write must have before an allocation map counts against its block (up to twice
    /// this in effect).
    #[arg(long, default_value = "1s", value_parser = parse_duration_ms)]
    pub reorder_window: u64,
    /// Longest time that an active guest holds writes back: more than its write-back interval.
    #[arg(long, default_value = "60s", value_parser = parse_duration_ms)]
    pub settle: u64,
    /// How guests are attached. A host's page cache, dm-writecache, bcache or a FUSE driver
    /// above the disk (`cached`) sends writes in any order; then deaths are known only after
    /// --settle and --cache-hold of activity. `auto` treats QEMU's own client, and nbd.ko where
    /// the kernel has mounted it, as direct, and every other client as cached.
    #[arg(long, value_enum, default_value_t = AttachedArg::Auto)]
    pub attached: AttachedArg,
    /// Longest time that a cache between the guest and the disk holds a write back. Linux
    /// writes a dirty page after 35 s, and later if it has much to write.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration_ms)]
    pub cache_hold: u64,
}

/// Layer between the guest's file system and the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum AttachedArg {
    /// Look at each client; an unknown client counts as cached.
    Auto,
    /// No cache between guest and disk.
    Direct,
    /// A cache between guest and disk.
    Cached,
}

impl From<AttachedArg> for AttachedMode {
    fn from(arg: AttachedArg) -> Self {
        match arg {
            AttachedArg::Auto => Self::Auto,
            AttachedArg::Direct => Self::Direct,
            AttachedArg::Cached => Self::Cached,
        }
    }
}

/// File systems below which deaths are inferred.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Detect {
    /// The file system that is found.
    Auto,
    /// No file system.
    Off,
    /// ext2, ext3, ext4.
    #[value(aliases = ["ext3", "ext4"])]
    Ext2,
    /// FAT12, FAT16, FAT32.
    Fat,
    /// exFAT.
    Exfat,
    /// NTFS.
    Ntfs,
}

/// Grades of death.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum GradeArg {
    /// Deaths of a block's last content.
    Block,
    /// Also deaths of a block's content from files that are gone.
    Generation,
    /// Deaths of everything that is overwritten.
    Content,
}

/// Which content is sensitive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum SensitiveArg {
    /// All content.
    All,
    /// Content of marked files (`chattr +s`).
    Marked,
}

impl From<SensitiveArg> for Sensitive {
    fn from(arg: SensitiveArg) -> Self {
        match arg {
            SensitiveArg::All => Self::All,
            SensitiveArg::Marked => Self::Marked,
        }
    }
}

/// Yes or no.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Answer {
    /// Yes.
    Yes,
    /// No.
    No,
}

/// `status`.
#[derive(Debug, Args)]
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
}

/// `deaths`.
#[derive(Debug, Args)]
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
    #[arg(long)]
    pub now: bool,
}

/// `export`.
#[derive(Debug, Args)]
#[command(after_help = EXIT)]
pub struct ExportArgs {
    /// The disk's directory. If it is served, the image is the disk at one instant.
    #[arg(value_hint = ValueHint::DirPath)]
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
#[command(after_help = EXIT)]
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
#[command(after_help = EXIT)]
pub struct CommitArgs {
    /// The overlay's directory; without --to it must not be served meanwhile.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Write all content to this new raw image, and leave the overlay and its base image unchanged.
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub to: Option<PathBuf>,
}

/// `verify`.
#[derive(Debug, Args)]
#[command(after_help = EXIT)]
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
#[command(after_help = EXIT)]
pub struct ProveArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath, conflicts_with = "check")]
    pub disk: Option<PathBuf>,
    /// File for the signed receipt.
    #[arg(short, long, value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Receipt to check, instead of a disk to read.
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub check: Option<PathBuf>,
    /// Public key that must have signed the receipt: `key.pub` of the disk.
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub key: Option<PathBuf>,
}

/// A range of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    pub(super) start: u64,
    pub(super) len: u64,
}

fn parse_connections(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("no client could connect; use 1 or more".into()),
        Ok(number) => Ok(number),
        Err(_) => Err("expected a whole number, 1 or more".into()),
    }
}

fn parse_timeout_ms(text: &str) -> Result<u64, String> {
    match parse_duration_ms(text)? {
        0 => Err("every client would be dropped at once; use 1ms or more, such as 60s".into()),
        ms => Ok(ms),
    }
}

fn parse_memory(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        bytes if bytes < MEMORY_BYTES_MIN => {
            Err(format!("{bytes} bytes are too few for the largest request; use 64M or more, such as 256M"))
        }
        bytes => Ok(bytes),
    }
}

fn parse_range(text: &str) -> Result<Range, String> {
    let wrong = || format!("invalid range {text:?}; use OFFSET+LENGTH or FIRST-LAST, such as 1G+64K");
    if let Some((start, len)) = text.split_once('+') {
        let (start, len) = (parse_size(start)?, parse_size(len)?);
        return start.checked_add(len).map(|_| Range { start, len }).ok_or_else(wrong);
    }
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    let (start, last) = (parse_size(first)?, parse_size(last)?);
    let len = last.checked_sub(start).and_then(|len| len.checked_add(1)).ok_or_else(wrong)?;
    Ok(Range { start, len })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_makes_sense() {
        Cli::command().debug_assert();
    }

    #[test]
    fn limits_that_would_serve_nobody_are_refused_with_field_value_and_remedy() {
        for (option, value, remedy) in [
            ("--connections", "0", "use 1 or more"),
            ("--connections", "-1", "1 or more"),
            ("--handshake-timeout", "0s", "use 1ms or more"),
            ("--stall-timeout", "0ms", "use 1ms or more"),
            ("--idle-timeout", "0h", "use 1ms or more"),
            ("--memory", "0", "use 64M or more"),
            ("--memory", "63M", "use 64M or more"),
        ] {
            let argument = format!("{option}={value}");
            let refused = Cli::try_parse_from(["quietus", "serve", "disk", &argument]);
            let said = refused.map(|_| argument).expect_err("it is refused").to_string();
            assert!([option, value, remedy].iter().all(|it| said.contains(it)), "{said}");
        }
        let least = ["--connections=1", "--handshake-timeout=1ms", "--stall-timeout=1ms", "--memory=64M"];
        let serve = ["quietus", "serve", "disk"].into_iter().chain(least);
        assert!(Cli::try_parse_from(serve).is_ok());
    }

    #[test]
    fn ranges_are_understood_or_refused() {
        assert_eq!(parse_range("1K+512"), Ok(Range { start: 1024, len: 512 }));
        assert_eq!(parse_range("0-511"), Ok(Range { start: 0, len: 512 }));
        for bad in ["", "5", "5-", "9-3", "16E+1", "0-18446744073709551615", "18446744073709551615+1"] {
            assert!(parse_range(bad).is_err(), "{bad:?}");
        }
    }
}
