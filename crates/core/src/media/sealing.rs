//! Sealed content: as many bytes of ciphertext as content, and a short stub that makes them readable.
//!
//! The model is that of *Secure Deletion for a Versioning File System* (FAST 2005), section 3. What performs the
//! input and output has the keys, as a [`Sealer`]; the volume and its store only know which block is bound to what
//! ([`Context`]), and keep what the sealer returns ([`Sealing`]).

use crate::base::cell::Cell;
use crate::base::fields::Fields;
use crate::base::units::{Block, Epoch, Session, Slot};
use crate::base::zeros::is_zeros;
use crate::media::medium::{MediumError, MediumErrorKind};
use crate::media::place::Place;
use std::fmt::{self, Debug};
use std::ops::Deref;

/// The context that a sealed block is bound to, besides the disk, the keys and the [`Sealing`] itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Context {
    /// The block's address.
    pub block: Block,
    /// The epoch that wrote it.
    pub born: Epoch,
    /// Where its ciphertext lies.
    pub slot: Slot,
}

/// How a block was sealed. With the keys and the context, all that opens it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sealing {
    /// The opening of the disk that sealed it.
    pub session: Session,
    /// The number of the sealing within the session.
    pub number: u32,
    /// The bytes whose destruction destroys the block.
    pub stub: Stub,
}

impl Sealing {
    /// The same with its stub hidden under `cell`, or revealed.
    #[must_use]
    pub fn masked(mut self, cell: &Cell) -> Self {
        let stub = &mut self.stub.bytes[..usize::from(self.stub.len)];
        cell.mask(self.session, self.number, stub);
        self
    }
}

/// Most bytes of a stub.
const STUB_BYTES_MAX: usize = 64;

/// A stub: at most 64 bytes, without memory of its own, since a long request has hundreds.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stub {
    len: u8,
    /// Zeros behind the stub.
    bytes: [u8; STUB_BYTES_MAX],
}

impl From<&[u8]> for Stub {
    /// # Panics
    /// If there are more than 64 bytes.
    fn from(stub: &[u8]) -> Self {
        let mut bytes = [0; STUB_BYTES_MAX];
        assert!(stub.len() <= STUB_BYTES_MAX, "a stub has {} bytes, more than {STUB_BYTES_MAX}", stub.len());
        bytes[..stub.len()].copy_from_slice(stub);
        Self { len: stub.len() as u8, bytes }
    }
}

impl<const N: usize> From<[u8; N]> for Stub {
    fn from(stub: [u8; N]) -> Self {
        stub[..].into()
    }
}

impl Deref for Stub {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl Debug for Stub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A block in a place, which is sealed or is to be sealed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sealed {
    /// The block's context.
    pub context: Context,
    /// Where the rest of what opens it comes from.
    pub sealing: SealingAt,
}

/// Where the [`Sealing`] of a block is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SealingAt {
    /// Nowhere yet: the write makes it.
    ToCome,
    /// Here.
    Known(Sealing),
    /// In a home, under this cell if stubs are hidden.
    Home(Place, Option<Cell>),
}

/// Bytes of a home before the stub.
const RECORD_BYTES: usize = 16;
/// Bytes of the number of a block, or of an epoch, in a home.
const NUMBER_BYTES: usize = 5;

/// The bytes of a stub's home, as `docs/formats/stubs.md` has them: the block, how it was sealed, the epoch that wrote it,
/// and the stub.
///
/// # Panics
/// If the number of the block, or of the epoch, has more than five bytes.
#[must_use]
pub fn home_bytes((block, born): (Block, Epoch), (session, number): (Session, u32), stub: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(RECORD_BYTES + stub.len());
    bytes.extend(five_bytes(block.0));
    bytes.extend(session.0.to_le_bytes());
    bytes.extend(number.to_le_bytes());
    bytes.extend(five_bytes(born.0));
    assert!(bytes.len() == RECORD_BYTES, "the stub begins where a reader looks for it");
    bytes.extend(stub);
    bytes
}

fn five_bytes(number: u64) -> [u8; NUMBER_BYTES] {
    let bytes = number.to_be_bytes();
    let (high, low) = bytes.split_at(8 - NUMBER_BYTES);
    assert!(is_zeros(high), "the number of a block or an epoch has five bytes");
    low.try_into().expect("five bytes are left")
}

/// The block whose stub lives in these bytes of a home, the epoch that wrote it, and how it was sealed.
#[must_use]
pub fn parse_home(bytes: &[u8]) -> Option<(Block, Epoch, Sealing)> {
    let (record, stub) = bytes.split_at_checked(RECORD_BYTES)?;
    let mut fields = Fields(record);
    let number = |bytes: [u8; NUMBER_BYTES]| bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
    let block = Block(number(fields.array()?));
    let (session, sealed) = (Session(fields.u16()?), fields.u32()?);
    let born = Epoch(number(fields.array()?));
    Some((block, born, Sealing { session, number: sealed, stub: stub.into() }))
}

/// Seals and opens blocks. Does no input and output.
pub trait Sealer: Debug + Send + Sync {
    /// Turns `content` into ciphertext, in place, under a number that was never used before.
    ///
    /// # Errors
    /// Why it cannot be sealed; then nothing may be written.
    fn close(&self, context: &Context, content: &mut [u8]) -> Result<Sealing, String>;

    /// Turns ciphertext back into content, in place.
    ///
    /// # Errors
    /// [`Unauthentic`]; then `content` is zeros.
    fn open(&self, context: &Context, sealing: &Sealing, content: &mut [u8]) -> Result<(), Unauthentic>;

    /// Whether [`Sealer::open`] depends on the sealing. Where it does not, sealings in homes are not read.
    fn needs_sealing(&self) -> bool {
        true
    }
}

/// Ciphertext, stub or context is not what was sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "block {} of epoch {} cannot be opened: its stub was destroyed, or its data, stub or place was altered; \
     restore it from a backup if it was not forgotten",
    .0.block.0, .0.born.0
)]
pub struct Unauthentic(pub Context);

/// Why content cannot be read or written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ContentError {
    /// A medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// The content cannot be opened. Its medium is well.
    #[error(transparent)]
    Unauthentic(#[from] Unauthentic),
}

/// For work that cannot go on without the content.
impl From<ContentError> for MediumError {
    fn from(error: ContentError) -> Self {
        match error {
            ContentError::Medium(error) => error,
            ContentError::Unauthentic(it) => Self { kind: MediumErrorKind::Io, message: it.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::media::sealing::*;

    #[test]
    fn a_home_has_the_bytes_of_its_format_and_is_read_as_it_was_written() {
        let (block, born) = (Block(0x01_0203_0405), Epoch(0x31_3233_3435));
        let bytes = home_bytes((block, born), (Session(0x1112), 0x2122_2324), &[0x77; 3]);
        let record = [1, 2, 3, 4, 5, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21, 0x31, 0x32, 0x33, 0x34, 0x35];
        assert_eq!(bytes, [&record[..], &[0x77; 3]].concat());
        let sealing = Sealing { session: Session(0x1112), number: 0x2122_2324, stub: [0x77; 3].into() };
        assert_eq!(parse_home(&bytes), Some((block, born, sealing)));
        assert!(parse_home(&bytes[..16]).is_some() && parse_home(&bytes[..15]).is_none());
    }

    #[test]
    #[should_panic(expected = "five bytes")]
    fn a_block_whose_number_a_home_cannot_hold_is_refused() {
        let _ = home_bytes((Block(1 << 40), Epoch(1)), (Session(0), 0), &[]);
    }
}
