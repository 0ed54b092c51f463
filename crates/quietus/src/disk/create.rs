//! Making a disk.

use super::beginning::Beginning;
use super::config::names::{BASE_RAW, DATA_FILE, KEYS_FILE, KEYTREE_FILE, ROOT_FILE, STUBS_FILE};
use super::config::{CreateOptions, DiskToml, StoreKind, VersionsOptions};
use super::epochs::NAMES_FILE;
use super::overlay::settle_base;
use super::{DiskDir, DiskError, DiskErrorKind, Step};
use crate::base::naming;
use crate::host::directory::{
    Access, DirectoryErrorKind, Draft, Plan, lock_storage, make_key, parent_of, replace, sync_dir, write_new,
};
use crate::host::media::flash::FlashPlace;
use crate::host::media::root::RootKind;
use crate::host::paths;
use quietus_core::base::units::{Addr, Extent};
use quietus_core::media::MediumId;
use quietus_core::owed::journal::Shape;
use quietus_core::store::overlay::{format_map, map_bytes};
use quietus_core::volume::{Checkpoint, Volume};
use std::io;
use std::path::{Path, PathBuf};

/// Files that the directory of a new disk may hold.
pub(super) const PLAN: Plan = Plan {
    ending: "new",
    files: &[
        DATA_FILE,
        "map",
        KEYTREE_FILE,
        STUBS_FILE,
        ROOT_FILE,
        KEYS_FILE,
        BASE_RAW,
        "journal",
        "key",
        "key.pub",
        "view",
        ".view.new",
        "disk.toml",
        "lock",
        "stamp",
        ".stamp.new",
        "audit.jsonl",
        NAMES_FILE,
    ],
    maker: "another `quietus create`",
};

impl DiskDir {
    /// As [`DiskDir::create_with`], in silence.
    pub fn create(path: &Path, options: &CreateOptions) -> Result<DiskToml, DiskError> {
        Self::create_with(path, options, &mut |_, _| true)
    }

    /// Makes the directory `path` with a new disk in it. Nothing is left
    /// behind if that fails. `step` is told of what takes long: reading a base.
    pub fn create_with(path: &Path, options: &CreateOptions, step: Step<'_>) -> Result<DiskToml, DiskError> {
        Self::create_filled(path, options, step, |_, _| Ok(()))
    }

    /// The block devices whose content a creation would destroy. Nothing is made.
    ///
    /// # Errors
    /// [`DiskError`], as a creation would find it before it makes anything.
    pub fn plan(path: &Path, options: &CreateOptions) -> Result<Vec<PathBuf>, DiskError> {
        check(options).and_then(|()| check_name(path)).map_err(|kind| kind.at(path))?;
        check_paths(path, options)?;
        let medium = options.medium.as_ref().filter(|_| !options.adopt);
        let all = [medium, options.versions.stub_medium.as_ref(), options.versions.root.as_ref()];
        let is_device =
            |path: &&PathBuf| paths::Kind::of(path).is_ok_and(|it| it == paths::Kind::BlockDevice);
        Ok(all.into_iter().flatten().filter(is_device).cloned().collect())
    }

    /// As [`DiskDir::create_with`]; `fill` gives the disk content before it has its name.
    pub(crate) fn create_filled(
        path: &Path,
        options: &CreateOptions,
        step: Step<'_>,
        fill: impl FnOnce(&Path, Step<'_>) -> Result<(), DiskError>,
    ) -> Result<DiskToml, DiskError> {
        check(options).and_then(|()| check_name(path)).map_err(|kind| kind.at(path))?;
        check_paths(path, options)?;
        let chip = new_chip(options);
        let made = || {
            let mut draft = Draft::begin(path, PLAN)?;
            let toml = build(&mut draft, options, step)?;
            fill(draft.dir(), step).inspect_err(|_| super::sealed::discard_root(&toml))?;
            draft.keep(path)?;
            Ok(toml)
        };
        made().inspect_err(|_| {
            if let Some(chip) = chip {
                // No disk needs it, and it was not there before.
                let _ = std::fs::remove_file(chip);
            }
        })
    }
}

/// The file that a creation with these options makes as a flash chip.
fn new_chip(options: &CreateOptions) -> Option<PathBuf> {
    let place = FlashPlace::of(options.medium.as_deref()?)?.ok()?;
    Some(place.path).filter(|path| std::fs::symlink_metadata(path).is_err())
}

/// Refuses a directory whose name cannot be that of a disk.
fn check_name(path: &Path) -> Result<(), DiskErrorKind> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    naming::check_disk(&name).map_err(|error| DiskErrorKind::Usage(error.to_string()))
}

