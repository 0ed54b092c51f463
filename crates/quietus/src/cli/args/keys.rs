//! Options of disks that keep versions: how versions are kept, and what opens the keys.

use crate::cli::complete::roots;
use crate::disk::keys::Source;
use crate::disk::{EpochEnd, VersionsOptions};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use quietus_core::retention::Retention;
use quietus_seal::Seal;
use std::path::PathBuf;

/// How `create` keeps versions, or seals content.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "With --store versions")]
pub struct VersionsArgs {
    /// How each block is sealed. Default: random-key.
    #[arg(long, value_parser = seals())]
    pub seal: Option<Seal>,
    /// When an epoch closes: after a time, such as 1s or 1h, at each flush of the guest (`flush`), or only on
    /// command (`manual`). Data written and deleted within one epoch leaves no version. Default: 1h.
    #[arg(long)]
    pub epoch: Option<EpochEnd>,
    /// Rules of retention, such as "all 1d, hourly 30d, daily 7y, last 100". An epoch is kept while any
    /// rule keeps it. Default: every epoch is kept until `quietus forget`.
    #[arg(long, value_name = "RULES")]
    pub retention: Option<Retention>,
    /// Medium for the stubs: a block device, whose present content is destroyed, or a file to create.
    /// Default: `stubs` in the directory.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub stub_medium: Option<PathBuf>,
    /// Medium for the root, whose keys protect all others: a file to create, or a block device, whose beginning is
    /// overwritten. Choose a medium that overwrites in place, such as a magnetic disk. With --store sealed also tpm:INDEX, such as
    /// tpm:0x01800150; mtd:/dev/mtdN, for NOR flash; or memory: all content is gone when the server
    /// stops, and each server begins with an empty disk. `nand`: the flash chip of the content. Default: `root` in the directory, or the
    /// flash chip.
    #[arg(
        long,
        value_name = "PATH",
        add = ArgValueCompleter::new(roots),
        help_heading = "With --store sealed or versions"
    )]
    pub root: Option<PathBuf>,
    /// Make a sealed disk without a credential: an attacker with its files and its root can read all content but what was deleted.
    #[arg(long, conflicts_with_all = ["passphrase_file", "key_file", "key_command"], help_heading = "With --store sealed or versions")]
    pub no_credential: bool,
}

fn seals() -> impl TypedValueParser<Value = Seal> {
    let values = Seal::ALL.map(|seal| PossibleValue::new(seal.name()).help(seal.help()));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Seal>())
}

/// Where the credential comes from that opens the keys of a disk.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Keys (default: ask for a passphrase)")]
#[group(id = "credential", multiple = false)]
pub struct CredentialArgs {
    /// File with the passphrase. A line feed at the end of the file is ignored.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub passphrase_file: Option<PathBuf>,
    /// File with the key, at least 32 random bytes. Key and passphrase files that every user can read or
    /// change are refused.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub key_file: Option<PathBuf>,
    /// Shell command that prints the key, at least 32 random bytes, such as from a TPM or a key server.
    #[arg(long, value_name = "COMMAND")]
    pub key_command: Option<String>,
}

/// Where the new credential of `key add` comes from.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "New credential (default: ask for a passphrase)")]
#[group(id = "new-credential", multiple = false)]
pub struct NewCredentialArgs {
    /// File with the new passphrase.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub new_passphrase_file: Option<PathBuf>,
    /// File with the new key, at least 32 random bytes.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub new_key_file: Option<PathBuf>,
    /// Shell command that prints the new key, at least 32 random bytes.
    #[arg(long, value_name = "COMMAND")]
    pub new_key_command: Option<String>,
}

impl CredentialArgs {
    /// The source, if one was named.
    pub(in crate::cli) fn named(&self) -> Option<Source> {
        named(&self.passphrase_file, &self.key_file, &self.key_command)
    }

    /// The source.
    pub(in crate::cli) fn source(&self) -> Source {
        self.named().unwrap_or_default()
    }
}

impl NewCredentialArgs {
    /// The source.
    pub(in crate::cli) fn source(&self) -> Source {
        named(&self.new_passphrase_file, &self.new_key_file, &self.new_key_command).unwrap_or_default()
    }
}

fn named(passphrase: &Option<PathBuf>, key: &Option<PathBuf>, command: &Option<String>) -> Option<Source> {
    let passphrase = passphrase.clone().map(Source::PassphraseFile);
    passphrase.or(key.clone().map(Source::KeyFile)).or(command.clone().map(Source::Command))
}

impl VersionsArgs {
    /// The options for a new disk with this credential.
    pub(in crate::cli) fn options(&self, credential: &CredentialArgs) -> VersionsOptions {
        let Self { seal, epoch, retention, stub_medium, root, no_credential } = self.clone();
        let source = credential.named();
        VersionsOptions { seal, epoch, retention, stub_medium, root, source, no_credential }
    }
}

#[derive(Debug, Args)]
#[command(after_help = help!("quietus key vm1 add --new-key-file /root/vm1.key", "quietus key vm1 remove 0 --key-file /root/vm1.key"))]
pub struct KeyArgs {
    /// The disk's directory. Stop its server first.
    #[arg(value_hint = ValueHint::DirPath)]
    pub disk: PathBuf,
    /// The command.
    #[command(subcommand)]
    pub action: KeyAction,
}

/// The commands for the keys of a disk.
#[derive(Debug, Subcommand)]
pub enum KeyAction {
    /// List the key slots. Needs no credential.
    List,
    /// Add a credential that opens the disk.
    Add {
        /// A credential that opens the disk.
        #[command(flatten)]
        credential: CredentialArgs,
        /// The new credential.
        #[command(flatten)]
        new: NewCredentialArgs,
    },
    /// Remove a credential: its slot is overwritten by the disk's policy. Give another credential, which
    /// opens the disk afterwards.
    Remove {
        /// Number of the slot, as `list` shows it.
        slot: u8,
        /// A credential that opens the disk afterwards.
        #[command(flatten)]
        credential: CredentialArgs,
    },
    /// Create a new master key of a disk that keeps versions, which seals new content from the next start on. Older versions keep
    /// their keys.
    Rotate {
        /// A credential that opens the disk.
        #[command(flatten)]
        credential: CredentialArgs,
    },
}
