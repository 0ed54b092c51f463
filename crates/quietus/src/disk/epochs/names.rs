//! The names of epochs, and the holds that refuse to forget them: a file in the disk's directory, which is there from the disk's
//! creation on. Without it, or with an older one, a hold would be lost in silence: the [audit log](super::told) has all of them, too.

use super::HoldOf;
use super::told::Told;
use crate::base::naming::{self, NoName};
use crate::evidence::audit_log::CheckError;
use crate::host::directory::Directory;
use crate::host::paths;
use quietus_core::base::units::{Epoch, EpochRange};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Name of the file.
pub const NAMES_FILE: &str = "epochs.json";
/// Most names and holds together.
const ENTRIES_MAX: usize = 10_000;

/// Most confirmations of the clock that are kept.
const CONFIRMED_MAX: usize = 100;

/// The content of the file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    /// The epochs that have a name.
    #[serde(default)]
    names: BTreeMap<String, u64>,
    /// The holds, by name.
    #[serde(default)]
    holds: BTreeMap<String, HoldOf>,
    /// Why the host's clock is not trusted, until the operator confirms it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    doubt: Option<Doubt>,
    /// When the operator confirmed it, the last time last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    confirmed: Vec<Confirmed>,
    /// [`Content::sum`], in the file only: a hold that a wrong byte has moved would be lost in silence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    checksum: String,
}

impl Content {
    /// The CRC-32C of all but the checksum, as compact JSON.
    fn sum(&self) -> Result<String, serde_json::Error> {
        let bytes = serde_json::to_vec(&Self { checksum: String::new(), ..self.clone() })?;
        Ok(format!("crc32c:{:08x}", crc32c::crc32c(&bytes)))
    }

    /// The content of the file. That of a new disk has no checksum, and no names and holds either.
    fn from_json(bytes: &[u8]) -> Result<Self, String> {
        let mut content: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let (found, expected) = (std::mem::take(&mut content.checksum), content.sum());
        let expected = expected.map_err(|error| error.to_string())?;
        if found != expected && !(found.is_empty() && content == Self::default()) {
            return Err(format!("the checksum is {found:?}, and that of the content is {expected:?}"));
        }
        Ok(content)
    }

    /// The bytes of the file.
    fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec_pretty(&Self { checksum: self.sum()?, ..self.clone() })
    }
}

/// The host's clock is not trusted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Doubt {
    /// Why, and what to do.
    pub why: String,
    /// The last epoch that had closed before.
    pub after: u64,
}

/// The operator has confirmed that the host's clock is right: when the epochs since the doubt closed is not known, but
/// not later than that.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confirmed {
    /// The last epoch that had closed before the doubt.
    pub after: u64,
    /// The last epoch that had closed by now.
    pub epoch: u64,
    /// The time, in milliseconds since 1970.
    pub at_ms: u64,
}

/// Why a name or a hold was refused.
#[derive(Debug, thiserror::Error)]
pub enum NamesError {
    /// The text could be read otherwise.
    #[error(transparent)]
    NoName(#[from] NoName),
    /// The name is another's.
    #[error("the name {0:?} is taken; choose another one")]
    Taken(String),
    /// There is no such hold; perhaps another one was meant.
    #[error("no hold has the name {0:?}; {meant}", meant = naming::meant_or(.1, "`quietus versions` lists the holds"))]
    NoHold(String, Option<String>),
    /// A hold refuses to forget.
    #[error("epochs {from} to {to} are held by {name:?} (asked for by {who}: {why}); release it first")]
    Held {
        /// The hold.
        name: String,
        /// The first epoch.
        from: u64,
        /// The last epoch.
        to: u64,
        /// The person or office that asked for the hold.
        who: String,
        /// Why.
        why: String,
    },
    /// The file is gone, and the audit log does not tell all of it.
    #[error(
        "{}: the file with the names and holds of epochs is missing, and the audit log does not have all of them ({why}): holds would \
         be lost; restore the file from a backup, or, if no epoch was ever named or held, put the text {{}} into it", path.display()
    )]
    Lost {
        /// Path of the file.
        path: PathBuf,
        /// Why the audit log does not have them.
        why: String,
    },
    /// There are too many.
    #[error("the disk has {ENTRIES_MAX} names and holds, which is the limit; release some holds")]
    Full,
    /// The file is damaged.
    #[error(
        "{}: {error}; restore the file from a backup, or remove it: the next start makes it anew from the audit log",
        path.display()
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// The fault.
        error: String,
    },
    /// The host failed.
    #[error("{}: {error}", path.display())]
    Host {
        /// Path of the file.
        path: PathBuf,
        /// The failure.
        error: io::Error,
    },
}

