//! Journals that need a replay: read as e2fsck leaves the file system after the real one.

use super::read_back::{Snapshot, assert_same};
use super::*;
use crate::Unread;
use crate::ext::crc::crc32_be;
use quietus_core::base::units::{Addr, Extent};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const BLOCK: u64 = 1024;
const EXT4: &str = "-b 1024 -I 256 -J size=2 -O extents,has_journal,metadata_csum,64bit,ext_attr,huge_file";
const EXT3: &str = "-b 1024 -I 128 -J size=2 -O has_journal,filetype,^resize_inode,^sparse_super";
/// A log with room for fast commits.
const LARGE_LOG: &str = "-b 1024 -I 256 -J size=4 -O extents,has_journal";
const NO_CHECKSUMS: &str = "jo";
const V2: &str = "jo -c -v 2";
const V3: &str = "jo -c -v 3";
/// Content whose first bytes are the log's magic number.
const ESCAPED: &[u8] = b"\xc0\x3b\x39\x98 begins as a block of the log does";

/// An image with some files, and blocks to put into its log.
struct Guest {
    folder: Folder,
    image: PathBuf,
    tree: Tree,
}

impl Guest {
    fn new(options: &str) -> Self {
        let folder = Folder::new();
        let (files, image) = (folder.path("files"), folder.path("image"));
        let mut tree = Tree { folders: ["sub", "gone"].map(String::from).to_vec(), ..Tree::default() };
        for (n, path) in ["one", "two", "sub/three", "gone/four", "large"].into_iter().enumerate() {
            let len = if path == "large" { 400_000 } else { 3000 + n };
            tree.add(path, &[(0, len)], len as u64);
        }
        tree.put(&files);
        mkfs(&image, "12M", options, Some(&files));
        Self { folder, image, tree }
    }

    /// The block of the disk at block `n` of a file.
    fn place(&self, file: &str, n: u64) -> u64 {
        let text = debugfs(&self.folder, &self.image, &format!("bmap {file} {n}"));
        let number = text.lines().find_map(|line| line.trim().parse().ok());
        number.unwrap_or_else(|| panic!("{file} {n}: {text}"))
    }

    /// Writes one log: `jo`, and a line for each transaction.
    fn log(&self, open: &str, transactions: &[String]) {
        debugfs(&self.folder, &self.image, &format!("{open}\n{}\njc", transactions.join("\n")));
    }

    /// The transaction that writes `content`, padded to blocks, to these blocks.
    fn write(&self, blocks: &[u64], content: &[u8]) -> String {
        let name = self.folder.path(&format!("content-{:x}", crc32c::crc32c(content)));
        let mut padded = content.to_vec();
        padded.resize(blocks.len() * BLOCK as usize, 0);
        std::fs::write(&name, padded).unwrap();
        let blocks: Vec<String> = blocks.iter().map(u64::to_string).collect();
        format!("jw -b {} {}", blocks.join(","), name.display())
    }

    /// The start of a file, through the log.
    fn start(&self, path: &str, len: usize) -> Vec<u8> {
        let mut image = Image::new(&self.image);
        let mut volume = open(&mut image).unwrap();
        let file = file_at(&mut image, &mut *volume, path);
        volume.read(&mut image, file, 0, len).unwrap()
    }

    /// The start of a file, as it was put into the image.
    fn original(&self, path: &str, len: usize) -> Vec<u8> {
        std::fs::read(self.folder.path("files").join(path)).unwrap()[..len].to_vec()
    }

    /// Checks that everything is read as after a replay by e2fsck.
    fn check(&self) {
        let expected = self.folder.path("replayed");
        std::fs::copy(&self.image, &expected).unwrap();
        run("e2fsck", &["-fy", &expected.display().to_string()], &[0, 1]);
        assert_same(&snapshot(&self.image), &snapshot(&expected));
    }

    fn write_at(&self, at: u64, bytes: &[u8]) {
        let image = std::fs::OpenOptions::new().write(true).open(&self.image).unwrap();
        image.write_all_at(bytes, at).unwrap();
    }

