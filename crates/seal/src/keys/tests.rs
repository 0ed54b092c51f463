#![allow(clippy::unwrap_used, reason = "tests may panic")]

use super::*;
use crate::ciphers::random::Generator;

/// The least that Argon2 takes.
const QUICK: Stretch = Stretch { memory_kib: 8, passes: 1, lanes: 1 };
const PHRASE: Credential<'_> = Credential::Passphrase(b"correct horse");
const FILE: Credential<'_> = Credential::KeyFile(&[0x11; 32]);
const COMMAND: Credential<'_> = Credential::Command(&[0x22; 48]);
const DISK: DiskId = DiskId([0xd1; 16]);

fn random() -> Generator {
    Generator::new(&[0x55; 32])
}

fn created() -> (KeyFile, Unlocked) {
    KeyFile::create(DISK, &PHRASE, QUICK, &mut random()).unwrap()
}

/// The bytes of a file, kept up to date by what its changes say.
struct Medium(Vec<u8>);

impl Medium {
    fn write(&mut self, write: &KeyWrite) {
        let end = usize::try_from(write.offset).unwrap() + write.bytes.len();
        self.0.resize(self.0.len().max(end), 0);
        self.0[end - write.bytes.len()..end].copy_from_slice(&write.bytes);
    }

    fn fill(&mut self, range: &Range<u64>, byte: u8) {
        self.0[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()].fill(byte);
    }

    fn file(&self) -> KeyFile {
        KeyFile::from_bytes(&self.0).unwrap()
    }
}

fn newest(unlocked: &Unlocked) -> (Generation, [u8; 32]) {
    let (generation, key) = unlocked.newest();
    (generation, *key.as_bytes())
}

fn unlock_error(file: &KeyFile, credential: &Credential<'_>) -> String {
    file.unlock(credential).err().unwrap().to_string()
}

fn change_error<T>(changed: Result<T, ChangeError>) -> String {
    changed.err().unwrap().to_string()
}

#[test]
fn every_credential_of_a_slot_opens_the_same_keys() {
    let (mut file, unlocked) = created();
    let mut medium = Medium(file.to_bytes());
    for credential in [FILE, COMMAND] {
        let (_, write) = file.add_slot(&unlocked, &credential, QUICK, &mut random()).unwrap();
        medium.write(&write);
    }
    assert_eq!(medium.0, file.to_bytes(), "the writes make the file");
    for credential in [PHRASE, FILE, COMMAND] {
        assert_eq!(newest(&medium.file().unlock(&credential).unwrap()), newest(&unlocked));
    }
    let used = [CredentialKind::Passphrase, CredentialKind::KeyFile, CredentialKind::Command];
    assert_eq!(medium.file().slots()[..4], [&used.map(SlotState::Used)[..], &[SlotState::Empty]].concat());
}

#[test]
fn wrong_credential_says_so() {
    let (mut file, unlocked) = created();
    let wrong = Credential::Passphrase(b"correct horsf");
    assert_eq!(unlock_error(&file, &wrong), "wrong passphrase: it opens none of 1 key slots");
    assert_eq!(unlock_error(&file, &FILE), "no key slot is for a key file");
    file.add_slot(&unlocked, &FILE, QUICK, &mut random()).unwrap();
    let same_bytes = Credential::Command(&[0x11; 32]);
    assert_eq!(unlock_error(&file, &same_bytes), "no key slot is for a command");
    let other = Credential::KeyFile(&[0x12; 32]);
    assert_eq!(unlock_error(&file, &other), "wrong key file: it opens none of 1 key slots");
}

#[test]
fn credential_that_protects_nothing_is_refused() {
    let create = |credential, stretch| {
        KeyFile::create(DISK, &credential, stretch, &mut random()).err().unwrap().to_string()
    };
    assert_eq!(create(Credential::Passphrase(b""), QUICK), "the passphrase is empty");
    let short = "expected at least 32 random ones, or use a passphrase";
    assert_eq!(create(Credential::KeyFile(&[1; 31]), QUICK), format!("the key file gives 31 bytes; {short}"));
    assert_eq!(create(Credential::Command(b"x"), QUICK), format!("the command gives 1 bytes; {short}"));
    let forbidden = [
        Stretch { memory_kib: 7, ..QUICK },
        Stretch { memory_kib: STRETCH_MEMORY_KIB_MAX + 1, ..QUICK },
        Stretch { passes: 0, ..QUICK },
        Stretch { passes: STRETCH_PASSES_MAX + 1, ..QUICK },
        Stretch { lanes: 0, ..QUICK },
        Stretch { lanes: STRETCH_LANES_MAX + 1, memory_kib: 4096, passes: 1 },
    ];
    for stretch in forbidden {
        assert!(create(PHRASE, stretch).starts_with("cannot stretch a passphrase with"), "{stretch:?}");
    }
}

