//! `disk.toml`: the description of a disk, and its behaviour.
//!
//! A checksum covers everything that must never change, so that a flipped bit is seen;
//! `[behaviour]` is for a person to edit, and is not covered.

pub(super) mod flash;
pub(super) mod names;
pub(super) mod overlay;
pub(super) mod sealed;
pub(super) mod versions;

use super::{DiskError, DiskErrorKind};
use crate::disk::keys::Source;
use crate::host::directory::{DirectoryErrorKind, replace};
use crate::host::guarantees::{self, DiskGuarantees};
use crate::host::media::flash::FlashPlace;
use crate::host::media::root::RootKind;
use crate::host::paths::{Subject, absent};
use clap::ValueEnum;
use flash::FlashToml;
use names::{DATA_FILE, ROOT_FILE, STUBS_FILE};
use overlay::OverlayToml;
use quietus_core::base::units::BLOCK_BYTES;
use quietus_core::erase::policy::Policy;
use quietus_core::retention::Retention;
use quietus_core::store::overlay::Mode;
use quietus_core::volume::Config;
use quietus_seal::Seal;
use schemars::JsonSchema;
use sealed::SealedToml;
use serde::{Deserialize, Serialize};
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};
use uuid::Uuid;
use versions::{EpochEnd, VersionsToml};

const VERSION: i64 = 1;
/// Size of the largest disk in place: its last sector ends below the largest file position.
const IN_PLACE_BYTES_MAX: u64 = i64::MAX as u64 / 512 * 512;
/// Size of the largest disk with keys or versions, in bytes: the number of a block has 40 bits.
const NUMBERED_BYTES_MAX: u64 = (1 << 40) * BLOCK_BYTES;

/// The content of `disk.toml`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskToml {
    /// Version of the format.
    pub version: i64,
    /// Identity of the disk, for ever.
    #[schemars(with = "String")]
    pub uuid: Uuid,
    /// Size that the guest sees, bytes.
    pub size_bytes: u64,
    /// Kind of store.
    pub store: StoreKind,
    /// CRC-32C of everything but `behaviour`.
    pub checksum: String,
    /// Place of the content.
    pub medium: MediumToml,
    /// Image below an overlay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlay: Option<OverlayToml>,
    /// How versions are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<VersionsToml>,
    /// How content is sealed in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<SealedToml>,
    /// How the disk divides the flash chip on which it lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flash: Option<FlashToml>,
    /// Behaviour, which may be edited while the disk is not served.
    pub behaviour: BehaviourToml,
}

/// Kinds of store: the place of content on the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ValueEnum, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StoreKind {
    /// Byte n of the disk is byte n of the medium.
    #[default]
    InPlace,
    /// A file that grows and shrinks holds the blocks that differ from an immutable base image.
    Overlay,
    /// Every epoch of the disk is kept, encrypted, until it is forgotten.
    Versions,
    /// Byte n of the disk is byte n of the medium, encrypted; deletion destroys keys, so only the root has to be overwritten.
    Sealed,
}

impl StoreKind {
    /// Whether the store keeps versions.
    pub(super) fn keeps_versions(self) -> bool {
        self == Self::Versions
    }

    /// Whether content is encrypted, so that its keys decide: the disk has a root, and may have credentials.
    pub(super) fn has_root(self) -> bool {
        matches!(self, Self::Versions | Self::Sealed)
    }

    /// Size of the largest disk with this store, in bytes.
    pub(super) fn size_bytes_max(self) -> u64 {
        match self {
            Self::InPlace => IN_PLACE_BYTES_MAX,
            Self::Overlay => OVERLAY_BYTES_MAX,
            Self::Versions | Self::Sealed => NUMBERED_BYTES_MAX,
        }
    }

    /// Whether metadata of the store is read part by part, and kept in memory.
    pub(crate) fn caches_metadata(self) -> bool {
        matches!(self, Self::Versions | Self::Sealed)
    }

