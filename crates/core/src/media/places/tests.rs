mod keyed;

use crate::base::units::{BLOCK_BYTES, Block, Epoch, Extent, Pos, Session, Slot};
use crate::erase::policy::Scratch;
use crate::media::Media;
use crate::media::cipher::Keys;
use crate::media::medium::{Medium, MediumErrorKind};
use crate::media::memory::Memory;
use crate::media::places::*;
use crate::media::sealing::{Context, Sealer, SealingAt, Stub, Unauthentic, home_bytes};
use crate::volume::{Io, IoId, IoOp, Performed};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const BLOCK: usize = BLOCK_BYTES as usize;
const STUB_BYTES: usize = 16;
/// As the stub medium has them: so many homes of 32 bytes in a sector, after 32 other bytes.
const PER_SECTOR: u64 = 15;

impl Memory {
    fn flip(&self, at: u64) {
        self.bytes.borrow_mut()[at as usize] ^= 0x10;
    }

    fn swap(&self, a: Extent<Pos>, b: Extent<Pos>) {
        let mut bytes = self.bytes.borrow_mut();
        (0..a.len).for_each(|n| bytes.swap((a.start.0 + n) as usize, (b.start.0 + n) as usize));
    }
}

/// A sealer without any secret: the number of the sealing is added to each byte, and the stub is a checksum of content
/// and context.
#[derive(Debug, Default)]
struct Toy {
    next: AtomicU32,
    /// Nothing is checked, like `aes-xts`.
    lax: bool,
}

impl Toy {
    fn stub(context: &Context, number: u32, content: &[u8]) -> Stub {
        let bound = [context.block.0, context.born.0, context.slot.0, number.into()];
        let crc = bound
            .iter()
            .fold(crc32c::crc32c(content), |crc, it| crc32c::crc32c_append(crc, &it.to_le_bytes()));
        crc.to_le_bytes().repeat(STUB_BYTES / 4)[..].into()
    }
}

impl Sealer for Toy {
    fn close(&self, context: &Context, content: &mut [u8]) -> Result<Sealing, String> {
        assert_eq!(content.len(), BLOCK);
        let number = self.next.fetch_add(1, Relaxed);
        if number == 200 {
            return Err("no number is left".into());
        }
        let stub = Self::stub(context, number, content);
        content.iter_mut().for_each(|byte| *byte = byte.wrapping_add(number as u8 + 1));
        Ok(Sealing { session: Session(7), number, stub })
    }

    fn open(&self, context: &Context, sealing: &Sealing, content: &mut [u8]) -> Result<(), Unauthentic> {
        content.iter_mut().for_each(|byte| *byte = byte.wrapping_sub(sealing.number as u8 + 1));
        if self.lax || Self::stub(context, sealing.number, content) == sealing.stub {
            return Ok(());
        }
        content.fill(0);
        Err(Unauthentic(*context))
    }
}

/// Media with 64 slots, and the sealing of each slot that was written.
struct Bench {
    data: Memory,
    stubs: Memory,
    toy: Toy,
    sealings: Vec<Option<Sealing>>,
}

fn context(slot: u64) -> Context {
    Context { block: Block(1000 - slot), born: Epoch(3), slot: Slot(slot) }
}

fn home(slot: u64) -> Place {
    let at = slot / PER_SECTOR * 512 + 32 + slot % PER_SECTOR * 32;
    Place { on: MediumId::Stubs, extent: Extent::new(at, 32) }
}

fn within(slot: u64, part: Range<usize>) -> Place {
    let extent = Extent::new(slot * BLOCK_BYTES + part.start as u64, part.len() as u64);
    Place { on: MediumId::Data, extent }
}

fn whole(slot: u64) -> Place {
    within(slot, 0..BLOCK)
}

fn to_come(slot: u64) -> (Place, Sealed) {
    (whole(slot), Sealed { context: context(slot), sealing: SealingAt::ToCome })
}

