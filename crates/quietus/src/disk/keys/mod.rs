//! The keys of a disk in use: where credentials come from, what the key file's changes do to its medium, and the
//! memory that opened keys lie in. The file's format: `docs/formats/keys.md`.
//!
//! 1. No secret is in an argument, in the environment, or on a medium in clear.
//! 2. Opened keys lie in locked memory, and the process that has them makes no core dump.
//! 3. A session is durable before anything is sealed under it, in the key file and in the index ([`sessions`]).
//! 4. A key file that lacks a session which the index notes changes nothing, and seals nothing.

pub mod content;
mod file;
mod prompt;
pub mod sealing;
mod secret;
mod sessions;
mod source;
#[cfg(test)]
mod tests;

pub use file::StoredKeys;
pub use secret::SECRET_BYTES_MAX;
pub use source::{Purpose, Secret, Source};

use crate::base::locked::{Locked, forbid_core_dumps};
use crate::disk::keys::sealing::{DiskSealer, Generators};
use crate::host::directory::{DirectoryError, opened};
use crate::host::media::FileMedium;
use quietus_core::erase::policy::Policy;
use quietus_core::media::medium::MediumError;
use quietus_core::store::versions::{Sessions, VersionsError};
use quietus_seal::keys::{
    BadKeyFile, ChangeError, CredentialKind, KeyFile, SessionIndex, SlotNumber, Stretch, UnlockError,
    Unlocked,
};
use quietus_seal::{DiskId, Generation, Generator, NoSession, SEED_BYTES, Seal, SectorCipher, Session};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The key file of a disk: where it is, and whose.
#[derive(Clone, Debug)]
pub struct KeyFileOf {
    /// Path of the file.
    pub path: PathBuf,
    /// Path of the disk's index, which notes the sessions; `None` of a sealed disk, whose keys have no sessions.
    pub index: Option<PathBuf>,
    /// The disk.
    pub disk: DiskId,
    /// The name of the disk, as a person is asked for its passphrase.
    pub name: String,
    /// Whether the disk was opened for reading only.
    pub is_read_only: bool,
}

/// Why keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The file cannot be opened.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The disk has no keys.
    #[error("{}: the disk has no keys; only a disk with `--store versions` and a seal other than `none`, or a sealed disk with a credential, has keys", .0.display())]
    NoKeys(PathBuf),
    /// The master key cannot change.
    #[error(
        "{}: the master key of a sealed disk cannot be rotated, as all content lies under it; change who opens the disk with `quietus key DISK add` and `remove`", .0.display()
    )]
    OneMaster(PathBuf),
    /// A key file has a fault, or refuses what is asked.
    #[error("{}: {fault}", path.display())]
    File {
        /// Path of the key file.
        path: PathBuf,
        /// The fault.
        fault: Fault,
    },
    /// A secret cannot be read.
    #[error("{0}")]
    Source(String),
    /// Everybody can read a secret, or change it.
    #[error("{}: every user can read or change this secret (mode {mode:04o}); use `chmod o-rw {}`", path.display(), path.display())]
    Exposed {
        /// Path of the secret.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// No person can be asked.
    #[error(
        "there is no terminal to ask for a passphrase; name a credential with --passphrase-file, --key-file or --key-command"
    )]
    NoTerminal,
    /// The terminal failed.
    #[error("no passphrase was given ({0})")]
    Prompt(String),
    /// The person pressed Ctrl-C.
    #[error("interrupted; no passphrase was given")]
    Interrupted,
    /// A new passphrase was typed in two ways.
    #[error("the two passphrases differ; try again")]
    Differ,
    /// The index does not say which sessions there were.
    #[error("{}: {error}", path.display())]
    Index {
        /// Path of the index.
        path: PathBuf,
        /// The fault.
        error: VersionsError,
    },
    /// There is no memory for secrets.
    #[error("cannot get memory for keys: {0}")]
    Memory(String),
    /// The system has no random bytes.
    #[error("cannot draw random bytes: {0}")]
    Random(String),
}

