//! Key files after a crash at any write; credentials; opened keys.

use super::*;
use crate::disk::{Access, CreateOptions, DiskDir, StoreKind, VersionsOptions};
use quietus_core::base::units::{Block, Epoch, Extent, Pos, Session, Slot};
use quietus_core::base::zeros::is_zeros;
use quietus_core::erase::policy::Policy;
use quietus_core::media::medium::{Capabilities, Medium};
use quietus_core::media::sealing::{Context, Sealer as _};
use quietus_seal::keys::{Credential, PAGE_BYTES, SlotState};
use rustix::process::DumpableBehavior;
use std::cell::RefCell;
use std::os::unix::fs::PermissionsExt;

const DISK: DiskId = DiskId([7; 16]);
const ONE: Credential<'_> = Credential::KeyFile(&[1; 32]);
const OTHER: Credential<'_> = Credential::Command(&[2; 40]);
const SECTOR_BYTES: usize = 512;

/// Requests to the medium.
#[derive(Clone)]
enum Act {
    Write(usize, Vec<u8>),
    Sync,
}

/// A medium in memory that remembers what it was asked.
struct Traced {
    bytes: RefCell<Vec<u8>>,
    acts: RefCell<Vec<Act>>,
}

impl Medium for Traced {
    fn size(&self) -> u64 {
        self.bytes.borrow().len() as u64
    }

    fn read(&self, pos: Pos, into: &mut [u8]) -> Result<(), MediumError> {
        into.copy_from_slice(&self.bytes.borrow()[pos.0 as usize..][..into.len()]);
        Ok(())
    }

    fn write(&self, pos: Pos, from: &[u8], durable: bool) -> Result<(), MediumError> {
        let at = pos.0 as usize;
        self.bytes.borrow_mut()[at..at + from.len()].copy_from_slice(from);
        self.acts.borrow_mut().push(Act::Write(at, from.to_vec()));
        if durable { self.sync() } else { Ok(()) }
    }

    fn sync(&self) -> Result<(), MediumError> {
        self.acts.borrow_mut().push(Act::Sync);
        Ok(())
    }

    fn punch(&self, _: Extent<Pos>) -> Result<(), MediumError> {
        unreachable!("keys are overwritten")
    }

