#![allow(clippy::unwrap_used, reason = "tests may panic")]

use super::*;
use crate::ciphers::random::Generator;
use crate::keys::{self, Credential, Stretch};
use quietus_core::base::buf::Buf;
use quietus_core::base::units::{Block, Epoch, Extent, Pos, Slot};
use quietus_core::erase::policy::Scratch;
use quietus_core::media::cipher;
use quietus_core::media::medium::{Capabilities, Medium, MediumError};
use quietus_core::media::place::Place;
use quietus_core::media::places::Places;
use quietus_core::media::sealing::{ContentError, Sealed, Sealer as _, SealingAt, home_bytes};
use quietus_core::media::{Media, MediumId};
use quietus_core::volume::{Io, IoId, IoOp};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ops::Range;

const BLOCK: usize = 4096;
const PHRASE: Credential<'_> = Credential::Passphrase(b"correct horse");
const QUICK: Stretch = Stretch { memory_kib: 8, passes: 1, lanes: 1 };

/// Random bytes that all threads may draw: those of a generator of its own for each draw.
#[derive(Default)]
struct Draws(AtomicU32);

impl Random for &Draws {
    fn fill(&mut self, out: &mut [u8]) {
        let mut seed = [0; 32];
        seed[..4].copy_from_slice(&self.0.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        Generator::new(&seed).fill(out);
    }
}

/// The keys of a disk, in memory.
struct Keys {
    file: KeyFile,
    drawn: Cell<u8>,
}

impl Keys {
    fn new() -> Self {
        let random = &mut Generator::new(&[5; 32]);
        let (file, _) = KeyFile::create(DiskId([1; 16]), &PHRASE, QUICK, random).unwrap();
        Self { file, drawn: Cell::new(0) }
    }

    /// A new session.
    fn opened(&mut self, seal: Seal) -> DiskSealer<Draws> {
        let unlocked = self.file.unlock(&PHRASE).unwrap();
        self.drawn.set(self.drawn.get() + 1);
        let session = units::Session([self.drawn.get(); 16]);
        let (index, _) = self.file.add_session(session, unlocked.newest().0).unwrap();
        DiskSealer::new(seal, &self.file, unlocked, Some(index), Draws::default()).unwrap()
    }
}

struct Memory(RefCell<Vec<u8>>);

impl Memory {
    fn flip(&self, at: usize) {
        self.0.borrow_mut()[at] ^= 0x10;
    }

    fn swap(&self, a: Range<usize>, b: usize) {
        (0..a.len()).for_each(|n| self.0.borrow_mut().swap(a.start + n, b + n));
    }
}

impl Medium for Memory {
    fn size(&self) -> u64 {
        self.0.borrow().len() as u64
    }
    fn read(&self, pos: Pos, into: &mut [u8]) -> Result<(), MediumError> {
        into.copy_from_slice(&self.0.borrow()[pos.0 as usize..][..into.len()]);
        Ok(())
    }
    fn write(&self, pos: Pos, from: &[u8], _: bool) -> Result<(), MediumError> {
        self.0.borrow_mut()[pos.0 as usize..][..from.len()].copy_from_slice(from);
        Ok(())
    }
    fn sync(&self) -> Result<(), MediumError> {
        Ok(())
    }
    fn punch(&self, _: Extent<Pos>) -> Result<(), MediumError> {
        Ok(())
    }
    fn zero(&self, _: Extent<Pos>) -> Result<(), MediumError> {
        Ok(())
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
}

/// A disk whose slots 3, 4, 5 and 9 have content.
struct Bench {
    sealer: DiskSealer<Draws>,
    data: Memory,
    stubs: Memory,
    home_bytes: usize,
}

const SLOTS: [u64; 4] = [3, 4, 5, 9];

fn context(slot: u64) -> Context {
    Context { block: Block(70 + slot), born: Epoch(8), slot: Slot(slot) }
}

fn content(slot: u64) -> Vec<u8> {
    (0..BLOCK).map(|n| n as u8 ^ (n >> 8) as u8 ^ slot as u8).collect()
}

impl Bench {
    fn new(sealer: DiskSealer<Draws>) -> Self {
        let stub_bytes = sealer.seal.stub_bytes();
        let memory = |blocks| Memory(RefCell::new(vec![0; blocks * BLOCK]));
        let bench = Self { sealer, data: memory(10), stubs: memory(1), home_bytes: 16 + stub_bytes };
        let data: Vec<_> = SLOTS.iter().flat_map(|slot| content(*slot)).collect();
        let places = SLOTS.map(|slot| bench.place(slot, 0..BLOCK, SealingAt::ToCome)).into_iter().collect();
        let done = bench.perform(places, IoOp::Write { data: Buf::from(data), durable: false }).unwrap();
        for (slot, sealing) in SLOTS.iter().zip(&done.sealings) {
            let Context { block, born, .. } = context(*slot);
            let bytes = home_bytes((block, born), (sealing.session, sealing.number), &sealing.stub);
            bench.stubs.write(Pos(bench.home(*slot).start as u64), &bytes, false).unwrap();
        }
        bench
    }

