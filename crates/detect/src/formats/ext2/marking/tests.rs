use crate::formats::ext2::marking::*;
use crate::formats::ext2::tests::{ext2, inode};
use crate::formats::testing::{put16, put32};

/// An entry of this length.
fn entry(inode: u32, rec_len: u16, name: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    put32(&mut bytes, 0, inode);
    put16(&mut bytes, 4, rec_len);
    bytes[6] = name.len() as u8;
    bytes.extend(name);
    bytes.resize(usize::from(rec_len).max(8 + name.len()), 0);
    bytes
}

fn entries(parts: &[Vec<u8>]) -> Vec<u32> {
    ext2().marking().unwrap().entries(&parts.concat())
}

#[test]
fn a_folder_names_neither_itself_nor_its_parent_nor_what_is_deleted() {
    let dots = [entry(12, 12, b"."), entry(2, 12, b"..")];
    let files = [entry(14, 12, b"a"), entry(0, 16, b"gone"), entry(15, 972, b"..b")];
    assert_eq!(entries(&[&dots[..], &files[..]].concat()), [14, 15]);
}

#[test]
fn a_tree_of_hashes_hides_its_numbers_in_one_entry() {
    let mut root = entry(2, 1012, b"..");
    root[12..].fill(0x55);
    assert_eq!(entries(&[entry(12, 12, b"."), root]), [0; 0]);
    let mut inner = entry(0, 1024, b"");
    inner[8..].fill(0x55);
    assert_eq!(entries(&[inner]), [0; 0]);
}

#[test]
fn an_entry_with_an_invalid_length_ends_the_list() {
    for rec_len in [1, 7, 1013, u16::MAX] {
        let mut bytes = [entry(14, 12, b"a"), entry(15, 1012, b"b"), entry(16, 12, b"c")].concat();
        put16(&mut bytes, 16, rec_len);
        assert_eq!(ext2().marking().unwrap().entries(&bytes[..1024]), [14], "{rec_len}");
    }
}

#[test]
fn a_folder_leads_to_its_entries_and_its_attributes_do_not() {
    let mut folder = inode(1, &[100]);
    put16(&mut folder, 0, 0x41ED);
    put32(&mut folder, 0x28 + 12 * 4, 101);
    put32(&mut folder, 0x68, 102);
    put32(&mut folder, 0x20, EXT2_SECRM_FL);
    let format = ext2();
    let marking = format.marking().unwrap();
    folder.resize(1024, 0);
    let owners = marking.owners(5, &folder);
    assert_eq!(owners[0], Owner { number: 1, generation: 1, is_in_use: true, is_marked: true });
    assert!(owners[1..].iter().all(|it| !it.is_in_use && !it.is_marked));
    let mut found = marking.branches_of(5, &folder, 1);
    found.sort_unstable();
    let branch =
        |block, level, is_folder| Branch { start: block, end: block + 1, role: Role { level, is_folder } };
    assert_eq!(found, [branch(100, 0, true), branch(101, 1, true), branch(102, 0, false)]);
    let mut pointers = vec![0; 1024];
    put32(&mut pointers, 4, 103);
    assert_eq!(marking.branches(Role { level: 1, is_folder: true }, &pointers), [branch(103, 0, true)]);
    assert_eq!(marking.branches_of(5, &folder, 2), []);
}

#[test]
fn each_inode_lies_in_its_table() {
    let format = ext2();
    let marking = format.marking().unwrap();
    for range in format.survey(crate::formats::format::Kind::Inodes) {
        for block in range {
            for owner in marking.owners(block, &[0; 1024]) {
                assert_eq!(marking.table_of(owner.number), Some(block));
            }
        }
    }
    assert_eq!((marking.table_of(0), marking.table_of(33)), (None, None));
}

const EXT2_SECRM_FL: u32 = 1;