fn at_home(slot: u64, part: Range<usize>) -> (Place, Sealed) {
    (within(slot, part), Sealed { context: context(slot), sealing: SealingAt::Home(home(slot), None) })
}

fn nowhere(len: u64) -> Place {
    Place { on: MediumId::Nowhere, extent: Extent::new(0, len) }
}

fn slot_of(under: &Under) -> u64 {
    match under {
        Under::Sealed(sealed) => sealed.context.slot.0,
        Under::Keyed(keyed) => panic!("{keyed:?} is not sealed"),
    }
}

/// The content of a slot.
fn content(slot: u64) -> Vec<u8> {
    (0..BLOCK).map(|n| (n / 8) as u8 ^ (n % 8) as u8 ^ (slot as u8).wrapping_mul(29)).collect()
}

fn contents(slots: &[u64]) -> Vec<u8> {
    slots.iter().flat_map(|slot| content(*slot)).collect()
}

/// The bytes of the home of a stub.
fn home_of(Context { block, born, .. }: Context, sealing: &Sealing) -> Vec<u8> {
    home_bytes((block, born), (sealing.session, sealing.number), &sealing.stub)
}

impl Bench {
    fn new() -> Self {
        let (data, stubs) = (Memory::new(64 * BLOCK_BYTES), Memory::new(64 << 10));
        Self { data, stubs, toy: Toy::default(), sealings: vec![None; 64] }
    }

    /// The content of these slots is written, by one operation, and the stubs are in their homes.
    fn with(slots: &[u64]) -> Self {
        let mut bench = Self::new();
        let places = slots.iter().map(|slot| to_come(*slot)).collect();
        let done = bench.write(places, contents(slots).into()).unwrap();
        assert_eq!(done.sealings.len(), slots.len());
        for (slot, sealing) in slots.iter().zip(done.sealings) {
            bench.put_home(*slot, &sealing);
            bench.sealings[*slot as usize] = Some(sealing);
        }
        bench
    }

    fn put_home(&self, slot: u64, sealing: &Sealing) {
        let bytes = home_of(context(slot), sealing);
        self.stubs.write(home(slot).extent.start, &bytes, false).unwrap();
    }

    fn known(&self, slot: u64) -> (Place, Sealed) {
        let sealing = SealingAt::Known(self.sealings[slot as usize].clone().unwrap());
        (whole(slot), Sealed { context: context(slot), sealing })
    }

    fn perform(&self, at: Places, op: IoOp) -> Result<Performed, ContentError> {
        let media = Media::new(&self.data, &self.stubs).with(MediumId::Stubs, &self.stubs);
        Io { id: IoId(0), at, op }.perform(&media, Some(Keys::Sealer(&self.toy)), &mut Scratch::default()).1
    }

    fn write(&self, at: Places, data: Buf) -> Result<Performed, ContentError> {
        self.perform(at, IoOp::Write { data, durable: false })
    }

    fn read(&self, at: impl IntoIterator<Item = (Place, Sealed)>) -> Result<Vec<u8>, ContentError> {
        self.perform(at.into_iter().collect(), IoOp::Read).map(|done| done.buf.into_vec())
    }

    fn read_homes(&self, slots: &[u64]) -> Result<Vec<u8>, ContentError> {
        self.read(slots.iter().map(|slot| at_home(*slot, 0..BLOCK)))
    }

    fn is_unauthentic(&self, slot: u64) -> bool {
        let read = self.read_homes(&[slot]);
        assert_eq!(read.is_ok(), read.as_ref().is_ok_and(|bytes| *bytes == content(slot)), "wrong content");
        read == Err(Unauthentic(context(slot)).into())
    }
}

#[test]
fn one_place_needs_no_memory_besides_itself() {
    let places = Places::from(whole(1));
    assert_eq!((places.rest.capacity(), places.under.capacity()), (0, 0));
}