    fn zero(&self, _: Extent<Pos>) -> Result<(), MediumError> {
        unreachable!("keys are overwritten")
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
}

fn on(bytes: Vec<u8>) -> StoredKeys<Traced> {
    let medium = Traced { bytes: RefCell::new(bytes), acts: RefCell::default() };
    StoredKeys::read(medium, Path::new("keys"), DISK).expect("a key file")
}

fn random() -> Generator {
    Generator::new(&[9; SEED_BYTES])
}

/// The bytes of a key file that `ONE` opens, with room for sessions.
fn new() -> Vec<u8> {
    let (file, _) = KeyFile::create(DISK, &ONE, Stretch::default(), &mut random()).expect("keys");
    let mut bytes = file.to_bytes();
    bytes.resize(bytes.len() + PAGE_BYTES, 0);
    bytes
}

/// As `new`, and `OTHER` opens slot 1.
fn with_two() -> Vec<u8> {
    let mut stored = on(new());
    let unlocked = stored.unlock(&ONE).expect("it opens");
    stored.add(&unlocked, &OTHER, Stretch::default(), &mut random()).expect("a slot");
    stored.medium.bytes.into_inner()
}

/// Every state that a crash can leave while `change` works on `before`: what was synced, and of the one write that
/// was not, each combination of its sectors. With it the number of writes that were synced.
fn crashes(before: &[u8], change: impl FnOnce(&mut StoredKeys<Traced>)) -> Vec<(usize, Vec<u8>)> {
    let mut stored = on(before.to_vec());
    change(&mut stored);
    let (mut synced, mut states, mut durable) = (0, Vec::new(), before.to_vec());
    let acts = stored.medium.acts.into_inner();
    assert!(acts.len().is_multiple_of(2) && !acts.is_empty(), "each write is followed by a sync");
    for pair in acts.chunks(2) {
        let [Act::Write(at, bytes), Act::Sync] = pair else { panic!("two writes without a sync") };
        let sectors = bytes.len().div_ceil(SECTOR_BYTES);
        for some in 0..1_usize << sectors {
            let mut state = durable.clone();
            for (n, sector) in bytes.chunks(SECTOR_BYTES).enumerate().filter(|(n, _)| some >> n & 1 == 1) {
                state[at + n * SECTOR_BYTES..][..sector.len()].copy_from_slice(sector);
            }
            states.push((synced, state));
        }
        durable[*at..at + bytes.len()].copy_from_slice(bytes);
        synced += 1;
    }
    states.push((synced, durable));
    states
}

/// Where two states differ, in pages.
fn pages_changed(one: &[u8], other: &[u8]) -> Vec<usize> {
    let pages = one.chunks(PAGE_BYTES).zip(other.chunks(PAGE_BYTES));
    pages.enumerate().filter(|(_, (one, other))| one != other).map(|(page, _)| page).collect()
}

fn newest(stored: &StoredKeys<Traced>) -> Generation {
    stored.unlock(&ONE).expect("it opens").newest().0
}

#[test]
fn a_crash_while_a_slot_is_added_leaves_it_or_not_and_all_else_as_it_was() {
    let before = new();
    let states = crashes(&before, |stored| {
        let unlocked = stored.unlock(&ONE).expect("it opens");
        stored.add(&unlocked, &OTHER, Stretch::default(), &mut random()).expect("a slot");
    });
    for (synced, state) in &states {
        assert!(pages_changed(&before, state).iter().all(|page| *page == 2));
        let mut stored = on(state.clone());
        assert!(stored.unlock(&ONE).is_ok() && (*synced == 0 || stored.unlock(&OTHER).is_ok()));
        // Whatever is there can be taken away.
        if stored.file().slots()[1] != SlotState::Empty {
            stored.remove(SlotNumber(1), &ONE, &clear(), &mut random()).expect("it is removed");
        }
        assert_eq!(stored.medium.bytes.into_inner(), before);
    }
}

fn clear() -> Policy {
    "clear".parse().expect("a policy")
}

#[test]
fn a_removed_slot_is_overwritten_by_every_pass_and_a_crash_never_hinders_the_others() {
    let before = with_two();
    for (policy, writes) in [("clear", 1), ("purge-2", 2), ("dod-3", 4)] {
        let policy: Policy = policy.parse().expect("a policy");
        let remove = |stored: &mut StoredKeys<Traced>| {
            stored.remove(SlotNumber(0), &OTHER, &policy, &mut random()).expect("it is removed");
        };
        let states = crashes(&before, remove);
        assert_eq!(states.last().map(|(synced, _)| *synced), Some(writes));
        for (synced, state) in &states {
            assert!(pages_changed(&before, state).iter().all(|page| *page == 1));
            let mut stored = on(state.clone());
            assert!(stored.unlock(&OTHER).is_ok());
            assert!(*synced == 0 || stored.unlock(&ONE).is_err(), "{synced} passes, and it opens");
            if stored.file().slots()[0] != SlotState::Empty {
                remove(&mut stored);
            }
            let after = stored.medium.bytes.into_inner();
            assert!(is_zeros(&after[PAGE_BYTES..2 * PAGE_BYTES]));
        }
    }
}

#[test]
fn a_slot_goes_only_if_the_credential_at_hand_opens_another() {
    let before = with_two();
    let refused = |number, credential: &Credential<'_>| {
        let mut stored = on(before.clone());
        let error = stored.remove(SlotNumber(number), credential, &clear(), &mut random());
        assert_eq!(stored.medium.bytes.into_inner(), before);
        error.expect_err("it is refused").to_string()
    };
    assert!(
        refused(0, &ONE).contains("key slot 0 was not removed: the credential given opens no other slot")
    );
    assert!(refused(1, &Credential::KeyFile(&[3; 32])).contains("opens no other slot"));
    assert!(refused(5, &ONE).contains("key slot 5 is not in use"));
    let mut last = on(new());
    let error = last.remove(SlotNumber(0), &ONE, &clear(), &mut random()).expect_err("it is refused");
    assert!(error.to_string().contains("is the last one"), "{error}");
}

#[test]
fn a_credential_has_one_slot() {
    let before = with_two();
    for credential in [&ONE, &OTHER] {
        let mut stored = on(before.clone());
        let unlocked = stored.unlock(&ONE).expect("it opens");
        let error = stored.add(&unlocked, credential, Stretch::default(), &mut random());
        assert!(error.expect_err("it is refused").to_string().contains("already opens the disk"));
        assert_eq!(stored.medium.bytes.into_inner(), before);
    }
}

