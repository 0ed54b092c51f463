//! The keys of a disk: a file of slots, any of which opens the root key; of master keys, which the
//! root key wraps; and of sessions. Bytes in, bytes out: `docs/formats/keys.md`.
//!
//! 1. Each secret lies in a page of its own, so that it can be destroyed alone.
//! 2. A page is written whole or refused by its checksum. No other page depends on it.
//! 3. A destroyed page is empty once it is zeros. Until then it is damaged, which hinders no start.
//! 4. The last slot is never given up, and neither is a master key.

mod credential;
mod frame;
mod sessions;
mod slot;
#[cfg(test)]
mod tests;

pub use credential::{
    BadCredential, Credential, CredentialKind, SECRET_BYTES_MIN, STRETCH_LANES_MAX, STRETCH_MEMORY_KIB_MAX,
    STRETCH_PASSES_MAX, Stretch,
};
pub use sessions::{SESSIONS_MAX, SessionIndex};

use crate::ciphers::random::Random;
use crate::sealer::MasterKey;
use crate::units::{DiskId, Generation, Session};
use frame::{Fault, Head, Page, PageKind};
use sessions::Sessions;
use slot::{Master, Slot};
use std::ops::Range;
use zerocopy::{Immutable, IntoBytes};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Slots of a key file.
pub const SLOTS: usize = 8;
/// Master keys that a key file can hold at once.
pub const MASTERS: usize = 64;
/// Page of the first slot.
const FIRST_SLOT: u32 = 1;
/// Page of the first master key.
const FIRST_MASTER: u32 = FIRST_SLOT + SLOTS as u32;
/// Bytes before the sessions.
const PAGES_BYTES: usize = PAGE_BYTES * (FIRST_MASTER as usize + MASTERS);
/// Bytes of a file with all sessions that there can be. A file that has them from the beginning never grows.
pub const FILE_BYTES_MAX: usize = PAGES_BYTES + sessions::RECORD_BYTES * SESSIONS_MAX;

/// A slot, from 0 on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotNumber(pub u8);

/// The key that wraps the master keys.
#[derive(Zeroize, ZeroizeOnDrop)]
struct RootKey([u8; 32]);

/// The kind of a page of the file.
enum State<T> {
    Empty,
    Used(T),
    Damaged,
}

/// The key file of a disk. Holds nothing that is secret without a credential.
pub struct KeyFile {
    disk: DiskId,
    slots: Vec<State<Slot>>,
    masters: Vec<State<Master>>,
    sessions: Sessions,
}

/// The opened keys of a disk, all of them within this value: a program that keeps its memory from being swapped or
/// dumped keeps all of them, and no list that grows leaves a copy behind.
pub struct Unlocked {
    root: RootKey,
    /// In any order, at least one.
    masters: [Option<(Generation, MasterKey)>; MASTERS],
}

const _: () = assert!(size_of::<Unlocked>() > MASTERS * size_of::<MasterKey>());

/// Bytes to write to the key file, durably, before what they are for happens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyWrite {
    /// Where.
    pub offset: u64,
    /// The kind.
    pub bytes: Vec<u8>,
}

/// The kind of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotState {
    /// Nothing is there.
    Empty,
    /// A credential of this kind opens it.
    Used(CredentialKind),
    /// Its page cannot be read: destroy and clear it, or restore it from a backup.
    Damaged,
}

/// Why a key file cannot be read at all.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadKeyFile {
    /// Too short.
    #[error("key file: {found} bytes, expected at least {PAGES_BYTES}; restore it from a backup")]
    Length {
        /// Its bytes.
        found: usize,
    },
    /// The first page is no header.
    #[error("key file: bad {field} in the header at offset 0; restore it from a backup")]
    Header {
        /// The field.
        field: &'static str,
    },
}

/// Why a key file was not opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnlockError {
    /// The credential can open nothing.
    #[error(transparent)]
    Credential(#[from] BadCredential),
    /// No slot is for this kind of credential.
    #[error("no key slot is for a {}{}", .kind.name(), damage(.damaged))]
    NoSlot {
        /// The kind.
        kind: CredentialKind,
        /// Slots that cannot be read.
        damaged: Vec<SlotNumber>,
    },
    /// The credential opens none of the slots of its kind.
    #[error("wrong {}: it opens none of {tried} key slots{}", .kind.name(), damage(.damaged))]
    Wrong {
        /// The kind.
        kind: CredentialKind,
        /// How many slots were tried.
        tried: usize,
        /// Slots that cannot be read.
        damaged: Vec<SlotNumber>,
    },
    /// The slot opened, but there is no master key below it.
    #[error("the key file has no master key that its root key opens; restore it from a backup")]
    NoMaster,
}

