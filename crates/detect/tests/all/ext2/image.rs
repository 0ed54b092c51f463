//! Real file systems, made and filled by the standard tools.

pub use crate::tool::{exit, run};

use crate::tool::probed;
use quietus_core::base::units::{Addr, Extent};
use quietus_detect::formats::ext2::probe;
use quietus_detect::formats::format::{Change, Format, Kind, Link, Probe};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub struct Image {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
}

impl Image {
    /// A file system of `kib`, made by mke2fs with `args`.
    pub fn new(name: &str, kib: u32, args: &[&str]) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.ext2"));
        let _ = std::fs::remove_file(&path);
        let (text, size) = (path.to_str().unwrap(), format!("{kib}k"));
        run("mke2fs", &[&["-q", "-F"], args, &[text, &size]].concat());
        let mut image = Self { path, bytes: Vec::new() };
        image.reread();
        image
    }

    pub fn reread(&mut self) {
        self.bytes = std::fs::read(&self.path).unwrap();
    }

    /// Runs commands of debugfs, which may write.
    pub fn debugfs(&mut self, commands: &str) -> String {
        let script = self.path.with_extension("script");
        std::fs::write(&script, commands).unwrap();
        let path = self.path.to_str().unwrap();
        let printed = run("debugfs", &["-w", "-f", script.to_str().unwrap(), path]);
        self.reread();
        printed
    }

    /// A number in the superblock, by dumpe2fs.
    pub fn number(&self, name: &str) -> Option<u32> {
        let dump = run("dumpe2fs", &["-h", self.path.to_str().unwrap()]);
        let value = dump.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(value.trim().parse().unwrap())
    }

    pub fn cluster_blocks(&self) -> u32 {
        let (cluster, block) = (self.number("Cluster size"), self.number("Block size").unwrap());
        cluster.map_or(1, |cluster| cluster / block)
    }

    pub fn dumpe2fs(&self) -> String {
        run("dumpe2fs", &[self.path.to_str().unwrap()])
    }

    pub fn fsck(&self) {
        run("e2fsck", &["-f", "-n", self.path.to_str().unwrap()]);
    }

    pub fn at(&self, extent: Extent<Addr>) -> &[u8] {
        &self.bytes[extent.start.0 as usize..extent.end() as usize]
    }

    pub fn block(&self, format: &dyn Format, block: u32) -> Vec<u8> {
        let bytes = u64::from(format.block_bytes());
        self.at(Extent::new(u64::from(block) * bytes, bytes)).to_vec()
    }

    pub fn probe(&self) -> Probe {
        probed(probe, self.bytes.len() as u64, |at| self.at(at).to_vec())
    }

    pub fn ext2(&self) -> Box<dyn Format> {
        match self.probe() {
            Probe::Is(format) => format,
            other => panic!("{}: {other:?}", self.path.display()),
        }
    }

    /// Every link of every inode, and of every block that holds pointers.
    pub fn links(&self, format: &dyn Format) -> Vec<Link> {
        let tables = format.survey(Kind::Inodes).into_iter().flatten();
        self.follow(format, tables.map(|block| (block, Kind::Inodes, self.block(format, block))).collect())
    }

    /// The links of one inode, and of every block of pointers behind it.
    pub fn links_of(&self, format: &dyn Format, inode: u32) -> Vec<Link> {
        let (block, at, bytes) = self.place_of(format, inode);
        let mut only = vec![0; format.block_bytes() as usize];
        only[at..at + bytes].copy_from_slice(&self.block(format, block)[at..at + bytes]);
        self.follow(format, vec![(block, Kind::Inodes, only)])
    }

    /// The number of the inode at `path`, on the disk.
    pub fn inode_of(&self, path: &str) -> u32 {
        let printed = run("debugfs", &["-R", &format!("stat {path}"), self.path.to_str().unwrap()]);
        printed.split("Inode:").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap()
    }

    /// The block of an inode, its place there, and its size, as debugfs says.
    pub fn place_of(&self, format: &dyn Format, inode: u32) -> (u32, usize, usize) {
        let printed = run("debugfs", &["-R", &format!("imap <{inode}>"), self.path.to_str().unwrap()]);
        let (block, offset) = printed.split_once("at block ").unwrap().1.split_once(", offset 0x").unwrap();
        let bytes = format.figures().iter().find(|figure| figure.0 == "bytes in an inode").unwrap().1;
        (block.parse().unwrap(), usize::from_str_radix(offset.trim(), 16).unwrap(), bytes as usize)
    }

    fn follow(&self, format: &dyn Format, mut todo: Vec<(u32, Kind, Vec<u8>)>) -> Vec<Link> {
        let mut found = Vec::new();
        while let Some((block, kind, content)) = todo.pop() {
            for change in format.diff(block, kind, &vec![0; content.len()], &content) {
                let Change::Linked(link) = change else { panic!("nothing was there before: {change:?}") };
                if link.kind != Kind::Data {
                    let blocks = link.blocks.clone();
                    todo.extend(blocks.map(|block| (block, link.kind, self.block(format, block))));
                }
                found.push(link);
            }
        }
        found
    }
}

