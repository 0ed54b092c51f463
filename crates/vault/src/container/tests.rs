use super::*;
use crate::chunk::{CHUNK_BYTES_MAX, Codec, Compression, Compressor, KEY_BYTES, VaultKey};
use crate::testing::{Noise, text};
use crate::{ContainerSequence, Ordinal, Reference, VaultId};

const VAULT: VaultId = VaultId([7; 16]);

fn key() -> VaultKey {
    VaultKey::new(&[1; KEY_BYTES])
}

fn reference(content: &[u8], ordinal: u64) -> Reference {
    Reference { fingerprint: key().fingerprint(Class::Data, content), ordinal: Ordinal(ordinal) }
}

/// A container of the contents.
fn container(contents: &[Vec<u8>]) -> Vec<u8> {
    let mut builder = Builder::new(VAULT, ContainerSequence(9), Class::Data, SLOT_BYTES);
    let mut compressor = Compressor::new(Compression::Lz4);
    for (ordinal, content) in contents.iter().enumerate() {
        let (codec, stored) = compressor.compress(content);
        assert!(builder.add(reference(content, ordinal as u64), codec, stored, content.len()));
    }
    builder.finish().concat()
}

fn entries(bytes: &[u8]) -> Vec<Entry> {
    let head = Head::from_bytes(bytes).unwrap();
    let directory = &bytes[HEAD_BYTES..HEAD_BYTES + head.chunks as usize * ENTRY_BYTES];
    directory.as_chunks::<ENTRY_BYTES>().0.iter().map(|entry| Entry::from_bytes(&head, entry)).collect()
}

/// The content of an entry's chunk.
fn content(bytes: &[u8], stored: &Stored) -> Result<Vec<u8>, ChunkError> {
    let start = Head::from_bytes(bytes).unwrap().payload_start() + stored.offset as usize;
    stored.content(&key(), Class::Data, &bytes[start..start + stored.stored_bytes as usize])
}

fn contents() -> Vec<Vec<u8>> {
    let mut noise = Noise(1);
    (1..200)
        .map(|number| if number % 3 == 0 { noise.bytes(number * 40) } else { text(number * 99) })
        .collect()
}

#[test]
fn every_chunk_comes_back() {
    let contents = contents();
    let bytes = container(&contents);
    let head = Head::from_bytes(&bytes).unwrap();
    assert_eq!((head.vault, head.sequence, head.class), (VAULT, ContainerSequence(9), Class::Data));
    assert_eq!((head.chunks as usize, head.container_bytes()), (contents.len(), bytes.len()));
    for ((ordinal, wanted), entry) in contents.iter().enumerate().zip(entries(&bytes)) {
        let Entry::Chunk(stored) = entry else { panic!("{entry:?}") };
        assert_eq!(stored.chunk, reference(wanted, ordinal as u64));
        assert_eq!(&content(&bytes, &stored).unwrap(), wanted);
    }
}