    fn home(&self, slot: u64) -> Range<usize> {
        let start = slot as usize * self.home_bytes;
        start..start + self.home_bytes
    }

    fn place(&self, slot: u64, part: Range<usize>, sealing: SealingAt) -> (Place, Sealed) {
        let extent = Extent::new(slot * BLOCK as u64 + part.start as u64, part.len() as u64);
        (Place { on: MediumId::Data, extent }, Sealed { context: context(slot), sealing })
    }

    fn perform(&self, at: Places, op: IoOp) -> Result<quietus_core::volume::Performed, ContentError> {
        let media = Media::new(&self.data, &self.data).with(MediumId::Stubs, &self.stubs);
        Io { id: IoId(0), at, op }
            .perform(&media, Some(cipher::Keys::Sealer(&self.sealer)), &mut Scratch::default())
            .1
    }

    fn read(&self, slots: &[u64], part: Range<usize>) -> Result<Vec<u8>, ContentError> {
        let at_home = |slot: &u64| {
            let home = self.home(*slot);
            let extent = Extent::new(home.start as u64, home.len() as u64);
            let home = SealingAt::Home(Place { on: MediumId::Stubs, extent }, None);
            self.place(*slot, part.clone(), home)
        };
        let done = self.perform(slots.iter().map(at_home).collect(), IoOp::Read)?;
        Ok(done.buf.into_vec())
    }

