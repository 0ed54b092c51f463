//! A copy on its way through a pipe: pieces of the disk, each behind its place and its length. What comes later counts.
//! Format: `docs/control.md`.

use std::io::{self, Read};

/// Most bytes of a piece.
pub(super) const PIECE_BYTES: u64 = 1 << 20;
/// A piece begins at a multiple of this, and ends at one or at the end of the disk.
pub(crate) const GRANULE_BYTES: u64 = 8 << 10;

const HEAD_BYTES: usize = 16;

/// Bytes of a disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    /// The first byte's place.
    pub(crate) at: u64,
    pub(crate) bytes: Vec<u8>,
}

/// The pieces that come through a pipe, until its other end is closed.
pub(crate) struct Pieces<R>(R);

impl<R: Read> Pieces<R> {
    /// The pieces that come from `pipe`.
    pub(crate) fn new(pipe: R) -> Self {
        Self(pipe)
    }

    fn next_piece(&mut self) -> io::Result<Option<Piece>> {
        let mut head = Vec::new();
        (&mut self.0).take(HEAD_BYTES as u64).read_to_end(&mut head)?;
        if head.is_empty() {
            return Ok(None);
        }
        let head: [u8; HEAD_BYTES] =
            head.try_into().map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        let ([at, len], _) = head.as_chunks() else { unreachable!("16 bytes are two times 8") };
        let (at, len) = (u64::from_le_bytes(*at), u64::from_le_bytes(*len));
        if !at.is_multiple_of(GRANULE_BYTES) || len == 0 || len > PIECE_BYTES || at.checked_add(len).is_none()
        {
            let what = format!("a piece of {len} bytes at {at}, which no copy of a disk has");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let mut bytes = vec![0; len as usize];
        self.0.read_exact(&mut bytes)?;
        Ok(Some(Piece { at, bytes }))
    }
}

impl<R: Read> Iterator for Pieces<R> {
    type Item = io::Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_piece().transpose()
    }
}

/// The bytes ahead of a piece.
pub(super) fn head(at: u64, len: usize) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&at.to_le_bytes());
    head[8..].copy_from_slice(&(len as u64).to_le_bytes());
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(at: u64, len: u64, bytes: &[u8]) -> Vec<u8> {
        [&head(at, len as usize)[..], bytes].concat()
    }

    #[test]
    fn pieces_come_as_they_were_sent() {
        let sent = [framed(8192, 3, b"abc"), framed(0, 1, b"d")].concat();
        let pieces: Vec<_> = Pieces::new(&sent[..]).map(|piece| piece.expect("a piece")).collect();
        let piece = |at, bytes: &[u8]| Piece { at, bytes: bytes.into() };
        assert_eq!(pieces, [piece(8192, b"abc"), piece(0, b"d")]);
    }

    #[test]
    fn a_piece_that_no_copy_has_is_refused() {
        for (at, len) in [(1, 1), (4096, 1), (0, 0), (0, PIECE_BYTES + 1), (u64::MAX / 8192 * 8192, 1 << 20)]
        {
            let sent = framed(at, len, &[0; 100]);
            let error = Pieces::new(&sent[..]).next().expect("something").expect_err("refused");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{at} {len}");
        }
        for cut in [1, 15, 17] {
            let sent = &framed(0, 3, b"abc")[..cut];
            let error = Pieces::new(sent).next().expect("something").expect_err("refused");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{cut}");
        }
    }
}
