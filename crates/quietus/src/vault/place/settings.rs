//! The file `vault.toml`, which is written once, and the vault's key beside it. Each can be told from one of which a bit has changed.

use crate::base::hex::hex;
use crate::host::directory::DirectoryErrorKind;
use crate::host::paths::{Subject, absent};
use crate::vault::Error;
use quietus_vault::VaultId;
use quietus_vault::catalog::Layout;
use quietus_vault::chunk::{Compression, KEY_BYTES, VaultKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use uuid::Uuid;
use zeroize::Zeroizing;

pub(in super::super) const TOML_FILE: &str = "vault.toml";
pub(in super::super) const SECRET_FILE: &str = "secret";
pub(in super::super) const VERSION: u32 = 3;
/// Heading of the lines that check those before them.
const CHECK: &str = "\n[check]\n";
/// Least bytes of a half of the catalog's log.
const HALF_BYTES_MIN: u64 = 4 << 20;
/// Bytes of a half of the log for each slot: the list of the index's slots has to fit.
const HALF_BYTES_A_SLOT: u64 = 16;
const HALF_BYTES_MAX: u64 = 1 << 30;
const PAGE_BYTES: u64 = 4096;

/// How chunks are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, clap::ValueEnum, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// LZ4: fast.
    Lz4,
    /// Zstandard, level 3: smaller.
    Zstd,
    /// No compression.
    None,
}

impl From<Codec> for Compression {
    fn from(codec: Codec) -> Self {
        match codec {
            Codec::Lz4 => Self::Lz4,
            Codec::Zstd => Self::Zstd,
            Codec::None => Self::None,
        }
    }
}

/// The file `vault.toml`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VaultToml {
    /// Version of the directory.
    pub version: u32,
    /// Identity of the vault.
    #[schemars(with = "String")]
    pub uuid: Uuid,
    /// When the vault was made.
    #[serde(rename = "created", with = "crate::base::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_ms: u64,
    /// Path of the pool, from the directory on.
    pub medium: PathBuf,
    /// How content is destroyed.
    pub policy: String,
    /// How chunks are compressed from now on.
    pub compress: Codec,
    /// Bytes of a container.
    pub container_bytes: u32,
    /// Containers that the pool has place for.
    pub slots: u32,
}

/// The last lines of the file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Check {
    /// A check of whether `secret` is the vault's key.
    secret: String,
    /// CRC-32C of all lines before, and of `secret`.
    lines: String,
}

impl Check {
    fn new(lines: &str, secret: String) -> Self {
        let checksum = crc32c::crc32c_append(crc32c::crc32c(lines.as_bytes()), secret.as_bytes());
        Self { secret, lines: format!("{checksum:08x}") }
    }
}

impl VaultToml {
    /// The text of the file, in a vault with that key.
    pub fn to_text(&self, key: &VaultKey) -> String {
        let lines = toml::to_string(self).expect("vault.toml is plain data");
        let check = toml::to_string(&Check::new(&lines, hex(&key.check()))).expect("two strings");
        [&lines, CHECK, &check].concat()
    }

    /// The sizes of the vault, and whose it is.
    pub fn layout(&self) -> Layout {
        let half_bytes = HALF_BYTES_MIN + u64::from(self.slots) * HALF_BYTES_A_SLOT;
        Layout {
            vault: VaultId(*self.uuid.as_bytes()),
            slots: self.slots,
            slot_bytes: self.container_bytes,
            half_bytes: half_bytes.next_multiple_of(PAGE_BYTES).min(HALF_BYTES_MAX),
        }
    }

    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        Ok(Self::parse(&read(path)?, path)?.0)
    }

    /// The settings, and the vault's key.
    pub(in super::super) fn read_with_key(path: &Path) -> Result<(Self, VaultKey), Error> {
        let (toml, check) = Self::parse(&read(path)?, path)?;
        let path = path.join(SECRET_FILE);
        let key = read_secret(&path)?;
        match hex(&key.check()) == check.secret {
            true => Ok((toml, key)),
            false => Err(Error::Invalid(format!(
                "{}: damaged, or from another vault: the key does not match the field `check.secret` of vault.toml; run `quietus vault repair`, \
                 which sets one changed bit right, or restore the file from a copy (it never changes)",
                path.display()
            ))),
        }
    }

    fn parse(text: &str, path: &Path) -> Result<(Self, Check), Error> {
        let path = path.join(TOML_FILE);
        let refuse = |what: &str| Error::Invalid(format!("{}: {what}", path.display()));
        let (lines, check) = text.split_once(CHECK).unwrap_or((text, ""));
        let version = |lines| toml::from_str::<Versioned>(lines).map_or(VERSION, |it| it.version);
        if version(lines) != VERSION {
            return Err(refuse(&unknown(version(lines))));
        }
        let check = toml::from_str::<Check>(check).map_err(|error| {
            refuse(&format!("the section `check` at the end is damaged ({}); {REMEDY}", error.message()))
        })?;
        let right = Check::new(lines, check.secret.clone());
        if check != right {
            let (found, lines) = (&check.lines, &right.lines);
            let what = "a line was changed";
            return Err(refuse(&format!(
                "{what}: the field `check.lines` is {found:?}, and the lines have {lines:?}; {REMEDY}"
            )));
        }
        let toml: Self = toml::from_str(lines).map_err(|error| refuse(error.message()))?;
        let is_possible = toml.layout().check().map_err(|error| refuse(&error.to_string()));
        is_possible.map(|()| (toml, check))
    }

    /// Whether this is the text of such a file, with no bit changed.
    pub(in super::super) fn is_whole(text: &[u8], path: &Path) -> bool {
        std::str::from_utf8(text).is_ok_and(|text| Self::parse(text, path).is_ok())
    }

    /// Whether this is the key of the vault at `path`.
    pub(in super::super) fn is_key(secret: &[u8], path: &Path) -> bool {
        let check = read(path).and_then(|text| Self::parse(&text, path)).map(|(_, check)| check.secret);
        let key = <&[u8; KEY_BYTES]>::try_from(secret).map(|it| hex(&VaultKey::new(it).check()));
        matches!((check, key), (Ok(check), Ok(key)) if check == key)
    }
}

/// The one field of a file of any version.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

const REMEDY: &str = "run `quietus vault repair`, which sets one changed bit right, or restore the file from a copy (it never changes); \
     if the change was intended, set `check.lines` to the new value";

fn unknown(version: u32) -> String {
    let remedy = if version > VERSION { "use a newer program" } else { "use the program that made it" };
    format!(
        "version {version} is unknown to this program, which reads version {VERSION}; {remedy}, or, if only \
         a bit was changed, run `quietus vault repair`"
    )
}

fn read(dir: &Path) -> Result<String, Error> {
    let path = dir.join(TOML_FILE);
    std::fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(
        |error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                Error::Directory(absent(Subject::Vault, dir))
            }
            _ => Error::io("read it", &path, error),
        },
    )
}

fn read_secret(path: &Path) -> Result<VaultKey, Error> {
    let bytes = std::fs::read(path)
        .map_err(|error| DirectoryErrorKind::unreadable(&error).of(path, error))
        .map(Zeroizing::new)?;
    let secret: &[u8; KEY_BYTES] = bytes
        .as_slice()
        .try_into()
        .map_err(|_| DirectoryErrorKind::Damaged("the length is not 32 bytes").at(path))?;
    Ok(VaultKey::new(secret))
}