    /// The name, as in the file and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InPlace => "in-place",
            Self::Overlay => "overlay",
            Self::Versions => "versions",
            Self::Sealed => "sealed",
        }
    }
}

/// Place of the content.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MediumToml {
    /// Path, relative to the directory or absolute.
    pub path: PathBuf,
    /// The medium held the content before it became a disk.
    pub adopted: bool,
}

/// Behaviour of the disk.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BehaviourToml {
    /// Policy: the passes.
    pub policy: String,
    /// See [`Config::idle_after_ms`].
    pub idle_after_ms: u64,
    /// See [`Config::deadline_ms`].
    pub deadline_ms: u64,
    /// See [`Config::detect_zeroes`].
    pub detect_zeroes: bool,
    /// Bytes that the audit log has at most, about: beyond that its oldest file is removed.
    #[serde(default = "audit_bytes_max")]
    pub audit_bytes_max: u64,
    /// How the file of an overlay stays small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// When an epoch of a disk that keeps versions closes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub epoch: Option<EpochEnd>,
    /// Which epochs such a disk keeps; all, if there is no rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub retention: Option<Retention>,
}

/// Properties of a new disk.
#[derive(Clone, Debug, Default)]
pub struct CreateOptions {
    /// Size in bytes; taken from the medium or the base where that has a size.
    pub size: Option<u64>,
    /// Block device, or file to make, in place of `data`.
    pub medium: Option<PathBuf>,
    /// `medium` exists, and its content becomes the disk's.
    pub adopt: bool,
    /// Kind of store.
    pub store: StoreKind,
    /// Image below an overlay, of any format that `qemu-img` knows.
    pub base: Option<PathBuf>,
    /// Raw image whose content is copied to a disk that encrypts it.
    pub from: Option<PathBuf>,
    /// How the file of an overlay stays small.
    pub mode: Option<Mode>,
    /// How versions are kept, or content is sealed.
    pub versions: VersionsOptions,
    /// Policy: the passes.
    pub policy: String,
    /// See [`Config::idle_after_ms`].
    pub idle_after_ms: u64,
    /// See [`Config::deadline_ms`].
    pub deadline_ms: u64,
    /// See [`Config::detect_zeroes`].
    pub detect_zeroes: bool,
}

/// How a new disk keeps versions, or seals its content; what is not said is the default.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VersionsOptions {
    /// How blocks are sealed.
    pub seal: Option<Seal>,
    /// When an epoch closes.
    pub epoch: Option<EpochEnd>,
    /// Which epochs are kept.
    pub retention: Option<Retention>,
    /// Block device, or file to make, in place of `stubs`.
    pub stub_medium: Option<PathBuf>,
    /// Block device, or file to make, in place of `root`.
    pub root: Option<PathBuf>,
    /// Where the first credential comes from, if not from the person at the terminal.
    pub source: Option<Source>,
    /// A sealed disk has no credential: its root is its only secret.
    pub no_credential: bool,
}

impl VersionsOptions {
    /// The kind of medium that was chosen for the root.
    ///
    /// # Errors
    /// What is wrong with its name, and what is right.
    pub(crate) fn root_kind(&self) -> Result<Option<RootKind>, String> {
        self.root.as_deref().map(RootKind::of).transpose()
    }
}

/// Default size of all files of an audit log: one GiB.
fn audit_bytes_max() -> u64 {
    1 << 30
}

/// Size of the largest overlay in bytes: the map has an entry of 32 bits for each block.
const OVERLAY_BYTES_MAX: u64 = (u32::MAX as u64 - 1) * BLOCK_BYTES;
/// Policy of an overlay that destroys nothing: dead space is only freed.
const NO_PASSES: &str = "none";

/// The tables of a description that say more of its store.
#[derive(Default)]
struct Tables {
    overlay: Option<OverlayToml>,
    versions: Option<VersionsToml>,
    sealed: Option<SealedToml>,
}

