//! The sessions of a key file, compared with those that the disk's index notes: a backup of the file lacks the sessions since.
//! With it nothing would be wrong at first, and what is sealed under a number that another session has could not be opened with the
//! true file any more.

use super::{Fault, KeyFileOf, KeysError, StoredKeys};
use crate::host::directory::opened;
use crate::host::media::FileMedium;
use quietus_core::media::medium::Medium;
use quietus_core::store::versions::Sessions;
use quietus_seal::keys::{KeyFile, SessionIndex};

/// The sessions that the index of the disk notes.
pub(super) fn noted(file: &KeyFileOf) -> Result<Sessions, KeysError> {
    let Some(index) = &file.index else { return Ok(Sessions::default()) };
    let medium = opened(index, "the index", FileMedium::open(index, true))?;
    let noted = Sessions::noted(&medium, file.disk.0);
    noted.map_err(|error| KeysError::Index { path: index.clone(), error })
}

impl<M: Medium> StoredKeys<M> {
    /// Checks that the file has all sessions that were `noted`. It may have more: a start that failed has drawn one.
    ///
    /// # Errors
    /// [`KeysError::File`].
    pub(super) fn check_sessions(&self, noted: Sessions) -> Result<(), KeysError> {
        check(self.file(), noted).map_err(|fault| fault.at(self.path()))
    }
}

fn check(file: &KeyFile, noted: Sessions) -> Result<(), Fault> {
    let Some(session) = noted.count.checked_sub(1) else { return Ok(()) };
    let has = file.session_count();
    if has <= session {
        return Err(Fault::OldKeys { has, session });
    }
    let found = u16::try_from(session).ok().and_then(|index| file.session(SessionIndex(index)));
    match found {
        None => Err(Fault::DamagedSession(session)),
        Some((found, _)) if found.0 != noted.last && noted.last != [0; 16] => Err(Fault::OtherKeys(session)),
        Some(_) => Ok(()),
    }
}
