//! Chunks: how content is cut, named and compressed.

mod codec;
mod cut;
mod fingerprint;
mod packed;

#[cfg(test)]
mod tests;

pub use codec::{BadChunk, Codec, Compression, Compressor, decompress};
pub use cut::Cutter;
pub use fingerprint::{CHECK_BYTES, KEY_BYTES, VaultKey};
pub use packed::{Bytes, Packed, Packer, Sent};

/// Shortest chunk, in bytes, but for the last of a file.
pub const CHUNK_BYTES_MIN: usize = 2 << 10;
/// Average length of a chunk, in bytes.
pub const CHUNK_BYTES_AVERAGE: usize = 8 << 10;
/// Longest chunk, in bytes.
pub const CHUNK_BYTES_MAX: usize = 64 << 10;
