//! The media of each store: one row says all in which a medium differs from the others.
//!
//! Opening, locking, checking and accounting go through these tables. A medium that a store gains is a
//! row here, and a name in [`MediumId`].

use super::config::CreateOptions;
use super::config::names::{BASE_RAW, DATA_FILE, KEYTREE_FILE, ROOT_FILE, STUBS_FILE};
use super::{DiskDir, DiskError, DiskErrorKind, DiskToml, StoreKind};
use crate::host::directory::{
    Access, DirectoryError, DirectoryErrorKind, Draft, lock_storage, make_file, opened,
};
use crate::host::guarantees::{Holds, Part};
use crate::host::media::flash::{FlashDisk, FlashPlace};
use crate::host::media::root::RootKind;
use crate::host::media::{DiskMedium, FileMedium};
use quietus_core::base::units::{Extent, Pos};
use quietus_core::media::{MediaTable, MediumId};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A medium of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MediumRow {
    /// The name by which the volume knows the medium.
    pub(crate) id: MediumId,
    /// The name in reports.
    pub(crate) name: &'static str,
    /// The name in messages.
    title: &'static str,
    /// The name of the file, in the disk's directory.
    pub(crate) file: &'static str,
    /// The place that `disk.toml` names instead, if it does.
    elsewhere: fn(&DiskToml) -> Option<&Path>,
    /// How the file is opened.
    opened: Opened,
    /// The part of the disk that the host's guarantees are about; `None` of a base image, which others share.
    pub(crate) part: Option<Part>,
    /// The checks that an open disk has made of the file; `None` for the medium, which is examined when asked.
    pub(crate) checked: Option<fn(&DiskDir) -> &'static str>,
    /// Whether the file counts where the size of a disk on its host does.
    is_counted: bool,
}

/// How the file of a medium is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Opened {
    /// For this disk, at the size that the file has.
    Whole,
    /// The same, and another directory may name the file too: it has a lock of its own.
    Locked,
    /// The same, and a file grows and shrinks; a block device has its size.
    Growing,
    /// With the disk, for all disks of the process at once: it is only read.
    Shared,
    /// As [`Opened::Locked`], or in a TPM, on NOR flash or in memory, if that is named: a root of fixed size. Other media lock
    /// themselves.
    Root,
}

const DATA: MediumRow = MediumRow {
    id: MediumId::Data,
    name: "medium",
    title: "the medium",
    file: DATA_FILE,
    elsewhere: |toml| Some(&toml.medium.path),
    opened: Opened::Locked,
    part: Some(Part::Medium),
    checked: None,
    is_counted: false,
};
const JOURNAL: MediumRow = MediumRow {
    id: MediumId::Journal,
    name: "journal",
    title: "the journal",
    file: "journal",
    elsewhere: |_| None,
    opened: Opened::Whole,
    part: Some(Part::Journal),
    checked: Some(|_| "whole"),
    is_counted: false,
};
const MAP: MediumRow = MediumRow {
    id: MediumId::Map,
    name: "map",
    title: "the map",
    file: "map",
    elsewhere: |_| None,
    opened: Opened::Whole,
    part: Some(Part::Map),
    checked: Some(|dir| if dir.is_stamped() { "as at the last clean stop" } else { "consistent" }),
    is_counted: true,
};
const BASE: MediumRow = MediumRow {
    id: MediumId::Base,
    name: "base",
    title: "the base image",
    file: BASE_RAW,
    elsewhere: |toml| Some(&toml.overlay.as_ref()?.base),
    opened: Opened::Shared,
    part: None,
    checked: Some(|_| "unchanged"),
    is_counted: false,
};
const STUBS: MediumRow = MediumRow {
    id: MediumId::Stubs,
    name: "stubs",
    title: "the stub medium",
    file: STUBS_FILE,
    elsewhere: |toml| Some(&toml.versions.as_ref()?.stubs),
    opened: Opened::Growing,
    part: Some(Part::Stubs),
    checked: None,
    is_counted: true,
};

