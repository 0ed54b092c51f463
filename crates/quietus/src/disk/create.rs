//! Making a disk.

use super::config::{DiskToml, StoreKind};
use super::draft::Draft;
use super::overlay::{BASE_RAW, settle_base};
use super::{
    Access, DiskDir, DiskError, DiskErrorKind, Step, entropy, hex, lock_medium, open_file, replace, sync_dir,
    write_new,
};
use ed25519_dalek::SigningKey;
use quietus_core::journal::Shape;
use quietus_core::store::overlay::{Mode, format_map, map_bytes};
use quietus_core::units::{Addr, Extent};
use quietus_core::volume::Volume;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What to make.
#[derive(Clone, Debug, Default)]
pub struct CreateOptions {
    /// Bytes; taken from the medium or the base where that has a size.
    pub size: Option<u64>,
    /// A block device, or a file to be made, in place of `data`.
    pub medium: Option<PathBuf>,
    /// `medium` exists, and what it holds is the disk's content.
    pub adopt: bool,
    /// Where content is to live.
    pub store: StoreKind,
    /// What is to lie below an overlay: an image, of any format that `qemu-img`
    /// knows.
    pub base: Option<PathBuf>,
    /// How the file of an overlay stays small.
    pub mode: Option<Mode>,
    /// The passes.
    pub policy: String,
    /// See [`Config::idle_after_ms`].
    pub idle_after_ms: u64,
    /// See [`Config::deadline_ms`].
    pub deadline_ms: u64,
    /// See [`Config::detect_zeroes`].
    pub detect_zeroes: bool,
}

/// What a new disk begins with.
struct Beginning {
    toml: DiskToml,
    /// Holds data, or may hold some.
    held: Option<Extent<Addr>>,
    /// Lies on the medium and belongs to nobody.
    dead: Option<Extent<Addr>>,
}

impl DiskDir {
    /// As [`DiskDir::create_with`], in silence.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn create(path: &Path, options: &CreateOptions) -> Result<DiskToml, DiskError> {
        Self::create_with(path, options, &mut |_, _| true)
    }

    /// Makes the directory `path` with a new disk in it. Nothing is left
    /// behind if that fails. `step` is told of what takes long: reading a base.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn create_with(path: &Path, options: &CreateOptions, step: Step<'_>) -> Result<DiskToml, DiskError> {
        check(options).map_err(|kind| kind.at(path))?;
        let mut draft = Draft::begin(path)?;
        let toml = build(&mut draft, options, step)?;
        draft.keep(path)?;
        Ok(toml)
    }
}

/// Refuses what does not go together.
fn check(options: &CreateOptions) -> Result<(), DiskErrorKind> {
    let is_overlay = options.store == StoreKind::Overlay;
    let what = match options {
        _ if is_overlay && options.base.is_none() => "an overlay lies above an image: name it with --base",
        _ if is_overlay && options.adopt => {
            "an overlay adopts nothing: name the image with --base, not --adopt"
        }
        _ if is_overlay && options.medium.is_some() => {
            "an overlay keeps what differs from its base in its own directory: leave --medium out"
        }
        _ if !is_overlay && options.base.is_some() => "only an overlay has a base: say --store overlay too",
        _ if !is_overlay && options.mode.is_some() => "only an overlay has a mode: say --store overlay too",
        _ => return Ok(()),
    };
    Err(DiskErrorKind::Invalid(what.into()))
}

/// Makes all of a disk in an empty directory.
fn build(draft: &mut Draft, options: &CreateOptions, step: Step<'_>) -> Result<DiskToml, DiskError> {
    let beginning = match options.store {
        StoreKind::InPlace => in_place(draft, options)?,
        StoreKind::Overlay => overlay(draft, options, step)?,
    };
    let dir = draft.dir();
    let toml = beginning.toml;
    let io = |act| move |error| DiskErrorKind::Io(act).of(dir, error);
    let shape = Shape::default();
    let journal = new_file(dir, "journal", shape.bytes()).map_err(io("making the journal"))?;
    let disk = *toml.uuid.as_bytes();
    let formatted = Volume::format(
        &open_file(&journal, "the journal", Access::ReadWrite)?,
        shape,
        disk,
        beginning.held,
        beginning.dead,
    );
    let view = formatted.map_err(|error| io("making the journal")(io::Error::other(error)))?;
    make_key(dir).map_err(io("making the key"))?;
    if !options.adopt {
        replace(dir, "view", &view.to_bytes(disk)).map_err(io("writing view"))?;
    }
    write_new(dir, "disk.toml", toml.to_text().as_bytes()).map_err(io("writing disk.toml"))?;
    sync_dir(dir).map_err(io("syncing the directory"))?;
    Ok(toml)
}

fn in_place(draft: &mut Draft, options: &CreateOptions) -> Result<Beginning, DiskError> {
    let toml = DiskToml::in_place(options)?;
    let foreign = options.medium.as_deref().filter(|path| path.exists());
    match foreign {
        Some(path) => drop(lock_medium(path, Access::ReadWrite)?),
        None => draft.make_medium(&toml)?,
    }
    let whole = Extent::new(0, toml.size_bytes);
    // What lies on a device that is not adopted is dead already. Of what is
    // adopted, the first start finds out which parts hold data.
    let held = options.adopt.then_some(whole);
    let dead = (foreign.is_some() && !options.adopt).then_some(whole);
    Ok(Beginning { toml, held, dead })
}

fn overlay(draft: &mut Draft, options: &CreateOptions, step: Step<'_>) -> Result<Beginning, DiskError> {
    let image = options.base.as_deref().unwrap_or(Path::new(""));
    let toml = DiskToml::overlay(options, settle_base(draft.dir(), image, BASE_RAW, step)?)?;
    let dir = draft.dir();
    let io = |act| move |error| DiskErrorKind::Io(act).of(dir, error);
    new_file(dir, "data", 0).map_err(io("making the medium"))?;
    let map = new_file(dir, "map", map_bytes(toml.size_bytes)).map_err(io("making the map"))?;
    let formatted =
        format_map(&open_file(&map, "the map", Access::ReadWrite)?, *toml.uuid.as_bytes(), toml.size_bytes);
    formatted.map_err(|error| io("making the map")(io::Error::other(error)))?;
    Ok(Beginning { toml, held: None, dead: None })
}

/// Makes the file `name` of so many bytes; returns where it is.
fn new_file(dir: &Path, name: &str, bytes: u64) -> io::Result<PathBuf> {
    let path = dir.join(name);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.set_len(bytes)?;
    file.sync_all()?;
    Ok(path)
}

fn make_key(dir: &Path) -> io::Result<()> {
    let secret = entropy().map_err(io::Error::other)?;
    write_new(dir, "key", &secret)?;
    let key = SigningKey::from_bytes(&secret);
    write_new(dir, "key.pub", hex(key.verifying_key().as_bytes()).as_bytes())
}