    /// Where block `n` of the log begins. The log lies in one piece.
    fn log_at(&self, n: u64) -> u64 {
        self.place("<8>", n) * BLOCK
    }

    fn flip(&self, at: u64) {
        let byte = Image::new(&self.image).part(at, 1)[0];
        self.write_at(at, &[!byte]);
    }
}

/// An image of which some blocks cannot be read.
struct Forgotten {
    image: Image,
    blocks: Vec<u64>,
}

impl Source for Forgotten {
    fn bytes(&self) -> u64 {
        self.image.bytes()
    }

    fn read(&mut self, at: Extent<Addr>) -> Result<Vec<u8>, Unread> {
        let is_forgotten = |block: &u64| Extent::new(block * BLOCK, BLOCK).overlaps(at);
        match self.blocks.iter().find(|block| is_forgotten(block)) {
            Some(block) => Err(Unread(format!("block {block} is forgotten"))),
            None => self.image.read(at),
        }
    }
}

/// Puts all changes of `commands` into the log instead of their places.
fn check_changes(options: &str, open: &str, commands: &str) {
    let guest = Guest::new(options);
    let changed = guest.folder.path("changed");
    std::fs::copy(&guest.image, &changed).unwrap();
    let note = guest.folder.path("note");
    std::fs::write(&note, [ESCAPED, &noise(9, 5000)].concat()).unwrap();
    debugfs(&guest.folder, &changed, &commands.replace("NOTE", &note.display().to_string()));
    let [old, new] = [&guest.image, &changed].map(|path| std::fs::read(path).unwrap());
    let blocks = old.chunks(BLOCK as usize).zip(new.chunks(BLOCK as usize)).enumerate();
    let differ = blocks.filter(|(n, (old, new))| *n > 1 && old != new);
    let (numbers, contents): (Vec<u64>, Vec<&[u8]>) = differ.map(|(n, (_, new))| (n as u64, new)).unzip();
    assert!(numbers.len() > 8, "{numbers:?}");
    guest.log(open, &[guest.write(&numbers, &contents.concat())]);
    assert_ne!(snapshot(&guest.image), snapshot_without_log(&guest));
    assert_same(&snapshot(&guest.image), &snapshot(&changed));
    guest.check();
}

/// Everything that the image says without its log.
fn snapshot_without_log(guest: &Guest) -> Snapshot {
    let copy = guest.folder.path("without");
    std::fs::copy(&guest.image, &copy).unwrap();
    debugfs(&guest.folder, &copy, "feature -needs_recovery");
    snapshot(&copy)
}

const CHANGES: &str = "rm one\nrm gone/four\nrmdir gone\nmkdir made\nwrite NOTE made/note\nln two made/twin\nsif two links_count 2\n\
                       sif two uid 70000\nsif sub/three mtime @0x1234\nea_set large user.note hello\n\
                       symlink link target";

#[test]
fn changes_in_a_log_with_checksums_are_read() {
    check_changes(EXT4, V3, CHANGES);
}

#[test]
fn changes_in_a_log_with_half_checksums_are_read() {
    check_changes(EXT4, V2, CHANGES);
}

#[test]
fn changes_in_a_log_without_checksums_are_read() {
    check_changes(EXT4, NO_CHECKSUMS, CHANGES);
}

#[test]
fn changes_in_the_log_of_an_ext3_are_read() {
    check_changes(EXT3, NO_CHECKSUMS, CHANGES);
}

#[test]
fn a_revoked_block_is_read_in_its_place() {
    for (options, open) in [(EXT4, V3), (EXT4, NO_CHECKSUMS), (EXT3, NO_CHECKSUMS)] {
        let guest = Guest::new(options);
        let [one, two] = ["one", "two"].map(|path| guest.place(path, 0));
        let revoke = format!("jw -r {one}");
        guest.log(open, &[guest.write(&[one], b"first"), guest.write(&[two], b"second"), revoke]);
        assert_eq!(guest.start("one", 100), guest.original("one", 100));
        assert_eq!(guest.start("two", 6), b"second");
        guest.check();
    }
}