const ROOT: MediumRow = MediumRow {
    id: MediumId::Root,
    name: "root",
    title: "the root",
    file: ROOT_FILE,
    elsewhere: DiskToml::root,
    opened: Opened::Growing,
    part: Some(Part::Root),
    checked: Some(|_| "of this disk"),
    is_counted: true,
};

const IN_PLACE: &[MediumRow] = &[DATA, JOURNAL];
const OVERLAY: &[MediumRow] =
    &[MediumRow { opened: Opened::Growing, is_counted: true, ..DATA }, JOURNAL, MAP, BASE];
const VERSIONS: &[MediumRow] = &[
    MediumRow { opened: Opened::Growing, is_counted: true, ..DATA },
    JOURNAL,
    MediumRow { title: "the index", opened: Opened::Growing, checked: None, ..MAP },
    STUBS,
    ROOT,
];
const SEALED: &[MediumRow] = &[
    DATA,
    JOURNAL,
    MediumRow {
        name: "keytree",
        title: "the key tree",
        file: KEYTREE_FILE,
        checked: Some(|_| "opens under the root"),
        is_counted: false,
        ..MAP
    },
    MediumRow { opened: Opened::Root, is_counted: false, ..ROOT },
];

impl StoreKind {
    /// The media of a disk with this store.
    pub(crate) fn media(self) -> &'static [MediumRow] {
        match self {
            Self::InPlace => IN_PLACE,
            Self::Overlay => OVERLAY,
            Self::Versions => VERSIONS,
            Self::Sealed => SEALED,
        }
    }
}

impl MediumRow {
    /// The path of the medium of the disk in `dir` that `toml` describes.
    pub(crate) fn path(&self, toml: &DiskToml, dir: &Path) -> PathBuf {
        if toml.part_of_chip(self.id).is_some() {
            return toml.medium.path.clone();
        }
        let place = (self.elsewhere)(toml).unwrap_or(Path::new(self.file));
        // A root that is neither file nor device has its name for a path.
        if self.is_file(place) { dir.join(place) } else { place.into() }
    }

    /// Whether the medium is a file or block device, if its place is called so.
    fn is_file(&self, place: &Path) -> bool {
        self.opened != Opened::Root || RootKind::of(place).is_ok_and(|root| root.path().is_some())
    }

    /// Whether the file of the disk in `dir` has a lock of its own, beside the directory's.
    pub(crate) fn is_locked(&self, toml: &DiskToml) -> bool {
        let place = (self.elsewhere)(toml).unwrap_or(Path::new(self.file));
        let has_lock = matches!(self.opened, Opened::Locked | Opened::Growing | Opened::Root);
        has_lock && self.is_file(place) && toml.part_of_chip(self.id).is_none()
    }

    /// Keeps other processes from what is at `path`, which is this medium.
    pub(super) fn lock(&self, path: &Path, access: Access) -> Result<Option<File>, DirectoryError> {
        lock_storage(path, access).map_err(|mut error| {
            if let DirectoryErrorKind::Missing(what) = &mut error.kind {
                *what = self.title;
            }
            error
        })
    }

    /// Whether the disk has the medium for itself.
    fn is_own(&self) -> bool {
        self.opened != Opened::Shared
    }

    /// Opens this medium of the disk in `dir` that `toml` describes.
    fn open(&self, toml: &DiskToml, dir: &Path, access: Access) -> Result<DiskMedium, DiskError> {
        let path = &self.path(toml, dir);
        if let Some(part) = toml.part_of_chip(self.id) {
            let chip = toml.open_chip().map(|chip| chip.expect("what has a part of a chip lies on one"));
            let grows = self.id == MediumId::Data && self.opened == Opened::Growing;
            let chip = chip?;
            return Ok(DiskMedium::Flash(if grows { chip.growing(part) } else { chip.region(part) }));
        }
        if !self.is_file(path) {
            let root = RootKind::of(path).map_err(|what| DiskErrorKind::Invalid(what).at(path))?;
            let medium = DiskMedium::open_root(&root, access == Access::ReadOnly);
            let medium = opened(path, self.title, medium)?;
            return Ok(medium.expect("the root is no file"));
        }
        Ok(opened(path, self.title, self.open_file(path, access))?.into())
    }