/// Refuses options that do not go together.
fn check(options: &CreateOptions) -> Result<(), DiskErrorKind> {
    let (is_overlay, keeps) = (options.store == StoreKind::Overlay, options.store.keeps_versions());
    let (is_sealed, has_root) = (options.store == StoreKind::Sealed, options.store.has_root());
    let wanted = &options.versions;
    let is_on_chip = options.medium.as_deref().is_some_and(|path| FlashPlace::of(path).is_some());
    let of_versions = [wanted.seal.is_some(), wanted.epoch.is_some(), wanted.retention.is_some()];
    let what = match options {
        _ if is_overlay && options.base.is_none() => "--base is missing; name the image below the overlay",
        _ if is_overlay && options.adopt => {
            "--adopt cannot be used with --store overlay; name the image with --base"
        }
        _ if is_overlay && options.medium.is_some() && !is_on_chip => {
            "--medium cannot be used with --store overlay, whose content is in its own directory; leave it out"
        }
        _ if !is_overlay && options.base.is_some() => "--base needs --store overlay",
        _ if !is_overlay && options.mode.is_some() => "--mode needs --store overlay",
        _ if keeps && options.adopt => {
            "--adopt cannot be used with --store versions, whose content is sealed; copy the image with --from"
        }
        _ if is_sealed && options.adopt => {
            "--adopt cannot be used with --store sealed, whose content is encrypted; copy the image with --from"
        }
        _ if !is_overlay && options.policy == "none" => {
            "--policy none destroys nothing, and is for overlays only; choose clear, or another policy"
        }
        _ if !has_root && options.from.is_some() => {
            "--from needs --store sealed or versions; use --adopt for an image in place, or --base for one below an overlay"
        }
        _ if [&options.base, &options.medium, &options.from].iter().all(|it| it.is_none())
            && options.size.is_none() =>
        {
            "--size is missing; give the size of the disk, such as --size 20G"
        }
        _ if !keeps && (of_versions.contains(&true) || wanted.stub_medium.is_some()) => {
            "--seal, --epoch, --retention and --stub-medium need --store versions"
        }
        _ if !is_sealed && wanted.no_credential => {
            "--no-credential needs --store sealed; a disk that keeps versions has no keys with --seal none"
        }
        _ if !has_root && *wanted != VersionsOptions::default() => {
            "--root and credentials need --store sealed or versions"
        }
        _ if !is_sealed
            && wanted.root_kind().is_ok_and(|it| it.is_some_and(|root| root.path().is_none())) =>
        {
            "--root tpm:, mtd: and memory need --store sealed; any other root is a file or a block device"
        }
        _ if options.from.is_some() && matches!(wanted.root_kind(), Ok(Some(RootKind::Memory))) => {
            "--from cannot be used with --root memory, whose disk is empty at each start of its server; leave out --from, and \
             copy the image in over NBD"
        }
        _ if is_on_chip && options.adopt => {
            "--adopt cannot be used with a flash chip, which is erased; create the disk with --medium, and copy the image in"
        }
        _ if !is_on_chip && wanted.root_kind() == Ok(Some(RootKind::Chip)) => {
            "--root nand needs a disk on a flash chip; name the chip, such as --medium nand:/dev/mtd4"
        }
        _ if wanted.no_credential && wanted.source.is_some() => {
            "--no-credential cannot be used with a credential; leave one of them out"
        }
        _ => return check_size(options),
    };
    Err(DiskErrorKind::Usage(what.into()))
}

/// Refuses a size that no disk with this store can have.
fn check_size(options: &CreateOptions) -> Result<(), DiskErrorKind> {
    let (store, most) = (options.store.name(), options.store.size_bytes_max());
    match options.size {
        Some(size) if size > most => Err(DiskErrorKind::Usage(format!(
            "--size is {size} bytes, and a disk with --store {store} has at most {most}; use {most} or less"
        ))),
        _ => Ok(()),
    }
}

