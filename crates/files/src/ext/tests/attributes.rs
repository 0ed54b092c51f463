//! Owners, times, devices and extended attributes, as debugfs sets them.

use super::*;
use crate::Time;
use std::path::PathBuf;

/// An image with one file, changed by commands of debugfs.
fn made(folder: &Folder, options: &str, commands: &str) -> (Image, Box<dyn Volume>) {
    let (files, image) = (folder.path("files"), folder.path("image"));
    let mut tree = Tree::default();
    tree.add("file", &[(0, 2000)], 2000);
    tree.folders.push("sub".into());
    tree.put(&files);
    mkfs(&image, "16M", options, Some(&files));
    debugfs(folder, &image, commands);
    let mut source = Image::new(&image);
    let volume = open(&mut source).unwrap();
    (source, volume)
}

const EXT4: &str = "-b 1024 -I 256 -O extents,ext_attr,has_journal,metadata_csum,huge_file,extra_isize";

fn attributes(options: &str, commands: &str) -> Attributes {
    let folder = Folder::new();
    let (mut source, mut volume) = made(&folder, options, commands);
    let file = file_at(&mut source, &mut *volume, "file");
    volume.attributes(&mut source, file).unwrap()
}

#[test]
fn owners_have_32_bits() {
    let found = attributes(
        EXT4,
        "sif file uid 70000\nsif file gid 4000000000\nsif file mode 0104755\nsif file links_count 3",
    );
    assert_eq!(found.owner, Some((70_000, 4_000_000_000)));
    assert_eq!((found.mode, found.links), (Some(0o4755), Some(3)));
}

#[test]
fn times_have_nanoseconds_and_epochs() {
    let second = |seconds, nanoseconds| Some(Time { seconds, nanoseconds });
    let commands = "sif file mtime @0x7fffffff\nsif file mtime_extra 0x9\nsif file atime @0xffffffff\n\
                    sif file atime_extra 0\nsif file ctime @5\nsif file ctime_extra 0xee6b27fc\n\
                    sif file crtime @7\nsif file crtime_extra 0x3";
    let found = attributes(EXT4, commands);
    assert_eq!(found.modified, second(0x1_7FFF_FFFF, 2));
    assert_eq!(found.accessed, second(-1, 0));
    assert_eq!(found.changed, second(5, 999_999_999));
    assert_eq!(found.born, second((3 << 32) + 7, 0));
}

#[test]
fn an_inode_of_128_bytes_has_no_birth_and_no_nanoseconds() {
    let found = attributes("-b 1024 -I 128", "sif file mtime @0x80000000");
    assert_eq!(found.modified, Some(Time { seconds: i32::MIN.into(), nanoseconds: 0 }));
    assert_eq!(found.born, None);
}

#[test]
fn blocks_of_a_huge_file_are_blocks_of_the_file_system() {
    let in_sectors = attributes(EXT4, "sif file blocks 9");
    assert_eq!(in_sectors.allocated_bytes, 9 * 512);
    let in_blocks = attributes(EXT4, "sif file blocks 9\nsif file blocks_hi 1\nsif file flags 0xc0000");
    assert_eq!(in_blocks.allocated_bytes, ((1 << 32) + 9) * 1024);
}

#[test]
fn space_that_is_not_written_is_a_hole() {
    let folder = Folder::new();
    let (mut source, mut volume) = made(&folder, EXT4, "fallocate file 2 9\nsif file size 10240");
    let file = file_at(&mut source, &mut *volume, "file");
    let runs = read_back::runs(&mut source, &mut *volume, file);
    assert_eq!(runs.iter().map(|run| (run.at, run.bytes)).collect::<Vec<_>>(), [(0, 2048)]);
    assert!(volume.attributes(&mut source, file).unwrap().allocated_bytes >= 10_240);
    assert_eq!(volume.read(&mut source, file, 2048, 9000).unwrap(), [0; 8192]);
}

#[test]
fn devices_pipes_and_hard_links_are_told_apart() {
    let folder = Folder::new();
    let commands = "mknod tty c 4 64\nmknod disk b 1 1\nsif disk block[0] 0\nsif disk block[1] 0x11112c70\n\
                    mknod pipe p\nln file twin";
    let (mut source, mut volume) = made(&folder, EXT4, commands);
    let mut kind = |path| {
        let file = file_at(&mut source, &mut *volume, path);
        (file, volume.attributes(&mut source, file).unwrap().kind)
    };
    assert_eq!(kind("tty").1, Kind::Character(4, 64));
    assert_eq!(kind("disk").1, Kind::Block(300, 70_000));
    assert_eq!(kind("pipe").1, Kind::Pipe);
    assert_eq!(kind("file"), kind("twin"));
}

#[test]
fn what_a_file_is_not_is_refused() {
    let folder = Folder::new();
    let (mut source, mut volume) = made(&folder, EXT4, "symlink link file");
    let root = volume.root();
    let [file, link] = ["file", "link"].map(|path| file_at(&mut source, &mut *volume, path));
    assert_eq!(volume.find(&mut source, file, b"x"), Err(Error::NotA("folder")));
    assert_eq!(volume.read(&mut source, root, 0, 1), Err(Error::NotA("regular file")));
    assert_eq!(volume.link(&mut source, root), Err(Error::NotA("symbolic link")));
    assert_eq!(volume.link(&mut source, link).unwrap(), b"file");
    assert_eq!(volume.find(&mut source, root, b"absent"), Ok(None));
}

