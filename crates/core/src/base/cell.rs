//! *Cells*: keys of 32 bytes, each of which hides the stubs that it stands for. Destroying a cell destroys all stubs under
//! it, wherever copies of them are. Why cells need no master key: decision 21.
//!
//! A cell that was destroyed on its medium must not be left in memory either. So the bytes of a cell lie in one place, which all who use it
//! share, and which is wiped after the last of them. What computing with them leaves on the stack is wiped at once. The
//! bytes on their way to the medium and from there are in memory that the program's allocator wipes when it is given back.

use crate::base::memory;
use crate::base::memory::{wipe, wipe_stack};
use crate::base::units::Session;
use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use chacha20::{ChaCha20, Key};
use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a cell, of which the last four are a checksum: so a start knows a cell from what passes have left.
pub(crate) const CELL_BYTES: usize = 32;
const SECRET_BYTES: usize = CELL_BYTES - 4;

/// Bytes of a block of the keystream.
const STREAM_BLOCK_BYTES: u64 = 64;
/// Number of cells that can be derived from one.
const CHILDREN: u64 = u32::MAX as u64;
/// The nonce of the keystream whose blocks are derived cells. No session and number give it to a stub, and no sequence to a check.
const DERIVED_NONCE: [u8; 12] = *b"derived cell";

/// A key that hides stubs. Without the keys of the disk, neither stubs nor cells say anything.
#[derive(Clone, PartialEq, Eq)]
pub struct Cell(Arc<Secret>);

/// A source of cells, from secret random bytes that were drawn elsewhere. What was given out does not follow from what is
/// left (D. J. Bernstein, *Fast-key-erasure random-number generators*, 2017).
pub struct Cells(Arc<Secret>);

/// The bytes of a cell: wiped when they are not used any more.
#[derive(PartialEq, Eq)]
struct Secret([u8; CELL_BYTES]);

thread_local! {
    /// Wiped secrets that are used again: the memory of each is kept from being swapped out already, which would cost a system call.
    static SPARE: RefCell<Vec<Arc<Secret>>> = const { RefCell::new(Vec::new()) };
}
/// Most of them.
const SPARE_MAX: usize = 1024;

impl Secret {
    /// A secret whose bytes `fill` makes where they stay.
    fn made(fill: impl FnOnce(&mut [u8; CELL_BYTES])) -> Arc<Self> {
        let spare = SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten();
        let mut secret = spare.unwrap_or_else(|| {
            let secret = Arc::new(Self([0; CELL_BYTES]));
            memory::keep(&*secret);
            secret
        });
        fill(&mut Arc::get_mut(&mut secret).expect("it has one owner yet").0);
        secret
    }

    /// Wipes `secret`, if this is the last of its owners, and has it used again.
    fn spare(secret: &mut Arc<Self>) {
        let Some(last) = Arc::get_mut(secret) else { return };
        wipe(&mut last.0);
        // At the end of a thread nothing is used again.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_MAX {
                spare.push(Arc::clone(secret));
            }
        });
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        Secret::spare(&mut self.0);
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

impl Cell {
    /// The cell in these bytes; `None` if they have another length.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (bytes.len() == CELL_BYTES).then(|| Self(Secret::made(|secret| secret.copy_from_slice(bytes))))
    }

    /// Whether the checksum fits, and the cell is not the zeros of an empty place.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.0.0[SECRET_BYTES..] == checksum(&self.0.0)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.0.0.to_vec()
    }

    /// The secret bytes, for a cipher: what it computes from them, it wipes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; CELL_BYTES] {
        &self.0.0
    }

    /// The derived cell of this number, as `docs/formats/keytree.md` has it. A cell from which others are derived seals nothing.
    ///
    /// # Panics
    /// If the number is 2³² - 1 or more: the cipher's counter of blocks ends there.
    #[must_use]
    pub fn child(&self, number: u64) -> Self {
        Self(Secret::made(|child| {
            derive(&self.0.0, number, child);
            wipe_stack();
        }))
    }

    /// Calls `each` with these numbers, in order, and the cells with them that are [derived](Cell::child) from this one.
    ///
    /// # Panics
    /// As [`Cell::child`].
    pub fn children(&self, numbers: Range<u64>, mut each: impl FnMut(u64, Self)) {
        if numbers.end - numbers.start == 1 {
            return each(numbers.start, self.child(numbers.start));
        }
        let mut stream = vec![0; (numbers.end - numbers.start) as usize * STREAM_BLOCK_BYTES as usize];
        derive(&self.0.0, numbers.start, &mut stream);
        assert!(numbers.end <= CHILDREN, "the keystream of a cell has no block {}", numbers.end - 1);
        wipe_stack();
        for (number, block) in numbers.zip(stream.chunks(STREAM_BLOCK_BYTES as usize)) {
            each(number, Self(Secret::made(|child| child.copy_from_slice(&block[..CELL_BYTES]))));
        }
        wipe(&mut stream);
    }

    /// Hides the stub of a sealing, or reveals it. The number of a sealing never repeats within its session, and so
    /// neither does the keystream.
    pub fn mask(&self, session: Session, number: u32, stub: &mut [u8]) {
        let mut nonce = [0; 12];
        nonce[..2].copy_from_slice(&session.0.to_le_bytes());
        nonce[2..6].copy_from_slice(&number.to_le_bytes());
        apply(&self.0.0, nonce, stub);
    }

    /// The mark of a sector that was written under this cell: by its sequence in the log, or its number among the homes.
    pub(crate) fn check(&self, sequence: u64) -> u64 {
        let (mut nonce, mut check) = ([0xff; 12], [0; 8]);
        nonce[..8].copy_from_slice(&sequence.to_le_bytes());
        apply(&self.0.0, nonce, &mut check);
        u64::from_le_bytes(check)
    }
}

