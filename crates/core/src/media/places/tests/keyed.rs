//! Parts of blocks that lie under cells.

use crate::base::cell::{Cell, Cells};
use crate::base::units::Addr;
use crate::base::zeros::is_zeros;
use crate::media::cipher::{Cipher, SECTOR_BYTES};
use crate::media::places::tests::*;

/// Bytes of the disk: its last block is not whole, nor is the last sector. The medium has whole sectors.
const SIZE: u64 = 16 * BLOCK_BYTES + 700;
const JOURNAL_BYTES: u64 = 64 << 10;

/// A cipher without any secret: cell, block, and place within the block are added to each byte.
#[derive(Debug)]
struct Adder;

impl Adder {
    fn mask(block: Block, cell: &Cell, at: usize) -> u8 {
        let sum = cell.bytes()[at % 32].wrapping_add((at as u8).wrapping_mul(7));
        sum.wrapping_add((at / 256) as u8).wrapping_add((block.0 as u8).wrapping_mul(31)) | 1
    }

    fn sectors(from: usize, content: &mut [u8]) -> impl Iterator<Item = (usize, &mut [u8])> {
        let sector = SECTOR_BYTES as usize;
        assert!(!content.is_empty() && content.len().is_multiple_of(sector), "whole sectors");
        assert!(from * sector + content.len() <= BLOCK, "of one block");
        (from..).map(move |n| n * sector).zip(content.chunks_exact_mut(sector))
    }
}

impl Cipher for Adder {
    fn encrypt(&self, block: Block, cell: &Cell, from: usize, content: &mut [u8]) {
        for (at, sector) in Self::sectors(from, content) {
            (at..).zip(sector).for_each(|(at, byte)| *byte = byte.wrapping_add(Self::mask(block, cell, at)));
        }
    }

    fn decrypt(&self, block: Block, cell: &Cell, from: usize, content: &mut [u8]) {
        for (at, sector) in Self::sectors(from, content).filter(|(_, sector)| !is_zeros(sector)) {
            (at..).zip(sector).for_each(|(at, byte)| *byte = byte.wrapping_sub(Self::mask(block, cell, at)));
        }
    }
}

/// A disk of 17 blocks, each under its own cell, and a journal.
struct Keyring {
    data: Memory,
    journal: Memory,
    cells: Vec<Cell>,
}

impl Keyring {
    fn new() -> Self {
        let mut cells = Cells::new([9; 32]);
        let data = Memory::new(SIZE.next_multiple_of(SECTOR_BYTES));
        Self { data, journal: Memory::new(JOURNAL_BYTES), cells: (0..17).map(|_| cells.draw_key()).collect() }
    }

    /// The whole disk was written.
    fn written() -> Self {
        let bench = Self::new();
        bench.write(bench.at(0, SIZE.next_multiple_of(SECTOR_BYTES)), &text()).unwrap();
        bench.data.writes.borrow_mut().clear();
        bench
    }

    fn keyed(&self, part: Extent<Addr>) -> Keyed {
        Keyed { cell: self.cells[(part.start.0 / BLOCK_BYTES) as usize].clone(), part }
    }

    /// Where these bytes of the disk lie.
    fn at(&self, from: u64, to: u64) -> Places {
        let blocks = from / BLOCK_BYTES..to.div_ceil(BLOCK_BYTES);
        let of =
            |block| Extent::<Addr>::new(block * BLOCK_BYTES, BLOCK_BYTES).overlap(Extent::between(from, to));
        blocks.map(|block| of(block).unwrap()).map(|part| (data(part), self.keyed(part))).collect()
    }

    fn perform(&self, at: Places, op: IoOp, keys: Option<Keys<'_>>) -> Result<Performed, ContentError> {
        let media = Media::new(&self.data, &self.journal);
        Io { id: IoId(0), at, op }.perform(&media, keys, &mut Scratch::default()).1
    }

    fn write(&self, at: Places, bytes: &[u8]) -> Result<Performed, ContentError> {
        let op = IoOp::Write { data: bytes.to_vec().into(), durable: false };
        self.perform(at, op, Some(Keys::Cipher(&Adder)))
    }

    fn read(&self, at: Places) -> Result<Vec<u8>, ContentError> {
        self.data.reads.borrow_mut().clear();
        self.perform(at, IoOp::Read, Some(Keys::Cipher(&Adder))).map(|done| done.buf.into_vec())
    }
}

fn data(part: Extent<Addr>) -> Place {
    Place { on: MediumId::Data, extent: Extent::new(part.start.0, part.len) }
}

fn staged(at: u64, len: u64) -> Place {
    Place { on: MediumId::Journal, extent: Extent::new(at, len) }
}