impl MediumToml {
    /// The file in the disk's own directory.
    fn own() -> Self {
        Self { path: DATA_FILE.into(), adopted: false }
    }
}

impl DiskToml {
    /// The description of a new disk in place.
    pub(super) fn in_place(options: &CreateOptions) -> Result<Self, DiskError> {
        let (size_bytes, medium) = placed(options, 512)?;
        Self::of(options, size_bytes, medium, Tables::default())
    }

    /// The description of a new sealed disk.
    pub(super) fn sealed(options: &CreateOptions) -> Result<Self, DiskError> {
        let (size_bytes, medium) = placed(options, BLOCK_BYTES)?;
        let (wanted, is_on_chip) = (&options.versions, FlashPlace::of(&medium.path).is_some());
        let kind = wanted.root_kind().map_err(|error| DiskErrorKind::Usage(error).at(Path::new("--root")))?;
        let root = match kind {
            None if is_on_chip => RootKind::Chip.to_string().into(),
            None => ROOT_FILE.into(),
            Some(RootKind::Path(path)) => absolute(&path)?,
            Some(elsewhere) => elsewhere.to_string().into(),
        };
        let sealed = SealedToml { root, credential: !wanted.no_credential };
        Self::of(options, size_bytes, medium, Tables { sealed: Some(sealed), ..Tables::default() })
    }

    /// The description of a new overlay above `base`.
    pub(super) fn overlay(options: &CreateOptions, base: OverlayToml) -> Result<Self, DiskError> {
        let content = base.base_bytes.next_multiple_of(512);
        let size_bytes = options.size.unwrap_or(content);
        if size_bytes < content {
            let what = format!(
                "--size is {size_bytes} bytes, and the base image has {content}; use {content} or a larger size"
            );
            return Err(DiskErrorKind::Invalid(what).at(&base.base));
        }
        let medium = MediumToml::own_or_chip(options)?;
        Self::of(options, size_bytes, medium, Tables { overlay: Some(base), ..Tables::default() })
    }

    /// The description of a new disk that keeps versions.
    pub(super) fn versions(options: &CreateOptions) -> Result<Self, DiskError> {
        let size_bytes = options.size.ok_or_else(size_missing)?;
        let wanted = &options.versions;
        let path =
            |own: &str, other: &Option<PathBuf>| other.as_deref().map_or_else(|| Ok(own.into()), absolute);
        let (stubs, root) = (path(STUBS_FILE, &wanted.stub_medium)?, path(ROOT_FILE, &wanted.root)?);
        let versions = VersionsToml::new(wanted.seal.unwrap_or_default(), stubs, root);
        let medium = match MediumToml::own_or_chip(options)? {
            own if own == MediumToml::own() => {
                MediumToml { path: path(DATA_FILE, &options.medium)?, adopted: false }
            }
            chip => chip,
        };
        Self::of(options, size_bytes, medium, Tables { versions: Some(versions), ..Tables::default() })
    }

    fn of(
        options: &CreateOptions,
        size_bytes: u64,
        medium: MediumToml,
        Tables { overlay, versions, sealed }: Tables,
    ) -> Result<Self, DiskError> {
        let wanted = &options.versions;
        let toml = Self {
            version: VERSION,
            uuid: Uuid::new_v4(),
            size_bytes,
            store: options.store,
            checksum: String::new(),
            medium,
            behaviour: BehaviourToml {
                policy: options.policy.clone(),
                idle_after_ms: options.idle_after_ms,
                deadline_ms: options.deadline_ms,
                detect_zeroes: options.detect_zeroes,
                audit_bytes_max: audit_bytes_max(),
                mode: overlay.is_some().then(|| options.mode.unwrap_or_default()),
                epoch: versions.is_some().then(|| wanted.epoch.unwrap_or_default()),
                retention: versions.is_some().then(|| wanted.retention.clone().unwrap_or_default()),
            },
            overlay,
            versions,
            sealed,
            flash: None,
        };
        let toml = toml.with_flash(options)?.summed();
        toml.check().map_err(|kind| kind.at(Path::new("disk.toml")))?;
        Ok(toml)
    }

