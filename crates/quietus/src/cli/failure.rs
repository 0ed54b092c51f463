//! How a command ends that is not a success, and the exit status of each.

use super::stop::Stop;
use crate::disk::keys::KeysError;
use crate::disk::{DiskError, DiskErrorKind};
use crate::engine::StartError;
use crate::files;
use crate::front::control::Refused;
use crate::host::directory::DirectoryErrorKind;
use crate::offline::OfflineError;
use crate::vault;
use std::error::Error;

/// Exit status of a command that failed.
const FAILED: u8 = 1;
/// Exit status of a wrong command line, as clap has it.
const USAGE: u8 = 2;
/// Exit status of a command that completed, with findings.
const BAD: u8 = 3;
/// Exit status after Ctrl-C: 128 and the number of the signal, as shells have it.
pub(super) const INTERRUPTED: u8 = 130;

/// Result of a command; the manual documents the exit status of each.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is wrong, whatever the host is like.
    Usage(String),
    /// The command failed.
    Error(String),
    /// The user stopped the command.
    Interrupted(String),
    /// The command was done, and the answer is bad (a check failed, dead content was found).
    Bad,
    /// An epoch to read is forgotten.
    Forgotten(String),
}

impl Failure {
    /// The message, if the report has not said it all.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Usage(text) | Self::Error(text) | Self::Interrupted(text) | Self::Forgotten(text) => {
                Some(text)
            }
            Self::Bad => None,
        }
    }

    /// The exit status. A command that was told to stop and did not end well was interrupted, wherever it noticed.
    pub(super) fn status(&self) -> u8 {
        match self {
            _ if Stop::was_asked() => INTERRUPTED,
            Self::Interrupted(_) => INTERRUPTED,
            Self::Usage(_) => USAGE,
            Self::Error(_) => FAILED,
            Self::Bad | Self::Forgotten(_) => BAD,
        }
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Forgotten(text) => Self::Forgotten(text),
            Refused::Interrupted => Self::Interrupted(refused.to_string()),
            Refused::Error(_) => Self::Error(refused.to_string()),
        }
    }
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        ending(&error)(error.to_string())
    }
}

/// How a command ends with a message.
type Ending = fn(String) -> Failure;

/// How a command ends with an error.
fn ending(error: &(dyn Error + 'static)) -> Ending {
    if let Some(error) = error.downcast_ref::<DiskError>() {
        return of_disk(error);
    }
    if let Some(error) = error.downcast_ref::<StartError>() {
        return of_start(error);
    }
    if let Some(error) = error.downcast_ref::<OfflineError>() {
        return match error {
            OfflineError::Disk(error) => of_disk(error),
            OfflineError::Start(error) => of_start(error),
            OfflineError::Answered(Refused::Forgotten(_)) => Failure::Forgotten,
            OfflineError::Interrupted | OfflineError::Answered(Refused::Interrupted) => Failure::Interrupted,
            _ => Failure::Error,
        };
    }
    if let Some(error) = error.downcast_ref::<files::Error>() {
        return match error {
            files::Error::Interrupted | files::Error::Refused(Refused::Interrupted) => Failure::Interrupted,
            files::Error::Refused(Refused::Forgotten(_)) => Failure::Forgotten,
            _ => Failure::Error,
        };
    }
    if let Some(KeysError::Interrupted) = error.downcast_ref() {
        return Failure::Interrupted;
    }
    match error.downcast_ref() {
        Some(vault::Error::Interrupted) => Failure::Interrupted,
        Some(vault::Error::Usage(_)) => Failure::Usage,
        _ => Failure::Error,
    }
}

fn of_disk(error: &DiskError) -> Ending {
    match error.kind {
        DiskErrorKind::Usage(_) => Failure::Usage,
        DiskErrorKind::Directory(DirectoryErrorKind::Interrupted) => Failure::Interrupted,
        _ => Failure::Error,
    }
}

fn of_start(error: &StartError) -> Ending {
    match error {
        StartError::Disk(error) => of_disk(error),
        _ if error.is_interrupted() => Failure::Interrupted,
        _ => Failure::Error,
    }
}