/// Why a key file was not changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChangeError {
    /// The credential can open nothing.
    #[error(transparent)]
    Credential(#[from] BadCredential),
    /// All slots are in use or damaged.
    #[error("all {SLOTS} key slots are in use; remove one first")]
    SlotsFull,
    /// There is no such slot in use.
    #[error("key slot {} is not in use; expected one of {SLOTS}, from 0 on", .0.0)]
    NoSlot(SlotNumber),
    /// Without this slot the disk could not be opened.
    #[error("key slot {} is the last one, and the disk would be lost with it; add another first", .0.0)]
    LastSlot(SlotNumber),
    /// There is no room for a master key.
    #[error(
        "the key file holds {MASTERS} master keys, which is the limit; export the disk, and make a new one of the image"
    )]
    MastersFull,
    /// There is no room for a session.
    #[error("the key file holds {SESSIONS_MAX} sessions, which is the limit")]
    SessionsFull,
}

impl KeyFile {
    /// The keys of a new disk: a root key and a master key, and a slot for the credential.
    ///
    /// # Errors
    /// If the credential can open nothing.
    pub fn create(
        disk: DiskId,
        credential: &Credential<'_>,
        stretch: Stretch,
        random: &mut impl Random,
    ) -> Result<(KeyFile, Unlocked), BadCredential> {
        let root = RootKey::generate(random);
        let mut file = KeyFile::empty(disk);
        file.slots[0] = State::Used(Slot::new(disk, SlotNumber(0), &root, credential, stretch, random)?);
        let master = MasterKey::generate(random);
        file.masters[0] = State::Used(Master::new(disk, FIRST_MASTER, &root, Generation(0), &master));
        let mut unlocked = Unlocked::new(root);
        unlocked.masters[0] = Some((Generation(0), master));
        Ok((file, unlocked))
    }

