//! A disk whose states are read, served or not: what a command asks it.

use super::Target;
use crate::disk::Step;
use crate::disk::keys::Source as Credential;
use crate::front::control::{Answer, Asked, Call, EpochsKept, RangesRead, Refused, StatusAnswer};
use quietus_core::base::units::{Addr, Extent};
use quietus_files::Unread;
use rustix::fs::MemfdFlags;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// Most bytes that are asked for at once.
pub(super) const ASK_BYTES_MAX: u64 = 8 << 20;
/// Most bytes of a file that two states are compared in.
const COMPARE_BYTES_MAX: u64 = 64 << 20;

/// A disk whose states are read.
pub struct Disk {
    asked: Asked,
    /// What an answer is read from.
    answers: File,
}

impl Disk {
    /// Opens the disk of `target`, or finds its server.
    pub fn open(target: &Target, credential: &Credential, step: Step<'_>) -> Result<Rc<Self>, Refused> {
        let asked = Asked::open(&target.disk, true, Some(credential), step)?;
        let answers = rustix::fs::memfd_create("quietus-read", MemfdFlags::CLOEXEC);
        let answers = answers.map_err(|error| format!("cannot make a file in memory: {error}"))?;
        Ok(Rc::new(Self { asked, answers: answers.into() }))
    }

    /// The answer to `call`.
    pub fn ask<T: Answer>(&self, call: &Call) -> Result<T, Refused> {
        self.asked.ask(call, None, &mut |_, _| true)
    }

    /// Whether a server runs it: a guest may change its current state then.
    pub fn is_served(&self) -> bool {
        self.asked.is_served()
    }

    /// The epochs that it keeps; `None` if it keeps no past.
    pub fn epochs_kept(&self) -> Result<Option<EpochsKept>, Refused> {
        let status: StatusAnswer = self.ask(&Call::Status)?;
        Ok(status.epochs)
    }

    /// Its size in bytes.
    pub fn size_bytes(&self) -> Result<u64, Refused> {
        Ok(self.read(None, None)?.0.size_bytes)
    }

    /// The bytes of `extent` as `epoch` shows them; `None` for the current state.
    pub fn content(&self, epoch: Option<u64>, extent: Extent<Addr>) -> Result<Vec<u8>, Unread> {
        let answer = self.read(epoch.map(|it| it.to_string()), Some(extent));
        answer.map(|(_, bytes)| bytes).map_err(|refused| Unread(refused.to_string()))
    }

    /// Whether two states have the same bytes in `parts`. Of many bytes that is not asked: they count as changed, as do bytes that
    /// are forgotten in one of the states.
    pub fn is_same(&self, parts: &[Extent<Addr>], one: u64, other: Option<u64>) -> Result<bool, Refused> {
        if parts.iter().map(|part| part.len).sum::<u64>() > COMPARE_BYTES_MAX {
            return Ok(false);
        }
        for part in parts.iter().flat_map(|part| part.pieces(ASK_BYTES_MAX)) {
            let read = |epoch: Option<u64>| self.read(epoch.map(|it| it.to_string()), Some(part));
            match (read(Some(one)), read(other)) {
                (Ok((_, one)), Ok((_, other))) if one == other => {}
                (Ok(_), Ok(_)) | (Err(Refused::Forgotten(_)), _) | (_, Err(Refused::Forgotten(_))) => {
                    return Ok(false);
                }
                (Err(refused), _) | (_, Err(refused)) => return Err(refused),
            }
        }
        Ok(true)
    }

    /// What the state that people call `at` has in `extent`, if one is given, and what is said of that state.
    pub(super) fn read(
        &self,
        at: Option<String>,
        extent: Option<Extent<Addr>>,
    ) -> Result<(RangesRead, Vec<u8>), Refused> {
        let ranges = extent.iter().map(|it| (it.start.0, it.len)).collect();
        let read: RangesRead =
            self.asked.ask(&Call::Read { at, ranges }, Some(&self.answers), &mut |_, _| true)?;
        let mut bytes = vec![0; extent.map_or(0, |it| it.len as usize)];
        let filled = self.answers.read_exact_at(&mut bytes, 0);
        filled.map_err(|error| format!("cannot read a file in memory: {error}"))?;
        Ok((read, bytes))
    }
}