/// The fault of a key file, or the reason why it was not changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// The file is damaged.
    #[error(transparent)]
    Bad(#[from] BadKeyFile),
    /// The file is another disk's.
    #[error("the key file belongs to another disk; restore this disk's key file from a backup")]
    Foreign,
    /// No slot opens.
    #[error("{}{}", .0, advice(.0))]
    Unlock(#[from] UnlockError),
    /// Another kind of credential is needed.
    #[error(
        "no key slot takes a passphrase, only: {0}; name the credential with --key-file or --key-command"
    )]
    NoPassphrase(String),
    /// The change is refused.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The credential at hand opens the slot to remove, or no slot.
    #[error(
        "key slot {} was not removed: the credential given opens no other slot; give one that does, so that the \
         disk can be opened afterwards", .0.0
    )]
    Needed(SlotNumber),
    /// The file is older than the disk.
    #[error(
        "the key file has no session {session}, which the disk's index names{}: the key file is older than the disk, such as a backup from before the last start, and does not open what was sealed since. Put back the newest key file of this disk; `--read-only` serves \
         what older sessions have sealed", held(*has)
    )]
    OldKeys {
        /// How many sessions the file has.
        has: u32,
        /// The last session that the index notes.
        session: u32,
    },
    /// The file went another way than the disk: the last session that the index notes is another one.
    #[error(
        "session {0} of the key file is not the session {0} that the disk's index names: the key file was used by a copy of \
         this disk, or by a start with an older copy of it. Put back the newest key file of this disk; `--read-only` serves what the \
         sessions in this one have sealed"
    )]
    OtherKeys(u32),
    /// The record of the last session that the index notes is damaged.
    #[error(
        "the record of session {0}, the last one that the disk's index names, is damaged in the key file, and what was sealed in it \
         does not open. Put back the newest key file of this disk; `--read-only` serves what other sessions have sealed"
    )]
    DamagedSession(u32),
    /// A credential has a slot already.
    #[error(
        "the new credential already opens the disk; with a second slot, it would still do so after the first slot is removed"
    )]
    Known,
    /// A session has no keys.
    #[error(transparent)]
    NoSession(#[from] NoSession),
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
}

impl Fault {
    fn at(self, path: &Path) -> KeysError {
        KeysError::File { path: path.into(), fault: self }
    }
}

fn held(sessions: u32) -> String {
    sessions
        .checked_sub(1)
        .map_or(", and no session at all".into(), |last| format!(", and only those up to {last}"))
}

fn advice(error: &UnlockError) -> &'static str {
    match error {
        UnlockError::Wrong { .. } | UnlockError::NoSlot { .. } => {
            "; give the right one, or another credential (`quietus key DISK list` shows the slots)"
        }
        UnlockError::Credential(_) | UnlockError::NoMaster => "",
    }
}

/// The opened keys of a disk that is served.
pub struct Keys {
    stored: StoredKeys<FileMedium>,
    unlocked: Locked<Unlocked>,
    random: Locked<Generator>,
    session: Option<(SessionIndex, Session)>,
}

impl Keys {
    /// Opens the keys in `file`, and draws a session, unless the disk is read only.
    pub fn unlock(file: &KeyFileOf, source: &Source) -> Result<Self, KeysError> {
        let mut keys = Self::open(file, source)?;
        if !file.is_read_only {
            keys.draw_session()?;
        }
        Ok(keys)
    }

    /// Opens the keys in `file`, without a session.
    ///
    /// # Errors
    /// [`KeysError`], such as when the file lacks sessions of a disk that is opened to be written.
    pub fn open(file: &KeyFileOf, source: &Source) -> Result<Self, KeysError> {
        forbid_core_dumps();
        let stored = stored(file)?;
        match stored.check_sessions(sessions::noted(file)?) {
            Err(error) if file.is_read_only => tracing::warn!("{error}"),
            checked => checked?,
        }
        let secret = secret(&stored, &file.name, source)?;
        let unlocked = locked(stored.unlock(&secret.credential())?)?;
        Ok(Self { stored, unlocked, random: generator()?, session: None })
    }

    /// The session for new seals; `None` if the disk is read-only.
    #[must_use]
    pub fn session(&self) -> Option<SessionIndex> {
        self.session.map(|(index, _)| index)
    }

    /// The sessions up to that, as the index is to note them before anything is sealed; `None` if the disk is read-only.
    #[must_use]
    pub fn sessions(&self) -> Sessions {
        let upto = |(SessionIndex(index), Session(last))| Sessions { count: u32::from(index) + 1, last };
        self.session.map_or(Sessions::default(), upto)
    }

    /// Draws another session, durably: after 2³² seals under one.
    ///
    /// # Errors
    /// [`KeysError`]; the session before it stays.
    pub fn draw_session(&mut self) -> Result<SessionIndex, KeysError> {
        self.random.reseed(&*seed()?);
        let drawn = self.stored.draw_session(&self.unlocked, &mut self.random)?;
        self.session = Some(drawn);
        Ok(drawn.0)
    }

