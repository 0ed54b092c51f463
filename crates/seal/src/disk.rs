//! Sealing for a disk that is open: the keys of all its sessions, as the core of Quietus wants them.

use crate::ciphers::random::Random;
use crate::keys::{KeyFile, SessionIndex, Unlocked};
use crate::seal::Seal;
use crate::sealer::Sealer;
use crate::units::{self, DiskId, Generation, Sequence};
use quietus_core::base::units::Session;
use quietus_core::media::sealing;
use quietus_core::media::sealing::{Context, Sealing, Unauthentic};
use std::borrow::Borrow;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Seals for the newest session of a disk, and opens what any session sealed. `R` is the source of fresh keys, which
/// all threads share; `K` is where the opened keys lie.
pub struct DiskSealer<R, K = Unlocked> {
    disk: DiskId,
    seal: Seal,
    unlocked: K,
    /// Sessions by index.
    sessions: Vec<Keyed>,
    /// The session that seals; `None` of a disk that is only read.
    newest: Option<u16>,
    /// The number of the newest session's next sealing.
    next: AtomicU32,
    random: R,
}

/// A session, and its keys once they are needed.
struct Keyed {
    /// `None` if its record is damaged.
    session: Option<(units::Session, Generation)>,
    /// `None` if there is no session or no master key.
    sealer: OnceLock<Option<Box<Sealer>>>,
}

/// A session whose keys are not to be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("cannot seal for session {0}: the key file has no such session, or not its master key")]
pub struct NoSession(pub u16);

impl<R, K> DiskSealer<R, K>
where
    R: Send + Sync,
    K: Borrow<Unlocked> + Send + Sync,
    for<'a> &'a R: Random,
{
    /// Seals for session `newest`, which was added to the `file` just now: nothing may have been sealed for it before.
    /// Without a session it only opens.
    pub fn new(
        seal: Seal,
        file: &KeyFile,
        unlocked: K,
        newest: Option<SessionIndex>,
        random: R,
    ) -> Result<Self, NoSession> {
        let keyed = |index| Keyed { session: file.session(SessionIndex(index)), sealer: OnceLock::new() };
        let mut sessions: Vec<_> = (0..=u16::MAX).map(keyed).collect();
        let used = sessions.iter().rposition(|it: &Keyed| it.session.is_some()).map_or(0, |last| last + 1);
        sessions.truncate(used);
        let (newest, next) = (newest.map(|it| it.0), AtomicU32::new(0));
        let sealer = Self { disk: file.disk(), seal, unlocked, sessions, newest, next, random };
        match newest.filter(|newest| sealer.session(*newest).is_none()) {
            Some(missing) => Err(NoSession(missing)),
            None => Ok(sealer),
        }
    }

    /// The keys of a session, which are made when they are first needed.
    fn session(&self, index: u16) -> Option<&Sealer> {
        let keyed = self.sessions.get(usize::from(index))?;
        let derive = || {
            let (session, generation) = keyed.session?;
            let master = self.unlocked.borrow().master(generation)?;
            let sealer = Box::new(Sealer::new(self.seal, master, generation, self.disk, session));
            sealer.keep_in_memory();
            Some(sealer)
        };
        keyed.sealer.get_or_init(derive).as_deref()
    }

    fn bound(context: &Context, number: u32) -> units::Context {
        let Context { block, born, slot } = *context;
        units::Context { block, born, slot, sequence: Sequence(number) }
    }
}

impl<R, K> sealing::Sealer for DiskSealer<R, K>
where
    R: Send + Sync,
    K: Borrow<Unlocked> + Send + Sync,
    for<'a> &'a R: Random,
{
    fn close(&self, context: &Context, content: &mut [u8]) -> Result<Sealing, String> {
        let newest = self.newest.ok_or("the disk is only read: nothing is sealed")?;
        let number = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| next.checked_add(1));
        let number =
            number.map_err(|_| format!("session {newest} has no number left; serve the disk anew"))?;
        let sealer = self.session(newest).ok_or_else(|| NoSession(newest).to_string())?;
        let stub = sealer.close(&Self::bound(context, number), content, &mut &self.random);
        Ok(Sealing { session: Session(newest), number, stub: stub.map_err(|error| error.to_string())? })
    }

    fn open(&self, context: &Context, sealing: &Sealing, content: &mut [u8]) -> Result<(), Unauthentic> {
        let opened = self.session(sealing.session.0).and_then(|sealer| {
            sealer.open(&Self::bound(context, sealing.number), content, &sealing.stub).ok()
        });
        opened.ok_or_else(|| {
            content.fill(0);
            Unauthentic(*context)
        })
    }
}

impl<R, K> fmt::Debug for DiskSealer<R, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskSealer")
            .field("disk", &self.disk)
            .field("seal", &self.seal)
            .field("sessions", &self.sessions.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
