//! Small images in memory, of which bytes can be changed.

use super::*;
use crate::Unread;
use quietus_core::base::units::{Addr, Extent};
use std::ops::Range;

pub(super) const EXT4: &str =
    "-b 1024 -I 256 -N 64 -J size=1 -O extents,has_journal,inline_data,ext_attr,64bit,large_dir,filetype";
pub(super) const EXT2: &str = "-b 1024 -I 128 -N 64 -O ext_attr,filetype";
/// Most reads that one look at everything may take; a look at the sound images takes about a thousand.
const READS_MAX: u64 = 10_000;
/// Content of all files, so that their bytes can be told from metadata.
pub(super) const CONTENT: u8 = 0xA5;

/// An image in memory, whose reads are counted.
pub(super) struct Memory {
    pub bytes: Vec<u8>,
    pub reads: u64,
}

impl Source for Memory {
    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read(&mut self, at: Extent<Addr>) -> Result<Vec<u8>, Unread> {
        self.reads += 1;
        assert!(self.reads < READS_MAX, "a look at everything takes more than {READS_MAX} reads");
        Ok(self.bytes[at.start.0 as usize..at.end() as usize].to_vec())
    }
}

/// A small image with every form of a file, and a log that is needed if it has a journal.
pub(super) struct Sound {
    folder: Folder,
    pub bytes: Vec<u8>,
}

impl Sound {
    pub fn new(options: &str) -> Self {
        Self::with_log(options, "jo -c -v 3")
    }

    /// `log` opens the journal in debugfs.
    pub fn with_log(options: &str, log: &str) -> Self {
        let folder = Folder::new();
        let (files, image) = (folder.path("files"), folder.path("image"));
        let mut tree = Tree::default();
        tree.folders.push("sub".into());
        tree.links = [("short", 20), ("long", 300)].map(|(name, len)| (name.into(), "t".repeat(len))).into();
        for (name, len) in [("inline", 100), ("file", 3000), ("large", 500_000)] {
            tree.add(name, &[(0, len)], len as u64);
        }
        let islands: Vec<(u64, usize)> = (0..120).map(|n| (n * 4096, 10)).collect();
        tree.add("islands", &islands, 119 * 4096 + 10);
        (0..40).for_each(|n| tree.add(&format!("sub/{}{n}", "e".repeat(50)), &[], 0));
        for (_, data) in tree.files.values_mut().flat_map(|file| &mut file.data) {
            data.fill(CONTENT);
        }
        tree.put(&files);
        mkfs(&image, "3M", options, Some(&files));
        let mut sound = Self { folder, bytes: Vec::new() };
        sound.debugfs("ea_set file user.note value\nea_set large security.long NOISE\nmknod pipe p");
        if options.contains("has_journal") {
            let content = sound.folder.path("content");
            let file = sound.number("bmap file 0");
            std::fs::write(&content, &sound.bytes[file * 1024..][..1024]).unwrap();
            let write = format!("jw -b {file} {}", content.display());
            sound.debugfs(&format!("{log}\n{write}\njw -r {}\n{write}\njc", file + 1));
        }
        sound
    }

    fn debugfs(&mut self, commands: &str) -> String {
        let image = self.folder.path("image");
        let text = debugfs(&self.folder, &image, commands);
        self.bytes = std::fs::read(&image).unwrap();
        text
    }

    pub fn number(&mut self, command: &str) -> usize {
        let text = self.debugfs(command);
        text.lines().find_map(|line| line.trim().parse().ok()).unwrap_or_else(|| panic!("{command}: {text}"))
    }

    /// The byte at which the inode of a file begins.
    pub fn inode_at(&mut self, file: &str) -> usize {
        let text = self.debugfs(&format!("imap {file}"));
        let (_, place) = text.split_once("located at block ").unwrap();
        let (block, offset) = place.trim().split_once(", offset 0x").unwrap();
        let offset = offset.split_whitespace().next().unwrap();
        block.parse::<usize>().unwrap() * 1024 + usize::from_str_radix(offset, 16).unwrap()
    }

    /// Bytes in a range that are neither content nor unused nor parts of bitmaps.
    pub fn metadata(&self, range: Range<usize>) -> Vec<usize> {
        range.filter(|at| ![0, 0xFF, CONTENT].contains(&self.bytes[*at])).collect()
    }

    /// The error of a question about `file`, where `bytes` stand at byte `at`.
    pub fn error<T: std::fmt::Debug>(
        &self,
        at: usize,
        bytes: &[u8],
        file: &str,
        ask: impl FnOnce(&mut dyn Volume, &mut dyn Source, FileId) -> Result<T, Error>,
    ) -> String {
        let mut source = Memory { bytes: self.bytes.clone(), reads: 0 };
        source.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        let mut volume = open(&mut source).unwrap();
        let file = if file == "/" { volume.root() } else { file_at(&mut source, &mut *volume, file) };
        ask(&mut *volume, &mut source, file).unwrap_err().to_string()
    }
}