#[test]
fn a_block_that_is_written_after_its_revoke_is_read_in_the_log() {
    for open in [V3, V2, NO_CHECKSUMS] {
        let guest = Guest::new(EXT4);
        let one = guest.place("one", 0);
        let transactions = [guest.write(&[one], b"old"), format!("jw -r {one}"), guest.write(&[one], b"new")];
        guest.log(open, &transactions);
        assert_eq!(guest.start("one", 4), b"new\0");
        guest.check();
    }
}

#[test]
fn the_newest_of_several_copies_counts() {
    let guest = Guest::new(EXT4);
    let one = guest.place("one", 1);
    let transactions = ["a", "b", "c"].map(|content| guest.write(&[one], content.as_bytes()));
    guest.log(V3, &transactions);
    assert_eq!(guest.start("one", 1025)[1024..], *b"c");
    guest.check();
}

#[test]
fn an_escaped_block_has_its_magic_number_again_and_no_place() {
    for open in [V3, NO_CHECKSUMS] {
        let guest = Guest::new(EXT4);
        let two = guest.place("two", 2);
        guest.log(open, &[guest.write(&[two], ESCAPED)]);
        assert_eq!(guest.start("two", 2048 + ESCAPED.len())[2048..], *ESCAPED);
        let mut image = Image::new(&guest.image);
        let mut volume = super::open(&mut image).unwrap();
        let file = file_at(&mut image, &mut *volume, "two");
        let places = read_back::runs(&mut image, &mut *volume, file);
        assert!(places.iter().any(|run| (run.at, run.place) == (2048, None)), "{places:?}");
        guest.check();
    }
}

#[test]
fn a_run_in_the_log_lies_in_the_log() {
    let guest = Guest::new(EXT4);
    let two = guest.place("two", 1);
    guest.log(V3, &[guest.write(&[two], b"in the log")]);
    let mut image = Image::new(&guest.image);
    let mut volume = super::open(&mut image).unwrap();
    guest.tree.files.keys().for_each(|path| {
        let file = file_at(&mut image, &mut *volume, path);
        for run in read_back::runs(&mut image, &mut *volume, file) {
            let content = volume.read(&mut image, file, run.at, run.bytes as usize).unwrap();
            assert_eq!(image.part(run.place.unwrap().0, run.bytes), content, "{path} {run:?}");
        }
    });
}

#[test]
fn a_superblock_in_the_log_counts() {
    let guest = Guest::new(EXT4);
    let mut superblock = Image::new(&guest.image).part(1024, 1024);
    superblock[0x4C..0x50].copy_from_slice(&9_u32.to_le_bytes());
    guest.log(NO_CHECKSUMS, &[guest.write(&[1], &superblock)]);
    let error = open(&mut Image::new(&guest.image)).unwrap_err();
    assert_eq!(error, Error::Damaged("superblock: s_rev_level 9".into()));
}

#[test]
fn a_transaction_without_its_commit_does_not_count() {
    let guest = Guest::new(EXT4);
    let [one, two] = ["one", "two"].map(|path| guest.place(path, 0));
    guest.log(NO_CHECKSUMS, &[guest.write(&[one], b"whole"), guest.write(&[two], b"cut off")]);
    guest.write_at(guest.log_at(6), &[0; 1024]);
    assert_eq!(guest.start("one", 5), b"whole");
    assert_eq!(guest.start("two", 100), guest.original("two", 100));
    guest.check();
}

/// The log is: descriptor, copy, commit; descriptor, copy, commit.
#[test]
fn a_wrong_checksum_ends_the_replay() {
    for (block, byte) in [(4, 500), (4, 20), (6, 1000), (6, 17)] {
        let guest = Guest::new(EXT4);
        let [one, two] = ["one", "two"].map(|path| guest.place(path, 0));
        guest.log(V3, &[guest.write(&[one], b"first"), guest.write(&[two], b"second")]);
        assert_eq!(guest.start("two", 6), b"second");
        guest.flip(guest.log_at(block) + byte);
        assert_eq!(guest.start("one", 5), b"first");
        assert_eq!(guest.start("two", 100), guest.original("two", 100), "{block} {byte}");
    }
}