#[test]
fn slot_that_demands_too_much_work_is_refused_before_it_is_done() {
    let (file, _) = created();
    let bytes = forged(&file.to_bytes(), range(FIRST_SLOT).start + 40, &u32::MAX.to_le_bytes());
    let error = unlock_error(&KeyFile::from_bytes(&bytes).unwrap(), &PHRASE);
    assert!(error.contains("4294967295 passes"), "{error}");
}

/// The file with other bytes, and the checksum of their page that goes with them.
fn forged(file: &[u8], offset: u64, bytes: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    let at = usize::try_from(offset).unwrap();
    file[at..at + bytes.len()].copy_from_slice(bytes);
    let page = &mut file[at / PAGE_BYTES * PAGE_BYTES..][..PAGE_BYTES];
    let (body, sum) = page.split_at_mut(PAGE_BYTES - 4);
    sum.copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
    file
}

#[test]
fn removed_slot_opens_nothing_once_its_bytes_are_destroyed() {
    let (mut file, unlocked) = created();
    let (number, _) = file.add_slot(&unlocked, &FILE, QUICK, &mut random()).unwrap();
    let mut medium = Medium(file.to_bytes());
    let gone = file.remove_slot(number).unwrap();
    assert_eq!(gone, range(number.page()));
    assert!(medium.file().unlock(&FILE).is_ok(), "it opens until then");
    medium.fill(&gone, 0xff);
    let half_way = medium.file();
    assert_eq!(half_way.damaged(), std::slice::from_ref(&gone));
    assert_eq!(half_way.slots()[1], SlotState::Damaged);
    let error =
        "no key slot is for a key file; key slots that are damaged: 1; restore the key file from a backup";
    assert_eq!(unlock_error(&half_way, &FILE), error);
    assert!(half_way.unlock(&PHRASE).is_ok(), "the others are not hindered");
    medium.fill(&gone, 0);
    assert_eq!(medium.0, file.to_bytes());
    assert_eq!(medium.file().damaged(), []);
    assert_eq!(unlock_error(&medium.file(), &FILE), "no key slot is for a key file");
}

#[test]
fn last_slot_is_not_removed_and_neither_is_none() {
    let (mut file, unlocked) = created();
    let last = "key slot 0 is the last one, and the disk would be lost with it; add another first";
    assert_eq!(change_error(file.remove_slot(SlotNumber(0))), last);
    for none in [1, 7, 8, 255] {
        assert_eq!(
            change_error(file.remove_slot(SlotNumber(none))),
            ChangeError::NoSlot(SlotNumber(none)).to_string()
        );
    }
    file.add_slot(&unlocked, &FILE, QUICK, &mut random()).unwrap();
    file.remove_slot(SlotNumber(0)).unwrap();
    assert_eq!(change_error(file.remove_slot(SlotNumber(1))), last.replace('0', "1"));
}

#[test]
fn damaged_slot_can_be_removed_but_is_not_taken_for_another_one_that_opens() {
    let (mut file, unlocked) = created();
    file.add_slot(&unlocked, &FILE, QUICK, &mut random()).unwrap();
    let mut medium = Medium(file.to_bytes());
    medium.fill(&range(FIRST_SLOT), 0x55);
    let mut file = medium.file();
    assert!(matches!(file.remove_slot(SlotNumber(1)), Err(ChangeError::LastSlot(_))));
    assert_eq!(file.remove_slot(SlotNumber(0)), Ok(range(FIRST_SLOT)));
}

#[test]
fn full_slots_take_no_more() {
    let (mut file, unlocked) = created();
    for number in 1..SLOTS {
        let (added, _) = file.add_slot(&unlocked, &FILE, QUICK, &mut random()).unwrap();
        assert_eq!(usize::from(added.0), number);
    }
    let error = change_error(file.add_slot(&unlocked, &FILE, QUICK, &mut random()));
    assert_eq!(error, "all 8 key slots are in use; remove one first");
}

#[test]
fn rotation_adds_a_key_and_keeps_those_before_it() {
    let (mut file, mut unlocked) = created();
    let first = newest(&unlocked).1;
    let mut medium = Medium(file.to_bytes());
    let mut source = Generator::new(&[0x66; 32]);
    let (generation, write) = file.rotate(&mut unlocked, &mut source).unwrap();
    medium.write(&write);
    assert_eq!(medium.0, file.to_bytes());
    let opened = medium.file().unlock(&PHRASE).unwrap();
    assert_eq!(generation, Generation(1));
    assert_eq!(newest(&opened), newest(&unlocked));
    assert_ne!(newest(&opened).1, first);
    assert_eq!(opened.master(Generation(0)).unwrap().as_bytes(), &first);
    assert!(opened.master(Generation(2)).is_none());
}

