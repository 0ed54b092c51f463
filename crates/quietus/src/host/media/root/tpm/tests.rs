//! A TPM in software: `swtpm`, which `lab/setup test` installs.

use super::*;
use quietus_core::base::units::{Extent, Pos};
use quietus_core::media::medium::Medium;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;
use tempfile::TempDir;

const FIRST: u32 = 0x0180_0150;
/// Where the slots lie.
const SLOTS: [Pos; 2] = [Pos(4096), Pos(8192)];

/// A TPM whose state outlives its process.
struct Swtpm {
    dir: TempDir,
    process: Child,
}

impl Swtpm {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let process = Self::process(dir.path());
        Self { dir, process }
    }

    fn process(dir: &Path) -> Child {
        let socket = dir.join("socket");
        let _ = std::fs::remove_file(&socket);
        let process = Command::new("swtpm")
            .args(["socket", "--tpm2", "--flags", "not-need-init,startup-clear"])
            .arg("--tpmstate")
            .arg(format!("dir={}", dir.display()))
            .arg("--server")
            .arg(format!("type=unixio,path={}", socket.display()))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("swtpm is installed: see lab/setup");
        let begun = Instant::now();
        // A socket is there before it takes connections.
        while UnixStream::connect(&socket).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "swtpm takes connections");
            sleep(Duration::from_millis(5));
        }
        process
    }

    /// Cuts the power, and starts it again with what it has stored.
    fn restart(&mut self) {
        self.stop();
        self.process = Self::process(self.dir.path());
    }

    fn stop(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }

    fn place(&self, index: u32) -> TpmPlace {
        TpmPlace { way: TpmWay::Socket(self.dir.path().join("socket")), index, auth: None }
    }

    /// A TPM to give commands to.
    fn tpm(&self) -> Tpm {
        Tpm {
            carrier: device::open(&self.place(FIRST).way, FIRST, false).expect("a TPM"),
            auth: Zeroizing::default(),
        }
    }
}

