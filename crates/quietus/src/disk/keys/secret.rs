//! The bytes of a secret.

use std::io::{self, Read};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Longest secret, in bytes.
pub const SECRET_BYTES_MAX: usize = 16 << 10;

/// Bytes that are wiped; the memory never moves.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(super) struct SecretBytes {
    len: usize,
    bytes: [u8; SECRET_BYTES_MAX],
}

impl Default for SecretBytes {
    fn default() -> Self {
        Self { len: 0, bytes: [0; SECRET_BYTES_MAX] }
    }
}

impl SecretBytes {
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(super) fn push(&mut self, byte: u8) -> io::Result<()> {
        *self.bytes.get_mut(self.len).ok_or_else(too_long)? = byte;
        self.len += 1;
        Ok(())
    }

    /// Removes the last character of UTF-8 text.
    pub(super) fn remove_char(&mut self) {
        let is_start = |byte: &u8| byte & 0xc0 != 0x80;
        let start = self.as_slice().iter().rposition(is_start).unwrap_or(0);
        self.truncate(start);
    }

    pub(super) fn remove_line_end(&mut self) {
        if self.as_slice().ends_with(b"\n") {
            self.truncate(self.len - 1);
            if self.as_slice().ends_with(b"\r") {
                self.truncate(self.len - 1);
            }
        }
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.bytes[len..self.len].zeroize();
        self.len = len;
    }

    /// Appends all that `from` gives.
    pub(super) fn read_from(&mut self, from: &mut impl Read) -> io::Result<()> {
        loop {
            let free = &mut self.bytes[self.len..];
            // One more byte shows whether there is more.
            let mut more = [0];
            let room = if free.is_empty() { &mut more[..] } else { free };
            match from.read(room) {
                Ok(0) => return Ok(()),
                Ok(_) if self.len == SECRET_BYTES_MAX => return Err(too_long()),
                Ok(read) => self.len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn too_long() -> io::Error {
    io::Error::other(format!("more than {SECRET_BYTES_MAX} bytes, the limit of a secret"))
}