    /// The file of these bytes. A page that cannot be read is damaged, and the others are not.
    ///
    /// # Errors
    /// If the file is too short, or its header is damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<KeyFile, BadKeyFile> {
        let too_short = BadKeyFile::Length { found: bytes.len() };
        let (pages, sessions) = bytes.split_at_checked(PAGES_BYTES).ok_or(too_short)?;
        let (pages, _) = pages.as_chunks::<PAGE_BYTES>();
        let disk = frame::check(&pages[0], PageKind::Header, 0, None)
            .map_err(|fault| BadKeyFile::Header { field: fault.name() })?;
        let mut file = KeyFile::empty(disk);
        for (number, slot) in (0..).map(SlotNumber).zip(&mut file.slots) {
            *slot = Slot::from_page(&pages[number.page() as usize], number, disk).into();
        }
        for (page, master) in (FIRST_MASTER..).zip(&mut file.masters) {
            *master = Master::from_page(&pages[page as usize], page, disk).into();
        }
        file.sessions = Sessions::from_bytes(sessions, disk);
        Ok(file)
    }

    /// The whole file. Damaged pages become empty.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = frame::build(&Head::new(PageKind::Header, 0, self.disk)).to_vec();
        bytes.extend(self.slots.iter().flat_map(page_of));
        bytes.extend(self.masters.iter().flat_map(page_of));
        bytes.extend(self.sessions.to_bytes(self.disk));
        bytes
    }

    /// The disk.
    #[must_use]
    pub fn disk(&self) -> DiskId {
        self.disk
    }

    /// The kind of each slot, in order.
    #[must_use]
    pub fn slots(&self) -> Vec<SlotState> {
        let state = |slot: &State<Slot>| match slot {
            State::Used(slot) => slot.kind().map_or(SlotState::Damaged, SlotState::Used),
            State::Empty => SlotState::Empty,
            State::Damaged => SlotState::Damaged,
        };
        self.slots.iter().map(state).collect()
    }

    /// Where pages cannot be read: what is left of a destruction that a crash cut short, or damage.
    #[must_use]
    pub fn damaged(&self) -> Vec<Range<u64>> {
        let slots = (FIRST_SLOT..).zip(self.slots.iter().map(State::is_damaged));
        let masters = (FIRST_MASTER..).zip(self.masters.iter().map(State::is_damaged));
        slots.chain(masters).filter(|(_, is_damaged)| *is_damaged).map(|(page, _)| range(page)).collect()
    }

    /// The sessions whose records are damaged: what was sealed in them cannot be opened.
    #[must_use]
    pub fn damaged_sessions(&self) -> Vec<SessionIndex> {
        self.sessions.damaged().collect()
    }

    /// Opens the keys.
    ///
    /// # Errors
    /// If the credential opens no slot, or no master key is there.
    pub fn unlock(&self, credential: &Credential<'_>) -> Result<Unlocked, UnlockError> {
        let kind = credential.kind();
        let fits = |slot: &&Slot| slot.kind() == Some(kind);
        let slots: Vec<&Slot> = self.slots.iter().filter_map(State::used).filter(fits).collect();
        for slot in &slots {
            if let Some(root) = slot.open(credential)? {
                return self.unlocked(root);
            }
        }
        let damaged = self.damaged_slots();
        Err(match slots.len() {
            0 => UnlockError::NoSlot { kind, damaged },
            tried => UnlockError::Wrong { kind, tried, damaged },
        })
    }

    /// Lets one more credential open the disk.
    ///
    /// # Errors
    /// If all slots are in use, or the credential can open nothing.
    pub fn add_slot(
        &mut self,
        unlocked: &Unlocked,
        credential: &Credential<'_>,
        stretch: Stretch,
        random: &mut impl Random,
    ) -> Result<(SlotNumber, KeyWrite), ChangeError> {
        let free = (0..).zip(&self.slots).find(|(_, slot)| matches!(slot, State::Empty));
        let number = free.map(|(number, _)| SlotNumber(number)).ok_or(ChangeError::SlotsFull)?;
        let slot = Slot::new(self.disk, number, &unlocked.root, credential, stretch, random)?;
        let write = KeyWrite::page(number.page(), &slot);
        self.slots[usize::from(number.0)] = State::Used(slot);
        Ok((number, write))
    }

    /// Takes a slot away. Its credential opens the disk until the returned bytes are destroyed; write
    /// zeros last. A damaged slot can be taken away, too.
    ///
    /// Who has both the credential and a copy of the old bytes keeps the root key.
    ///
    /// # Errors
    /// If the slot is not in use, or the disk could not be opened without it.
    pub fn remove_slot(&mut self, number: SlotNumber) -> Result<Range<u64>, ChangeError> {
        let at = usize::from(number.0);
        let is_only = self.slots.iter().enumerate().all(|(other, slot)| other == at || slot.used().is_none());
        match self.slots.get(at) {
            None | Some(State::Empty) => return Err(ChangeError::NoSlot(number)),
            Some(State::Used(_)) if is_only => return Err(ChangeError::LastSlot(number)),
            Some(State::Used(_) | State::Damaged) => self.slots[at] = State::Empty,
        }
        Ok(range(number.page()))
    }

    /// Makes the next master key, for all seals from now on. Its generation is above that of each
    /// session, so that no generation is used twice when a page was damaged.
    ///
    /// # Errors
    /// If there is no room for it.
    pub fn rotate(
        &mut self,
        unlocked: &mut Unlocked,
        random: &mut impl Random,
    ) -> Result<(Generation, KeyWrite), ChangeError> {
        let free = (FIRST_MASTER..).zip(&mut self.masters).find(|(_, master)| matches!(master, State::Empty));
        let (page, place) = free.ok_or(ChangeError::MastersFull)?;
        let newest = unlocked.newest().0.max(self.sessions.newest_generation());
        let generation = Generation(newest.0 + 1);
        let key = MasterKey::generate(random);
        let master = Master::new(self.disk, page, &unlocked.root, generation, &key);
        let write = KeyWrite::page(page, &master);
        *unlocked.masters.iter_mut().find(|it| it.is_none()).ok_or(ChangeError::MastersFull)? =
            Some((generation, key));
        *place = State::Used(master);
        Ok((generation, write))
    }

    /// Notes a session, which must be durable before its first seal is.
    ///
    /// # Errors
    /// If there is no room for it.
    pub fn add_session(
        &mut self,
        session: Session,
        generation: Generation,
    ) -> Result<(SessionIndex, KeyWrite), ChangeError> {
        let (index, bytes) =
            self.sessions.add(self.disk, session, generation).ok_or(ChangeError::SessionsFull)?;
        let offset = (PAGES_BYTES + sessions::RECORD_BYTES * usize::from(index.0)) as u64;
        Ok((index, KeyWrite { offset, bytes }))
    }

    /// A session, and the generation of the master key that its keys come from. `None` if there is
    /// none of this index, or its record is damaged.
    #[must_use]
    pub fn session(&self, index: SessionIndex) -> Option<(Session, Generation)> {
        self.sessions.get(index)
    }

    /// How many sessions have a number, those with a damaged record too.
    #[must_use]
    pub fn session_count(&self) -> u32 {
        self.sessions.count()
    }

    fn empty(disk: DiskId) -> KeyFile {
        let slots = (0..SLOTS).map(|_| State::Empty).collect();
        let masters = (0..MASTERS).map(|_| State::Empty).collect();
        KeyFile { disk, slots, masters, sessions: Sessions::default() }
    }

    fn unlocked(&self, root: RootKey) -> Result<Unlocked, UnlockError> {
        let mut unlocked = Unlocked::new(root);
        let used = self.masters.iter().filter_map(State::used);
        for (key, master) in unlocked.masters.iter_mut().zip(used) {
            let opened = master.open(&unlocked.root, self.disk);
            *key = opened.map(|opened| (master.generation(), opened));
        }
        if unlocked.masters.iter().all(Option::is_none) { Err(UnlockError::NoMaster) } else { Ok(unlocked) }
    }

    fn damaged_slots(&self) -> Vec<SlotNumber> {
        let slots = (0..).map(SlotNumber).zip(&self.slots);
        slots.filter(|(_, slot)| slot.is_damaged()).map(|(number, _)| number).collect()
    }
}