#[test]
fn neighbouring_slots_are_one_place_and_never_one_with_a_place_that_is_not_sealed() {
    let mut places: Places = [to_come(4), to_come(5)].into_iter().collect();
    places.push(whole(6));
    places.push(whole(7));
    places.push_sealed(whole(8), to_come(8).1);
    let lens: Vec<_> = places.iter().map(|it| it.extent.len / BLOCK_BYTES).collect();
    assert_eq!((lens, places.bytes()), (vec![2, 2, 1], 5 * BLOCK_BYTES));
    assert_eq!(places.under.iter().map(|(of, _)| *of).collect::<Vec<_>>(), [0, 0, 2]);
    // Two parts of one slot are two reads of it: each place has a block for each slot that it touches.
    let halves: Places = [at_home(3, 0..100), at_home(3, 100..BLOCK)].into_iter().collect();
    assert_eq!(halves.iter().count(), 2);
}

#[test]
fn appended_places_keep_their_seals() {
    let parts =
        [Places::from(whole(1)), whole(2).into(), to_come(3).into(), nowhere(7).into(), to_come(9).into()];
    let mut more: Places = [to_come(11), to_come(12)].into_iter().collect();
    more.push(whole(13));
    let places: Places = parts.into_iter().chain([more]).collect();
    let of: Vec<_> =
        places.runs().map(|(place, blocks, _)| (place.on, place.extent.len, blocks.len())).collect();
    let data = |blocks, sealed| (MediumId::Data, blocks * BLOCK_BYTES, sealed);
    let expected = [data(2, 0), data(1, 1), (MediumId::Nowhere, 7, 0), data(1, 1), data(2, 2), data(1, 0)];
    assert_eq!(of, expected);
    let slots: Vec<_> = places.under.iter().map(|(_, it)| slot_of(it)).collect();
    assert_eq!(slots, [3, 9, 11, 12]);
}

#[test]
#[should_panic(expected = "lies in one slot")]
fn a_sealed_place_in_two_slots_is_refused() {
    let _ = Places::from((within(3, 100..BLOCK + 100), to_come(3).1));
}

#[test]
fn sealed_blocks_are_ciphertext_on_the_medium_and_read_as_they_were_written() {
    let slots = [9, 10, 11, 3, 5, 4];
    let bench = Bench::with(&slots);
    let kib = |n: usize| n * BLOCK;
    let runs = vec![
        (9 * BLOCK_BYTES, kib(3)),
        (3 * BLOCK_BYTES, kib(1)),
        (5 * BLOCK_BYTES, kib(1)),
        (4 * BLOCK_BYTES, kib(1)),
    ];
    assert_eq!(*bench.data.writes.borrow(), runs, "slots that follow each other are one write");
    for slot in slots {
        assert_ne!(bench.data.bytes.borrow()[slot as usize * BLOCK..][..BLOCK], content(slot));
    }
    assert_eq!(bench.read_homes(&slots).unwrap(), contents(&slots));
    assert_eq!(*bench.data.reads.borrow(), [(3 * BLOCK_BYTES, kib(9))], "slots near each other are one read");
    assert_eq!(bench.stubs.reads.borrow().len(), 1, "homes near each other are one read");
    assert_eq!(bench.read(slots.map(|slot| bench.known(slot))).unwrap(), contents(&slots));
    let mixed = slots.map(|slot| if slot % 2 == 0 { bench.known(slot) } else { at_home(slot, 0..BLOCK) });
    assert_eq!(bench.read(mixed).unwrap(), contents(&slots));
}

#[test]
fn the_sealings_of_a_write_come_in_order() {
    let slots: Vec<u64> = (0..40).collect();
    let bench = Bench::with(&slots);
    let numbers: Vec<_> = bench.sealings.iter().flatten().map(|it| it.number).collect();
    assert_eq!(numbers, (0..40).collect::<Vec<u32>>());
}