    /// Whether each of [`SLOTS`] can be opened. What is opened is right.
    fn opens(&self) -> [bool; 4] {
        SLOTS.map(|slot| match self.read(&[slot], 0..BLOCK) {
            Ok(bytes) => bytes == content(slot),
            Err(error) => {
                assert_eq!(error, Unauthentic(context(slot)).into());
                false
            }
        })
    }
}

#[test]
fn content_is_read_as_it_was_written_whole_and_in_part_with_every_seal() {
    for seal in Seal::ALL {
        let bench = Bench::new(Keys::new().opened(seal));
        let all: Vec<_> = SLOTS.iter().flat_map(|slot| content(*slot)).collect();
        assert_eq!(bench.read(&SLOTS, 0..BLOCK).unwrap(), all, "{seal}");
        assert_eq!(bench.read(&[4], 1000..1003).unwrap(), content(4)[1000..1003], "{seal}");
        let is_plain = bench.data.0.borrow()[3 * BLOCK..][..BLOCK] == content(3);
        assert_eq!(is_plain, seal == Seal::None);
    }
}

#[test]
fn what_was_altered_or_exchanged_is_not_opened() {
    for seal in Seal::ALL.into_iter().filter(|seal| seal.dies_with_stub()) {
        let bench = || Bench::new(Keys::new().opened(seal));
        let stub_bytes = seal.stub_bytes();
        // Block, number of the sealing, both ends of the stub.
        for at in [4, 7, 16, 15 + stub_bytes] {
            let bench = bench();
            bench.stubs.flip(bench.home(4).start + at);
            assert_eq!(bench.opens(), [true, false, true, true], "{seal}: byte {at} of the home");
        }
        for at in [0, BLOCK - 1] {
            let bench = bench();
            bench.data.flip(9 * BLOCK + at);
            assert_eq!(bench.opens(), [true, true, true, false], "{seal}: byte {at} of the data");
        }
        let slots = bench();
        slots.data.swap(3 * BLOCK..4 * BLOCK, 4 * BLOCK);
        assert_eq!(slots.opens(), [false, false, true, true], "{seal}");
        let gone = bench();
        gone.stubs.0.borrow_mut()[gone.home(5)].fill(0);
        assert_eq!(gone.opens(), [true, true, false, true], "{seal}");
    }
}

#[test]
fn exchanged_homes_are_seen_whatever_the_seal() {
    for seal in Seal::ALL {
        let bench = Bench::new(Keys::new().opened(seal));
        bench.stubs.swap(bench.home(3), bench.home(4).start);
        assert_eq!(bench.opens(), [false, false, true, true], "{seal}");
    }
}

#[test]
fn what_an_older_session_sealed_opens_under_the_newest_one_and_no_number_is_used_twice() {
    for seal in Seal::ALL {
        let mut keys = Keys::new();
        let (first, second) = (keys.opened(seal), keys.opened(seal));
        let mut bench = Bench::new(first);
        bench.sealer = second;
        assert_eq!(bench.opens(), [true; 4], "{seal}");
        let mut bytes = content(3);
        let sealing = bench.sealer.close(&context(3), &mut bytes).unwrap();
        assert_eq!((sealing.session, sealing.number), (Session(1), 0));
        bench.sealer.open(&context(3), &sealing, &mut bytes).unwrap();
        assert_eq!(bytes, content(3));
    }
}

#[test]
fn a_session_that_is_unknown_or_whose_master_key_is_gone_opens_nothing() {
    let mut keys = Keys::new();
    let first = keys.opened(Seal::RandomKey);
    let mut bytes = content(3);
    let mut sealing = first.close(&context(3), &mut bytes).unwrap();
    let random = &mut Generator::new(&[6; 32]);
    let mut unlocked = keys.file.unlock(&PHRASE).unwrap();
    keys.file.rotate(&mut unlocked, random).unwrap();
    let rotated = keys.opened(Seal::RandomKey);
    let mut opened = bytes.clone();
    rotated.open(&context(3), &sealing, &mut opened).unwrap();
    assert_eq!(opened, content(3), "the older master key is still there");
    let mut file = keys.file.to_bytes();
    file[keys::PAGE_BYTES * (1 + keys::SLOTS)..][..keys::PAGE_BYTES].fill(0);
    keys.file = KeyFile::from_bytes(&file).unwrap();
    let without = keys.opened(Seal::RandomKey);
    let opens = |sealing: &Sealing| {
        let mut bytes = bytes.clone();
        let opened = without.open(&context(3), sealing, &mut bytes);
        assert_eq!((opened, bytes), (Err(Unauthentic(context(3))), vec![0; BLOCK]));
    };
    opens(&sealing);
    sealing.session = Session(3);
    opens(&sealing);
    sealing.stub = [1; 63].into();
    opens(&sealing);
    let unlocked = keys.file.unlock(&PHRASE).unwrap();
    let none =
        DiskSealer::new(Seal::RandomKey, &keys.file, unlocked, Some(SessionIndex(3)), Draws::default());
    assert_eq!(none.err(), Some(NoSession(3)));
}

#[test]
fn a_session_whose_numbers_are_used_up_seals_nothing_more() {
    let sealer = Keys::new().opened(Seal::RandomKey);
    sealer.next.store(u32::MAX - 1, Ordering::Relaxed);
    let mut bytes = content(3);
    assert_eq!(sealer.close(&context(3), &mut bytes).unwrap().number, u32::MAX - 1);
    for _ in 0..2 {
        let mut bytes = content(3);
        let error = sealer.close(&context(3), &mut bytes).unwrap_err();
        assert_eq!(error, "session 0 has no number left; serve the disk anew");
        assert_eq!(bytes, content(3));
    }
}

#[test]
fn threads_that_seal_at_once_share_no_number() {
    let sealer = Keys::new().opened(Seal::RandomKey);
    let seal = || {
        let close = |_| sealer.close(&context(3), &mut content(3)).unwrap();
        (0..200).map(close).map(|it| (it.number, it.stub)).collect::<Vec<_>>()
    };
    let all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(seal)).collect();
        threads.into_iter().flat_map(|it| it.join().unwrap()).collect()
    });
    assert_eq!(all.iter().map(|(number, _)| number).collect::<HashSet<_>>().len(), 800);
    assert_eq!(all.iter().map(|(_, stub)| stub).collect::<HashSet<_>>().len(), 800);
}

#[test]
fn no_secret_is_shown() {
    let shown = format!("{:?}", Keys::new().opened(Seal::Aon));
    assert_eq!(shown.split(' ').next(), Some("DiskSealer"));
    assert!(!shown.contains("unlocked") && !shown.contains("random"), "{shown}");
}