impl Cells {
    /// A source of cells from secret random bytes that serve nothing else.
    #[must_use]
    pub fn new(entropy: [u8; CELL_BYTES]) -> Self {
        Self(Secret::made(|secret| *secret = entropy))
    }

    /// Splits a source of cells off `entropy`, which is another one from then on.
    #[must_use]
    pub fn split_off(entropy: &mut [u8; CELL_BYTES]) -> Self {
        Self(Secret::made(|secret| split_into(entropy, secret)))
    }

    /// A cell of 32 random bytes, without a checksum: what it seals, or the key of the disk, tells whether it is the right one.
    pub(crate) fn draw_key(&mut self) -> Cell {
        let source = &mut Arc::get_mut(&mut self.0).expect("a source has one owner").0;
        Cell(Secret::made(|secret| split_into(source, secret)))
    }

    pub(crate) fn draw(&mut self) -> Cell {
        let source = &mut Arc::get_mut(&mut self.0).expect("a source has one owner").0;
        let cell = Cell(Secret::made(|secret| {
            split_into(source, secret);
            let crc = checksum(secret);
            secret[SECRET_BYTES..].copy_from_slice(&crc);
        }));
        assert!(cell.is_whole(), "a start knows a cell that was drawn");
        cell
    }
}

/// The last bytes of a cell.
fn checksum(cell: &[u8; CELL_BYTES]) -> [u8; CELL_BYTES - SECRET_BYTES] {
    crc32c::crc32c(&cell[..SECRET_BYTES]).to_le_bytes()
}

/// Splits secret random bytes off `entropy`, which is another secret from then on.
pub(crate) fn split_off(entropy: &mut [u8; CELL_BYTES]) -> [u8; CELL_BYTES] {
    let mut split = [0; CELL_BYTES];
    split_into(entropy, &mut split);
    split
}

/// The keystream under `entropy`: its first half takes the place of that, and the second one is what is split off.
fn split_into(entropy: &mut [u8; CELL_BYTES], split: &mut [u8; CELL_BYTES]) {
    let mut stream = vec![0; 2 * CELL_BYTES];
    apply(entropy, [0; 12], &mut stream);
    let (next, other) = stream.split_at(CELL_BYTES);
    assert!(next != other, "a keystream does not repeat");
    entropy.copy_from_slice(next);
    split.copy_from_slice(other);
    wipe(&mut stream);
}

/// The keystream of derived cells from that of this number on, to where there are zeros.
fn derive(seed: &[u8; CELL_BYTES], number: u64, stream: &mut [u8]) {
    assert!(number < CHILDREN, "the keystream of a cell has no block {number}");
    encrypt_from(seed, DERIVED_NONCE, number * STREAM_BLOCK_BYTES, stream);
}

fn apply(key: &[u8; CELL_BYTES], nonce: [u8; 12], bytes: &mut [u8]) {
    encrypt_from(key, nonce, 0, bytes);
    wipe_stack();
}

/// Encrypts by the keystream from a position on. The state of the cipher has the key, and lies on the stack from here on.
#[inline(never)]
fn encrypt_from(key: &[u8; CELL_BYTES], nonce: [u8; 12], position: u64, bytes: &mut [u8]) {
    let mut stream = ChaCha20::new(Key::from_slice(key), &nonce.into());
    stream.seek(position);
    stream.apply_keystream(bytes);
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cell")
    }
}

impl fmt::Debug for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cells")
    }
}

#[cfg(test)]
mod tests {
    use crate::base::cell::*;