#[test]
fn homes_of_many_sectors_are_one_read_and_distant_ones_are_not() {
    let slots: Vec<u64> = (0..64).collect();
    let mut bench = Bench::with(&slots);
    assert_eq!(bench.read_homes(&slots).unwrap(), contents(&slots));
    assert_eq!((bench.stubs.reads.borrow().len(), bench.data.reads.borrow().len()), (1, 1));
    // One home lies far away.
    let far = Place { on: MediumId::Stubs, extent: Extent::new(40 << 10, 32) };
    let sealing = bench.sealings[1].take().unwrap();
    let bytes = home_of(context(1), &sealing);
    bench.stubs.write(far.extent.start, &bytes, false).unwrap();
    let mut places = [0, 1, 2].map(|slot| at_home(slot, 0..BLOCK));
    places[1].1.sealing = SealingAt::Home(far, None);
    bench.stubs.reads.borrow_mut().clear();
    assert_eq!(bench.read(places).unwrap(), contents(&[0, 1, 2]));
    assert_eq!(*bench.stubs.reads.borrow(), [(32, 96), (40 << 10, 32)]);
}

#[test]
fn any_part_of_any_blocks_can_be_read() {
    let slots = [20, 21, 22, 7];
    let (bench, all) = (Bench::with(&slots), contents(&slots));
    let cuts = [0, 1, 511, 2048, 4095, 4096, 4097, 8192, 9000, 12287, 12288, 14000, 16383, 16384];
    for (n, from) in cuts.iter().enumerate() {
        for to in &cuts[n + 1..] {
            let part = |n: usize| from.max(&(n * BLOCK)) % BLOCK..(to - n * BLOCK).min(BLOCK);
            let touched = from / BLOCK..to.div_ceil(BLOCK);
            let places = touched.map(|n| at_home(slots[n], part(n)));
            assert_eq!(bench.read(places).unwrap(), all[*from..*to], "{from}..{to}");
        }
    }
    bench.data.reads.borrow_mut().clear();
    bench.read([at_home(20, 100..BLOCK), at_home(21, 0..BLOCK), at_home(22, 0..9)]).unwrap();
    assert_eq!(
        *bench.data.reads.borrow(),
        [(20 * BLOCK_BYTES, 3 * BLOCK)],
        "a run with parts of blocks is one read"
    );
}

#[test]
fn what_is_masked_within_a_block_is_zeros_and_the_rest_is_not() {
    let bench = Bench::with(&[20, 21]);
    let parts: [Places; 4] = [
        at_home(20, 0..1000).into(),
        nowhere(96).into(),
        at_home(20, 1096..BLOCK).into(),
        at_home(21, 0..BLOCK).into(),
    ];
    let read = bench.perform(parts.into_iter().collect(), IoOp::Read).unwrap().buf;
    let mut expected = contents(&[20, 21]);
    expected[1000..1096].fill(0);
    assert_eq!(read, expected);
}

/// The content of some slots, read through `read`, which gets the first slot and how many blocks; and what it got.
fn gathered(slots: &[u64], fails: impl Fn(u64, u64) -> bool) -> Vec<(u64, u64)> {
    let bench = Bench::new();
    slots
        .iter()
        .for_each(|slot| bench.data.write(whole(*slot).extent.start, &content(*slot), false).unwrap());
    let mut places = Places::from(nowhere(5));
    slots.iter().for_each(|slot| places.push(whole(*slot)));
    let (mut bytes, mut reads) = (vec![0; places.bytes() as usize], Vec::new());
    let read = |place: Place, into: &mut [IoSliceMut<'_>]| {
        let (slot, blocks) = (place.extent.start.0 / BLOCK_BYTES, place.extent.len / BLOCK_BYTES);
        reads.push((slot, blocks));
        assert_eq!(into.iter().map(|part| part.len() as u64).sum::<u64>(), place.extent.len);
        match place.on {
            MediumId::Data if fails(slot, blocks) => {
                Err(MediumError { kind: MediumErrorKind::Io, message: "".into() })
            }
            MediumId::Data => bench.data.read_vectored(place.extent.start, into),
            _ => Ok(()),
        }
    };
    places.read(&mut bytes, None, read).unwrap();
    assert_eq!(bytes[5..], contents(slots));
    assert_eq!(reads.pop(), Some((0, 0)), "the place that is nowhere");
    reads
}

