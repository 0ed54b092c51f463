//! Where a credential comes from. No secret is ever an argument or in the environment, which others can read.

use super::secret::SecretBytes;
use super::{KeysError, locked, prompt};
use crate::base::locked::Locked;
use crate::host::paths;
use quietus_seal::keys::Credential;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The permission of every user to read or write a file.
const MODE_OTHERS: u32 = 0o006;

/// Where a credential comes from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Source {
    /// A person at the terminal, who is asked for a passphrase.
    #[default]
    Prompt,
    /// A passphrase, in a file; a line end at its end is not part of it.
    PassphraseFile(PathBuf),
    /// All bytes of a file.
    KeyFile(PathBuf),
    /// All bytes that a shell command prints.
    Command(String),
}

/// Why a person is asked for a passphrase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// To open what is there.
    Open,
    /// To open it from now on: it is asked for twice.
    New,
}

/// A secret, in memory that is locked and wiped.
pub struct Secret {
    source: Source,
    bytes: Locked<SecretBytes>,
}

impl Source {
    /// Gets the secret, for the disk of this name.
    ///
    /// # Errors
    /// [`KeysError`]: no credential can be had.
    pub fn read(&self, disk: &str, purpose: Purpose) -> Result<Secret, KeysError> {
        let mut bytes = locked(SecretBytes::default())?;
        match self {
            Self::Prompt => ask(disk, purpose, &mut bytes)?,
            Self::PassphraseFile(path) => {
                read_file(path, &mut bytes)?;
                bytes.remove_line_end();
            }
            Self::KeyFile(path) => read_file(path, &mut bytes)?,
            Self::Command(command) => run(command, &mut bytes)?,
        }
        Ok(Secret { source: self.clone(), bytes })
    }
}

impl Secret {
    /// The secret as what opens a key slot.
    #[must_use]
    pub fn credential(&self) -> Credential<'_> {
        let bytes = self.bytes.as_slice();
        match self.source {
            Source::Prompt | Source::PassphraseFile(_) => Credential::Passphrase(bytes),
            Source::KeyFile(_) => Credential::KeyFile(bytes),
            Source::Command(_) => Credential::Command(bytes),
        }
    }
}

fn ask(disk: &str, purpose: Purpose, bytes: &mut SecretBytes) -> Result<(), KeysError> {
    let terminal =
        File::options().read(true).write(true).open("/dev/tty").map_err(|_| KeysError::NoTerminal)?;
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::Interrupted => KeysError::Interrupted,
        _ => KeysError::Prompt(error.to_string()),
    };
    let question = |what: &str| format!("{what} of {disk}");
    match purpose {
        Purpose::Open => prompt::ask(&terminal, &question("Passphrase"), bytes).map_err(failed),
        Purpose::New => {
            prompt::ask(&terminal, &question("New passphrase"), bytes).map_err(failed)?;
            let mut again = locked(SecretBytes::default())?;
            prompt::ask(&terminal, "The same again", &mut again).map_err(failed)?;
            if bytes.as_slice() == again.as_slice() { Ok(()) } else { Err(KeysError::Differ) }
        }
    }
}

fn read_file(path: &Path, bytes: &mut SecretBytes) -> Result<(), KeysError> {
    let failed = |error: io::Error| KeysError::Source(format!("cannot read {}: {error}", path.display()));
    let mut file =
        paths::open_to_read("the credential", path).map_err(|error| KeysError::Source(error.to_string()))?;
    let about = file.metadata().map_err(failed)?;
    if about.is_file() && about.mode() & MODE_OTHERS != 0 {
        return Err(KeysError::Exposed { path: path.into(), mode: about.mode() & 0o7777 });
    }
    bytes.read_from(&mut file).map_err(failed)
}

fn run(command: &str, bytes: &mut SecretBytes) -> Result<(), KeysError> {
    let failed = |what: &str| KeysError::Source(format!("the command of --key-command {what}: {command}"));
    let mut shell = Command::new("/bin/sh");
    let child = shell.arg("-c").arg(command).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| failed(&format!("cannot be started ({error})")))?;
    let read = child.stdout.take().map_or(Ok(()), |mut out| bytes.read_from(&mut out));
    // The pipe is closed: a command that goes on printing ends.
    let ended = child.wait().map_err(|error| failed(&format!("cannot be waited for ({error})")))?;
    read.map_err(|error| failed(&format!("gives no key ({error})")))?;
    if ended.success() { Ok(()) } else { Err(failed(&format!("failed ({ended})"))) }
}