    /// Reads the `disk.toml` of the disk in `dir`.
    ///
    /// # Errors
    /// [`DiskError`]: missing, of another version, damaged or senseless.
    pub fn read(dir: &Path) -> Result<Self, DiskError> {
        let path = dir.join("disk.toml");
        let text = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => absent(Subject::Disk, dir),
            std::io::ErrorKind::InvalidData => DirectoryErrorKind::Damaged("not UTF-8 text").at(&path),
            _ => DirectoryErrorKind::Io("read the file").of(&path, error),
        })?;
        Self::from_text(&text).map_err(|kind| kind.at(&path))
    }

    /// Parses the text of the file.
    ///
    /// # Errors
    /// The fault of the text.
    pub fn from_text(text: &str) -> Result<Self, DiskErrorKind> {
        let table: toml::Table = text.parse().map_err(unreadable)?;
        // The version first: the rest may be of a format not known yet.
        match table.get("version").and_then(toml::Value::as_integer) {
            Some(VERSION) => {}
            Some(other) => return Err(DiskErrorKind::Version(other)),
            None => return Err(DirectoryErrorKind::Damaged("field `version` is missing").into()),
        }
        let toml: Self = toml::from_str(text).map_err(unreadable)?;
        toml.check()?;
        Ok(toml)
    }

    pub(super) fn to_text(&self) -> String {
        toml::to_string(self).expect("a disk.toml is plain data")
    }

    fn check(&self) -> Result<(), DiskErrorKind> {
        if self.checksum != self.sum() {
            return Err(DirectoryErrorKind::Damaged(
                "field `checksum` does not match the other fields; only [behaviour] may be edited",
            )
            .into());
        }
        self.check_parts()?;
        let (size, most) = (self.size_bytes, self.store.size_bytes_max());
        if !(512..=most).contains(&size) || !size.is_multiple_of(512) {
            let store = self.store.name();
            return Err(invalid(format!(
                "field `size_bytes` is {size}; a disk with the store `{store}` has a multiple of 512, from 512 to {most}"
            )));
        }
        self.overlay.as_ref().map_or(Ok(()), |overlay| self.check_overlay(overlay))?;
        self.versions.as_ref().map_or(Ok(()), |versions| self.check_versions(versions))?;
        self.sealed.as_ref().map_or(Ok(()), |_| self.check_sealed())?;
        self.check_flash()?;
        self.policy().map(drop)
    }

    /// Whether the tables and fields fit the store.
    fn check_parts(&self) -> Result<(), DiskErrorKind> {
        let behaviour = &self.behaviour;
        let overlay = [self.overlay.is_some(), behaviour.mode.is_some()];
        let versions = [self.versions.is_some(), behaviour.epoch.is_some(), behaviour.retention.is_some()];
        for (store, has, rule) in [
            (
                StoreKind::Overlay,
                &overlay[..],
                "an overlay has a table [overlay] and a field `mode`, no other disk has them",
            ),
            (
                StoreKind::Versions,
                &versions,
                "a disk with the store `versions` has a table [versions] and fields `epoch` and `retention`, no other disk has them",
            ),
            (
                StoreKind::Sealed,
                &[self.sealed.is_some()],
                "a disk with the store `sealed` has a table [sealed], no other disk has one",
            ),
        ] {
            if has.iter().any(|has| *has != (self.store == store)) {
                return Err(invalid(format!("field `store` contradicts the rest: {rule}")));
            }
        }
        Ok(())
    }

    fn check_versions(&self, versions: &VersionsToml) -> Result<(), DiskErrorKind> {
        if self.medium.adopted {
            return Err(invalid("field `medium.adopted` of a disk that keeps versions is true"));
        }
        let is_own = self.medium == MediumToml::own() || self.flash.is_some();
        if !self.medium.path.is_absolute() && !is_own {
            return Err(invalid(
                "field `medium.path` of a disk that keeps versions is neither `data` nor an absolute path",
            ));
        }
        versions.check()
    }

    fn check_overlay(&self, overlay: &OverlayToml) -> Result<(), DiskErrorKind> {
        if self.size_bytes < overlay.base_bytes {
            return Err(invalid(
                "field `size_bytes` is less than `base_bytes`: a disk is no smaller than its base",
            ));
        }
        if self.medium != MediumToml::own() && self.flash.is_none() {
            return Err(invalid(
                "field `medium.path` of an overlay is not `data`, or `medium.adopted` is true",
            ));
        }
        overlay.check()
    }

    fn policy(&self) -> Result<Policy, DiskErrorKind> {
        if self.behaviour.policy == NO_PASSES && self.store != StoreKind::Overlay {
            return Err(invalid("policy `none` destroys nothing; only an overlay may have it"));
        }
        self.behaviour.policy.parse::<Policy>().map_err(invalid)
    }

    /// `self` with the checksum that fits.
    pub(super) fn summed(self) -> Self {
        Self { checksum: self.sum(), ..self }
    }

    pub(super) fn sum(&self) -> String {
        let Self { version, uuid, size_bytes, store, medium, overlay, versions, sealed, flash, .. } = self;
        let facts = (version, uuid, size_bytes, store, &medium.path, medium.adopted);
        let text = match (overlay, versions, sealed) {
            (Some(overlay), ..) => serde_json::to_string(&(facts, overlay.facts())),
            (_, Some(versions), _) => serde_json::to_string(&(facts, versions.facts())),
            (.., Some(sealed)) => serde_json::to_string(&(facts, sealed.facts())),
            (None, None, None) => serde_json::to_string(&facts),
        };
        let flash = flash.iter().filter_map(|it| serde_json::to_string(it).ok());
        let text: String = text.into_iter().chain(flash).collect();
        format!("crc32c:{:08x}", crc32c::crc32c(text.as_bytes()))
    }

    pub(super) fn config(&self, dir: &Path) -> Result<Config, DiskError> {
        let mut config = Config::new(self.policy().map_err(|kind| kind.at(&dir.join("disk.toml")))?);
        config.idle_after_ms = self.behaviour.idle_after_ms;
        config.deadline_ms = self.behaviour.deadline_ms;
        config.detect_zeroes = self.behaviour.detect_zeroes;
        Ok(config)
    }

    /// Path of the medium of the disk in `dir`.
    #[must_use]
    pub fn medium_path(&self, dir: &Path) -> PathBuf {
        if self.flash.is_some() { self.medium.path.clone() } else { dir.join(&self.medium.path) }
    }

    /// The guarantees of this host for the disk in `dir`: for each part that may hold content.
    #[must_use]
    pub fn guarantees(&self, dir: &Path) -> DiskGuarantees {
        guarantees::inspect_disk(self.parts(dir))
    }

    /// Replaces the `disk.toml` in `dir` by this one. Text that a person wrote beside it stays.
    ///
    /// # Errors
    /// [`DiskError`]; the old file is whole then.
    pub(super) fn write(&self, dir: &Path) -> Result<(), DiskError> {
        let path = dir.join("disk.toml");
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        let new = patched(&old, &self.to_text());
        let is_right = Self::from_text(&new).is_ok_and(|read| read == *self);
        let text = if is_right { new } else { self.to_text() };
        let written = replace(dir, "disk.toml", text.as_bytes());
        Ok(written.map_err(|error| DirectoryErrorKind::Io("write the file").of(&path, error))?)
    }
}