#[test]
fn full_masters_take_no_more() {
    let (mut file, mut unlocked) = created();
    for generation in 1..MASTERS {
        let (added, _) = file.rotate(&mut unlocked, &mut random()).unwrap();
        assert_eq!(added.0 as usize, generation);
    }
    let error = change_error(file.rotate(&mut unlocked, &mut random()));
    assert_eq!(
        error,
        "the key file holds 64 master keys, which is the limit; export the disk, and make a new one of the image"
    );
}

/// A generation whose page was damaged may come back from a backup.
#[test]
fn rotation_after_damage_does_not_use_a_generation_twice() {
    let (mut file, mut unlocked) = created();
    let (generation, _) = file.rotate(&mut unlocked, &mut random()).unwrap();
    file.add_session(Session([1; 16]), generation).unwrap();
    let mut medium = Medium(file.to_bytes());
    medium.fill(&range(FIRST_MASTER + 1), 0x33);
    let mut file = medium.file();
    let mut unlocked = file.unlock(&PHRASE).unwrap();
    assert_eq!(newest(&unlocked).0, Generation(0));
    let (generation, write) = file.rotate(&mut unlocked, &mut random()).unwrap();
    assert_eq!(generation, Generation(2));
    assert_eq!(write.offset, range(FIRST_MASTER + 2).start, "the damaged page is left alone");
}

#[test]
fn file_without_a_master_key_is_refused() {
    let (file, _) = created();
    let mut medium = Medium(file.to_bytes());
    medium.fill(&range(FIRST_MASTER), 0);
    let error = "the key file has no master key that its root key opens; restore it from a backup";
    assert_eq!(unlock_error(&medium.file(), &PHRASE), error);
}

#[test]
fn master_key_below_another_root_key_is_not_opened() {
    let other = KeyFile::create(DISK, &PHRASE, QUICK, &mut Generator::new(&[0x99; 32])).unwrap().0;
    let mut mixed = Medium(created().0.to_bytes());
    let at = FIRST_MASTER as usize * PAGE_BYTES;
    mixed.0[at..at + PAGE_BYTES].copy_from_slice(&other.to_bytes()[at..at + PAGE_BYTES]);
    assert_eq!(mixed.file().unlock(&PHRASE).err(), Some(UnlockError::NoMaster));
}

#[test]
fn every_flipped_byte_of_a_page_in_use_is_noticed() {
    let (mut file, unlocked) = created();
    file.add_slot(&unlocked, &FILE, QUICK, &mut random()).unwrap();
    let bytes = file.to_bytes();
    for page in [0, FIRST_SLOT + 1, FIRST_MASTER] {
        for at in (0..PAGE_BYTES).filter(|at| *at < 160 || at % 61 == 0 || *at >= PAGE_BYTES - 4) {
            let mut bytes = bytes.clone();
            bytes[page as usize * PAGE_BYTES + at] ^= 1 << (at % 8);
            match KeyFile::from_bytes(&bytes) {
                Ok(file) => assert_eq!((page != 0, file.damaged()), (true, vec![range(page)]), "byte {at}"),
                Err(error) => {
                    assert_eq!((page, error), (0, BadKeyFile::Header { field: "checksum" }), "byte {at}")
                }
            }
        }
    }
}

/// A checksum stops accidents. Who can compute it is stopped by the wrap.
#[test]
fn slot_with_a_right_checksum_but_other_bytes_does_not_open() {
    let (mut file, unlocked) = created();
    file.add_slot(&unlocked, &FILE, QUICK, &mut random()).unwrap();
    let bytes = file.to_bytes();
    let wrong = "wrong key file: it opens none of 1 key slots";
    let none = "the key file has no master key that its root key opens; restore it from a backup";
    let slot = (33..128).filter(|at| !(36..48).contains(at)).map(|at| (FIRST_SLOT + 1, at, wrong));
    for (page, at, error) in slot.chain((32..96).map(|at| (FIRST_MASTER, at, none))) {
        let offset = range(page).start + at;
        let flipped = [bytes[usize::try_from(offset).unwrap()] ^ 0x10];
        let file = KeyFile::from_bytes(&forged(&bytes, offset, &flipped)).unwrap();
        assert_eq!(unlock_error(&file, &FILE), error, "page {page}, byte {at}");
    }
}

