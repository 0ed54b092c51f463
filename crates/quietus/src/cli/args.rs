//! What may be said on the command line.

use crate::attached::Mode as AttachedMode;
use crate::disk::{StoreKind, parse_duration_ms, parse_size};
use crate::offline::ImageFormat;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use quietus_core::store::overlay::Mode;
use std::path::PathBuf;

const EXIT: &str = "Exit status:\n  0  done\n  1  could not be done; the error says why and what to do\n  \
    2  the command line was not understood\n  3  done, and the answer is bad: a check failed, or dead content was found";

/// Least memory for payloads, bytes: less is a unit that was forgotten.
const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// A disk that forgets what it is told to: it knows which of its bytes are
/// dead, destroys them, and can prove it.
#[derive(Debug, Parser)]
#[command(name = "quietus", version, after_help = EXIT, propagate_version = true)]
pub struct Cli {
    /// Report as JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a disk.
    Create(CreateArgs),
    /// Serve disks over NBD.
    Serve(ServeArgs),
    /// Say whether everything deleted is gone, what waits for what, and what the medium
    /// can promise.
    Status(StatusArgs),
    /// List what is owed, and the audit log: deaths and receipts.
    Deaths(DeathsArgs),
    /// Destroy what is queued.
    Shred(ShredArgs),
    /// Declare bytes dead.
    Purge(PurgeArgs),
    /// Write a flat image of what is live on a disk, served or not.
    Export(ExportArgs),
    /// Put an overlay above another base; what it shows stays the same.
    Rebase(RebaseArgs),
    /// Write what an overlay has changed to its base, or all of it to a new image.
    Commit(CommitArgs),
    /// Make the file of an overlay as small as it can be, now.
    Compact(DiskArgs),
    /// Check every file of a disk.
    Verify(DiskArgs),
    /// Read the medium and sign what is found there, or check such a receipt.
    Prove(ProveArgs),
    /// Print completions for a shell.
    Completions {
        /// Which.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory.
    Man {
        /// Where.
        #[arg(value_hint = ValueHint::DirPath)]
        dir: PathBuf,
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
    /// Size of the disk: 512M, 20G, 1.5T. A size that is no multiple of 512 bytes is
    /// rounded up to whole blocks of 4 KiB. An overlay may be larger than its base;
    /// default: as large.
    #[arg(long, value_parser = parse_size)]
    pub size: Option<u64>,
    /// Where the content goes: a block device, whose present content is dead
    /// and is destroyed, or a file to be made. Default: `data` in the directory.
    #[arg(long, value_hint = ValueHint::FilePath, conflicts_with = "adopt")]
    pub medium: Option<PathBuf>,
    /// A raw image or block device to take over in place, with its content.
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub adopt: Option<PathBuf>,
    /// Where content lives.
    #[arg(long, value_enum, default_value_t = StoreKind::InPlace)]
    pub store: StoreKind,
    /// The image below an overlay, which never changes: raw, or of another
    /// format, from which it is converted into the directory once.
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub base: Option<PathBuf>,
    /// How the file of an overlay stays small. Default: lazy.
    #[arg(long, value_enum)]
    pub mode: Option<ModeArg>,
    /// The passes: clear, purge-2, 4, 6, dod-3, gutmann-35, or a list such as
    /// random,ff,zero; for an overlay also none: what dies is only freed.
    #[arg(long, default_value = "clear")]
    pub policy: String,
    /// Destroy when no request came for so long.
    #[arg(long, default_value = "250ms", value_parser = parse_duration_ms)]
    pub idle_after: u64,
    /// Destroy at the latest after so long, idle or not.
    #[arg(long, default_value = "10m", value_parser = parse_duration_ms)]
    pub deadline: u64,
    /// Treat whole blocks of zeros that the guest writes as deaths.
    #[arg(long)]
    pub detect_zeroes: bool,
}

/// How the file of an overlay stays small.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ModeArg {
    /// The last blocks move into the holes at once.
    Packed,
    /// They do when the disk is idle, many at a time.
    Lazy,
    /// Holes are left to the host's file system.
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
    /// Address to listen at: unix:PATH, tcp:ADDRESS:PORT or stdio; may be given again.
    /// `stdio`: serve one client on standard input and output, and exit when it
    /// disconnects. Default: the sockets that systemd passed, else unix:DISK/nbd.sock of
    /// the first disk.
    #[arg(long)]
    pub nbd: Vec<String>,
    /// Refuse writes and destroy nothing. No file of the disk is opened for writing, so
    /// that a read-only mount will do (with `--nbd` elsewhere), and several such servers
    /// may serve one disk.
    #[arg(long)]
    pub read_only: bool,
    /// How deaths are inferred.
    #[command(flatten)]
    pub detect: DetectArgs,
    /// The server's certificates, PEM; turns TLS on.
    #[arg(long, value_hint = ValueHint::FilePath, requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The key of the first certificate, PEM.
    #[arg(long, value_hint = ValueHint::FilePath, requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Take only clients with a certificate from these authorities, PEM.
    #[arg(long, value_hint = ValueHint::FilePath, requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
    /// Take clients without TLS too.
    #[arg(long, requires = "tls_cert")]
    pub tls_optional: bool,
    /// Most clients at once.
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
    /// How long a client may be idle before it loses its connection to a newcomer that
    /// finds all of `--connections` in use. (A client that has never made a request
    /// loses it after `--handshake-timeout`, and one in its handshake at once.)
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = parse_timeout_ms)]
    pub idle_timeout: u64,
    /// Memory for the payloads of all clients together: 512M, 4G. Requests beyond
    /// it wait; a request of the largest size, 64 MiB, always fits. The server needs
    /// half a MiB more for each client, and keeps up to 128 MiB of buffers for reuse.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_memory)]
    pub memory: u64,
    /// Run this shell command with NBD_URI and NBD_SOCKET set, and end with it
    /// and its status.
    #[arg(long)]
    pub run: Option<String>,
    /// Write the process number here when ready.
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub pidfile: Option<PathBuf>,
    /// End when the parent process ends.
    #[arg(long)]
    pub exit_with_parent: bool,
}