#[test]
fn a_crash_while_keys_rotate_leaves_the_old_newest_key_or_the_new_one() {
    let before = new();
    let states = crashes(&before, |stored| {
        let mut unlocked = stored.unlock(&ONE).expect("it opens");
        assert_eq!(stored.rotate(&mut unlocked, &mut random()).expect("a key"), Generation(1));
    });
    for (synced, state) in &states {
        assert!(pages_changed(&before, state).len() <= 1);
        let mut stored = on(state.clone());
        let newest = newest(&stored);
        assert!(newest <= Generation(1) && (*synced == 0 || newest == Generation(1)));
        let mut unlocked = stored.unlock(&ONE).expect("it opens");
        let next = stored.rotate(&mut unlocked, &mut random()).expect("a key");
        assert_eq!(next, Generation(newest.0 + 1));
        assert!(unlocked.master(Generation(0)).is_some());
    }
}

#[test]
fn a_session_is_durable_once_it_is_drawn_and_never_drawn_twice() {
    let mut drawn = None;
    let states = crashes(&new(), |stored| {
        let unlocked = stored.unlock(&ONE).expect("it opens");
        drawn = stored.draw_session(&unlocked, &mut random()).ok();
    });
    let (index, session) = drawn.expect("a session");
    for (synced, state) in &states {
        let mut stored = on(state.clone());
        let there = stored.file().session(index);
        assert!(*synced == 0 || there == Some((session, Generation(0))));
        let unlocked = stored.unlock(&ONE).expect("it opens");
        let mut other = Generator::new(&[10; SEED_BYTES]);
        let (next, _) = stored.draw_session(&unlocked, &mut other).expect("a session");
        assert_eq!(next.0, index.0 + u16::from(there.is_some()));
    }
}

#[test]
fn keys_of_another_disk_are_refused() {
    let medium = Traced { bytes: RefCell::new(new()), acts: RefCell::default() };
    let error = StoredKeys::read(medium, Path::new("keys"), DiskId([8; 16])).err().expect("it is refused");
    assert_eq!(
        error.to_string(),
        "keys: the key file belongs to another disk; restore this disk's key file from a backup"
    );
}

/// A file `name` in `dir`, for its owner alone.
fn private(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, bytes).expect("a file");
    mode(&path, 0o600);
    path
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
}

fn refused(source: &Source) -> String {
    source.read("disk", Purpose::Open).err().expect("it is refused").to_string()
}

#[test]
fn secrets_come_as_they_are_and_only_a_passphrase_loses_its_line_end() {
    let dir = tempfile::tempdir().expect("a directory");
    for (text, passphrase) in
        [("a b\n", "a b"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("a\r", "a\r"), ("a", "a"), ("\n", "")]
    {
        let path = private(dir.path(), "secret", text.as_bytes());
        let of = |source: Source| {
            let secret = source.read("disk", Purpose::Open).expect("a secret");
            match secret.credential() {
                Credential::Passphrase(bytes) => (1, bytes.to_vec()),
                Credential::KeyFile(bytes) => (2, bytes.to_vec()),
                Credential::Command(bytes) => (3, bytes.to_vec()),
            }
        };
        assert_eq!(of(Source::PassphraseFile(path.clone())), (1, passphrase.into()));
        assert_eq!(of(Source::KeyFile(path.clone())), (2, text.into()));
        assert_eq!(of(Source::Command(format!("cat {}", path.display()))), (3, text.into()));
    }
}

#[test]
fn a_secret_that_every_user_can_read_or_change_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = private(dir.path(), "secret", &[5; 32]);
    for (bits, is_open) in [(0o400, false), (0o660, false), (0o601, false), (0o604, true), (0o602, true)] {
        mode(&path, bits);
        for source in [Source::KeyFile(path.clone()), Source::PassphraseFile(path.clone())] {
            let read = source.read("disk", Purpose::Open);
            assert_eq!(read.is_err(), is_open, "{bits:o}");
        }
    }
    assert!(refused(&Source::KeyFile(path)).contains("(mode 0602); use `chmod o-rw"));
}

