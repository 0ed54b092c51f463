//! Local compression: each chunk by itself, kept as it is where that gains nothing.

use serde::{Deserialize, Serialize};

use super::CHUNK_BYTES_MAX;

/// The compression of a vault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// No compression.
    None,
    /// LZ4: fast.
    Lz4,
    /// Zstandard, level 3: smaller.
    Zstd,
}

/// How a chunk is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Codec {
    /// Uncompressed.
    Raw = 0,
    /// A block of LZ4, without a length before it.
    Lz4 = 1,
    /// A frame of Zstandard.
    Zstd = 2,
}

impl Codec {
    /// The codec with this `byte` in a directory.
    pub fn from_byte(byte: u8) -> Option<Codec> {
        [Codec::Raw, Codec::Lz4, Codec::Zstd].into_iter().find(|&codec| codec as u8 == byte)
    }
}

/// A chunk that cannot be decompressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("chunk: {stored} bytes stored as {codec:?} do not decompress to {raw}; run `quietus vault verify`")]
pub struct BadChunk {
    pub(super) codec: Codec,
    pub(super) stored: usize,
    pub(super) raw: usize,
}

const ZSTD_LEVEL: i32 = 3;

/// Compresses chunks, one after another, with memory of its own.
pub struct Compressor {
    compression: Compression,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    buffer: Vec<u8>,
}

impl Compressor {
    /// A compressor for a vault that compresses that way.
    pub fn new(compression: Compression) -> Compressor {
        let zstd = || zstd::bulk::Compressor::new(ZSTD_LEVEL).ok();
        let zstd = (compression == Compression::Zstd).then(zstd).flatten();
        Compressor {
            compression,
            zstd,
            buffer: vec![0; lz4_flex::block::get_maximum_output_size(CHUNK_BYTES_MAX)],
        }
    }

    /// The bytes to store for `raw`, and the codec that made them.
    ///
    /// # Panics
    ///
    /// If `raw` is longer than [`CHUNK_BYTES_MAX`].
    pub fn compress<'a>(&'a mut self, raw: &'a [u8]) -> (Codec, &'a [u8]) {
        assert!(raw.len() <= CHUNK_BYTES_MAX, "a chunk of {} bytes", raw.len());
        let packed = match (self.compression, &mut self.zstd) {
            (Compression::Lz4, _) => {
                lz4_flex::block::compress_into(raw, &mut self.buffer).ok().map(|length| (Codec::Lz4, length))
            }
            (Compression::Zstd, Some(zstd)) => {
                zstd.compress_to_buffer(raw, &mut self.buffer[..]).ok().map(|length| (Codec::Zstd, length))
            }
            _ => None,
        };
        match packed {
            Some((codec, length)) if length < raw.len() => (codec, &self.buffer[..length]),
            _ => (Codec::Raw, raw),
        }
    }
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Compressor({:?})", self.compression)
    }
}

/// The `raw` bytes of a chunk that is stored as `stored`; at most [`CHUNK_BYTES_MAX`].
///
/// # Errors
///
/// [`BadChunk`] if `stored` does not decompress to that many bytes.
pub fn decompress(codec: Codec, stored: &[u8], raw: usize) -> Result<Vec<u8>, BadChunk> {
    let bad = BadChunk { codec, stored: stored.len(), raw };
    if raw > CHUNK_BYTES_MAX {
        return Err(bad);
    }
    let content = match codec {
        Codec::Raw => stored.to_vec(),
        Codec::Lz4 => lz4_flex::block::decompress(stored, raw).map_err(|_| bad)?,
        Codec::Zstd => zstd::bulk::decompress(stored, raw).map_err(|_| bad)?,
    };
    if content.len() == raw { Ok(content) } else { Err(bad) }
}