/// How `serve` infers deaths from what is written.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "What is inferred")]
pub struct DetectArgs {
    /// File system to watch for deaths: the one that is found, none, or only this
    /// kind. The order of writes is evidence, so that a watched disk does not offer
    /// several connections at once (NBD multi-conn). A second connection is served
    /// all the same; while two are open, some deaths are confirmed later.
    #[arg(long, value_enum, default_value_t = Detect::Auto)]
    pub detect: Detect,
    /// Which deaths count: of a block's last content, also of what it held for
    /// files that are gone, or of everything that is written over.
    #[arg(long, value_enum, default_value_t = GradeArg::Generation)]
    pub grade: GradeArg,
    /// Take an allocation map alone as proof, without waiting until no inode
    /// names the block: faster, and a crash of the guest can give back a deleted
    /// file that is full of zeros.
    #[arg(long)]
    pub eager: bool,
    /// Destroy what the guest discards at once; with `no`, only when its file
    /// system says so too.
    #[arg(long, value_enum, default_value_t = Answer::Yes)]
    pub trust_discard: Answer,
    /// A map proves nothing against a block written less than this before it
    /// (it may be up to twice this).
    #[arg(long, default_value = "1s", value_parser = parse_duration_ms)]
    pub reorder_window: u64,
    /// How long an active guest may take to write what it holds back: longer
    /// than its write-back interval.
    #[arg(long, default_value = "60s", value_parser = parse_duration_ms)]
    pub settle: u64,
    /// How guests are attached. A host's page cache, dm-writecache, bcache or a FUSE driver
    /// above the disk (`cached`) sends writes in any order, so that deaths are known only after
    /// --settle and --cache-hold of activity. `auto` takes QEMU's own client, and nbd.ko where
    /// the kernel has mounted it, for direct, and every other client for cached.
    #[arg(long, value_enum, default_value_t = AttachedArg::Auto)]
    pub attached: AttachedArg,
    /// How long a cache between the guest and the disk may hold a write back. Linux writes a
    /// dirty page after 35 s, and later if it has much to write.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration_ms)]
    pub cache_hold: u64,
}

