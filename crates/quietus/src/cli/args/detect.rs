//! Options of `serve` that say how deaths are inferred.

use crate::base::duration::parse_duration_ms;
use crate::host::attached::Mode;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, ValueEnum};
use quietus_detect::rules::options::Sensitive;

/// How `serve` infers deaths from what is written.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "What is inferred")]
pub struct DetectArgs {
    /// File system whose deletions are inferred from the guest's writes. Inference
    /// relies on the order of writes, so with any value but `off` the server does not
    /// offer NBD multi-conn. A second connection is served all the same; while two
    /// are open, some deletions are confirmed later.
    #[arg(long, value_enum, default_value_t = Detect::Auto)]
    pub detect: Detect,
    /// Which content of a block is destroyed: only its last content; also content of deleted files below
    /// newer content; or all content that is overwritten. On a sealed disk the last gives a block a fresh key with each
    /// overwrite, and writes the content three times.
    #[arg(long, value_enum, default_value_t = GradeArg::Generation)]
    pub grade: GradeArg,
    /// Which deleted content is destroyed: all of it, or only content of files and folders marked with `chattr +s`, and content
    /// whose file is not known. The space of other content is freed. On file systems without marks all content is destroyed;
    /// `quietus sensitive` shows how far marks are followed on ext2, ext3 and ext4.
    #[arg(long, value_enum, default_value_t = SensitiveArg::All)]
    pub sensitive: SensitiveArg,
    /// Destroy a block as soon as the allocation map shows it free, even while an inode names it.
    /// Faster, but after a crash of the guest a deleted file may come back full of zeros.
    #[arg(long)]
    pub eager: bool,
    /// Destroy discarded blocks at once. `no`: only once the file system also shows them free.
    #[arg(long, action = ArgAction::Set, default_value = "yes", value_parser = PossibleValuesParser::new(["yes", "no"]).map(|it| it == "yes"))]
    pub trust_discard: bool,
    /// Time by which writes may overtake each other: an allocation map frees only blocks whose last
    /// write is older than this (up to twice as long in effect).
    #[arg(long, default_value = "1s", value_parser = parse_duration_ms)]
    pub reorder_window: u64,
    /// Longest time that an active guest holds back writes; must exceed its write-back interval.
    #[arg(long, default_value = "60s", value_parser = parse_duration_ms)]
    pub settle: u64,
    /// Whether a cache lies between guest and disk, such as a host's page cache, dm-writecache,
    /// bcache or a FUSE driver. A cache reorders writes, so deletions are known only after
    /// --settle and --cache-hold of activity. `auto` treats QEMU's own client, and nbd.ko where
    /// the kernel has mounted it, as direct, and every other client as cached.
    #[arg(long, value_enum, default_value_t = Mode::Auto)]
    pub attached: Mode,
    /// Longest time that a cache between guest and disk holds back a write. Linux writes a
    /// dirty page within 35 s, and later under load.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration_ms)]
    pub cache_hold: u64,
}

/// File systems below which deaths are inferred.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Detect {
    /// Any of these, as found on the disk.
    Auto,
    /// No inference: only the guest's discards delete.
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
    /// The last content of a freed block.
    Block,
    /// Also content of deleted files below newer content.
    Generation,
    /// All content that is overwritten.
    Content,
}

/// Which content is sensitive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum SensitiveArg {
    /// All deleted content.
    All,
    /// Content of files and folders marked with `chattr +s`, and content whose file is not known.
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