impl Unlocked {
    fn new(root: RootKey) -> Unlocked {
        Unlocked { root, masters: [const { None }; MASTERS] }
    }

    fn all(&self) -> impl Iterator<Item = (Generation, &MasterKey)> {
        self.masters.iter().flatten().map(|(generation, key)| (*generation, key))
    }

    /// The newest master key, for new seals.
    ///
    /// # Panics
    /// Never: there is one.
    #[must_use]
    pub fn newest(&self) -> (Generation, &MasterKey) {
        self.all().max_by_key(|(generation, _)| *generation).expect("some master key is there")
    }

    /// The master key of a generation, if the file has it.
    #[must_use]
    pub fn master(&self, generation: Generation) -> Option<&MasterKey> {
        self.all().find(|(other, _)| *other == generation).map(|(_, key)| key)
    }
}

impl RootKey {
    fn new(bytes: &[u8; 32]) -> RootKey {
        RootKey(*bytes)
    }

    fn generate(random: &mut impl Random) -> RootKey {
        let mut key = RootKey([0; 32]);
        random.fill(&mut key.0);
        key
    }

    fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl SlotNumber {
    fn page(self) -> u32 {
        FIRST_SLOT + u32::from(self.0)
    }
}

impl KeyWrite {
    fn page(page: u32, content: &(impl IntoBytes + Immutable)) -> KeyWrite {
        KeyWrite { offset: range(page).start, bytes: frame::build(content).to_vec() }
    }
}

impl<T> State<T> {
    fn used(&self) -> Option<&T> {
        match self {
            State::Used(content) => Some(content),
            State::Empty | State::Damaged => None,
        }
    }

    fn is_damaged(&self) -> bool {
        matches!(self, State::Damaged)
    }
}

impl<T> From<Result<T, Fault>> for State<T> {
    fn from(read: Result<T, Fault>) -> State<T> {
        match read {
            Ok(content) => State::Used(content),
            Err(Fault::Empty) => State::Empty,
            Err(Fault::Checksum | Fault::Foreign(_)) => State::Damaged,
        }
    }
}

fn page_of<T: IntoBytes + Immutable>(state: &State<T>) -> Page {
    state.used().map_or([0; PAGE_BYTES], |content| *frame::build(content))
}

fn range(page: u32) -> Range<u64> {
    let start = u64::from(page) * PAGE_BYTES as u64;
    start..start + PAGE_BYTES as u64
}

/// The end of a message: damaged slots might have been the right ones.
fn damage(damaged: &[SlotNumber]) -> String {
    let numbers: Vec<String> = damaged.iter().map(|number| number.0.to_string()).collect();
    if numbers.is_empty() {
        return String::new();
    }
    format!("; key slots that are damaged: {}; restore the key file from a backup", numbers.join(", "))
}