#[test]
fn a_copy_with_a_wrong_checksum_leaves_the_older_one() {
    for open in [V2, V3] {
        let guest = Guest::new(EXT4);
        let one = guest.place("one", 0);
        guest.log(open, &[guest.write(&[one], b"older"), guest.write(&[one], b"newer")]);
        guest.flip(guest.log_at(5) + 700);
        assert_eq!(guest.start("one", 5), b"older");
    }
}

#[test]
fn what_is_forgotten_in_a_log_is_an_error_of_the_file_that_needs_it() {
    let guest = Guest::new(EXT4);
    let [one, two] = ["one", "two"].map(|path| guest.place(path, 0));
    guest.log(V3, &[guest.write(&[one], b"first"), guest.write(&[two], b"second")]);
    let blocks = [2, 7].map(|n| guest.log_at(n) / BLOCK).to_vec();
    let mut source = Forgotten { image: Image::new(&guest.image), blocks };
    let mut volume = super::open(&mut source).unwrap();
    let [one, two] = ["one", "two"].map(|path| file_at(&mut source, &mut *volume, path));
    assert!(matches!(volume.read(&mut source, one, 0, 5), Err(Error::Unread(_))));
    assert_eq!(volume.read(&mut source, two, 0, 6).unwrap(), b"second");
}

#[test]
fn a_forgotten_block_of_a_folder_hides_only_its_own_entries() {
    let guest = Guest::new(EXT4);
    let block = guest.place("sub", 0);
    let mut source = Forgotten { image: Image::new(&guest.image), blocks: vec![block] };
    let mut volume = super::open(&mut source).unwrap();
    let [one, sub] = ["one", "sub"].map(|path| file_at(&mut source, &mut *volume, path));
    assert!(matches!(volume.find(&mut source, sub, b"three"), Err(Error::Unread(_))));
    assert_eq!(volume.read(&mut source, one, 0, 100).unwrap(), guest.original("one", 100));
}

/// The first form of checksums: a CRC-32 of the transaction in its commit block.
#[test]
fn a_transaction_with_a_wrong_crc_does_not_count() {
    let guest = Guest::new(EXT3);
    let [one, two] = ["one", "two"].map(|path| guest.place(path, 0));
    guest.log(NO_CHECKSUMS, &[guest.write(&[one], b"first"), guest.write(&[two], b"second")]);
    guest.write_at(guest.log_at(0) + 0x24, &1_u32.to_be_bytes());
    for (first, commit) in [(1, 3), (4, 6)] {
        let [tags, copy] = [first, first + 1].map(|n| Image::new(&guest.image).part(guest.log_at(n), BLOCK));
        let crc = crc32_be(crc32_be(!0, &tags), &copy);
        guest.write_at(guest.log_at(commit) + 12, &[1, 4, 0, 0]);
        guest.write_at(guest.log_at(commit) + 16, &crc.to_be_bytes());
    }
    assert_eq!((guest.start("one", 5), guest.start("two", 6)), (b"first".to_vec(), b"second".to_vec()));
    guest.check();
    guest.flip(guest.log_at(5) + 700);
    assert_eq!(guest.start("one", 5), b"first");
    assert_eq!(guest.start("two", 100), guest.original("two", 100));
    guest.check();
}

/// Moves the log to its end, so that its last blocks come first.
#[test]
fn a_log_goes_on_behind_its_last_block() {
    let guest = Guest::new(EXT4);
    let [one, two] = ["one", "two"].map(|path| guest.place(path, 0));
    guest.log(NO_CHECKSUMS, &[guest.write(&[one], b"first"), guest.write(&[two], b"second")]);
    let blocks: Vec<Vec<u8>> =
        (1..7).map(|n| Image::new(&guest.image).part(guest.log_at(n), BLOCK)).collect();
    for (n, block) in blocks.iter().enumerate() {
        guest.write_at(guest.log_at([2046, 2047, 1, 2, 3, 4][n]), block);
    }
    guest.write_at(guest.log_at(0) + 0x1C, &2046_u32.to_be_bytes());
    assert_eq!((guest.start("one", 5), guest.start("two", 6)), (b"first".to_vec(), b"second".to_vec()));
    guest.check();
}