/// The text `old`, in which every line `key = …` is as in `new`.
fn patched(old: &str, new: &str) -> String {
    let key = |line: &str| line.split_once('=').map(|(key, _)| key.trim().to_string());
    let line_of = |wanted: String| new.lines().find(|line| key(line).as_ref() == Some(&wanted));
    let lines = old.lines().map(|line| key(line).and_then(line_of).unwrap_or(line));
    lines.flat_map(|line| [line, "\n"]).collect()
}

fn invalid(what: impl ToString) -> DiskErrorKind {
    DiskErrorKind::Invalid(what.to_string().trim_end().to_string())
}

fn unreadable(error: toml::de::Error) -> DiskErrorKind {
    let error = error.to_string();
    invalid(format!("{}; correct that, or restore the file from a backup", error.trim_end()))
}

/// The size of a disk whose byte n lies at byte n of its medium, and that medium, of which the disk uses whole units of `unit` bytes.
fn placed(options: &CreateOptions, unit: u64) -> Result<(u64, MediumToml), DiskError> {
    if let Some(place) = options.medium.as_deref().map(flash::chip).transpose()?.flatten() {
        let size_bytes = flash::size_on_chip(&place, options)?;
        return Ok((size_bytes, MediumToml::on_chip(&place)));
    }
    let here = Path::new("disk.toml");
    let foreign = options.medium.as_deref().filter(|path| path.exists());
    let found = foreign.map(size_of).transpose()?.map(|found| found / unit * unit);
    let size_bytes = match (found, options.size) {
        (Some(found), Some(size)) if size > found => {
            let what = format!("--size is {size} bytes, and the medium has {found}; use {found} or less");
            return Err(DiskErrorKind::Invalid(what).at(foreign.unwrap_or(here)));
        }
        (_, Some(size)) => size,
        (Some(found), None) => found,
        (None, None) => return Err(size_missing()),
    };
    let path = options.medium.as_deref().map_or_else(|| Ok(DATA_FILE.into()), absolute)?;
    Ok((size_bytes, MediumToml { path, adopted: options.adopt }))
}

