use super::*;
use crate::machine::content::{Tag, fill};

fn cell(byte: u8) -> Cell {
    Cell::from_bytes(&[byte; 32]).expect("a cell")
}

#[test]
fn a_sector_is_read_under_its_cell_and_in_its_place_alone() {
    let cipher = IdealCipher::default();
    let mut content = vec![0; 1024];
    fill(Tag(3), 4096 + 512, &mut content);
    let plain = content.clone();
    cipher.encrypt(Block(1), &cell(1), 1, &mut content);
    let read = |block, byte, from| {
        let mut bytes = content.clone();
        cipher.decrypt(Block(block), &cell(byte), from, &mut bytes);
        bytes
    };
    assert_eq!(read(1, 1, 1), plain);
    assert!([read(2, 1, 1), read(1, 2, 1), read(1, 1, 2)].iter().all(|it| *it != plain));
    assert_eq!(cipher.content(Pos(4096 + 512), &content), plain);
    assert_eq!(cipher.content(Pos(4096), &content), [0; 1024], "what was never made is nothing");
}

#[test]
fn zeros_are_a_hole_under_any_cell_and_are_made_ciphertext_when_they_are_written() {
    let (cipher, mut zeros) = (IdealCipher::default(), [0; 512]);
    cipher.decrypt(Block(0), &cell(1), 0, &mut zeros);
    assert_eq!(zeros, [0; 512]);
    cipher.encrypt(Block(0), &cell(1), 0, &mut zeros);
    assert_ne!(zeros, [0; 512]);
}

#[test]
fn what_lies_under_some_cells_is_all_that_was_ever_encrypted_under_them() {
    let cipher = IdealCipher::default();
    for (tag, byte) in [(1, 1), (2, 1), (3, 2)] {
        let mut content = vec![0; 512];
        fill(Tag(tag), 0, &mut content);
        cipher.encrypt(Block(0), &cell(byte), 0, &mut content.clone());
        cipher.encrypt(Block(0), &cell(byte), 0, &mut content);
    }
    let tags = |byte| {
        let under = cipher.under(&BTreeSet::from([[byte; 32]]));
        under.iter().map(|(_, it)| it.traces[0].tag.0).collect::<Vec<_>>()
    };
    assert_eq!((tags(1), tags(2), tags(3)), (vec![1, 2], vec![3], vec![]));
}