#[test]
fn a_container_takes_what_its_slot_holds_and_no_more() {
    for size in [8, CHUNK_BYTES_MAX] {
        let mut builder = Builder::new(VAULT, ContainerSequence(0), Class::Metadata, SLOT_BYTES);
        let content = Noise(2).bytes(size);
        let mut count = 0;
        while builder.add(reference(&content, count), Codec::Raw, &content, size) {
            count += 1;
        }
        assert_eq!(u64::from(builder.head().chunks), count);
        let bytes = builder.finish().concat();
        assert!(bytes.len() <= SLOT_BYTES && bytes.len() + size + ENTRY_BYTES + 2 * HEAD_BYTES > SLOT_BYTES);
        assert_eq!(Head::from_bytes(&bytes).unwrap().container_bytes(), bytes.len());
    }
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is_and_harms_one_chunk_at_most() {
    let contents = contents();
    let sound = container(&contents);
    let mut noise = Noise(3);
    for _ in 0..500 {
        let at = noise.next() as usize % sound.len();
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << (noise.next() % 8);
        if at < HEAD_BYTES {
            assert!(Head::from_bytes(&bytes).is_err(), "byte {at} of the head");
            continue;
        }
        let opened = |entry: &Entry| match entry {
            Entry::Chunk(stored) => content(&bytes, stored).ok(),
            _ => None,
        };
        let found: Vec<_> = entries(&bytes).iter().map(opened).collect();
        let lost =
            found.iter().zip(&contents).filter(|(found, wanted)| found.as_ref() != Some(wanted)).count();
        let is_padding = lost == 0 && bytes[at] != sound[at];
        assert!(lost == 1 || is_padding && sound[at] == 0, "byte {at}: {lost} chunks lost");
        assert!(
            found
                .iter()
                .zip(&contents)
                .all(|(found, wanted)| found.as_ref().is_none_or(|found| found == wanted))
        );
    }
}

#[test]
fn an_entry_of_zeros_is_a_chunk_that_was_destroyed() {
    let mut bytes = container(&contents());
    bytes[HEAD_BYTES + 5 * ENTRY_BYTES..HEAD_BYTES + 6 * ENTRY_BYTES].fill(0);
    let entries = entries(&bytes);
    assert_eq!(entries[5], Entry::Destroyed);
    assert_eq!(entries.iter().filter(|entry| matches!(entry, Entry::Chunk(_))).count(), entries.len() - 1);
}

/// The bytes of a head with a sound checksum after `change`.
fn changed(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = container(&contents());
    change(&mut bytes);
    let checksum = crc32c::crc32c(&bytes[..HEAD_BYTES - 4]);
    bytes[HEAD_BYTES - 4..HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

#[test]
fn a_head_that_says_what_cannot_be_is_refused() {
    let error = |bytes: &[u8]| Head::from_bytes(bytes).unwrap_err();
    assert_eq!(error(&[0; 100]), HeadError::Short(100));
    assert_eq!(error(&changed(|bytes| bytes[0] = b'q')), HeadError::Magic);
    assert_eq!(error(&changed(|bytes| bytes[16] = 2)), HeadError::Version(2));
    assert_eq!(error(&changed(|bytes| bytes[20] = 4)), HeadError::Field { field: "class", value: 4 });
    let chunks = changed(|bytes| bytes[48..52].copy_from_slice(&u32::MAX.to_le_bytes()));
    assert_eq!(error(&chunks), HeadError::Field { field: "chunks", value: u32::MAX });
    let payload = changed(|bytes| bytes[52..56].copy_from_slice(&(SLOT_BYTES as u32).to_le_bytes()));
    assert_eq!(error(&payload), HeadError::Field { field: "payload bytes", value: SLOT_BYTES as u32 });
}

#[test]
fn an_entry_with_a_sound_checksum_that_points_outside_is_damaged() {
    let bytes = container(&contents());
    let head = Head::from_bytes(&bytes).unwrap();
    let Entry::Chunk(sound) = entries(&bytes)[0] else { panic!("a chunk") };
    let read = |stored: Stored| Entry::from_bytes(&head, &stored.to_bytes());
    assert_eq!(read(sound), Entry::Chunk(sound));
    for bad in [
        Stored { offset: head.payload_bytes, stored_bytes: 1, ..sound },
        Stored { offset: u32::MAX, stored_bytes: u32::MAX, ..sound },
        Stored { raw_bytes: CHUNK_BYTES_MAX as u32 + 1, ..sound },
    ] {
        assert_eq!(read(bad), Entry::Damaged);
    }
}

#[test]
fn a_chunk_under_another_name_is_refused() {
    let bytes = container(&contents());
    let Entry::Chunk(sound) = entries(&bytes)[0] else { panic!("a chunk") };
    let other = Stored { chunk: reference(b"other", 0), ..sound };
    assert_eq!(content(&bytes, &other), Err(ChunkError::Fingerprint));
}
