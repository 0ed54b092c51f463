//! Whether the index, the log and the key file are of the time that they say: what a clean stop keeps, and which of two copies count.

use super::super::stubs::{SECTOR_BYTES, StubsError};
use super::{Index, VersionsError, check_length};
use crate::base::blocks::BlockSet;
use crate::base::fields::Fields;
use crate::base::units::{Pos, Session};
use crate::media::MediumId;
use crate::media::medium::Medium;
use crate::mutant::{self, Mutant};
use crate::store::versions::Setup;
use crate::store::versions::catalog::Note;
use crate::store::versions::index::lingering::Lingering;
use crate::store::versions::stubs::sessions::Sessions;
use crate::tree::{HEAD_BYTES, Head, HeadError, PAGE_BYTES, is_head_lost, newest};

/// The bytes that a clean stop keeps for the next start: the number of the last sector of the log, the generation of the index's
/// head, the epochs that show content which has died, and the blocks with content.
pub(in crate::store::versions) fn view(
    sequence: u64,
    generation: u64,
    lingering: &Lingering,
    allocated: &BlockSet,
) -> Vec<u8> {
    let lingering = lingering.to_bytes();
    let numbers = [sequence, generation, lingering.len() as u64].map(u64::to_le_bytes);
    [numbers.as_flattened(), &lingering, &allocated.to_bytes()].concat()
}

/// The view, read back from the bytes that [`view`] wrote.
pub(super) struct View {
    pub(super) sequence: u64,
    generation: u64,
    pub(super) lingering: Lingering,
    pub(super) allocated: BlockSet,
}

impl View {
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let (sequence, generation) = (fields.u64()?, fields.u64()?);
        let lingering = Lingering::from_bytes(fields.sized()?)?;
        let allocated = BlockSet::from_bytes(fields.0).ok()?;
        Some(Self { sequence, generation, lingering, allocated })
    }
}

impl Sessions {
    /// The sessions that the newest head of the index on `map` notes.
    ///
    /// # Errors
    /// [`VersionsError`]: the index has no usable head.
    pub fn noted(map: &dyn Medium, disk: [u8; 16]) -> Result<Self, VersionsError> {
        let note = Note::of(&Heads::read(map)?.newest(disk)?);
        Ok(note.ok_or(VersionsError::Note)?.sessions)
    }
}

/// The two heads, each as its two copies.
pub(in crate::store::versions) struct Heads([[u8; HEAD_BYTES]; 2]);

impl Heads {
    pub(in crate::store::versions) const PLACES: [u64; 2] = [0, PAGE_BYTES as u64];

    pub(in crate::store::versions) fn read(map: &dyn Medium) -> Result<Self, VersionsError> {
        check_length(map, MediumId::Map, 2 * PAGE_BYTES as u64)?;
        let mut heads = [[0; HEAD_BYTES]; 2];
        for (at, head) in Self::PLACES.into_iter().zip(&mut heads) {
            map.read(Pos(at), head)?;
        }
        Ok(Self(heads))
    }

    pub(in crate::store::versions) fn newest(&self, disk: [u8; 16]) -> Result<Head, HeadError> {
        newest([&self.0[0], &self.0[1]], disk)
    }

    /// Where a head lies of which no copy is left.
    fn lost(&self, disk: [u8; 16]) -> Option<u64> {
        let found = Self::PLACES.into_iter().zip(&self.0).find(|(_, bytes)| is_head_lost(*bytes, disk));
        found.map(|(at, _)| at)
    }
}

/// The head that has to be durable before anything is sealed, and the sessions that it notes: this opening's own is the last.
pub(super) fn head_to_seal(
    head: &Head,
    setup: &Setup,
    read_only: bool,
) -> Result<(Head, Sessions), VersionsError> {
    let note = Note::of(head).ok_or(VersionsError::Note)?;
    let (noted, Sessions { count, .. }) = (note.sessions, setup.sessions);
    if count == 0 || read_only {
        return Ok((head.clone(), noted));
    }
    if count <= noted.count {
        return Err(VersionsError::SessionTaken { session: count - 1, noted: noted.count });
    }
    Ok((note.head_with(head, setup.sessions), setup.sessions))
}

impl Index<'_> {
    /// Checks that index and log are of the time that they say, and whole.
    pub(super) fn check(
        &self,
        rest: &(Pos, Vec<u8>),
        (heads, head): (&Heads, &Head),
        kept: Option<&View>,
    ) -> Result<(), VersionsError> {
        self.check_log(rest)?;
        self.check_head(heads, head, kept)?;
        Ok(self.check_end(kept)?)
    }

    /// Checks that the log ends where a clean stop left it.
    fn check_end(&self, kept: Option<&View>) -> Result<(), StubsError> {
        let (_, found) = self.catalog.log.position();
        match kept {
            Some(View { sequence, .. }) if *sequence != found => {
                let at = self.catalog.next_sector().map_or(Pos(0), |next| next.extent.start);
                Err(StubsError::OtherTime { at, found, stopped: *sequence })
            }
            _ => Ok(()),
        }
    }

    /// Refuses a log that ends with a damaged sector, and not where a crash cut a commit short: a later sector shows that
    /// the damaged one was durable.
    fn check_log(&self, (at, rest): &(Pos, Vec<u8>)) -> Result<(), VersionsError> {
        let (half, last) = self.catalog.log.position();
        let durable = self.following(half, rest).map(|(_, durable)| durable).max();
        match durable.filter(|durable| *durable > last) {
            Some(to) => Err(VersionsError::DamagedSector { at: at.0, sequence: last + 1, to }),
            None => Ok(()),
        }
    }

    /// Refuses to go on with the older head. The last clean stop says which one must be there; after a crash, a lost head may
    /// have been the newer one. (A crash that cuts the write of a head in two leaves each copy as it was, or new.)
    fn check_head(&self, heads: &Heads, head: &Head, kept: Option<&View>) -> Result<(), VersionsError> {
        let at = heads.lost(self.catalog.disk).filter(|_| !mutant::is(Mutant::BelieveOldHead));
        if let Some(at) = at {
            let half = 1 - self.catalog.log.position().0;
            let bytes = self.stubs_in(self.catalog.layout.half(half))?;
            let numbers = || self.following(half, &bytes).map(|(number, _)| number);
            if let (Some(from), Some(to)) = (numbers().min(), numbers().max()) {
                return Err(VersionsError::OldHead { at, from, to });
            }
        }
        match (kept, at) {
            (Some(View { generation: stopped, .. }), _)
                if *stopped > head.generation && !mutant::is(Mutant::BelieveOldHead) =>
            {
                Err(VersionsError::OlderIndex { found: head.generation, stopped: *stopped })
            }
            (None, Some(at)) => Err(VersionsError::LostHead { at }),
            _ => Ok(()),
        }
    }

    /// Refuses to seal with a key file that lacks a session which the log names; none of the sessions is this opening's own.
    pub(super) fn check_sessions(&self, Sessions { count, .. }: Sessions) -> Result<(), VersionsError> {
        let is_unknown = |it: &Session| count > 0 && u32::from(it.0) + 1 >= count;
        match self.catalog.log.newest_session().filter(is_unknown) {
            Some(Session(session)) => Err(VersionsError::NoSession { session }),
            None => Ok(()),
        }
    }

    /// The sectors among `bytes` of `half` of the log that follow all that was replayed (`Catalog::follows`).
    fn following(&self, half: u8, bytes: &[u8]) -> impl Iterator<Item = (u64, u64)> {
        bytes.chunks_exact(SECTOR_BYTES as usize).filter_map(move |sector| self.catalog.follows(half, sector))
    }
}