#[test]
fn slots_near_each_other_are_one_read_in_whatever_order_their_content_is_wanted() {
    assert_eq!(gathered(&[7, 5, 6, 4], |_, _| false), [(4, 4)]);
    assert_eq!(gathered(&[12, 3, 7], |_, _| false), [(3, 10)], "with what lies between");
    assert_eq!(gathered(&[30, 3, 24, 4], |_, _| false), [(3, 2), (24, 1), (30, 1)], "but not with much");
    assert_eq!(
        gathered(&[5, 6, 6, 5], |_, _| false),
        [(5, 2), (5, 2)],
        "the same slot again is another read"
    );
}

#[test]
fn a_read_does_not_fail_for_what_only_lies_between() {
    assert_eq!(gathered(&[9, 4], |_, blocks| blocks > 1), [(4, 6), (4, 1), (9, 1)]);
}

#[test]
fn places_that_are_not_sealed_are_written_and_read_as_they_are() {
    let bench = Bench::with(&[1]);
    let mut places = Places::from(whole(30));
    places.push_sealed(whole(31), to_come(31).1);
    let data = contents(&[30, 31]);
    let done = bench.write(places, data.clone().into()).unwrap();
    assert_eq!(bench.data.bytes.borrow()[30 * BLOCK..][..BLOCK], content(30));
    assert_ne!(bench.data.bytes.borrow()[31 * BLOCK..][..BLOCK], content(31));
    let mut places = Places::from(whole(30));
    let sealing = SealingAt::Known(done.sealings[0].clone());
    places.push_sealed(whole(31), Sealed { context: context(31), sealing });
    assert_eq!(bench.perform(places, IoOp::Read).unwrap().buf, data);
}

#[test]
fn an_owned_payload_is_sealed_in_place_and_a_shared_one_is_never_changed() {
    let bench = Bench::new();
    let owned = content(5);
    let at = owned.as_ptr();
    let done = bench.write(to_come(5).into(), owned.into()).unwrap();
    assert_eq!(done.buf.as_ptr(), at);
    let memory: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::new(content(6));
    bench.write(to_come(6).into(), Buf::Shared(Arc::clone(&memory))).unwrap();
    assert_eq!((*memory).as_ref(), content(6));
    assert_ne!(bench.data.bytes.borrow()[6 * BLOCK..][..BLOCK], content(6));
    // Nothing to be sealed, nothing to be copied.
    let plain = bench.write(whole(7).into(), Buf::Shared(Arc::clone(&memory))).unwrap();
    assert_eq!((plain.buf.as_ptr(), plain.sealings), ((*memory).as_ref().as_ptr(), Vec::new()));
}

#[test]
fn a_flipped_bit_in_data_stub_or_home_is_refused_for_its_block_alone() {
    let record = [("block", 0), ("session, which this sealer does not use", 5), ("number", 7)];
    for (what, at) in record.into_iter().chain([("stub", 16), ("end of the stub", 31)]) {
        let bench = Bench::with(&[14, 15, 16]);
        bench.stubs.flip(home(15).extent.start.0 + at);
        assert_eq!(bench.is_unauthentic(15), at != 5, "{what}");
        assert!(!bench.is_unauthentic(14) && !bench.is_unauthentic(16));
        assert_eq!(bench.read_homes(&[14, 15, 16]).is_err(), at != 5);
    }
    for at in [0, 4095] {
        let bench = Bench::with(&[14, 15, 16]);
        bench.data.flip(15 * BLOCK_BYTES + at);
        assert!(bench.is_unauthentic(15));
        assert!(!bench.is_unauthentic(14) && !bench.is_unauthentic(16));
    }
}