/// The names of epochs of the disk at `path`, as far as they can be read without a look at anything else.
pub(crate) fn names_at(path: &Path) -> Vec<String> {
    let content = paths::read_text("the file of names", &path.join(NAMES_FILE)).unwrap_or_default();
    serde_json::from_str::<Content>(&content).unwrap_or_default().names.into_keys().collect()
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Names {
    content: Mutex<Content>,
    deciding: Mutex<()>,
}

impl Names {
    /// The content of the file of a new disk.
    pub(crate) const NONE: &[u8] = b"{}";

    /// The names of the disk in `directory`; empty if the file is missing.
    pub fn read(directory: &Directory) -> Result<Option<Self>, NamesError> {
        let path = directory.file(NAMES_FILE);
        let content = match std::fs::read(&path) {
            Ok(bytes) => Content::from_json(&bytes).map_err(|error| NamesError::Damaged { path, error })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(NamesError::Host { path, error }),
        };
        Ok(Some(Self { content: Mutex::new(content), ..Self::default() }))
    }

    /// The names and holds that the audit log tells of, for a disk in `directory` without their file. Who confirmed the clock is not
    /// known: nothing expires until the operator does again.
    ///
    /// # Errors
    /// [`NamesError::Lost`]: the log does not tell all, and the disk may be written to.
    pub(crate) fn rebuilt(
        directory: &Directory,
        told: Result<Told, CheckError>,
        (after, read_only): (u64, bool),
    ) -> Result<Self, NamesError> {
        let path = directory.file(NAMES_FILE);
        let why = match &told {
            Err(error) => Some(error.to_string()),
            Ok(told) => told.lacks_lines.then(|| "its oldest lines were removed or lost".into()),
        };
        if let Some(why) = why.filter(|_| !read_only) {
            return Err(NamesError::Lost { path, why });
        }
        let Told { names, holds, .. } = told.unwrap_or_default();
        let why = format!(
            "{} was missing, and was made anew from the audit log, with {} holds and {} names; look at them (`quietus versions`), and \
             confirm that epochs may expire again with `quietus epoch --confirm-clock`",
            path.display(),
            holds.len(),
            names.len()
        );
        tracing::warn!("{why}");
        let content = Content { names, holds, doubt: Some(Doubt { why, after }), ..Content::default() };
        let rebuilt = Self { content: Mutex::new(content), ..Self::default() };
        if !read_only {
            rebuilt.change(directory, |_| Ok(()))?;
        }
        Ok(rebuilt)
    }

    /// Writes the file again if it has vanished meanwhile; whether it had.
    pub(crate) fn look(&self, directory: &Directory) -> Result<bool, NamesError> {
        if directory.file(NAMES_FILE).exists() {
            return Ok(false);
        }
        self.change(directory, |_| Ok(()))?;
        tracing::warn!(file = %directory.file(NAMES_FILE).display(), "the file vanished while in use, and is written again");
        Ok(true)
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Excludes others from deciding which epochs are kept, until it is dropped: from a look at the holds and names to the intent
    /// to forget, and from a look for an epoch to its hold or name. Else a hold could be granted on what is about to be forgotten.
    pub(crate) fn decide(&self) -> MutexGuard<'_, ()> {
        self.deciding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The epoch with this name.
    #[must_use]
    pub fn epoch(&self, name: &str) -> Option<Epoch> {
        self.lock().names.get(name).copied().map(Epoch)
    }

    /// The name of an epoch that is most like `name`.
    #[must_use]
    pub fn meant(&self, name: &str) -> Option<String> {
        naming::meant(name, self.lock().names.keys().map(String::as_str))
    }

    /// The name of each epoch that has one; of several, all of them, with commas.
    #[must_use]
    pub fn by_epoch(&self) -> BTreeMap<u64, String> {
        let mut all = BTreeMap::<u64, String>::new();
        for (name, epoch) in &self.lock().names {
            let names = all.entry(*epoch).or_default();
            *names = if names.is_empty() { name.clone() } else { format!("{names}, {name}") };
        }
        all
    }

    /// Whether a hold or a name keeps any of `epochs` from being forgotten by a rule.
    pub(crate) fn keep(&self, epochs: EpochRange) -> bool {
        self.check_held(epochs).is_err()
            || self.lock().names.values().any(|epoch| epochs.contains(Epoch(*epoch)))
    }

    /// The holds, by name.
    #[must_use]
    pub fn holds(&self) -> BTreeMap<String, HoldOf> {
        self.lock().holds.clone()
    }

    /// Gives `epoch` this name, durably.
    pub fn name(&self, directory: &Directory, name: &str, epoch: Epoch) -> Result<(), NamesError> {
        naming::check(name)?;
        self.change(directory, |content| match content.names.insert(name.into(), epoch.0) {
            Some(other) if other != epoch.0 => Err(NamesError::Taken(name.into())),
            _ => Ok(()),
        })
    }

    /// Whether `name` can be given to an epoch that has not closed yet.
    pub fn check_free(&self, name: &str) -> Result<(), NamesError> {
        naming::check(name)?;
        if self.epoch(name).is_some() { Err(NamesError::Taken(name.into())) } else { Ok(()) }
    }

    /// Why the host's clock is not trusted, if it is not.
    #[must_use]
    pub fn doubt(&self) -> Option<Doubt> {
        self.lock().doubt.clone()
    }

    /// The times when the operator confirmed the clock, the last one last.
    #[must_use]
    pub fn confirmed(&self) -> Vec<Confirmed> {
        self.lock().confirmed.clone()
    }

    /// Notes durably why the clock is not trusted: no start forgets it.
    pub fn note_doubt(&self, directory: &Directory, doubt: Doubt) -> Result<(), NamesError> {
        self.change(directory, |content| {
            content.doubt = Some(doubt);
            Ok(())
        })
    }

    /// Notes durably that the operator has confirmed the clock.
    pub fn confirm(&self, directory: &Directory, epoch: Epoch, at_ms: u64) -> Result<(), NamesError> {
        self.change(directory, |content| {
            let after = content.doubt.take().map_or(epoch.0, |doubt| doubt.after);
            content.confirmed.push(Confirmed { after, epoch: epoch.0, at_ms });
            let too_many = content.confirmed.len().saturating_sub(CONFIRMED_MAX);
            content.confirmed.drain(..too_many);
            Ok(())
        })
    }

    /// Adds a hold, durably.
    pub fn hold(&self, directory: &Directory, name: &str, hold: HoldOf) -> Result<(), NamesError> {
        naming::check(name)?;
        self.change(directory, |content| match content.holds.insert(name.into(), hold) {
            Some(_) => Err(NamesError::Taken(name.into())),
            None => Ok(()),
        })
    }

    /// Removes a hold, durably; returns it.
    pub fn release(&self, directory: &Directory, name: &str) -> Result<HoldOf, NamesError> {
        self.change(directory, |content| {
            let meant = naming::meant(name, content.holds.keys().map(String::as_str));
            content.holds.remove(name).ok_or_else(|| NamesError::NoHold(name.into(), meant))
        })
    }

    /// Refuses epochs of which some are held.
    ///
    /// # Errors
    /// [`NamesError::Held`].
    pub fn check_held(&self, epochs: EpochRange) -> Result<(), NamesError> {
        let content = self.lock();
        let held = content.holds.iter().find(|(_, it)| it.from <= epochs.to.0 && epochs.from.0 <= it.to);
        let Some((name, HoldOf { from, to, who, why, .. })) = held else { return Ok(()) };
        let (name, who, why) = (name.clone(), who.clone(), why.clone());
        Err(NamesError::Held { name, from: *from, to: *to, who, why })
    }

    /// Takes the names of `epochs` away, durably: they are forgotten.
    pub fn forget(&self, directory: &Directory, epochs: EpochRange) -> Result<(), NamesError> {
        if !self.lock().names.values().any(|epoch| epochs.contains(Epoch(*epoch))) {
            return Ok(());
        }
        self.change(directory, |content| {
            content.names.retain(|_, epoch| !epochs.contains(Epoch(*epoch)));
            Ok(())
        })
    }

    /// Makes a change, first in the file.
    fn change<T>(
        &self,
        directory: &Directory,
        change: impl FnOnce(&mut Content) -> Result<T, NamesError>,
    ) -> Result<T, NamesError> {
        let mut content = self.lock();
        let mut next = content.clone();
        let done = change(&mut next)?;
        if next.names.len() + next.holds.len() > ENTRIES_MAX {
            return Err(NamesError::Full);
        }
        let path = directory.file(NAMES_FILE);
        let failed = |error: serde_json::Error| NamesError::Host { path: path.clone(), error: error.into() };
        let bytes = next.to_json().map_err(failed)?;
        directory.replace(NAMES_FILE, &bytes).map_err(|error| NamesError::Host { path, error })?;
        *content = next;
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_listed_with_all_its_names() {
        let content = Content { names: [("b".into(), 7), ("a".into(), 7)].into(), ..Content::default() };
        let names = Names { content: Mutex::new(content), ..Names::default() };
        assert_eq!(names.by_epoch(), BTreeMap::from([(7, "a, b".into())]));
    }

    #[test]
    fn names_and_holds_are_believed_only_as_they_were_written() {
        let hold = HoldOf { from: 17, to: 20, who: "legal".into(), why: "case".into(), since_ms: 5 };
        let content = Content {
            names: [("before-upgrade".into(), 17)].into(),
            holds: [("case".into(), hold)].into(),
            ..Content::default()
        };
        let bytes = content.to_json().expect("JSON");
        assert_eq!(Content::from_json(&bytes), Ok(content.clone()));
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // Between the words, another kind of space changes nothing.
            let found = Content::from_json(&flipped);
            assert!(found.is_err() || found.as_ref() == Ok(&content), "bit {bit}: {found:?}");
        }
        for len in 0..bytes.len() {
            Content::from_json(&bytes[..len]).expect_err("it was cut off");
        }
        Content::from_json(&serde_json::to_vec(&content).expect("JSON")).expect_err("it has no checksum");
        assert_eq!(Content::from_json(Names::NONE), Ok(Content::default()));
    }
}
