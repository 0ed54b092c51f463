//! Options of the commands about files in the states of a disk.

use super::super::complete::epochs;
use super::keys::CredentialArgs;
use clap::{Args, ValueEnum, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = help!("quietus cat vm1@2026-11-18T10:00:/home/ann/tax.ods > tax.ods", "quietus cat vm1:2@14:/etc/fstab"))]
pub struct DiskCatArgs {
    /// The disk's directory, an epoch, and the path of a file in it: DISK@EPOCH:/PATH; without @EPOCH the current state. A partition stands
    /// before the @: DISK:2@EPOCH:/PATH. `#900` in place of a path is the inode of that number.
    #[arg(value_name = "DISK@EPOCH:/PATH", value_hint = ValueHint::DirPath, add = ArgValueCompleter::new(epochs))]
    pub target: PathBuf,
    /// The credential that opens the keys of a disk that is not served.
    #[command(flatten)]
    pub credential: CredentialArgs,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus history vm1:/home/ann/tax.ods"))]
pub struct HistoryArgs {
    /// The disk's directory, and the path of a file in it: DISK:/PATH, or DISK:2:/PATH in a partition.
    #[arg(value_name = "DISK:/PATH", value_hint = ValueHint::DirPath)]
    pub target: PathBuf,
    /// The credential that opens the keys of a disk that is not served.
    #[command(flatten)]
    pub credential: CredentialArgs,
}

/// A way to arrange the states of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ViewArg {
    /// A folder for each epoch, by number, and `now`.
    Epochs,
    /// A folder for each day, and in it one for each epoch that closed then (UTC).
    Times,
    /// The folders of the disk, where each file is a folder of its versions.
    Files,
    /// A folder `@GMT-…` for each epoch, for Samba's `shadow_copy2`.
    Gmt,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus mount vm1 /mnt", "quietus mount vm1:2 /srv/past --only gmt --allow-other"))]
pub struct DiskMountArgs {
    /// The disk's directory, or DISK:2 for a partition.
    #[arg(value_name = "DISK", value_hint = ValueHint::DirPath)]
    pub target: PathBuf,
    /// Folder to mount at. It shows `by-epoch/20/`, `by-epoch/now/`, `by-time/2026-11-20/10.00.00/` and
    /// `by-file/home/ann/tax.ods/3`, the third version of that file.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub at: PathBuf,
    /// Show only this view, without a folder of its own.
    #[arg(long, value_name = "VIEW")]
    pub only: Option<ViewArg>,
    /// Let other users in, where the modes, owners and access lists of the files allow it. Unless root mounts, `/etc/fuse.conf` has to say
    /// `user_allow_other`.
    #[arg(long)]
    pub allow_other: bool,
    /// The credential that opens the keys of a disk that is not served.
    #[command(flatten)]
    pub credential: CredentialArgs,
}

/// What a file has to be to be found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus find vm1@14 '*.pst' --uid 1004", "quietus find vm1:/home '*.pst' --epochs"))]
pub struct DiskFindArgs {
    /// The disk's directory, an epoch, and perhaps a folder to search: DISK@EPOCH:/FOLDER; without @EPOCH the current state.
    #[arg(value_name = "DISK@EPOCH:/FOLDER", value_hint = ValueHint::DirPath, add = ArgValueCompleter::new(epochs))]
    pub target: PathBuf,
    /// Name or path to find: a name such as `*.pst`, or, with a slash, a path such as `home/*/cache`. Default: all files.
    #[arg(value_name = "GLOB")]
    pub pattern: Option<String>,
    /// Search all kept epochs and the current state. A file is listed once for each size and time of change that it had.
    #[arg(long)]
    pub epochs: bool,
    /// Only files of the owner of that number.
    #[arg(long, value_name = "NUMBER")]
    pub uid: Option<u32>,
    /// Only files of this kind.
    #[arg(long, value_name = "KIND")]
    pub kind: Option<FileKind>,
    /// The credential that opens the keys of a disk that is not served.
    #[command(flatten)]
    pub credential: CredentialArgs,
}
