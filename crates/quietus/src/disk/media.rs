//! The media of each store: one row says all in which a medium differs from the others.
//!
//! Opening, locking, checking and accounting go through these tables. A medium that a store gains is a
//! row here, and a name in [`MediumId`].

use super::config::names::{BASE_RAW, DATA_FILE, ROOT_FILE, STUBS_FILE};
use super::{DiskDir, DiskError, DiskToml, StoreKind};
use crate::host::directory::{Access, DirectoryErrorKind, Draft, make_file, opened};
use crate::host::guarantees::{Holds, Part};
use crate::host::media::FileMedium;
use quietus_core::media::{MediaTable, MediumId};
use std::collections::HashMap;
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
    elsewhere: |toml| Some(&toml.versions.as_ref()?.root),
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

impl StoreKind {
    /// The media of a disk with this store.
    pub(crate) fn media(self) -> &'static [MediumRow] {
        match self {
            Self::InPlace => IN_PLACE,
            Self::Overlay => OVERLAY,
            Self::Versions => VERSIONS,
        }
    }

    /// Makes the medium `id` of a new disk in `dir`, as a file of `bytes` bytes.
    pub(super) fn make(self, dir: &Path, id: MediumId, bytes: u64) -> Result<FileMedium, DiskError> {
        let row = self.media().iter().find(|row| row.id == id).expect("a disk is made of its store's media");
        let made = make_file(dir, row.file, bytes);
        let path =
            made.map_err(|error| DirectoryErrorKind::Io("make the file").of(&dir.join(row.file), error))?;
        row.open(&path, Access::ReadWrite)
    }
}

impl MediumRow {
    /// The path of the medium of the disk in `dir` that `toml` describes.
    pub(crate) fn path(&self, toml: &DiskToml, dir: &Path) -> PathBuf {
        dir.join((self.elsewhere)(toml).unwrap_or(Path::new(self.file)))
    }

    /// Whether the file has a lock of its own, beside the directory's.
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self.opened, Opened::Locked | Opened::Growing)
    }

    /// Whether the disk has the medium for itself.
    fn is_own(&self) -> bool {
        self.opened != Opened::Shared
    }

    /// Opens the file at `path`, which is this medium.
    pub(super) fn open(&self, path: &Path, access: Access) -> Result<FileMedium, DiskError> {
        let read_only = access == Access::ReadOnly;
        let is_device = || std::fs::metadata(path).is_ok_and(|it| it.file_type().is_block_device());
        let medium = match self.opened {
            Opened::Growing if is_device() => FileMedium::open(path, read_only),
            Opened::Growing => FileMedium::open_growing(path, read_only),
            Opened::Whole | Opened::Locked | Opened::Shared => {
                FileMedium::open(path, read_only || !self.is_own())
            }
        };
        Ok(opened(path, self.title, medium)?)
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
    pub fn open_medium(&self, id: MediumId) -> Result<Option<FileMedium>, DiskError> {
        let row = self.own_media().find(|row| row.id == id);
        row.map(|row| row.open(&row.path(&self.toml, self.path()), self.access())).transpose()
    }

    /// Opens all media that the disk has for itself.
    ///
    /// # Errors
    /// A file cannot be opened.
    pub(crate) fn open_media(&self) -> Result<MediaTable<Arc<FileMedium>>, DiskError> {
        let open = |row: &MediumRow| row.open(&row.path(&self.toml, self.path()), self.access());
        let media = self.own_media().map(|row| Ok((row.id, Arc::new(open(row)?))));
        let media = media.collect::<Result<HashMap<_, _>, DiskError>>()?;
        let [data, journal] = [MediumId::Data, MediumId::Journal]
            .map(|id| Arc::clone(media.get(&id).expect("every store has content and a journal")));
        let table = MediaTable::new(data, journal);
        Ok(media.into_iter().fold(table, |table, (id, medium)| table.with(id, medium)))
    }

    /// The paths of the media whose space counts as the disk's.
    pub(super) fn counted(&self) -> impl Iterator<Item = PathBuf> {
        let counted = self.media().iter().filter(|row| row.is_counted);
        counted.map(|row| row.path(&self.toml, self.path()))
    }
}

impl DiskToml {
    /// Makes the file of `bytes` bytes that the description names as the medium.
    pub(super) fn make_medium(&self, draft: &mut Draft, bytes: u64) -> Result<(), DiskError> {
        let made = draft.make_file(&self.medium.path, bytes);
        let failed =
            |error| DirectoryErrorKind::Io("make the medium").of(&self.medium_path(draft.dir()), error);
        made.map(drop).map_err(|error| failed(error).into())
    }

    /// The parts of the disk in `dir`: what each holds, and where it lies.
    pub(super) fn parts(&self, dir: &Path) -> impl Iterator<Item = (Part, Holds, PathBuf)> {
        let parts = self.store.media().iter().filter_map(|row| Some((row.part?, row)));
        parts.map(move |(part, row)| (part, self.holds(part), row.path(self, dir)))
    }

    /// What a part holds: where content dies with its stub, and that with the cell above it, only the root has to be overwritten. The
    /// journal of a disk that keeps versions has no content: nothing is overwritten in place there.
    fn holds(&self, part: Part) -> Holds {
        let dies_with_stub = self.versions.as_ref().map(|it| it.seal.dies_with_stub());
        match (part, dies_with_stub) {
            (Part::Medium, Some(true)) | (Part::Stubs, Some(true)) => Holds::Sealed,
            (Part::Medium, _) => Holds::Content,
            (Part::Journal, None) => Holds::ContentInFlight,
            (Part::Root, Some(true)) => Holds::Keys,
            (Part::Journal | Part::Map | Part::Stubs, _) => Holds::Addresses,
            (Part::Root, _) => Holds::Nothing,
        }
    }
}