    #[test]
    fn cells_differ_and_neither_what_is_left_nor_the_other_source_shows_them() {
        let (mut entropy, mut seen) = ([7; 32], std::collections::BTreeSet::from([[7; 32]]));
        let mut cells = Cells::split_off(&mut entropy);
        assert!(seen.insert(entropy) && seen.insert(cells.0.0));
        for _ in 0..100 {
            let cell = cells.draw();
            assert!(cell.is_whole() && seen.insert(cell.0.0) && seen.insert(cells.0.0));
        }
    }

    #[test]
    fn a_stub_is_revealed_by_its_cell_alone_and_no_two_are_hidden_alike() {
        let mut cells = Cells::new([3; 32]);
        let (one, other) = (cells.draw(), cells.draw());
        let hidden = |cell: &Cell, session, number| {
            let mut stub = [0; 64];
            cell.mask(Session(session), number, &mut stub);
            stub
        };
        let all =
            [(&one, 0, 0), (&one, 0, 1), (&one, 1, 0), (&one, 0, 1 << 16), (&one, 256, 0), (&other, 0, 0)];
        let all = all.map(|(cell, session, number)| hidden(cell, session, number));
        assert!((1..all.len()).all(|n| !all[..n].contains(&all[n])));
        let mut stub = hidden(&one, 1, 2);
        one.mask(Session(1), 2, &mut stub);
        assert_eq!(stub, [0; 64]);
    }

    #[test]
    fn a_key_is_drawn_once_and_its_children_show_neither_it_nor_each_other() {
        let mut cells = Cells::new([5; 32]);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..10 {
            let key = cells.draw_key();
            assert!(seen.insert(*key.bytes()) && seen.insert(cells.0.0));
            assert!(!key.is_whole(), "all 32 bytes are random");
            for number in [0, 1, 111, 112, 1 << 31, CHILDREN - 1] {
                let child = key.child(number);
                assert_eq!(child, key.child(number));
                assert!(seen.insert(*child.bytes()) && seen.insert(*child.child(number).bytes()));
            }
        }
    }

    #[test]
    fn derived_cells_are_the_blocks_of_the_keystream_of_the_format() {
        // The blocks of an implementation of RFC 8439, section 2.3, from its text: key 0, 1, ... 31; nonce `derived cell`.
        let cell = Cell::from_bytes(&std::array::from_fn::<u8, 32, _>(|n| n as u8)).expect("a cell");
        let expected = [
            (0, "3b9eaa276ca14be5094b4dab1c9e1fafebbbfb9877f1e03a733a0961769c29b1"),
            (1, "bf9345b8f7282e4ee8b7642875d281732e4ec618ba41f728b9cf22e0182391d0"),
            (111, "ac801166acedfef5108c8aac82698d4e1cca11f7698224c5d7385153a3af1f11"),
            (0xffff_fffe, "53861d9d7c84ea2ee7cbd521495bbf2cf2a3ce6b3b5b2b53cb6fc9a6b729332b"),
        ];
        for (number, start) in expected {
            assert_eq!(hex(cell.child(number).bytes()), start, "child {number}");
        }
        let (below, mut found) = (cell.child(7), Vec::new());
        for numbers in [109..113, 113..114] {
            below.children(numbers, |number, child| found.push((number, child)));
        }
        assert_eq!(found, [109, 110, 111, 112, 113].map(|number| (number, below.child(number))));
    }

    #[test]
    fn the_memory_of_a_cell_is_wiped_with_its_last_owner_before_it_is_used_again() {
        let secret = Secret::made(|bytes| *bytes = [7; CELL_BYTES]);
        let at = Arc::as_ptr(&secret);
        let (one, mut other) = (Cell(Arc::clone(&secret)), Cell(secret));
        drop(one);
        assert_eq!(*other.bytes(), [7; CELL_BYTES], "it has another owner");
        Secret::spare(&mut other.0);
        assert_eq!((*other.bytes(), Arc::as_ptr(&other.0)), ([0; CELL_BYTES], at));
    }

    #[test]
    #[should_panic(expected = "no block 4294967295")]
    fn a_child_behind_the_end_of_the_keystream_is_refused() {
        let _ = Cells::new([5; 32]).draw_key().child(CHILDREN);
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_keystream_is_that_of_the_format() {
        // RFC 8439, appendix A.1, test vectors 1 and 4 (key and counter zero): the nonce of vector 1 is zeros.
        let mut stub = [0; 8];
        Cell::from_bytes(&[0; 32]).expect("a cell").mask(Session(0), 0, &mut stub);
        assert_eq!(stub, [0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90]);
    }
}