/// A descriptor whose copies fill the log, again and again.
#[test]
fn a_log_of_descriptors_alone_ends() {
    let guest = Guest::new(EXT4);
    let one = guest.place("one", 0);
    guest.log(NO_CHECKSUMS, &[guest.write(&[one], b"first")]);
    let descriptor = Image::new(&guest.image).part(guest.log_at(1), BLOCK);
    (1..2048).for_each(|n| guest.write_at(guest.log_at(0) + n * BLOCK, &descriptor));
    assert_eq!(guest.start("one", 100), guest.original("one", 100));
}

/// A journal with fast commits, whose first block begins with `head`.
fn fast_commits(head: &[u8]) -> Result<Vec<u8>, Error> {
    let guest = Guest::new(LARGE_LOG);
    let one = guest.place("one", 0);
    guest.log(NO_CHECKSUMS, &[guest.write(&[one], b"first")]);
    let incompat = Image::new(&guest.image).part(guest.log_at(0) + 0x28, 4)[3];
    guest.write_at(guest.log_at(0) + 0x2B, &[incompat | 0x20]);
    guest.write_at(guest.log_at(4096 - 256), head);
    open(&mut Image::new(&guest.image)).map(|_| guest.start("one", 5))
}

#[test]
fn fast_commits_are_refused_and_their_absence_is_not() {
    let head =
        |tid: u32| [&9_u16.to_le_bytes()[..], &8_u16.to_le_bytes(), &[0; 4], &tid.to_le_bytes()].concat();
    assert_eq!(fast_commits(&[0; 12]).unwrap(), b"first");
    assert_eq!(fast_commits(&head(1)).unwrap(), b"first");
    assert!(matches!(fast_commits(&head(2)), Err(Error::Unsupported(what)) if what.contains("fast_commit")));
}

#[test]
fn a_log_that_starts_among_fast_commits_is_named() {
    let guest = Guest::new(LARGE_LOG);
    let one = guest.place("one", 0);
    guest.log(NO_CHECKSUMS, &[guest.write(&[one], b"first")]);
    let incompat = Image::new(&guest.image).part(guest.log_at(0) + 0x28, 4)[3];
    guest.write_at(guest.log_at(0) + 0x2B, &[incompat | 0x20]);
    guest.write_at(guest.log_at(0) + 0x1C, &3840_u32.to_be_bytes());
    let error = open(&mut Image::new(&guest.image)).unwrap_err();
    assert!(matches!(&error, Error::Damaged(what) if what.contains("`s_start` is 3840")), "{error}");
}

#[test]
fn an_external_journal_that_is_needed_is_refused() {
    let guest = Guest::new(EXT4);
    let one = guest.place("one", 0);
    guest.log(NO_CHECKSUMS, &[guest.write(&[one], b"first")]);
    guest.write_at(1024 + 0xE0, &[0; 4]);
    let error = open(&mut Image::new(&guest.image)).unwrap_err();
    assert!(matches!(&error, Error::Unsupported(what) if what.contains("another disk")), "{error}");
}

#[test]
fn a_journal_with_an_impossible_superblock_is_named() {
    let guest = Guest::new(EXT4);
    let one = guest.place("one", 0);
    guest.log(NO_CHECKSUMS, &[guest.write(&[one], b"first")]);
    guest.write_at(guest.log_at(0) + 0x10, &u32::MAX.to_be_bytes());
    let error = open(&mut Image::new(&guest.image)).unwrap_err();
    assert!(matches!(&error, Error::Damaged(what) if what.contains("s_maxlen")), "{error}");
}