/// What is between the guest's file system and the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum AttachedArg {
    /// Look at each client; one that is not known has a cache.
    Auto,
    /// No cache.
    Direct,
    /// A cache.
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

/// Below which file system deaths are inferred.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Detect {
    /// The one that is found.
    Auto,
    /// None.
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

/// Which deaths count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum GradeArg {
    /// Of a block's last content.
    Block,
    /// Also of what it held for files that are gone.
    Generation,
    /// Of everything that is written over.
    Content,
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
    /// Show it again each second, until Ctrl-C.
    #[arg(long)]
    pub watch: bool,
    /// Show the counters and everything else that is known, too.
    #[arg(short, long)]
    pub verbose: bool,
}

/// `deaths`.
#[derive(Debug, Args)]
pub struct DeathsArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Go on as they happen.
    #[arg(long)]
    pub follow: bool,
}

/// `shred`.
#[derive(Debug, Args)]
pub struct ShredArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Now, and wait for it.
    #[arg(long)]
    pub now: bool,
}

/// `purge`.
#[derive(Debug, Args)]
pub struct PurgeArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// What is dead: OFFSET+LENGTH or FIRST-LAST, in bytes or with units: 1G+64K.
    #[arg(required = true, value_parser = parse_range)]
    pub ranges: Vec<Range>,
    /// Keep the content, and destroy what lies below it.
    #[arg(long)]
    pub scour: bool,
    /// Destroy it now, and wait for it.
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
    /// The image to make.
    #[arg(value_hint = ValueHint::FilePath)]
    pub image: PathBuf,
    /// Its format.
    #[arg(long, value_enum, default_value_t = ImageFormat::Raw)]
    pub format: ImageFormat,
}

/// `rebase`.
#[derive(Debug, Args)]
#[command(after_help = EXIT)]
pub struct RebaseArgs {
    /// The overlay's directory. Nobody may serve it.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// The new base: raw, or of another format, from which it is converted into
    /// the directory.
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub base: PathBuf,
    /// Take the new base as it is, without a look at the old one: what the disk
    /// has not changed reads as the new base has it.
    #[arg(long)]
    pub as_it_is: bool,
}

/// `commit`.
#[derive(Debug, Args)]
#[command(after_help = EXIT)]
pub struct CommitArgs {
    /// The overlay's directory. Nobody may serve it, but with --to.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// Make this raw image, and leave the overlay and its base alone.
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub to: Option<PathBuf>,
}

/// `prove`.
#[derive(Debug, Args)]
#[command(after_help = EXIT)]
pub struct ProveArgs {
    /// The disk's directory.
    #[arg(value_hint = ValueHint::DirPath, conflicts_with = "check")]
    pub disk: Option<PathBuf>,
    /// Write the signed receipt here.
    #[arg(short, long, value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Check this receipt instead.
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub check: Option<PathBuf>,
    /// The key that it must be signed with (`key.pub` of the disk).
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub key: Option<PathBuf>,
}

/// Some bytes.
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
            Err(format!("{bytes} bytes are too few for payloads; use 1M or more, such as 1G"))
        }
        bytes => Ok(bytes),
    }
}

fn parse_range(text: &str) -> Result<Range, String> {
    let wrong = || format!("{text:?} is no range: use OFFSET+LENGTH or FIRST-LAST");
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
            ("--memory", "0", "use 1M or more"),
            ("--memory", "1", "use 1M or more"),
        ] {
            let argument = format!("{option}={value}");
            let refused = Cli::try_parse_from(["quietus", "serve", "disk", &argument]);
            let said = refused.map(|_| argument).expect_err("it is refused").to_string();
            assert!([option, value, remedy].iter().all(|it| said.contains(it)), "{said}");
        }
        let least = ["--connections=1", "--handshake-timeout=1ms", "--stall-timeout=1ms", "--memory=1M"];
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