#[test]
fn a_source_without_a_secret_says_why() {
    let dir = tempfile::tempdir().expect("a directory");
    let limit = private(dir.path(), "limit", &[5; SECRET_BYTES_MAX]);
    assert!(Source::KeyFile(limit).read("disk", Purpose::Open).is_ok());
    let long = private(dir.path(), "long", &[5; SECRET_BYTES_MAX + 1]);
    for (source, what) in [
        (Source::KeyFile(long), "more than 16384 bytes"),
        (Source::KeyFile(dir.path().join("none")), "none: the credential does not exist"),
        (Source::PassphraseFile(dir.path().into()), "the credential is a directory"),
        (Source::Command("echo half; exit 3".into()), "failed (exit status: 3)"),
        (Source::Command("kill -9 $$".into()), "failed (signal: 9"),
        (Source::Command("yes".into()), "gives no key (more than 16384 bytes"),
    ] {
        let error = refused(&source);
        assert!(error.contains(what), "{error}");
    }
}

/// A disk with keys, which the file `key` beside it opens.
fn disk() -> (tempfile::TempDir, PathBuf, Source) {
    let dir = tempfile::tempdir().expect("a directory");
    let source = Source::KeyFile(private(dir.path(), "key", &[4; 32]));
    let versions = VersionsOptions { source: Some(source.clone()), ..VersionsOptions::default() };
    let options = CreateOptions {
        size: Some(1 << 20),
        store: StoreKind::Versions,
        policy: "clear".into(),
        versions,
        ..CreateOptions::default()
    };
    let path = dir.path().join("disk");
    DiskDir::create(&path, &options).expect("a disk");
    (dir, path, source)
}

fn context() -> Context {
    Context { block: Block(3), born: Epoch(1), slot: Slot(5) }
}

#[test]
fn every_opening_has_a_session_of_its_own_and_opens_what_all_before_it_sealed() {
    let (_dir, path, source) = disk();
    let mut sealed = Vec::new();
    for number in 0..3_u16 {
        let dir = DiskDir::open(&path).expect("it opens");
        let mut keys = Keys::unlock(&file_of(&dir), &source).expect("it opens");
        assert_eq!(keys.session(), Some(SessionIndex(2 * number)));
        let index = keys.draw_session().expect("another one");
        // From the next opening on another key seals.
        assert_eq!(keys.rotate().expect("a key"), Generation(u32::from(number) + 1));
        let mut data = vec![number as u8; 4096];
        let sealer = keys.into_sealer(Seal::RandomKey).expect("a session");
        let sealing = sealer.close(&context(), &mut data).expect("a block");
        assert_eq!(sealing.session, Session(index.0));
        sealed.push((data, sealing));
    }
    let dir = DiskDir::open_with(&path, Access::ReadOnly, &mut |_, _| true).expect("it opens");
    let keys = Keys::unlock(&file_of(&dir), &source).expect("it opens");
    assert_eq!(keys.session(), None, "nothing is sealed on a disk that is read only");
    let sessions = (0..6).filter_map(|index| keys.stored.file().session(SessionIndex(index)));
    let drawn: std::collections::HashSet<quietus_seal::Session> =
        sessions.map(|(session, _)| session).collect();
    assert_eq!(drawn.len(), 6, "no two sessions are the same");
    let sealer = keys.into_sealer(Seal::RandomKey).expect("keys");
    for (number, (data, sealing)) in sealed.iter_mut().enumerate() {
        sealer.open(&context(), sealing, data).expect("it is authentic");
        assert!(data.iter().all(|byte| *byte == number as u8));
    }
    assert!(sealer.close(&context(), &mut [0; 4096]).is_err());
}

#[test]
fn a_process_with_open_keys_makes_no_core_dump() {
    let (_dir, path, source) = disk();
    let dir = DiskDir::open(&path).expect("it opens");
    let _keys = Keys::unlock(&file_of(&dir), &source).expect("it opens");
    assert_eq!(rustix::process::dumpable_behavior().ok(), Some(DumpableBehavior::NotDumpable));
    assert_eq!(rustix::process::getrlimit(rustix::process::Resource::Core).current, Some(0));
}

#[test]
fn a_person_is_not_asked_for_a_passphrase_that_opens_nothing() {
    let (_dir, path, _) = disk();
    let dir = DiskDir::open(&path).expect("it opens");
    let error = Keys::unlock(&file_of(&dir), &Source::Prompt).err().expect("it is refused").to_string();
    assert!(error.contains("no key slot takes a passphrase, only: key file"), "{error}");
}

/// The key file of a disk that has one.
fn file_of(dir: &DiskDir) -> KeyFileOf {
    dir.key_file().expect("it has keys")
}
