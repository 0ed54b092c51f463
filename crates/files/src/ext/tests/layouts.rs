//! The same files in every layout.

use super::*;

fn check(options: &str, name: &str) {
    let folder = Folder::new();
    let (files, image) = (folder.path("files"), folder.path("image"));
    let tree = Tree::varied();
    tree.put(&files);
    mkfs(&image, "96M", options, Some(&files));
    let mut source = Image::new(&image);
    let mut volume = open(&mut source).unwrap();
    assert_eq!(volume.name(), name);
    tree.check(&mut source, &mut *volume);
}

macro_rules! layouts {
    ($($test:ident: $options:literal, $name:literal;)*) => {
        $(#[test] fn $test() { check($options, $name); })*
    };
}

layouts! {
    ext2_with_blocks_of_1_kib_is_read: "-t ext2 -b 1024", "ext2";
    ext2_with_blocks_of_4_kib_is_read: "-t ext2 -b 4096", "ext2";
    the_first_revision_without_types_in_folders_is_read: "-t ext2 -b 1024 -r 0", "ext2";
    ext3_with_blocks_of_1_kib_is_read: "-t ext2 -j -b 1024 -O ^filetype", "ext3";
    ext3_with_blocks_of_4_kib_is_read: "-t ext3 -b 4096 -j", "ext3";
    ext4_with_blocks_of_1_kib_is_read: "-b 1024 -O extents,has_journal,metadata_csum,64bit,flex_bg,huge_file,dir_nlink,extra_isize", "ext4";
    ext4_with_blocks_of_4_kib_is_read: "-b 4096 -O extents,has_journal,metadata_csum,64bit,flex_bg,huge_file,dir_nlink,extra_isize,dir_index,large_dir", "ext4";
    ext4_without_checksums_of_metadata_is_read: "-b 4096 -O extents,uninit_bg,has_journal,flex_bg", "ext4";
    ext4_without_extents_is_read: "-b 1024 -O has_journal,metadata_csum,huge_file,^extents", "ext4";
    inline_files_and_folders_are_read: "-b 4096 -I 256 -O extents,inline_data,ext_attr,metadata_csum", "ext4";
    inline_data_of_large_inodes_is_read: "-b 1024 -I 1024 -O extents,inline_data,ext_attr,64bit", "ext4";
    clusters_of_blocks_are_read: "-b 4096 -C 65536 -O extents,bigalloc,has_journal", "ext4";
    clusters_of_blocks_of_1_kib_are_read: "-b 1024 -C 16384 -O extents,bigalloc", "ext4";
    inodes_of_128_bytes_are_read: "-b 4096 -I 128 -O extents,has_journal,flex_bg", "ext4";
    groups_of_descriptors_are_read: "-b 1024 -O extents,meta_bg,^resize_inode,64bit", "ext4";
    groups_of_descriptors_with_sparse_superblocks_are_read: "-b 1024 -O extents,meta_bg,^resize_inode,sparse_super", "ext4";
    two_copies_of_the_superblock_are_read: "-b 1024 -O extents,sparse_super2", "ext4";
    blocks_of_64_kib_are_read: "-b 65536 -O extents,metadata_csum", "ext4";
    attributes_in_inodes_and_projects_are_read: "-b 4096 -I 256 -O extents,ea_inode,project,quota,verity,casefold,encrypt,orphan_file,has_journal", "ext4";
}

#[test]
fn an_indexed_folder_is_read() {
    let folder = Folder::new();
    let (files, image) = (folder.path("files"), folder.path("image"));
    let tree = Tree::varied();
    tree.put(&files);
    mkfs(&image, "96M", "-b 1024 -O extents,dir_index,metadata_csum", Some(&files));
    run("e2fsck", &["-fyD", &image.display().to_string()], &[0, 1]);
    let index = debugfs(&folder, &image, "htree_dump many");
    assert!(index.contains("Root node dump"), "{index}");
    let mut source = Image::new(&image);
    let mut volume = open(&mut source).unwrap();
    tree.check(&mut source, &mut *volume);
}
