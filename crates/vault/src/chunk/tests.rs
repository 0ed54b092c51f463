use super::*;
use crate::container::Class;
use crate::testing::{Noise, text};

fn key(byte: u8) -> VaultKey {
    VaultKey::new(&[byte; KEY_BYTES])
}

/// The lengths of all chunks of `content`, of which `window` bytes are seen at a time.
fn lengths(cutter: &Cutter, content: &[u8], window: usize) -> Vec<usize> {
    let mut at = 0;
    std::iter::from_fn(|| {
        let seen = &content[at..content.len().min(at + window)];
        let length = (!seen.is_empty()).then(|| cutter.cut(seen))?;
        at += length;
        Some(length)
    })
    .collect()
}

#[test]
fn chunks_are_8_kib_on_average_and_within_bounds() {
    let content = Noise(1).bytes(16 << 20);
    let lengths = lengths(&Cutter::new(&key(1)), &content, content.len());
    let average = content.len() / lengths.len();
    assert!((7 << 10..11 << 10).contains(&average), "{average} bytes on average");
    let (last, rest) = lengths.split_last().unwrap();
    assert!(*last <= CHUNK_BYTES_MAX);
    assert!(rest.iter().all(|length| (CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(length)));
}

#[test]
fn cuts_do_not_depend_on_how_much_is_seen_at_a_time() {
    let mut content = Noise(2).bytes(1 << 20);
    content[200_000..600_000].fill(0);
    let cutter = Cutter::new(&key(1));
    let whole = lengths(&cutter, &content, content.len());
    for window in [CHUNK_BYTES_MAX, CHUNK_BYTES_MAX + 1, 3 * CHUNK_BYTES_MAX + 777] {
        assert_eq!(lengths(&cutter, &content, window), whole, "window of {window} bytes");
    }
}

#[test]
fn an_insertion_changes_the_chunks_around_it_only() {
    let content = Noise(3).bytes(4 << 20);
    let mut changed = content.clone();
    changed.splice(1_000_000..1_000_000, *b"inserted");
    let (key, cutter) = (key(1), Cutter::new(&key(1)));
    let fingerprints = |content: &[u8]| {
        let mut at = 0;
        let cut = |length: usize| {
            at += length;
            key.fingerprint(Class::Data, &content[at - length..at])
        };
        lengths(&cutter, content, content.len())
            .into_iter()
            .map(cut)
            .collect::<std::collections::BTreeSet<_>>()
    };
    let new = fingerprints(&changed).difference(&fingerprints(&content)).count();
    assert!((1..=3).contains(&new), "{new} new chunks");
}

#[test]
fn other_keys_cut_and_name_differently() {
    let content = Noise(4).bytes(1 << 20);
    let of = |byte| lengths(&Cutter::new(&key(byte)), &content, content.len());
    assert_ne!(of(1), of(2));
    assert_ne!(key(1).fingerprint(Class::Data, &content), key(2).fingerprint(Class::Data, &content));
    assert_eq!(key(1).fingerprint(Class::Data, &content), key(1).fingerprint(Class::Data, &content));
}

#[test]
fn what_is_compressed_comes_back() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let mut compressor = Compressor::new(compression);
        for raw in [
            Vec::new(),
            vec![0; CHUNK_BYTES_MAX],
            text(8 << 10),
            Noise(5).bytes(CHUNK_BYTES_MAX),
            b"x".to_vec(),
        ] {
            let (codec, stored) = compressor.compress(&raw);
            assert!(stored.len() <= raw.len(), "{compression:?} grew {} to {}", raw.len(), stored.len());
            assert_eq!(Codec::from_byte(codec as u8), Some(codec));
            assert_eq!(decompress(codec, stored, raw.len()).unwrap(), raw);
        }
    }
}

#[test]
fn text_shrinks_and_noise_is_kept_as_it_is() {
    for compression in [Compression::Lz4, Compression::Zstd] {
        let mut compressor = Compressor::new(compression);
        let (text, noise) = (text(8 << 10), Noise(6).bytes(8 << 10));
        assert!(compressor.compress(&text).1.len() < text.len() / 2);
        assert_eq!(compressor.compress(&noise), (Codec::Raw, &noise[..]));
    }
}

#[test]
fn stored_bytes_that_are_damaged_or_lie_about_their_length_are_refused() {
    let raw = text(8 << 10);
    for compression in [Compression::Lz4, Compression::Zstd] {
        let mut compressor = Compressor::new(compression);
        let (codec, stored) = compressor.compress(&raw);
        assert!(decompress(codec, stored, raw.len() - 1).is_err());
        assert!(decompress(codec, stored, raw.len() + 1).is_err());
        assert!(
            decompress(codec, stored, usize::MAX).is_err(),
            "a length beyond a chunk's asks for no memory"
        );
        assert!(decompress(codec, &stored[..stored.len() / 2], raw.len()).is_err());
        let mut noise = Noise(7);
        for _ in 0..2_000 {
            let mut damaged = stored.to_vec();
            let at = noise.next() as usize % damaged.len();
            damaged[at] ^= 1 << (noise.next() % 8);
            if let Ok(content) = decompress(codec, &damaged, raw.len()) {
                assert_eq!(content.len(), raw.len());
            }
        }
    }
    assert!(decompress(Codec::Raw, &raw, raw.len() - 1).is_err());
    assert_eq!(Codec::from_byte(3), None);
}

#[test]
fn a_chunk_that_was_sent_has_the_name_of_its_content_or_is_refused() {
    let key = VaultKey::new(&[7; KEY_BYTES]);
    let content = b"a line of text that compresses well\n".repeat(40);
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let packed = Packer::new(key.clone(), compression).pack(Class::Data, &content);
        let sent = postcard::to_allocvec(&packed).unwrap();
        let read = |bytes: &[u8]| postcard::from_bytes::<Sent>(bytes).ok().map(|it| it.check(&key));
        assert_eq!(read(&sent), Some(Ok(packed)), "{compression:?}");
        for at in 0..sent.len() {
            for bit in 0..8 {
                let mut changed = sent.clone();
                changed[at] ^= 1 << bit;
                if let Some(Ok(packed)) = read(&changed) {
                    let content =
                        decompress(packed.sent.codec, packed.stored(), packed.sent.raw_bytes).unwrap();
                    assert_eq!(packed.fingerprint, key.fingerprint(packed.sent.class(), &content));
                }
            }
            assert_eq!(read(&sent[..at]), None, "{at} of {} bytes", sent.len());
        }
    }
    let sent = |codec, raw_bytes, stored: &[u8]| Sent {
        is_metadata: false,
        codec,
        raw_bytes,
        stored: Bytes(stored.into()),
    };
    for bad in [
        sent(Codec::Raw, 0, b""),
        sent(Codec::Raw, 3, b"four"),
        sent(Codec::Raw, 5, b"four"),
        sent(Codec::Raw, CHUNK_BYTES_MAX + 1, &vec![0; CHUNK_BYTES_MAX + 1]),
        sent(Codec::Lz4, usize::MAX, b"four"),
        sent(Codec::Zstd, usize::MAX, b"four"),
    ] {
        assert!(bad.clone().check(&key).is_err(), "{bad:?}");
    }
}