    fn open_file(&self, path: &Path, access: Access) -> io::Result<FileMedium> {
        let read_only = access == Access::ReadOnly;
        let is_device = || std::fs::metadata(path).is_ok_and(|it| it.file_type().is_block_device());
        match self.opened {
            Opened::Growing if is_device() => FileMedium::open(path, read_only),
            Opened::Growing => FileMedium::open_growing(path, read_only),
            Opened::Whole | Opened::Locked | Opened::Shared | Opened::Root => {
                FileMedium::open(path, read_only || !self.is_own())
            }
        }
    }
}

impl DiskDir {
    /// The media of the disk.
    pub(crate) fn media(&self) -> &'static [MediumRow] {
        self.toml.store.media()
    }

    /// The media that the disk has for itself.
    pub(crate) fn own_media(&self) -> impl Iterator<Item = &'static MediumRow> {
        self.media().iter().filter(|row| row.is_own())
    }

    /// The path of the medium `id`; `None` if the disk has no such medium.
    pub(crate) fn medium_of(&self, id: MediumId) -> Option<PathBuf> {
        let row = self.media().iter().find(|row| row.id == id);
        row.map(|row| row.path(&self.toml, self.path()))
    }

    /// Opens the medium `id`; `None` if the disk has no such medium of its own.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open_medium(&self, id: MediumId) -> Result<Option<DiskMedium>, DiskError> {
        let row = self.own_media().find(|row| row.id == id);
        row.map(|row| row.open(&self.toml, self.path(), self.access())).transpose()
    }

    /// Opens all media that the disk has for itself.
    ///
    /// # Errors
    /// A file cannot be opened.
    pub(crate) fn open_media(&self) -> Result<MediaTable<Arc<DiskMedium>>, DiskError> {
        // The media of a chip are opened once.
        let _chip = self.toml.open_chip()?;
        let open = |row: &MediumRow| row.open(&self.toml, self.path(), self.access());
        let media = self.own_media().map(|row| Ok((row.id, Arc::new(open(row)?))));
        let media = media.collect::<Result<HashMap<_, _>, DiskError>>()?;
        let [data, journal] = [MediumId::Data, MediumId::Journal]
            .map(|id| Arc::clone(media.get(&id).expect("every store has content and a journal")));
        let table = MediaTable::new(data, journal);
        Ok(media.into_iter().fold(table, |table, (id, medium)| table.with(id, medium)))
    }

    /// The paths of the media whose space counts as the disk's.
    pub(super) fn counted(&self) -> impl Iterator<Item = PathBuf> {
        let is_counted = |row: &&MediumRow| row.is_counted && self.toml.part_of_chip(row.id).is_none();
        let counted = self.media().iter().filter(is_counted);
        counted.map(|row| row.path(&self.toml, self.path()))
    }
}

impl DiskToml {
    /// Where the medium `id` lies on the disk's flash chip; `None` if it does not.
    pub(super) fn part_of_chip(&self, id: MediumId) -> Option<Extent<Pos>> {
        self.flash.as_ref()?.extent(id)
    }

    /// Opens the flash chip of the disk, if the disk lies on one.
    ///
    /// # Errors
    /// The chip cannot be opened, is in use, or holds another disk or none.
    pub(crate) fn open_chip(&self) -> Result<Option<FlashDisk>, DiskError> {
        let chip = self.chip().map(|place| FlashDisk::open(&place, *self.uuid.as_bytes())).transpose();
        let chip = opened(&self.medium.path, "the medium", chip)?;
        chip.iter().try_for_each(|chip| self.divide(chip))?;
        Ok(chip)
    }

    /// Keeps the root apart on its chip: each purge erases the block of the old key.
    fn divide(&self, chip: &FlashDisk) -> Result<(), DiskError> {
        let root = self.part_of_chip(MediumId::Root).filter(|_| self.sealed.is_some());
        let failed =
            |error| DirectoryErrorKind::Io("divide the chip").of(&self.medium.path, io::Error::other(error));
        Ok(root.map_or(Ok(()), |root| chip.set_apart(root)).map_err(failed)?)
    }

