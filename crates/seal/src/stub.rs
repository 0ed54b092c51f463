//! The part of a seal beside the ciphertext.

use crate::seal::Seal;

/// Bytes of the longest stub.
pub const STUB_BYTES_MAX: usize = 64;

/// A stub. No secret: one who has all stubs and all ciphertext but no key learns nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stub {
    /// The stub, and zeros after it.
    bytes: [u8; STUB_BYTES_MAX],
    length: usize,
}

/// A stub of a wrong length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a stub of {seal} has {} bytes, not {found}", .seal.stub_bytes())]
pub struct BadStub {
    /// The seal.
    pub seal: Seal,
    /// How many bytes were given.
    pub found: usize,
}

impl Stub {
    /// The stub that was read from a medium.
    ///
    /// # Errors
    /// If the length is not that of the seal's stubs.
    pub fn from_bytes(seal: Seal, bytes: &[u8]) -> Result<Stub, BadStub> {
        if bytes.len() == seal.stub_bytes() {
            Ok(Stub::new(&[bytes]))
        } else {
            Err(BadStub { seal, found: bytes.len() })
        }
    }

    /// The bytes to keep.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The parts, one after the other.
    pub(crate) fn new(parts: &[&[u8]]) -> Stub {
        let mut stub = Stub { bytes: [0; STUB_BYTES_MAX], length: 0 };
        for part in parts {
            stub.bytes[stub.length..][..part.len()].copy_from_slice(part);
            stub.length += part.len();
        }
        stub
    }

    /// The stub, if it has `N` bytes.
    pub(crate) fn array<const N: usize>(&self) -> Option<[u8; N]> {
        self.as_bytes().try_into().ok()
    }
}