/// What the disk holds, up to the end of its last sector.
fn text() -> Vec<u8> {
    let byte = |n: u64| if n < SIZE { (n / 97) as u8 ^ (n % 251) as u8 } else { 0 };
    (0..SIZE.next_multiple_of(SECTOR_BYTES)).map(byte).collect()
}

#[test]
fn keyed_blocks_are_ciphertext_under_their_cells_and_read_as_they_were_written() {
    let bench = Keyring::written();
    let (found, text) = (bench.data.bytes.borrow().clone(), text());
    for (n, (found, text)) in found.chunks(BLOCK).zip(text.chunks(BLOCK)).enumerate() {
        let mut expected = text.to_vec();
        Adder.encrypt(Block(n as u64), &bench.cells[n], 0, &mut expected);
        assert!(found == expected && found != text, "block {n}");
    }
    assert_eq!(bench.read(bench.at(0, SIZE)).unwrap(), text[..SIZE as usize]);
    assert_eq!(bench.data.reads.borrow().len(), 1);
}

#[test]
fn a_write_of_sectors_leaves_their_neighbours_alone() {
    let bench = Keyring::written();
    let (before, mut text) = (bench.data.bytes.borrow().clone(), text());
    let (from, to) = (3 * BLOCK + 1024, 5 * BLOCK + 512);
    let done = bench.write(bench.at(from as u64, to as u64), &vec![7; to - from]).unwrap();
    assert!(done.sealings.is_empty());
    assert_eq!(done.buf[..], bench.data.bytes.borrow()[from..to], "the ciphertext comes back");
    assert_eq!(*bench.data.writes.borrow(), [(from as u64, to - from)]);
    assert!(bench.data.bytes.borrow()[..from] == before[..from]);
    assert!(bench.data.bytes.borrow()[to..] == before[to..]);
    text[from..to].fill(7);
    assert!(bench.read(bench.at(0, SIZE)).unwrap() == text[..SIZE as usize]);
}

#[test]
fn any_part_of_keyed_blocks_can_be_read_by_whole_sectors() {
    let (bench, text) = (Keyring::written(), text());
    let cuts =
        [0, 1, 511, 512, 513, 4000, 4095, 4096, 4608, 5000, 8192, 12287, 65536, SIZE - 189, SIZE - 1, SIZE];
    for (n, from) in cuts.into_iter().enumerate() {
        for to in cuts[n + 1..].iter().copied() {
            let read = bench.read(bench.at(from, to)).unwrap();
            assert!(read == text[from as usize..to as usize], "{from}..{to}");
            let (start, end) = (from / 512 * 512, to.next_multiple_of(512));
            assert_eq!(*bench.data.reads.borrow(), [(start, (end - start) as usize)], "{from}..{to}");
        }
    }
}

#[test]
fn what_is_masked_within_a_sector_is_zeros_and_the_rest_is_not() {
    let (bench, mut text) = (Keyring::written(), text());
    let parts = [bench.at(4096, 4200), nowhere(50).into(), bench.at(4250, 8192), bench.at(8192, 9000)];
    text[4200..4250].fill(0);
    assert!(bench.read(parts.into_iter().collect()).unwrap() == text[4096..9000]);
}

#[test]
fn a_hole_reads_as_zeros_under_any_cell() {
    let bench = Keyring::written();
    let (mut text, hole) = (text(), Extent::<Pos>::new(3 * BLOCK_BYTES + 512, BLOCK_BYTES));
    bench.data.zero(hole).unwrap();
    text[hole.start.0 as usize..hole.end() as usize].fill(0);
    assert!(bench.read(bench.at(0, SIZE)).unwrap() == text[..SIZE as usize]);
    assert!(
        bench.read(bench.at(hole.start.0 + 9, hole.end() + 9)).unwrap()[..4087].iter().all(|it| *it == 0)
    );
}

#[test]
fn a_staged_block_lies_as_in_its_place_wherever_its_slot_begins() {
    let (bench, text) = (Keyring::written(), text());
    let block = |n: u64| bench.keyed(Extent::new(n * BLOCK_BYTES, BLOCK_BYTES));
    let whole = |n: usize| n * BLOCK..(n + 1) * BLOCK;
    // Blocks that are no neighbours on the disk are neighbours in the journal, at no sector of it.
    let at: Places = [(staged(1000, 4096), block(9)), (staged(5096, 4096), block(2))].into_iter().collect();
    assert_eq!(at.iter().count(), 1);
    bench.write(at, &[&text[whole(9)], &text[whole(2)]].concat()).unwrap();
    let (there, data) = (bench.journal.bytes.borrow().clone(), bench.data.bytes.borrow().clone());
    assert!(there[1000..5096] == data[whole(9)] && there[5096..9192] == data[whole(2)]);
    let part = Extent::new(2 * BLOCK_BYTES + 700, 500);
    assert!(bench.read((staged(5096 + 700, 500), bench.keyed(part)).into()).unwrap() == text[8892..9392]);
    assert_eq!(bench.journal.reads.borrow().last(), Some(&(5096 + 512, 1024)));
}

