//! The key file on its medium: each change is durable before the next, and what is taken away is destroyed where
//! it lies. A file that is written anew would leave the old one on the medium.
//!
//! 1. Each step changes one page or one record. Whatever a crash leaves of it, every other one is as it was.
//! 2. A slot is destroyed only once another credential was seen to open the disk without it.

use super::{Fault, KeysError};
use quietus_core::base::units::Pos;
use quietus_core::erase::policy::{Pattern, Policy, Scratch, Seed};
use quietus_core::media::medium::Medium;
use quietus_seal::keys::{
    Credential, KeyFile, KeyWrite, SessionIndex, SlotNumber, SlotState, Stretch, UnlockError, Unlocked,
};
use quietus_seal::{DiskId, Generation, Generator, Random, Session};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A key file.
pub struct StoredKeys<M> {
    pub(super) medium: M,
    path: PathBuf,
    file: KeyFile,
}

impl<M: Medium> StoredKeys<M> {
    /// Reads the key file of `disk` from `medium`, which messages name `path`.
    ///
    /// # Errors
    /// [`KeysError`]: the file is damaged, or another disk's.
    pub fn read(medium: M, path: &Path, disk: DiskId) -> Result<Self, KeysError> {
        let file = parse(&medium, path)?;
        if file.disk() != disk {
            return Err(Fault::Foreign.at(path));
        }
        Ok(Self { medium, path: path.into(), file })
    }

    /// The keys as they were read, and changed since.
    #[must_use]
    pub fn file(&self) -> &KeyFile {
        &self.file
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the keys.
    ///
    /// # Errors
    /// [`KeysError`]: the credential opens no slot.
    pub fn unlock(&self, credential: &Credential<'_>) -> Result<Unlocked, KeysError> {
        named(&self.path, self.file.unlock(credential))
    }

    /// Lets one more credential open the disk.
    ///
    /// # Errors
    /// [`KeysError`], if it opens the disk already; the slot may be there all the same, or damaged, if the medium failed.
    pub fn add(
        &mut self,
        unlocked: &Unlocked,
        credential: &Credential<'_>,
        stretch: Stretch,
        random: &mut Generator,
    ) -> Result<SlotNumber, KeysError> {
        if self.file.unlock(credential).is_ok() {
            return named(&self.path, Err(Fault::Known));
        }
        let added = self.file.add_slot(unlocked, credential, stretch, random);
        let (number, write) = named(&self.path, added)?;
        self.write(&write)?;
        Ok(number)
    }

    /// Takes a slot away, and destroys it by the policy's passes. `remaining` has to open the disk without it.
    ///
    /// # Errors
    /// [`KeysError`]; the slot is damaged, or as it was, if the medium failed: remove it again.
    pub fn remove(
        &mut self,
        number: SlotNumber,
        remaining: &Credential<'_>,
        policy: &Policy,
        random: &mut Generator,
    ) -> Result<(), KeysError> {
        let mut after = parse(&self.medium, &self.path)?;
        let page = named(&self.path, after.remove_slot(number))?;
        let without = after.unlock(remaining).map_err(|error| match error {
            UnlockError::Wrong { .. } | UnlockError::NoSlot { .. } => Fault::Needed(number),
            other => Fault::from(other),
        });
        drop(named(&self.path, without)?);
        self.destroy(&page, policy, random)?;
        self.file = after;
        Ok(())
    }

    /// Makes the next master key, which new sessions use. The keys before it stay, for what they have sealed.
    pub fn rotate(
        &mut self,
        unlocked: &mut Unlocked,
        random: &mut Generator,
    ) -> Result<Generation, KeysError> {
        let rotated = self.file.rotate(unlocked, random);
        let (generation, write) = named(&self.path, rotated)?;
        self.write(&write)?;
        Ok(generation)
    }

    /// Draws a session under the newest master key.
    ///
    /// # Errors
    /// [`KeysError`]; then nothing may be sealed under it.
    pub fn draw_session(
        &mut self,
        unlocked: &Unlocked,
        random: &mut Generator,
    ) -> Result<(SessionIndex, Session), KeysError> {
        let mut session = Session([0; 16]);
        random.fill(&mut session.0);
        let drawn = self.file.add_session(session, unlocked.newest().0);
        let (index, write) = named(&self.path, drawn)?;
        self.write(&write)?;
        Ok((index, session))
    }

    fn write(&self, write: &KeyWrite) -> Result<(), KeysError> {
        named(&self.path, self.medium.write(Pos(write.offset), &write.bytes, true))
    }

    /// Overwrites the page: each pass is durable before the next, and zeros come last.
    fn destroy(&self, page: &Range<u64>, policy: &Policy, random: &mut Generator) -> Result<(), KeysError> {
        let mut entropy = [0; 32];
        random.fill(&mut entropy);
        let len = usize::try_from(page.end - page.start).expect("a page is short");
        let zeros = (!policy.leaves_zeros()).then(Pattern::zeros);
        let mut scratch = Scratch::default();
        for (pattern, nonce) in policy.passes().iter().chain(&zeros).zip(0..) {
            let bytes = scratch.pass(pattern, Seed { entropy, nonce }, len);
            let passed = self.medium.overwrite(Pos(page.start), bytes).and_then(|()| self.medium.sync());
            named(&self.path, passed)?;
        }
        Ok(())
    }
}

/// The names of the kinds of credentials that have a slot.
pub(super) fn kinds(file: &KeyFile) -> Vec<&'static str> {
    let mut kinds = Vec::new();
    for slot in file.slots() {
        match slot {
            SlotState::Used(kind) if !kinds.contains(&kind.name()) => kinds.push(kind.name()),
            SlotState::Used(_) | SlotState::Empty | SlotState::Damaged => {}
        }
    }
    kinds
}

fn parse(medium: &impl Medium, path: &Path) -> Result<KeyFile, KeysError> {
    let most = quietus_seal::keys::FILE_BYTES_MAX as u64;
    let mut bytes = vec![0; medium.size().min(most) as usize];
    named(path, medium.read(Pos(0), &mut bytes))?;
    named(path, KeyFile::from_bytes(&bytes))
}

fn named<T>(path: &Path, result: Result<T, impl Into<Fault>>) -> Result<T, KeysError> {
    result.map_err(|fault| fault.into().at(path))
}