/// Looks at every path of a new disk before anything is made.
fn check_paths(path: &Path, options: &CreateOptions) -> Result<(), DiskError> {
    paths::check_new(path)?;
    let home = parent_of(path);
    match options.medium.as_deref() {
        Some(image) if options.adopt => paths::check_adopted("--adopt", image, home)?,
        Some(chip) if FlashPlace::of(chip).is_some() => {}
        Some(medium) => {
            let found = paths::check_new_medium("--medium", medium, home)?;
            if found == paths::Kind::BlockDevice && options.store.keeps_versions() {
                let what = "--medium of a disk that keeps versions is a file, which grows; name one to make, on a file system of \
                            that device";
                return Err(DiskErrorKind::Invalid(what.into()).at(medium));
            }
        }
        None => {}
    }
    let versions = &options.versions;
    let root = versions.root_kind().map_err(|error| DiskErrorKind::Usage(error).at(path))?;
    let root = root.as_ref().and_then(RootKind::path);
    for (option, medium) in [("--root", root), ("--stub-medium", versions.stub_medium.as_deref())] {
        medium.map(|it| paths::check_new_medium(option, it, home)).transpose()?;
    }
    Ok(())
}

/// Makes all of a disk in an empty directory.
fn build(draft: &mut Draft, options: &CreateOptions, step: Step<'_>) -> Result<DiskToml, DiskError> {
    let beginning = match options.store {
        StoreKind::InPlace => in_place(draft, options)?,
        StoreKind::Overlay => overlay(draft, options, step)?,
        StoreKind::Versions => {
            let (toml, chip) = super::versions::make(draft, options)?;
            Beginning { toml, held: None, dead: None, chip }
        }
        StoreKind::Sealed => super::sealed::make(draft, options)?,
    };
    let dir = draft.dir();
    let (toml, _chip) = (beginning.toml, beginning.chip);
    let io = |act| move |error| DirectoryErrorKind::Io(act).of(dir, error);
    let view = make_journal(dir, &toml, beginning.held, beginning.dead)?;
    make_key(dir).map_err(io("make the key"))?;
    if !options.adopt {
        replace(dir, "view", &view.to_bytes(*toml.uuid.as_bytes())).map_err(io("write the file view"))?;
    }
    write_new(dir, "disk.toml", toml.to_text().as_bytes()).map_err(io("write disk.toml"))?;
    sync_dir(dir).map_err(io("sync the directory"))?;
    Ok(toml)
}

/// Makes the journal of the disk in `dir`, and the checkpoint that goes with it. The addresses `held` may hold data; what the addresses
/// `dead` hold belongs to no file system.
pub(super) fn make_journal(
    dir: &Path,
    toml: &DiskToml,
    held: Option<Extent<Addr>>,
    dead: Option<Extent<Addr>>,
) -> Result<Checkpoint, DiskError> {
    let shape = Shape::of_disk(toml.size_bytes);
    let journal = toml.make(dir, MediumId::Journal, shape.bytes())?;
    let formatted = Volume::format(&journal, shape, *toml.uuid.as_bytes(), held, dead);
    let failed = |error| DirectoryErrorKind::Io("make the journal").of(dir, io::Error::other(error));
    Ok(formatted.map_err(failed)?)
}

fn in_place(draft: &mut Draft, options: &CreateOptions) -> Result<Beginning, DiskError> {
    let toml = DiskToml::in_place(options)?;
    let foreign = options.medium.as_deref().filter(|path| path.exists());
    let chip = match foreign {
        Some(path) => lock_storage(path, Access::ReadWrite).map(|_| None)?,
        None => toml.make_medium(draft, options, toml.size_bytes)?,
    };
    let whole = Extent::new(0, toml.size_bytes);
    // Content of a device that is not adopted is dead already. For adopted content, the first start
    // finds out which parts hold data.
    let held = options.adopt.then_some(whole);
    let dead = (foreign.is_some() && !options.adopt).then_some(whole);
    Ok(Beginning { toml, held, dead, chip })
}

fn overlay(draft: &mut Draft, options: &CreateOptions, step: Step<'_>) -> Result<Beginning, DiskError> {
    let image = options.base.as_deref().unwrap_or(Path::new(""));
    let toml = DiskToml::overlay(options, settle_base(draft.dir(), image, BASE_RAW, step)?)?;
    let chip = if toml.flash.is_some() { toml.make_medium(draft, options, 0)? } else { None };
    let dir = draft.dir();
    toml.make(dir, MediumId::Data, 0)?;
    let map = toml.make(dir, MediumId::Map, map_bytes(toml.size_bytes))?;
    let formatted = format_map(&map, *toml.uuid.as_bytes(), toml.size_bytes);
    formatted.map_err(|error| DirectoryErrorKind::Io("make the map").of(dir, io::Error::other(error)))?;
    Ok(Beginning { toml, held: None, dead: None, chip })
}