/// The blocks that links name; none of them twice.
pub fn blocks(links: &[Link]) -> BTreeSet<u32> {
    let all: Vec<u32> = links.iter().flat_map(|link| link.blocks.clone()).collect();
    let set: BTreeSet<u32> = all.iter().copied().collect();
    assert_eq!(all.len(), set.len(), "a block is named twice");
    set
}

/// The free blocks by the maps, read in pieces of `piece_bytes`.
pub fn free(image: &Image, format: &dyn Format, piece_bytes: u64) -> BTreeSet<u32> {
    let bytes = u64::from(format.block_bytes());
    let mut free = BTreeSet::new();
    let mut shown = BTreeSet::new();
    for block in format.survey(Kind::Map).into_iter().flatten() {
        for piece in Extent::<Addr>::new(u64::from(block) * bytes, bytes).pieces(piece_bytes) {
            for part in format.map_at_rest(piece, image.at(piece)).unwrap() {
                part.blocks.clone().for_each(|block| assert!(shown.insert(block), "{block} is shown twice"));
                if !part.allocated {
                    free.extend(part.blocks);
                }
            }
        }
    }
    let first = shown.first().copied().unwrap();
    assert_eq!(shown.len() as u32, format.blocks() - first, "a block is not shown");
    assert!(first <= u32::from(bytes == 1024));
    free
}

/// The allocated blocks without fixed metadata.
pub fn allocated(image: &Image, format: &dyn Format) -> BTreeSet<u32> {
    let free = free(image, format, 1 << 20);
    let data = |block: &u32| format.kind(*block) == Kind::Data && !free.contains(block);
    (0..format.blocks()).filter(data).collect()
}

/// Whatever is allocated is metadata in its place, or named by an inode; with
/// clusters, within one of which a block is.
pub fn check_owners(image: &Image, format: &dyn Format, cluster_blocks: u32) {
    let named = blocks(&image.links(format));
    let allocated = allocated(image, format);
    assert!(named.is_subset(&allocated), "what is named is allocated");
    let fixed = (0..format.blocks()).filter(|block| format.kind(*block) != Kind::Data);
    let owned: BTreeSet<u32> = fixed.chain(named.iter().copied()).map(|it| it / cluster_blocks).collect();
    let unowned: Vec<&u32> = allocated.iter().filter(|it| !owned.contains(&(*it / cluster_blocks))).collect();
    assert_eq!(unowned, Vec::<&u32>::new(), "{}", image.path.display());
    if cluster_blocks == 1 {
        assert_eq!(named, allocated, "{}", image.path.display());
    }
}

/// A list as e2fsprogs prints it: `3-5, 9`.
pub fn ranges(text: &str) -> BTreeSet<u32> {
    let numbers = text.split([',', ' ']).filter(|it| !it.is_empty());
    numbers
        .flat_map(|it| {
            let (from, to) = it.split_once('-').unwrap_or((it, it));
            from.parse::<u32>().unwrap()..=to.parse().unwrap()
        })
        .collect()
}