#[test]
fn a_file_of_another_generation_is_refused() {
    let folder = Folder::new();
    let (mut source, mut volume) = made(&folder, EXT4, "sif file generation 77");
    let file = file_at(&mut source, &mut *volume, "file");
    assert_eq!(file.generation, 77);
    let earlier = FileId { generation: 76, ..file };
    let error = volume.attributes(&mut source, earlier).unwrap_err();
    assert!(error.to_string().ends_with("i_generation 77, not 76"), "{error}");
}

#[test]
fn encrypted_files_are_refused_and_others_are_read() {
    let folder = Folder::new();
    let (mut source, mut volume) = made(&folder, EXT4, "sif sub flags 0x80800\nsif file flags 0x80800");
    let [file, sub] = ["file", "sub"].map(|path| file_at(&mut source, &mut *volume, path));
    assert_eq!(volume.attributes(&mut source, file).unwrap().bytes, 2000);
    let is_refused = |found: Error| matches!(found, Error::Unsupported(what) if what.contains("encrypted"));
    assert!(is_refused(volume.read(&mut source, file, 0, 1).unwrap_err()));
    assert!(is_refused(volume.runs(&mut source, file, &mut |_| true).unwrap_err()));
    assert!(is_refused(volume.find(&mut source, sub, b"x").unwrap_err()));
}

#[test]
fn a_name_without_case_is_found_as_it_is_stored() {
    let folder = Folder::new();
    let commands = "cd sub\nwrite SCRIPT Name\nsif /sub flags 0x40080000";
    let script = folder.path("files/file").display().to_string();
    let (mut source, mut volume) = made(&folder, EXT4, &commands.replace("SCRIPT", &script));
    let sub = file_at(&mut source, &mut *volume, "sub");
    assert!(volume.find(&mut source, sub, b"Name").unwrap().is_some());
    let error = volume.find(&mut source, sub, b"name").unwrap_err();
    assert!(matches!(error, Error::Unsupported(what) if what.contains("EXT4_CASEFOLD_FL")));
}

/// Writes values to files, and returns the commands that set them.
fn commands(folder: &Folder, values: &[(&str, Vec<u8>)]) -> String {
    let path = |n: usize| -> PathBuf { folder.path(&format!("value-{n}")) };
    let set = |(n, (name, value)): (usize, &(&str, Vec<u8>))| {
        std::fs::write(path(n), value).unwrap();
        format!("ea_set -f {} file {name}\n", path(n).display())
    };
    values.iter().enumerate().map(set).collect()
}

fn check_extended(options: &str, mut values: Vec<(&str, Vec<u8>)>) {
    let folder = Folder::new();
    let commands = commands(&folder, &values);
    let (mut source, mut volume) = made(&folder, options, &commands);
    let file = file_at(&mut source, &mut *volume, "file");
    let mut found = volume.extended(&mut source, file).unwrap();
    found.sort();
    values.sort();
    let values: Vec<_> = values.into_iter().map(|(name, value)| (name.as_bytes().to_vec(), value)).collect();
    assert_eq!(found, values);
}

/// An access list as a program sees it: owner, a user, group, mask, others.
fn access_list() -> Vec<u8> {
    let entries =
        [(0x1, 7, u32::MAX), (0x2, 5, 1234), (0x4, 5, u32::MAX), (0x10, 7, u32::MAX), (0x20, 4, u32::MAX)];
    let entry = |(e_tag, e_perm, e_id): (u16, u16, u32)| {
        [&e_tag.to_le_bytes()[..], &e_perm.to_le_bytes(), &e_id.to_le_bytes()].concat()
    };
    [2_u32.to_le_bytes().to_vec()].into_iter().chain(entries.map(entry)).collect::<Vec<_>>().concat()
}

#[test]
fn attributes_in_the_inode_and_in_a_block_are_read() {
    let values = vec![
        ("user.short", b"value".to_vec()),
        ("user.long", noise(1, 600)),
        ("security.capability", noise(2, 20)),
        ("trusted.secret", noise(3, 90)),
        ("user.empty", Vec::new()),
    ];
    check_extended(EXT4, values.clone());
    check_extended("-b 1024 -I 128 -O ext_attr", values.clone());
    check_extended("-b 4096 -I 512 -O extents,inline_data,ext_attr", values);
}

#[test]
fn access_lists_have_the_form_that_a_program_sees() {
    check_extended(EXT4, vec![("system.posix_acl_access", access_list())]);
    check_extended("-b 4096 -I 128 -O ext_attr", vec![("system.posix_acl_access", access_list())]);
}

#[test]
fn values_in_inodes_are_read() {
    let options = "-b 4096 -I 256 -O extents,ext_attr,ea_inode,metadata_csum";
    check_extended(options, vec![("user.large", noise(4, 4096)), ("user.small", noise(5, 10))]);
}

#[test]
fn each_field_of_an_access_list_that_lies_is_named() {
    for (list, expected) in [
        (&[2, 0, 0, 0][..], "a_version 2"),
        (&[], "a_version 0"),
        (&[1, 0, 0, 0, 3, 0, 7, 0], "e_tag 0x3"),
        (&[1, 0, 0, 0, 1, 0, 7], "an entry is cut off"),
        (&[1, 0, 0, 0, 2, 0, 7, 0, 1, 0], "e_id is cut off"),
    ] {
        let error = acl::converted(Ino(12), list).unwrap_err().to_string();
        assert!(error.starts_with("damaged: inode 12: ") && error.contains(expected), "{expected}: {error}");
    }
}
