//! The keys of a disk that seals its content, and what a judge with all of them can open. They are durable at once, and
//! never lost.
//!
//! The sealing is an ideal one: ciphertext and stub open only together, in their own place, and as they were made. All
//! sealings are on record, and each stub says whose it is, so that it is recognised wherever it turns up
//! ([`crate::machine::content`]).

use super::cipher::IdealCipher;
use crate::machine::content::{Cell, Tag};
use crate::machine::rng::mix;
use quietus_core::base::units::Session;
use quietus_core::media::cipher;
use quietus_core::media::sealing::{Context, Sealer, Sealing, Stub, Unauthentic};
use quietus_seal::Seal;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tags from here on belong to stubs.
const STUBS_FROM: u32 = 1 << 31;

/// Keys; see the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// The session under way, and its way of sealing; `None` if the disk seals nothing.
    session: Option<(Session, Seal)>,
    /// The cipher of a disk whose blocks lie under cells.
    cipher: Option<IdealCipher>,
    record: Mutex<Record>,
}

#[derive(Debug, Default)]
struct Record {
    /// All sealings, by their numbers.
    made: Vec<Made>,
    opened: BTreeSet<u32>,
}

#[derive(Clone, Debug)]
pub struct Made {
    pub context: Context,
    pub content: Vec<u8>,
    session: Session,
}

impl Keys {
    /// Begins another session of a disk that seals by `seal`; returns its number.
    pub(super) fn begin_session(&mut self, seal: Seal) -> Session {
        let session = Session(self.session.map_or(0, |(last, _)| last.0 + 1));
        self.session = Some((session, seal));
        session
    }

    /// What the disk's content is sealed and opened with in the present session.
    pub(super) fn of_content(&self) -> Option<cipher::Keys<'_>> {
        let cipher = self.cipher().map(|it| cipher::Keys::Cipher(it));
        cipher.or_else(|| self.session.map(|_| cipher::Keys::Sealer(self)))
    }

    /// The keys of a disk whose blocks lie under cells.
    pub(super) fn with_cipher() -> Self {
        Self { cipher: Some(IdealCipher::default()), ..Self::default() }
    }

    /// The cipher of such a disk.
    pub(super) fn cipher(&self) -> Option<&IdealCipher> {
        self.cipher.as_ref()
    }

    /// The sealings of which something is among these stubs.
    pub(super) fn made(&self, numbers: &BTreeSet<u32>) -> Vec<(u32, Made)> {
        let record = self.record();
        let known = numbers.iter().filter_map(|it| Some((*it, record.made.get(*it as usize)?.clone())));
        known.collect()
    }

    /// The numbers of the sealings that were opened since this was last called.
    pub(crate) fn take_opened(&self) -> BTreeSet<u32> {
        std::mem::take(&mut self.record().opened)
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of the sealing that a stub is of, if `tag` is that of a stub.
pub(super) fn number_of(tag: Tag) -> Option<u32> {
    tag.0.checked_sub(STUBS_FROM)
}

fn stub(number: u32, seal: Seal) -> Stub {
    Cell(number).bytes(Tag(STUBS_FROM + number))[..seal.stub_bytes()].into()
}

/// Turns content into ciphertext, or back.
fn scramble(number: u32, content: &mut [u8]) {
    for (n, word) in content.chunks_exact_mut(8).enumerate() {
        let key = mix(!(u64::from(number) << 16 | n as u64)).to_le_bytes();
        word.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
    }
}

impl Sealer for Keys {
    fn close(&self, context: &Context, content: &mut [u8]) -> Result<Sealing, String> {
        let (session, seal) = self.session.ok_or("there is no session")?;
        let mut record = self.record();
        let number = record.made.len() as u32;
        record.made.push(Made { context: *context, content: content.to_vec(), session });
        if seal != Seal::None {
            scramble(number, content);
        }
        Ok(Sealing { session, number, stub: stub(number, seal) })
    }

    fn needs_sealing(&self) -> bool {
        self.session.is_none_or(|(_, seal)| seal != Seal::None)
    }

    fn open(&self, context: &Context, sealing: &Sealing, content: &mut [u8]) -> Result<(), Unauthentic> {
        let (_, seal) = self.session.ok_or(Unauthentic(*context))?;
        if seal == Seal::None {
            return Ok(());
        }
        scramble(sealing.number, content);
        let mut record = self.record();
        let is_right = record.made.get(sealing.number as usize).is_some_and(|made| {
            (made.context, made.session) == (*context, sealing.session)
                && sealing.stub == stub(sealing.number, seal)
                && made.content == content
        });
        if !is_right {
            content.fill(0);
            return Err(Unauthentic(*context));
        }
        record.opened.insert(sealing.number);
        Ok(())
    }
}
