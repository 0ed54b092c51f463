//! A disk whose root is in the memory of its server: it begins anew, empty, with each server.
//!
//! Invariants:
//! 1. Nothing that an earlier server left is read: a start that was cut off, or files that were damaged since, change nothing.
//! 2. Only a server that holds the locks of the disk begins it anew. No other command changes what the last one left.
//! 3. The description, the credentials and the key that signs stay: a receipt of an earlier server can still be checked.

use super::create::make_journal;
use super::sealed::make_keytree;
use super::{DiskDir, DiskError, DiskErrorKind, SealedToml};
use crate::evidence::audit_log::{self, HostDirectory};
use crate::host::directory::DirectoryErrorKind;
use crate::host::media::DiskMedium;
use quietus_core::base::units::{Addr, Extent};
use quietus_core::media::{MediaTable, MediumId};
use std::fs::File;
use std::io;
use std::sync::Arc;

impl DiskDir {
    /// Whether the root is in the memory of the server, so that all content ends with it.
    #[must_use]
    pub fn begins_anew(&self) -> bool {
        self.toml.sealed.as_ref().is_some_and(SealedToml::begins_anew)
    }

    /// Refuses a disk of which nothing is left without its server.
    ///
    /// # Errors
    /// [`DiskErrorKind::Ended`].
    pub(crate) fn check_lasts(&self) -> Result<(), DiskError> {
        if self.begins_anew() { Err(DiskErrorKind::Ended.at(self.path())) } else { Ok(()) }
    }

    /// Makes all but the description and the keys of the disk anew, and opens its media.
    ///
    /// # Errors
    /// [`DiskErrorKind::Ended`] if the disk is open for reading only; or a file cannot be made. Beginning again is safe.
    pub(crate) fn begin_anew(&self) -> Result<MediaTable<Arc<DiskMedium>>, DiskError> {
        if self.is_read_only() {
            self.check_lasts()?;
        }
        let (dir, toml) = (self.path(), self.toml());
        let root = self.open_medium(MediumId::Root)?.expect("a sealed disk has a root");
        let failed = |error| DirectoryErrorKind::Io("begin the disk anew").of(dir, error);
        for row in self.own_media().filter(|row| [MediumId::Journal, MediumId::Map].contains(&row.id)) {
            self.directory.remove(row.file).map_err(failed)?;
        }
        let log = audit_log::names(&HostDirectory(dir.into())).map_err(failed)?;
        log.iter().try_for_each(|name| self.directory.remove(name)).map_err(failed)?;
        let dead = self.empty_medium().map_err(failed)?;
        make_keytree(dir, toml, &root)?;
        let view = make_journal(dir, toml, None, dead)?;
        self.save_view(&view.to_bytes(*toml.uuid.as_bytes())).map_err(failed)?;
        Ok(self.open_media()?.with(MediumId::Root, Arc::new(root)))
    }

    /// Gives the space of a file back, which reads as zeros then. What a block device holds is dead, and its addresses are returned.
    fn empty_medium(&self) -> io::Result<Option<Extent<Addr>>> {
        let file = File::options().write(true).open(self.medium_path())?;
        if !file.metadata()?.is_file() {
            return Ok(Some(Extent::new(0, self.toml.size_bytes)));
        }
        file.set_len(0)?;
        file.set_len(self.toml.sealed_medium_bytes())?;
        file.sync_all()?;
        Ok(None)
    }
}