impl Drop for Swtpm {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The label of a disk.
fn label(disk: u8) -> [u8; LABEL_BYTES] {
    let mut label = [0x4c; LABEL_BYTES];
    label[UUID].fill(disk);
    label
}

/// A sector with the content of a slot.
fn sector(content: u8) -> [u8; 512] {
    let mut sector = [0; 512];
    sector[..SLOT_BYTES].fill(content);
    sector
}

/// Makes the root of a disk as the store does.
fn made(place: &TpmPlace, disk: u8) -> TpmMedium {
    let medium = TpmMedium::create(place).expect("two new indices");
    medium.write(Pos(0), &label(disk), true).expect("the label");
    medium.write(SLOTS[1], &sector(1), true).expect("the first slot");
    medium.keep();
    medium
}

fn slots(medium: &TpmMedium) -> [u8; 2] {
    SLOTS.map(|pos| {
        let mut found = [0xee; 512];
        medium.read(pos, &mut found).expect("a read");
        assert_eq!(found, sector(found[0]), "one write at a time");
        found[0]
    })
}

#[test]
fn a_root_in_a_tpm_is_read_again_after_the_power_was_cut_behind_each_write() {
    let mut swtpm = Swtpm::start();
    let place = swtpm.place(FIRST);
    let mut medium = made(&place, 1);
    assert_eq!(slots(&medium), [0, 1]);
    for number in 2..6_u8 {
        let (new, old) = (SLOTS[usize::from(number) % 2], SLOTS[1 - usize::from(number) % 2]);
        medium.write(new, &sector(number), true).expect("the new slot");
        drop(medium);
        swtpm.restart();
        medium = TpmMedium::open(&place, false).expect("it opens");
        let mut both = [number, number - 1];
        both.rotate_left(usize::from(number) % 2);
        assert_eq!(slots(&medium), both);
        medium.overwrite(old, &[0xa5; 4096]).expect("a pass");
        medium.zero(Extent::new(old.0, 4096)).expect("zeros");
        drop(medium);
        swtpm.restart();
        medium = TpmMedium::open(&place, true).expect("it opens");
        let mut one = [number, 0];
        one.rotate_left(usize::from(number) % 2);
        assert_eq!(slots(&medium), one);
        drop(medium);
        medium = TpmMedium::open(&place, false).expect("it opens");
    }
    let mut found = [0; 64];
    medium.read(Pos(0), &mut found).expect("the label");
    assert_eq!((&found[..32], &found[32..]), (&label(1)[..], &[0; 32][..]));
}

#[test]
fn an_index_that_exists_is_not_taken_and_a_disk_that_is_not_made_leaves_none() {
    let swtpm = Swtpm::start();
    drop(made(&swtpm.place(FIRST), 1));
    for index in [FIRST - 1, FIRST, FIRST + 1] {
        let error = TpmMedium::create(&swtpm.place(index)).expect_err("one of the two exists");
        assert!(error.to_string().contains("exists already"), "{error}");
    }
    let draft = TpmMedium::create(&swtpm.place(FIRST + 2)).expect("two new indices");
    draft.write(Pos(0), &label(2), true).expect("the label");
    drop(draft);
    let exist = |index| {
        let found = swtpm.tpm().public(index).expect("an answer");
        found.is_some()
    };
    let found: Vec<_> = (FIRST - 1..FIRST + 4).map(exist).collect();
    assert_eq!(found, [false, true, true, false, false]);
}

#[test]
fn an_index_of_another_size_kind_or_disk_is_refused() {
    let swtpm = Swtpm::start();
    let error = TpmMedium::open(&swtpm.place(FIRST), false).expect_err("there is none");
    assert!(error.to_string().contains("cleared"), "{error}");
    drop(made(&swtpm.place(FIRST), 1));
    drop(made(&swtpm.place(FIRST + 2), 2));
    let error = TpmMedium::open(&swtpm.place(FIRST + 1), false).expect_err("of two disks");
    assert!(error.to_string().contains("two disks"), "{error}");
    let tpm = swtpm.tpm();
    tpm.run(&command::define(b"", FIRST + 4, 40)).expect("an index of 40 bytes");
    drop(tpm);
    let error = TpmMedium::open(&swtpm.place(FIRST + 4), false).expect_err("of another size");
    assert!(error.to_string().contains("40 bytes"), "{error}");

    let place = swtpm.place(FIRST);
    let error = TpmMedium::remove(&place, [2; 16]).expect_err("it is another disk's");
    assert!(error.to_string().contains("another disk"), "{error}");
    TpmMedium::remove(&place, [1; 16]).expect("it is removed");
    assert!(TpmMedium::open(&place, false).is_err());
    drop(TpmMedium::create(&place).expect("there is room again"));
}

#[test]
fn an_index_for_reading_takes_no_write() {
    let swtpm = Swtpm::start();
    drop(made(&swtpm.place(FIRST), 1));
    let medium = TpmMedium::open(&swtpm.place(FIRST), true).expect("it opens");
    let error = medium.write(SLOTS[0], &sector(9), true).expect_err("it is for reading");
    assert!(error.kind == MediumErrorKind::Io && slots(&medium) == [0, 1], "{error}");
}

#[test]
fn the_authorisation_value_of_the_owner_is_read_from_its_file() {
    let swtpm = Swtpm::start();
    let tpm = swtpm.tpm();
    let mut parameters = Vec::new();
    command::sized(&mut parameters, b"owner's secret");
    // TPM2_HierarchyChangeAuth.
    tpm.run(&command::with_auth(0x129, &[command::OWNER], b"", &parameters)).expect("a new value");
    drop(tpm);
    let error = TpmMedium::create(&swtpm.place(FIRST)).expect_err("the value is missing");
    assert!(error.to_string().contains("auth="), "{error}");
    let file = swtpm.dir.path().join("auth");
    std::fs::write(&file, "owner's secret\n").expect("a file");
    let place = TpmPlace { auth: Some(file), ..swtpm.place(FIRST) };
    let medium = made(&place, 1);
    assert_eq!(slots(&medium), [0, 1]);
    assert!(!format!("{medium:?}").contains("secret"));
}

#[test]
fn a_tpm_says_what_it_is() {
    let swtpm = Swtpm::start();
    let about = TpmAbout::ask(&swtpm.place(FIRST).way).expect("a TPM");
    assert_eq!((about.manufacturer.as_str(), about.kind), ("IBM", TpmMaker::Virtual));
    assert!(about.model.starts_with("SW"), "{about}");
}

/// A TPM that answers the next commands with a code of its own, and carries the others on.
#[derive(Debug, Clone)]
struct Answering {
    inner: Arc<Box<dyn Carrier>>,
    code: u32,
    left: Arc<AtomicUsize>,
}

impl Carrier for Answering {
    fn transmit(&self, command: &[u8]) -> io::Result<Response> {
        let take = |left: usize| left.checked_sub(1);
        if self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok() {
            let head = [&[0x80, 1, 0, 0, 0, 10][..], &self.code.to_be_bytes()].concat();
            return Ok(Zeroizing::new(head));
        }
        self.inner.transmit(command)
    }
}

#[test]
fn a_busy_tpm_is_asked_again_and_then_has_certainly_not_written() {
    let swtpm = Swtpm::start();
    drop(made(&swtpm.place(FIRST), 1));
    let inner = Arc::new(device::open(&swtpm.place(FIRST).way, FIRST, false).expect("a TPM"));
    for code in [0x922, 0x902, 0x903, 0x904, 0x908, 0x909, 0x90a, 0x920, 0x921, 0x923] {
        let answering = Answering { inner: Arc::clone(&inner), code, left: Arc::default() };
        let tpm = Tpm { carrier: Box::new(answering.clone()), auth: Zeroizing::default() };
        let medium = TpmMedium::with(tpm, FIRST, false);
        answering.left.store(TRIES - 1, Ordering::Release);
        medium.write(SLOTS[0], &sector(5), true).expect("it is busy for a moment only");
        answering.left.store(TRIES, Ordering::Release);
        let error = medium.write(SLOTS[0], &sector(6), true).expect_err("it is busy");
        assert_eq!(error.kind, MediumErrorKind::Busy, "{error}");
        assert!(error.message.contains(&format!("0x{code:03x}")), "{error}");
        answering.left.store(0, Ordering::Release);
        assert_eq!(slots(&medium), [5, 1]);
    }
    // What fails otherwise may have happened.
    let answering = Answering { inner, code: 0x101, left: Arc::new(AtomicUsize::new(1)) };
    let tpm = Tpm { carrier: Box::new(answering), auth: Zeroizing::default() };
    let error = TpmMedium::with(tpm, FIRST, false).write(SLOTS[0], &sector(6), true).expect_err("it failed");
    assert_eq!(error.kind, MediumErrorKind::Io);
}

#[test]
fn a_tpm_that_is_gone_fails_and_one_that_comes_back_answers_again() {
    let mut swtpm = Swtpm::start();
    let medium = made(&swtpm.place(FIRST), 1);
    swtpm.stop();
    for _ in 0..2 {
        let error = medium.write(SLOTS[0], &sector(7), true).expect_err("there is no TPM");
        assert_eq!(error.kind, MediumErrorKind::Io, "{error}");
    }
    swtpm.process = Swtpm::process(swtpm.dir.path());
    assert_eq!(slots(&medium), [0, 1]);
}