#[test]
fn a_home_of_another_block_opens_nothing_even_if_the_sealer_checks_nothing() {
    for lax in [false, true] {
        let mut bench = Bench::with(&[14, 15, 16]);
        bench.toy.lax = lax;
        bench.stubs.swap(home(14).extent, home(15).extent);
        assert!(bench.is_unauthentic(14) && bench.is_unauthentic(15) && !bench.is_unauthentic(16));
    }
}

#[test]
fn exchanged_data_and_a_destroyed_or_short_home_open_nothing() {
    let bench = Bench::with(&[14, 15, 16]);
    bench.data.swap(whole(14).extent, whole(15).extent);
    assert!(bench.is_unauthentic(14) && bench.is_unauthentic(15));
    bench.stubs.write(home(16).extent.start, &[0; 32], false).unwrap();
    assert!(bench.is_unauthentic(16));
    let short = Place { extent: Extent::new(32, 9), ..home(16) };
    let sealed = Sealed { context: context(16), sealing: SealingAt::Home(short, None) };
    assert_eq!(bench.read([(whole(16), sealed)]), Err(Unauthentic(context(16)).into()));
}

#[test]
fn without_keys_nothing_sealed_is_read_or_written() {
    let bench = Bench::with(&[1]);
    let media = Media::new(&bench.data, &bench.stubs);
    bench.data.writes.borrow_mut().clear();
    let ops = [IoOp::Read, IoOp::Write { data: content(2).into(), durable: false }];
    for op in ops {
        let io = Io { id: IoId(0), at: to_come(2).into(), op };
        let error = MediumError::from(io.perform(&media, None, &mut Scratch::default()).1.unwrap_err());
        assert!(error.kind == MediumErrorKind::Io && error.message.contains("without its keys"), "{error}");
    }
    assert!(bench.data.writes.borrow().is_empty());
}

#[test]
fn a_slot_is_sealed_once_as_a_whole_and_read_once_it_was_written() {
    let bench = Bench::with(&[1]);
    bench.data.writes.borrow_mut().clear();
    for at in [bench.known(1), at_home(1, 0..BLOCK)] {
        let error = bench.write(at.into(), content(1).into()).unwrap_err();
        assert_eq!(error.to_string(), "cannot seal block 999 in slot 1: its slot was written before");
    }
    let error = bench.write((within(2, 0..512), to_come(2).1).into(), vec![1; 512].into()).unwrap_err();
    assert_eq!(error.to_string(), "cannot seal block 998 in slot 2: a part of a block is not sealed alone");
    let error = bench.read([to_come(2)]).unwrap_err();
    let error = MediumError::from(error);
    assert_eq!((error.kind, error.message.contains("its write has not ended")), (MediumErrorKind::Io, true));
    // Nothing is written if one of the blocks cannot be sealed.
    bench.toy.next.store(199, Relaxed);
    let error =
        bench.write([to_come(2), to_come(5)].into_iter().collect(), contents(&[2, 5]).into()).unwrap_err();
    assert_eq!(error.to_string(), "cannot seal block 995 in slot 5: no number is left");
    assert!(bench.data.writes.borrow().is_empty());
}

#[test]
fn a_read_that_must_not_wait_ends_where_a_home_is_not_at_hand() {
    let bench = Bench::with(&[1, 2]);
    for at_hand in [false, true] {
        let places: Places = [at_home(1, 0..BLOCK), at_home(2, 0..BLOCK)].into_iter().collect();
        let mut bytes = vec![0; 2 * BLOCK];
        let read =
            places.read::<Option<ContentError>>(&mut bytes, Some(Keys::Sealer(&bench.toy)), |place, into| {
                match place.on {
                    MediumId::Stubs if !at_hand => Err(None),
                    MediumId::Stubs => {
                        bench.stubs.read_vectored(place.extent.start, into).map_err(|it| Some(it.into()))
                    }
                    _ => bench.data.read_vectored(place.extent.start, into).map_err(|it| Some(it.into())),
                }
            });
        assert_eq!(read, if at_hand { Ok(()) } else { Err(None) });
        assert_eq!(bytes == contents(&[1, 2]), at_hand);
    }
}