#[test]
fn page_of_another_place_disk_version_or_kind_is_damaged() {
    let (file, _) = created();
    let bytes = file.to_bytes();
    let start = range(FIRST_SLOT).start;
    for (field, at, other) in
        [("magic", 0, 0), ("version", 8, 2), ("number", 12, 2), ("disk", 16, 0), ("kind", 32, 4)]
    {
        let file = KeyFile::from_bytes(&forged(&bytes, start + at, &[other])).unwrap();
        assert_eq!(file.slots()[0], SlotState::Damaged, "{field}");
    }
    for (field, at, other) in [("magic", 0, 0), ("version", 8, 2), ("number", 12, 2)] {
        let error = KeyFile::from_bytes(&forged(&bytes, at, &[other])).err();
        assert_eq!(error, Some(BadKeyFile::Header { field }));
    }
}

#[test]
fn file_that_is_cut_short_is_refused() {
    let (file, _) = created();
    let bytes = file.to_bytes();
    for length in [0, 1, PAGE_BYTES, PAGES_BYTES - 1] {
        let error = KeyFile::from_bytes(&bytes[..length]).err();
        assert_eq!(error, Some(BadKeyFile::Length { found: length }));
    }
    let zeros = vec![0; PAGES_BYTES];
    assert_eq!(KeyFile::from_bytes(&zeros).err(), Some(BadKeyFile::Header { field: "magic" }));
}

#[test]
fn sessions_are_found_by_index_and_damage_hits_one_alone() {
    let (mut file, _) = created();
    let mut medium = Medium(file.to_bytes());
    for number in 0..5 {
        let (index, write) = file.add_session(Session([number; 16]), Generation(0)).unwrap();
        assert_eq!(index, SessionIndex(number.into()));
        medium.write(&write);
    }
    assert_eq!(medium.0, file.to_bytes());
    let with_zeros = [&medium.0[..], &[0; 5000]].concat();
    let (index, _) =
        KeyFile::from_bytes(&with_zeros).unwrap().add_session(Session([5; 16]), Generation(0)).unwrap();
    assert_eq!(index, SessionIndex(5), "zeros behind the last session are free");
    for bit in 0..8 * sessions::RECORD_BYTES {
        let mut damaged = medium.0.clone();
        damaged[PAGES_BYTES + 3 * sessions::RECORD_BYTES + bit / 8] ^= 1 << (bit % 8);
        let damaged = KeyFile::from_bytes(&damaged).unwrap();
        let found: Vec<bool> = (0..6).map(|index| damaged.session(SessionIndex(index)).is_some()).collect();
        assert_eq!(found, [true, true, true, false, true, false], "bit {bit}");
    }
}

/// A record that a crash cut short was never used, but its index is not given out again.
#[test]
fn torn_session_stays_taken() {
    let (mut file, _) = created();
    file.add_session(Session([1; 16]), Generation(0)).unwrap();
    let mut medium = Medium(file.to_bytes());
    let (_, mut write) = file.add_session(Session([2; 16]), Generation(0)).unwrap();
    write.bytes.truncate(10);
    medium.write(&write);
    medium.0.resize(PAGES_BYTES + 2 * sessions::RECORD_BYTES, 0);
    let mut again = medium.file();
    assert_eq!(again.session(SessionIndex(1)), None);
    let (index, write) = again.add_session(Session([3; 16]), Generation(0)).unwrap();
    assert_eq!(index, SessionIndex(2));
    medium.write(&write);
    let read = medium.file();
    assert_eq!(read.session(index), Some((Session([3; 16]), Generation(0))));
    assert_eq!(KeyFile::from_bytes(&read.to_bytes()).unwrap().session(SessionIndex(1)), None);
}

#[test]
fn sessions_end_at_the_limit_of_their_index() {
    let (mut file, _) = created();
    for _ in 0..SESSIONS_MAX {
        file.add_session(Session([1; 16]), Generation(0)).unwrap();
    }
    let error = change_error(file.add_session(Session([1; 16]), Generation(0)));
    assert_eq!(error, "the key file holds 65536 sessions, which is the limit");
    assert!(KeyFile::from_bytes(&file.to_bytes()).unwrap().session(SessionIndex(u16::MAX)).is_some());
}

#[test]
fn destroying_the_secrets_leaves_nothing_that_opens() {
    let (file, _) = created();
    let mut medium = Medium(file.to_bytes());
    medium.fill(&(range(FIRST_SLOT).start..PAGES_BYTES as u64), 0);
    assert_eq!(unlock_error(&medium.file(), &PHRASE), "no key slot is for a passphrase");
}

#[test]
fn whatever_bytes_there_are_they_are_read_or_refused() {
    let mut source = random();
    for _ in 0..50 {
        let mut bytes = created().0.to_bytes();
        let mut place = [0; 8];
        source.fill(&mut place);
        let at = usize::from_le_bytes(place) % (bytes.len() - 300);
        source.fill(&mut bytes[at..at + 300]);
        if let Ok(file) = KeyFile::from_bytes(&bytes) {
            let _ = file.unlock(&FILE);
        }
    }
}