    /// Makes the medium `id` of a new disk in `dir`, with `bytes` bytes: a file, or a part of a chip that is made already.
    pub(super) fn make(&self, dir: &Path, id: MediumId, bytes: u64) -> Result<DiskMedium, DiskError> {
        let row = self.store.media().iter().find(|row| row.id == id);
        let row = row.expect("a disk is made of its store's media");
        if let Some(part) = self.part_of_chip(id) {
            assert!(part.len >= bytes, "a part of a chip has room for its medium");
        } else {
            let made = make_file(dir, row.file, bytes);
            made.map_err(|error| DirectoryErrorKind::Io("make the file").of(&dir.join(row.file), error))?;
        }
        row.open(self, dir, Access::ReadWrite)
    }

    /// Makes what the description names as the medium: a file of `bytes` bytes, or the disk on the chip that `options` name. Returns
    /// the chip, which is best kept open until the disk is made.
    pub(super) fn make_medium(
        &self,
        draft: &mut Draft,
        options: &CreateOptions,
        bytes: u64,
    ) -> Result<Option<FlashDisk>, DiskError> {
        if let Some(flash) = &self.flash {
            let wanted = options.medium.as_deref().and_then(FlashPlace::of).and_then(Result::ok);
            let chip = self.chip().expect("a disk with this table lies on a chip");
            // The path is absolute in the description alone, and the kind of a new chip is in the options alone.
            let place = FlashPlace { path: chip.path, ..wanted.expect("the options name the chip") };
            let made = FlashDisk::create(&place, *self.uuid.as_bytes(), flash.bytes(), false);
            let failed = |error| DirectoryErrorKind::Io("make the medium").of(&self.medium.path, error);
            let chip = made.map_err(failed)?;
            self.divide(&chip)?;
            return Ok(Some(chip));
        }
        let made = draft.make_file(&self.medium.path, bytes);
        let failed =
            |error| DirectoryErrorKind::Io("make the medium").of(&self.medium_path(draft.dir()), error);
        made.map(|_| None).map_err(|error| failed(error).into())
    }

    /// The parts of the disk in `dir`: what each holds, and where it lies.
    pub(super) fn parts(&self, dir: &Path) -> impl Iterator<Item = (Part, Holds, PathBuf)> {
        let parts = self.store.media().iter().filter_map(|row| Some((row.part?, row)));
        parts.map(move |(part, row)| (part, self.holds(part), row.path(self, dir)))
    }

    /// The place of the root, of a disk that has one.
    fn root(&self) -> Option<&Path> {
        let of_versions = self.versions.as_ref().map(|it| &*it.root);
        of_versions.or(self.sealed.as_ref().map(|it| &*it.root))
    }

    /// What a part holds: where content dies with its stub or its key, and that with the cell above it, only the root has to be overwritten.
    /// The journal of a disk that keeps versions has no content, as nothing is overwritten in place there; that of a sealed disk has
    /// content in flight under the keys; where the medium erases, no content is in flight.
    fn holds(&self, part: Part) -> Holds {
        if self.store == StoreKind::Sealed {
            return match part {
                Part::Medium => Holds::Ciphertext,
                Part::Root => Holds::Keys,
                Part::Journal | Part::Map | Part::Stubs => Holds::Sealed,
            };
        }
        let dies_with_stub = self.versions.as_ref().map(|it| it.seal.dies_with_stub());
        match (part, dies_with_stub) {
            (Part::Medium, Some(true)) | (Part::Stubs, Some(true)) => Holds::Sealed,
            (Part::Medium, _) => Holds::Content,
            (Part::Journal, None) if self.flash.is_none() => Holds::ContentInFlight,
            (Part::Root, Some(true)) => Holds::Keys,
            (Part::Journal | Part::Map | Part::Stubs, _) => Holds::Addresses,
            (Part::Root, _) => Holds::Nothing,
        }
    }
}
