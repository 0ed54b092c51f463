use super::*;
use crate::Vault;
use crate::testing::Noise;
use crate::tree::{Kind, Metadata};
use crate::vault::tests::{Media, content, recipe, sanitize, writer};

const CHUNK: usize = IMAGE_CHUNK_BYTES as usize;

/// An image, and the pieces that are written to it, each with its place.
fn history(noise: &mut Noise, size: usize) -> (Vec<u8>, Vec<(usize, Vec<u8>)>) {
    let (mut image, mut pieces) = (vec![0; size], Vec::new());
    let places = size.div_ceil(CHUNK);
    let mut write = |place: usize, chunks: usize, noise: &mut Noise| {
        let from = place * CHUNK;
        let to = size.min(from + chunks * CHUNK);
        let mut bytes = noise.bytes((to - from).next_multiple_of(8));
        bytes.truncate(to - from);
        if noise.next().is_multiple_of(3) {
            let hole = noise.next() as usize % bytes.len() / CHUNK * CHUNK;
            let end = bytes.len().min(hole + CHUNK);
            bytes[hole..end].fill(0);
        }
        image[from..to].copy_from_slice(&bytes);
        pieces.push((from, bytes));
    };
    let mut place = 0;
    while place < places {
        place += noise.next() as usize % 5;
        let chunks = 1 + noise.next() as usize % 4;
        if place < places {
            write(place, chunks, noise);
        }
        place += chunks;
    }
    for _ in 0..noise.next() % 40 {
        let (place, chunks) = (noise.next() as usize % places, 1 + noise.next() as usize % 3);
        write(place, chunks, noise);
    }
    (image, pieces)
}

fn stored(vault: &mut Vault<'_>, writer: &mut Writer, pieces: &[(usize, Vec<u8>)], size: usize) -> Recipe {
    let mut image = ImageWriter::default();
    for (at, bytes) in pieces {
        image.push(writer, vault, *at as u64, bytes).unwrap();
    }
    image.finish(writer, vault, size as u64).unwrap()
}

fn commit(vault: &mut Vault<'_>, writer: &mut Writer, recipe: Recipe) -> SnapshotId {
    let node = Node { name: b"disk.img".to_vec(), metadata: Metadata::default(), kind: Kind::File(recipe) };
    let folder = writer.folder(vault, &[node]).unwrap();
    let snapshot = Snapshot { name: b"s".to_vec(), created_ms: 1, folder, ..Snapshot::default() };
    writer.commit(vault, &snapshot).unwrap()
}

#[test]
fn an_image_is_what_came_last_for_each_place() {
    let media = Media::new(200);
    let mut vault = media.create();
    for seed in 0..60 {
        let mut noise = Noise(seed);
        let size = 1 + noise.next() as usize % (60 * CHUNK);
        let (image, pieces) = history(&mut noise, size);
        let mut writer = writer(&mut vault);
        let recipe = stored(&mut vault, &mut writer, &pieces, size);
        assert_eq!(recipe.bytes(), size as u64);
        assert!(content(&mut vault, &recipe).unwrap() == image, "seed {seed}");
        vault.drop_put(writer.put()).unwrap();
        sanitize(&mut vault).unwrap();
    }
}

#[test]
fn an_image_has_one_recipe_however_it_came() {
    let media = Media::new(200);
    let mut vault = media.create();
    for seed in 0..20 {
        let mut noise = Noise(seed);
        let (image, pieces) = history(&mut noise, 50 * CHUNK);
        let mut writer = writer(&mut vault);
        let once = stored(&mut vault, &mut writer, &[(0, image.clone())], image.len());
        let before = writer.stored();
        let twice = stored(&mut vault, &mut writer, &pieces, image.len());
        assert_eq!(once, twice, "seed {seed}");
        let again = stored(&mut vault, &mut writer, &[(0, image.clone())], image.len());
        assert!(once == again && writer.stored().0 >= before.0);
        vault.drop_put(writer.put()).unwrap();
        sanitize(&mut vault).unwrap();
    }
}

#[test]
fn zeros_of_an_image_take_no_space() {
    let media = Media::new(40);
    let mut vault = media.create();
    let mut writer = writer(&mut vault);
    let recipe = stored(&mut vault, &mut writer, &[(0, vec![0; 9 * CHUNK])], 1 << 50);
    assert_eq!((recipe.bytes(), writer.stored()), (1 << 50, (0, 0)));
}

#[test]
fn what_was_replaced_while_an_image_came_is_owed_and_destroyed() {
    let media = Media::new(40);
    let mut vault = media.create();
    let mut noise = Noise(7);
    let (before, after) = (noise.bytes(3 * CHUNK), noise.bytes(CHUNK));
    let mut writer = writer(&mut vault);
    let pieces = [(0, before.clone()), (CHUNK, after.clone())];
    let stored = stored(&mut vault, &mut writer, &pieces, 3 * CHUNK);
    let snapshot = commit(&mut vault, &mut writer, stored);
    let replaced = &before[CHUNK..][..64];
    assert_eq!(vault.status().owed, 1);
    assert!(media.have(replaced) && media.have(&after[..64]));
    sanitize(&mut vault).unwrap();
    assert_eq!(vault.status().owed, 0);
    assert!(!media.have(replaced) && media.have(&after[..64]) && media.have(&before[..64]));
    let folder = vault.snapshot(snapshot).unwrap().folder;
    let nodes = read_folder(&mut vault, &folder).unwrap();
    let image = [&before[..CHUNK], &after, &before[2 * CHUNK..]].concat();
    assert!(content(&mut vault, recipe(&nodes[0])).unwrap() == image);
}

#[test]
fn an_image_that_came_in_order_owes_nothing() {
    let media = Media::new(40);
    let mut vault = media.create();
    let mut writer = writer(&mut vault);
    let pieces = [(0, Noise(1).bytes(3 * CHUNK)), (9 * CHUNK, Noise(2).bytes(CHUNK))];
    let recipe = stored(&mut vault, &mut writer, &pieces, 10 * CHUNK);
    commit(&mut vault, &mut writer, recipe);
    assert_eq!(vault.status().owed, 0);
}
