//! Slots, each of which wraps the root key for one credential; and the master keys, which the root
//! key wraps.

use super::credential::{BadCredential, Credential, CredentialKind, Stretch};
use super::frame::{self, Fault, Head, Page, PageKind};
use super::{RootKey, SlotNumber};
use crate::ciphers::mac::derive;
use crate::ciphers::random::Random;
use crate::ciphers::siv;
use crate::ciphers::siv::Siv;
use crate::sealer::MasterKey;
use crate::units::{DiskId, Generation};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};
use zeroize::Zeroizing;

/// A wrapped key of 32 bytes.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Wrapped {
    tag: [u8; 16],
    key: [u8; 32],
}

impl Wrapped {
    fn new(keys: &Siv, header: &[u8], key: &[u8; 32]) -> Wrapped {
        let mut key = *key;
        Wrapped { tag: keys.seal(header, &mut key), key }
    }

    fn open(&self, keys: &Siv, header: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
        let mut key = Zeroizing::new(self.key);
        keys.open(header, &mut *key, &self.tag).is_ok().then_some(key)
    }
}

/// The fields of a slot before the wrapped key.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct SlotHead {
    head: Head,
    kind: u8,
    zeros: [u8; 3],
    memory_kib: U32,
    passes: U32,
    lanes: U32,
    salt: [u8; 32],
}

/// A slot: the root key, wrapped for one credential.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Slot {
    head: SlotHead,
    root: Wrapped,
}

/// The fields of a master key's page before the wrapped key.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct MasterHead {
    head: Head,
    generation: U32,
    zeros: [u8; 12],
}

/// A master key, wrapped by the root key.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Master {
    head: MasterHead,
    key: Wrapped,
}

const _: () = assert!(size_of::<SlotHead>() == 80 && size_of::<Slot>() == 128);
const _: () = assert!(size_of::<MasterHead>() == 48 && size_of::<Master>() == 96);

impl Slot {
    pub(super) fn new(
        disk: DiskId,
        number: SlotNumber,
        root: &RootKey,
        credential: &Credential<'_>,
        stretch: Stretch,
        random: &mut impl Random,
    ) -> Result<Slot, BadCredential> {
        let mut salt = [0; 32];
        random.fill(&mut salt);
        let keys = credential.keys(&salt, stretch)?;
        let stretch = match credential.kind() {
            CredentialKind::Passphrase => stretch,
            CredentialKind::KeyFile | CredentialKind::Command => {
                Stretch { memory_kib: 0, passes: 0, lanes: 0 }
            }
        };
        let head = SlotHead {
            head: Head::new(PageKind::Slot, number.page(), disk),
            kind: credential.kind().number(),
            zeros: [0; 3],
            memory_kib: stretch.memory_kib.into(),
            passes: stretch.passes.into(),
            lanes: stretch.lanes.into(),
            salt,
        };
        let root = Wrapped::new(&keys, head.as_bytes(), root.as_bytes());
        Ok(Slot { head, root })
    }

    /// The slot of a page, if the page has one of a known kind.
    pub(super) fn from_page(page: &Page, number: SlotNumber, disk: DiskId) -> Result<Slot, Fault> {
        frame::check(page, PageKind::Slot, number.page(), Some(disk))?;
        let (slot, _) = Slot::read_from_prefix(page).expect("a page is longer than a slot");
        slot.kind().map(|_| slot.clone()).ok_or(Fault::Foreign("kind"))
    }

    pub(super) fn kind(&self) -> Option<CredentialKind> {
        CredentialKind::ALL.into_iter().find(|kind| kind.number() == self.head.kind)
    }

    /// The root key, if the credential is the slot's.
    pub(super) fn open(&self, credential: &Credential<'_>) -> Result<Option<RootKey>, BadCredential> {
        let stretch = Stretch {
            memory_kib: self.head.memory_kib.get(),
            passes: self.head.passes.get(),
            lanes: self.head.lanes.get(),
        };
        let keys = credential.keys(&self.head.salt, stretch)?;
        Ok(self.root.open(&keys, self.head.as_bytes()).map(|key| RootKey::new(&key)))
    }
}

impl Master {
    pub(super) fn new(
        disk: DiskId,
        page: u32,
        root: &RootKey,
        generation: Generation,
        key: &MasterKey,
    ) -> Master {
        let head = MasterHead {
            head: Head::new(PageKind::Master, page, disk),
            generation: generation.0.into(),
            zeros: [0; 12],
        };
        let key = Wrapped::new(&wrapping(root, disk), head.as_bytes(), key.as_bytes());
        Master { head, key }
    }

    pub(super) fn from_page(page: &Page, number: u32, disk: DiskId) -> Result<Master, Fault> {
        frame::check(page, PageKind::Master, number, Some(disk))?;
        let (master, _) = Master::read_from_prefix(page).expect("a page is longer than a wrapped key");
        Ok(master)
    }

    pub(super) fn generation(&self) -> Generation {
        Generation(self.head.generation.get())
    }

    pub(super) fn open(&self, root: &RootKey, disk: DiskId) -> Option<MasterKey> {
        self.key.open(&wrapping(root, disk), self.head.as_bytes()).map(|key| MasterKey::new(&key))
    }
}

/// The keys that wrap master keys.
fn wrapping(root: &RootKey, disk: DiskId) -> Siv {
    Siv::new(&derive::<{ siv::KEY_BYTES }>(&[root.as_bytes()], &disk.0, &[b"quietus master key 1"]))
}
