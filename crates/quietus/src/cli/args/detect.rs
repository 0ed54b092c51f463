//! Options of `serve` that say how deaths are inferred.

use crate::base::duration::parse_duration_ms;
use crate::host::attached::Mode as AttachedMode;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, ValueEnum};
use quietus_detect::options::Sensitive;

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
    #[arg(long, action = ArgAction::Set, default_value = "yes", value_parser = PossibleValuesParser::new(["yes", "no"]).map(|it| it == "yes"))]
    pub trust_discard: bool,
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