fn size_missing() -> DiskError {
    let what = "--size is missing; give the size of the disk, such as --size 20G";
    DiskErrorKind::Usage(what.into()).at(Path::new("disk.toml"))
}

fn absolute(path: &Path) -> Result<PathBuf, DiskError> {
    Ok(std::path::absolute(path).map_err(|error| DirectoryErrorKind::Io("find the file").of(path, error))?)
}

fn size_of(path: &Path) -> Result<u64, DiskError> {
    let size = std::fs::File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0)));
    // A partial sector is not the guest's.
    Ok(size
        .map(|size| size / 512 * 512)
        .map_err(|error| DirectoryErrorKind::Io("open the file").of(path, error))?)
}

/// Bytes from `512`, `20G`, `1.5T`: binary units.
///
/// # Errors
/// A text that shows what a size looks like.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let units = [("K", 10), ("M", 20), ("G", 30), ("T", 40), ("P", 50)];
    let text = text.trim();
    let upper = text.to_ascii_uppercase();
    let number = upper.strip_suffix("IB").or(upper.strip_suffix('B')).unwrap_or(&upper);
    let unit = units.iter().find_map(|(unit, shift)| Some((number.strip_suffix(unit)?, *shift)));
    let (number, shift) = unit.unwrap_or((number, 0));
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let bytes = (|| {
        let digits = |text: &str| text.chars().all(|digit| digit.is_ascii_digit());
        if whole.is_empty()
            || !digits(whole)
            || !digits(part)
            || part.len() > 6
            || (shift == 0 && !part.is_empty())
        {
            return None;
        }
        let scale = 10_u128.pow(part.len() as u32);
        let number: u128 = whole.parse::<u64>().ok()?.into();
        let fraction: u128 = if part.is_empty() { 0 } else { part.parse().ok()? };
        u64::try_from(((number * scale + fraction) << shift) / scale).ok()
    })();
    bytes.ok_or_else(|| format!("invalid size {text:?}; use 512, 64M, 20G or 1.5T, less than 16 EiB"))
}
