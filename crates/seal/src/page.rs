//! Hiding whole pages of stubs behind a cell: 32 random bytes whose destruction destroys the page,
//! wherever copies of it are, and with it every block whose stub it holds.

use crate::mac::derive;
use crate::random::Random;
use crate::sealer::MasterKey;
use crate::siv::Siv;
use crate::units::{DiskId, Generation, Session};
use std::fmt;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{Immutable, IntoBytes};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Bytes of a cell.
pub const CELL_BYTES: usize = 32;
/// Bytes of a page's tag. Not secret.
pub const TAG_BYTES: usize = 16;

/// A cell of the root: the secret part of a page's key, which a medium can overwrite.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Cell([u8; CELL_BYTES]);

/// What a page is. Each kind has keys of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PageKind {
    /// A home page, whose stubs lie by disk address.
    Home,
    /// A sector of a log, whose stubs lie in the order of writing.
    Log,
}

/// A page that is no page, or another one, or of another cell; or it was altered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{kind} {number} cannot be opened: its cell was destroyed, or it was altered; restore it from a backup \
     if its stubs were not forgotten"
)]
pub struct BadPage {
    /// The kind.
    pub kind: PageKind,
    /// The page's number.
    pub number: u64,
}

/// The key of a page: of the cell, and of a session.
pub struct PageSealer {
    keys: Siv,
    disk: DiskId,
    session: Session,
    generation: Generation,
    kind: PageKind,
}

/// What a page is bound to, besides the bytes in front of it: 64 bytes.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Bound {
    disk: [u8; 16],
    session: [u8; 16],
    number: U64,
    sequence: U64,
    generation: U32,
    zeros: [u8; 12],
}

const _: () = assert!(size_of::<Bound>() == 64);

impl Cell {
    /// The cell that was read from a medium. The caller wipes its own copy.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; CELL_BYTES]) -> Cell {
        Cell(*bytes)
    }

    /// A fresh cell, which must be durable before the first page below it is.
    pub fn generate(random: &mut impl Random) -> Cell {
        let mut cell = Cell([0; CELL_BYTES]);
        random.fill(&mut cell.0);
        cell
    }

    /// The bytes to write to the root, and nowhere else.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; CELL_BYTES] {
        &self.0
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cell")
    }
}

impl fmt::Display for PageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PageKind::Home => "home page",
            PageKind::Log => "log sector",
        })
    }
}

impl fmt::Debug for PageSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageSealer")
            .field("kind", &self.kind)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

impl PageSealer {
    /// The keys of the pages of one kind below a cell, written in a session.
    #[must_use]
    pub fn new(
        kind: PageKind,
        disk: DiskId,
        master: (&MasterKey, Generation),
        session: Session,
        cell: &Cell,
    ) -> PageSealer {
        let purpose: &[u8] = match kind {
            PageKind::Home => b"home",
            PageKind::Log => b"log",
        };
        let (master, generation) = master;
        let keys = derive(&[master.as_bytes(), &cell.0], &session.0, &[b"quietus page 1 ", purpose]);
        PageSealer { keys: Siv::new(&keys), disk, session, generation, kind }
    }

    /// Encrypts a page of any length in place, and returns its tag. `head` is what stands in clear
    /// in front of it; the tag covers that too. A sequence that is used again shows whether two
    /// pages are equal, and nothing else.
    #[must_use = "a page without its tag is lost"]
    pub fn close(&self, number: u64, sequence: u64, head: &[u8], page: &mut [u8]) -> [u8; TAG_BYTES] {
        self.keys.seal(&self.header(number, sequence, head), page)
    }

    /// Decrypts a page in place.
    ///
    /// # Errors
    /// If the page, its tag, its head, its place or its cell is another. Then the page is zeros.
    pub fn open(
        &self,
        number: u64,
        sequence: u64,
        head: &[u8],
        page: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<(), BadPage> {
        let header = self.header(number, sequence, head);
        self.keys.open(&header, page, tag).map_err(|_| BadPage { kind: self.kind, number })
    }

    fn header(&self, number: u64, sequence: u64, head: &[u8]) -> Vec<u8> {
        let bound = Bound {
            disk: self.disk.0,
            session: self.session.0,
            number: number.into(),
            sequence: sequence.into(),
            generation: self.generation.0.into(),
            zeros: [0; 12],
        };
        [bound.as_bytes(), head].concat()
    }
}