    /// The sealer: seals under this session, and opens what any session sealed.
    ///
    /// # Errors
    /// [`KeysError`]: the session's record is damaged, or its master key is not there.
    pub fn into_sealer(mut self, seal: Seal) -> Result<DiskSealer, KeysError> {
        let (session, random) = (self.session(), Generators::new(&mut *self.random));
        let made = DiskSealer::new(seal, self.stored.file(), self.unlocked, session, random);
        made.map_err(|error| Fault::from(error).at(self.stored.path()))
    }

    /// The cipher of a sealed disk, whose only master key never changes.
    #[must_use]
    pub fn into_cipher(self) -> SectorCipher {
        SectorCipher::new(self.unlocked.newest().1)
    }

    /// Lets one more credential open the disk.
    pub fn add(&mut self, secret: &Secret) -> Result<SlotNumber, KeysError> {
        self.stored.add(&self.unlocked, &secret.credential(), Stretch::default(), &mut self.random)
    }

    /// Makes the next master key, for sessions from now on.
    pub fn rotate(&mut self) -> Result<Generation, KeysError> {
        self.stored.rotate(&mut self.unlocked, &mut self.random)
    }
}

/// The bytes of the key file of a new disk, which the secret opens. The file has room for all sessions, so that
/// it never grows.
///
/// # Errors
/// [`KeysError`]: the secret can open nothing.
pub fn new_file(disk: DiskId, secret: &Secret, path: &Path) -> Result<Vec<u8>, KeysError> {
    let mut random = generator()?;
    let made = KeyFile::create(disk, &secret.credential(), Stretch::default(), &mut *random);
    let (file, _) = made.map_err(|error| Fault::from(UnlockError::from(error)).at(path))?;
    Ok(file.to_bytes())
}

/// The damage to `file`, in words.
///
/// # Errors
/// [`KeysError`]: the file cannot be read, or is no key file.
pub fn damage(file: &KeyFileOf) -> Result<Vec<String>, KeysError> {
    let stored = stored(file)?;
    let pages = stored.file().damaged().into_iter().map(|page| {
        format!(
            "bytes {} to {}: a damaged slot or master key, or one that was being destroyed",
            page.start,
            page.end - 1
        )
    });
    let sessions = stored.file().damaged_sessions().into_iter().map(|session| {
        format!("session {}: its record is damaged, and what was sealed in it cannot be opened", session.0)
    });
    let lacks = sessions::noted(file).and_then(|noted| stored.check_sessions(noted));
    Ok(pages.chain(sessions).chain(lacks.err().map(|error| error.to_string())).collect())
}

/// The slots of a key file, and what else is known of it without a credential.
pub fn stored(file: &KeyFileOf) -> Result<StoredKeys<FileMedium>, KeysError> {
    let medium = opened(&file.path, "the key file", FileMedium::open(&file.path, file.is_read_only))?;
    StoredKeys::read(medium, &file.path, file.disk)
}

/// Takes slot `number` away and destroys it by `policy`. `source` has to open the disk without it.
pub fn remove(
    file: &KeyFileOf,
    number: SlotNumber,
    source: &Source,
    policy: &Policy,
) -> Result<(), KeysError> {
    forbid_core_dumps();
    let mut stored = stored(file)?;
    let secret = secret(&stored, &file.name, source)?;
    stored.remove(number, &secret.credential(), policy, &mut *generator()?)
}

/// The secret of `source`. A person is only asked for a passphrase if there is a slot for one.
fn secret(stored: &StoredKeys<FileMedium>, disk: &str, source: &Source) -> Result<Secret, KeysError> {
    let kinds = file::kinds(stored.file());
    if *source == Source::Prompt && !kinds.is_empty() && !kinds.contains(&CredentialKind::Passphrase.name()) {
        return Err(Fault::NoPassphrase(kinds.join(", ")).at(stored.path()));
    }
    source.read(disk, Purpose::Open)
}

fn locked<T>(value: T) -> Result<Locked<T>, KeysError> {
    Locked::new(value).map_err(|error| KeysError::Memory(error.to_string()))
}

/// A generator of keys, seeded by the system.
fn generator() -> Result<Locked<Generator>, KeysError> {
    locked(Generator::new(&*seed()?))
}

fn seed() -> Result<Zeroizing<[u8; SEED_BYTES]>, KeysError> {
    let mut seed = Zeroizing::new([0; SEED_BYTES]);
    getrandom::fill(&mut *seed).map_err(|error| KeysError::Random(error.to_string()))?;
    Ok(seed)
}