#[test]
fn keyed_parts_are_one_place_unless_they_have_a_sector_in_common() {
    let bench = Keyring::new();
    let count = |cuts: &[u64]| {
        let parts = cuts.windows(2).map(|it| bench.at(it[0], it[1]));
        parts.collect::<Places>().iter().count()
    };
    assert_eq!(count(&[0, 4096, 8192, 8704, 9728]), 1);
    assert_eq!(count(&[100, 4096, 8192, 8200]), 1);
    assert_eq!(count(&[0, 100, 4096]), 2);
    assert_eq!(count(&[0, 4096, 4196, 4608]), 2);
    // What is plain, or sealed, is another place.
    let mut places = bench.at(0, 4096);
    places.push(data(Extent::new(4096, 512)));
    places.append(bench.at(4608, 8192));
    places.push_sealed(whole(2), to_come(2).1);
    places.append(bench.at(12288, 16384));
    let lens: Vec<_> = places.runs().map(|(place, under, _)| (place.extent.len, under.len())).collect();
    assert_eq!(lens, [(4096, 1), (512, 0), (3584, 1), (4096, 1), (4096, 1)]);
}

#[test]
fn a_part_of_a_sector_is_never_written_and_neither_is_what_goes_with_it() {
    let bench = Keyring::written();
    for (from, to) in [(4096, 4196), (4196, 4608), (4000, 4608), (4096, 8200), (SIZE - 188, SIZE)] {
        let mut places = bench.at(0, 512);
        places.append(bench.at(from, to));
        let bytes = vec![1; places.bytes() as usize];
        let error = bench.write(places, &bytes).unwrap_err().to_string();
        assert!(error.starts_with("cannot encrypt bytes ") && error.contains("part of a sector"), "{error}");
    }
    assert!(bench.data.writes.borrow().is_empty());
    assert!(bench.read(bench.at(0, SIZE)).unwrap() == text()[..SIZE as usize]);
}

#[test]
fn keyed_content_is_neither_read_nor_written_without_its_keys_or_with_those_of_seals() {
    let bench = Keyring::written();
    for keys in [None, Some(Keys::Sealer(&Toy::default()))] {
        for op in [IoOp::Read, IoOp::Write { data: vec![1; BLOCK].into(), durable: false }] {
            let error = bench.perform(bench.at(0, BLOCK_BYTES), op, keys).unwrap_err();
            assert!(error.to_string().contains("without its keys"), "{error}");
        }
    }
    assert!(bench.data.writes.borrow().is_empty());
}

#[test]
fn an_owned_payload_is_encrypted_in_place_and_a_shared_one_is_never_changed() {
    let bench = Keyring::new();
    let owned = content(5);
    let at = owned.as_ptr();
    let write = |data| IoOp::Write { data, durable: false };
    let keys = Some(Keys::Cipher(&Adder));
    let done = bench.perform(bench.at(0, BLOCK_BYTES), write(owned.into()), keys).unwrap();
    assert_eq!(done.buf.as_ptr(), at);
    let memory: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::new(content(6));
    bench.perform(bench.at(0, BLOCK_BYTES), write(Buf::Shared(Arc::clone(&memory))), keys).unwrap();
    assert_eq!((*memory).as_ref(), content(6));
    assert_ne!(bench.data.bytes.borrow()[..BLOCK], content(6));
}

#[test]
fn places_never_show_the_bytes_of_a_cell() {
    let bench = Keyring::new();
    let shown = format!("{:?}", bench.at(0, BLOCK_BYTES));
    let bytes = format!("{:?}", bench.cells[0].bytes());
    assert!(!shown.contains(bytes.trim_matches(['[', ']'])) && shown.contains("cell: Cell"), "{shown}");
}

#[test]
#[should_panic(expected = "or one block")]
fn a_part_of_two_blocks_is_refused() {
    let bench = Keyring::new();
    let part = Extent::new(4000, 200);
    let _ = Places::from((data(part), bench.keyed(part)));
}

#[test]
#[should_panic(expected = "or one block")]
fn a_place_that_is_not_as_long_as_its_part_is_refused() {
    let bench = Keyring::new();
    let _ = Places::from((staged(0, 512), bench.keyed(Extent::new(0, 1024))));
}
