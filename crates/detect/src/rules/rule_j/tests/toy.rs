//! A file system with a journal, of 64 blocks, and a disk that it lies on.

use crate::formats::format::{Block, Branch, Format, Geometry, Kind, Marking, Owner, Reason, Role, Shown};
pub(super) use crate::formats::jbd2::tests::{header, put};
use crate::formats::properties::{EXT3_WRITEBACK, Properties};
use crate::rules::options::{Options, Sensitive};
use crate::rules::rule::Rule;
use crate::rules::rule_j::RuleJ;
use quietus_core::base::units::{Addr, Extent, Millis};
use quietus_core::watch::{Attached, Content, Moment, Scope, Verdict};
pub(super) use quietus_core::watch::{Observation, Observer};
use std::ops::Range;

pub(super) const BYTES: usize = 1024;
pub(super) const BLOCKS: Block = 64;
/// The superblock, whose first byte is 1 while the file system is mounted, and 2 once it is mounted again.
pub(super) const SUPER: Block = 0;
/// A byte a block: 1 where it is allocated.
pub(super) const MAP: Block = 1;
/// Inodes, where marks are followed, as [`table`] has them.
pub(super) const INODES: Block = 2;
const INODE_BYTES: usize = 8;
/// Inodes whose first bytes, up to a 0, are the blocks that they name as unwritten, where there are extents.
pub(super) const EXTENTS: Block = 3;
pub(super) const LOG: u32 = 20;
/// Two pieces, the second before the first.
pub(super) const JOURNAL: [Range<Block>; 2] = [20..30, 8..18];

/// A file system whose maps are bytes, so that each test can state their meaning.
#[derive(Clone, Copy, Debug)]
struct Toy {
    was_clean: bool,
    /// There are inodes.
    has_inodes: bool,
    /// The mode of its data is not `writeback`.
    frees_wait: bool,
    has_extents: bool,
}

impl Marking for Toy {
    fn owners(&self, _: Block, content: &[u8]) -> Vec<Owner> {
        let owner = |(number, inode): (usize, &[u8])| Owner {
            number: number as u32,
            generation: inode[2].into(),
            is_in_use: inode[0] != 0,
            is_marked: inode[1] != 0,
        };
        content.chunks_exact(INODE_BYTES).enumerate().map(owner).collect()
    }

    fn branches_of(&self, _: Block, content: &[u8], number: u32) -> Vec<Branch> {
        let inode = &content[number as usize * INODE_BYTES..][..INODE_BYTES];
        let role = Role { level: inode[5], is_folder: inode[3] != 0 };
        let start = Block::from(inode[4]);
        (inode[0] != 0 && start != 0).then_some(Branch { start, end: start + 1, role }).into_iter().collect()
    }

    fn branches(&self, role: Role, content: &[u8]) -> Vec<Branch> {
        let role = Role { level: role.level - 1, ..role };
        let named = content.iter().take_while(|it| **it != 0).map(|it| Block::from(*it));
        named.map(|start| Branch { start, end: start + 1, role }).collect()
    }

    fn entries(&self, content: &[u8]) -> Vec<u32> {
        content.iter().take_while(|it| **it != 0).map(|it| u32::from(*it)).collect()
    }

    fn table_of(&self, _: u32) -> Option<Block> {
        Some(INODES)
    }

    fn owners_write(&self) -> bool {
        unreachable!("rule J does not ask")
    }

    fn frees_wait(&self) -> bool {
        self.frees_wait
    }
}

impl Format for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn properties(&self) -> Properties {
        EXT3_WRITEBACK
    }

    fn block_bytes(&self) -> u32 {
        BYTES as u32
    }

    fn blocks(&self) -> Block {
        BLOCKS
    }

    fn was_clean(&self) -> bool {
        self.was_clean
    }

    fn kind(&self, block: Block) -> Kind {
        match block {
            SUPER => Kind::Geometry,
            MAP => Kind::Map,
            INODES if self.has_inodes => Kind::Inodes,
            EXTENTS if self.has_extents => Kind::Inodes,
            _ => Kind::Data,
        }
    }

    fn survey(&self, kind: Kind) -> Vec<Range<Block>> {
        (0..BLOCKS).filter(|block| self.kind(*block) == kind).map(|block| block..block + 1).collect()
    }

    fn map(&self, _: Extent<Addr>, bytes: &[u8]) -> Result<Vec<Shown>, Reason> {
        if bytes[MAP as usize] == 0 {
            return Err(Reason("the map is free".into()));
        }
        let shown = |(block, byte): (Block, &u8)| Shown { blocks: block..block + 1, allocated: *byte != 0 };
        Ok((0..BLOCKS).zip(bytes).map(shown).collect())
    }

    fn has_unwritten(&self) -> bool {
        self.has_extents
    }

    fn unwritten(&self, _: Block, _: Kind, content: &[u8]) -> Vec<Range<Block>> {
        let named = content.iter().take_while(|it| **it != 0).map(|it| Block::from(*it));
        named.map(|block| block..block + 1).collect()
    }

    fn geometry(&self, _: Block, old: &[u8], new: &[u8]) -> Geometry {
        match (old[0], new[0]) {
            (_, 1) => Geometry::InUse,
            (_, 2) => Geometry::Mounted,
            (1 | 2, 0) => Geometry::Unmounted,
            (_, 0) => Geometry::Clean,
            _ => Geometry::Changed,
        }
    }

    fn marking(&self) -> Option<&dyn Marking> {
        self.has_inodes.then_some(self)
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Without inodes, not mounted.
const PLAIN: Toy = Toy { was_clean: true, has_inodes: false, frees_wait: true, has_extents: false };

/// The disk, and the rule above it.
pub(super) struct Disk {
    pub(super) rule: RuleJ,
    toy: Toy,
    bytes: Vec<u8>,
    pub(super) now: Millis,
    attached: Attached,
    /// Reads wait until [`Disk::read`].
    pub(super) is_lazy: bool,
}

/// The rule above `toy`. Only marked content is sensitive where there are inodes.
fn rule(toy: Toy, now: Millis, from_start: bool) -> RuleJ {
    let sensitive = if toy.has_inodes { Sensitive::Marked } else { Sensitive::All };
    let options = Options { settle_ms: 10_000, sensitive, ..Options::default() };
    RuleJ::attach(Box::new(toy), JOURNAL.to_vec(), options, now, from_start)
}

impl Disk {
    /// A file system that is not mounted, whose map has `free` free, with an
    /// empty journal whose next transaction is 5.
    pub(super) fn new(free: &[Block]) -> Self {
        Self::of(PLAIN, free, &superblock(5, 0), true)
    }

    /// As [`Disk::new`], with this superblock of the journal.
    pub(super) fn with(log: &[u8], was_clean: bool, from_start: bool) -> Self {
        Self::of(Toy { was_clean, ..PLAIN }, &[], log, from_start)
    }

    /// As [`Disk::new`], where only marked content is sensitive, and no file has a mark.
    pub(super) fn of_marks(free: &[Block], was_clean: bool) -> Self {
        Self::of(Toy { was_clean, has_inodes: true, ..PLAIN }, free, &superblock(5, 0), true)
    }

    /// As [`Disk::of_marks`] at a clean attach, where freed blocks are used again at once (`data=writeback`).
    pub(super) fn of_writeback() -> Self {
        Self::of(Toy { has_inodes: true, frees_wait: false, ..PLAIN }, &[], &superblock(5, 0), true)
    }

    /// As [`Disk::new`], with extents.
    pub(super) fn of_extents() -> Self {
        Self::of(Toy { has_extents: true, ..PLAIN }, &[], &superblock(5, 0), true)
    }

    fn of(toy: Toy, free: &[Block], log: &[u8], from_start: bool) -> Self {
        let mut bytes = vec![0; BYTES * BLOCKS as usize];
        bytes[0] = u8::from(!toy.was_clean);
        bytes[BYTES..2 * BYTES].copy_from_slice(&map(free));
        bytes[LOG as usize * BYTES..][..BYTES].copy_from_slice(log);
        let (now, attached) = (Millis(0), Attached::Direct);
        let mut disk = Self { rule: rule(toy, now, from_start), toy, bytes, now, attached, is_lazy: false };
        disk.read();
        disk
    }

    /// The rule at a start, while the file system is mounted or not.
    fn started(&self, mounted: bool) -> RuleJ {
        rule(Toy { was_clean: !mounted, ..self.toy }, self.now, true)
    }

    /// The same disk after a clean stop and start.
    pub(super) fn restarted(self, mounted: bool) -> Self {
        let view = self.rule.view().expect("it is calm");
        let mut disk = Self { rule: self.started(mounted), ..self };
        assert!(disk.rule.resume(&view));
        if !disk.is_lazy {
            disk.read();
        }
        disk
    }

    /// Whether a start takes `view`.
    pub(super) fn takes(&self, view: &[u8]) -> bool {
        self.started(true).resume(view)
    }

    /// The same disk, mounted, after a kill of the server.
    pub(super) fn killed(self) -> Self {
        let mut disk = Self { rule: self.started(true), ..self };
        disk.attach(disk.attached);
        disk.read();
        disk
    }

    pub(super) fn observe(&mut self, observation: Observation<'_>) {
        self.rule.observe(Moment { now: self.now, clients: 1, attached: self.attached }, observation);
    }

    pub(super) fn attach(&mut self, attached: Attached) {
        self.attached = attached;
        self.observe(Observation::Attached);
    }

    pub(super) fn read(&mut self) {
        while let Some(extent) = self.rule.wants() {
            let content = self.content(extent).to_vec();
            self.observe(Observation::Given { extent, content: Some(&content) });
        }
    }

    fn content(&self, extent: Extent<Addr>) -> &[u8] {
        &self.bytes[extent.start.0 as usize..extent.end() as usize]
    }

    /// Writes and returns what is to be destroyed before.
    pub(super) fn write_at(&mut self, at: u64, bytes: &[u8]) -> Vec<Block> {
        let extent = Extent::new(at, bytes.len() as u64);
        let content = Content::Bytes(bytes);
        let taken = self.rule.take_suspicious(extent);
        self.observe(Observation::Arrived { extent, content });
        for old_extent in self.rule.needs(extent) {
            let old = self.content(old_extent).to_vec();
            self.observe(Observation::Overwriting { extent, content, old_extent, old: &old });
        }
        self.bytes[at as usize..][..bytes.len()].copy_from_slice(bytes);
        if !self.is_lazy {
            self.read();
        }
        taken
            .iter()
            .flat_map(|part| (part.start.0 / 1024) as Block..part.end().div_ceil(1024) as Block)
            .collect()
    }

    pub(super) fn write(&mut self, block: Block, bytes: &[u8]) -> Vec<Block> {
        self.write_at(u64::from(block) * BYTES as u64, bytes)
    }

    /// A write that is refused; returns what was to be destroyed before.
    pub(super) fn refuse(&mut self, block: Block, bytes: &[u8]) -> Vec<Block> {
        let (is_lazy, before) = (std::mem::replace(&mut self.is_lazy, true), self.bytes.clone());
        let taken = self.write(block, bytes);
        (self.is_lazy, self.bytes) = (is_lazy, before);
        let extent = Extent::new(u64::from(block) * BYTES as u64, bytes.len() as u64);
        self.observe(Observation::Refused { extent, was_shown: true });
        self.read();
        taken
    }

    /// A block of data of some file.
    pub(super) fn data(&mut self, block: Block) -> Vec<Block> {
        self.write(block, &[7; BYTES])
    }

    pub(super) fn log(&mut self, index: u32, bytes: &[u8]) {
        self.write(place(index), bytes);
    }

    /// The same in two parts, after which it has to be read.
    pub(super) fn log_in_parts(&mut self, index: u32, bytes: &[u8]) {
        let (first, second) = bytes.split_at(BYTES / 2);
        let at = u64::from(place(index)) * BYTES as u64;
        self.write_at(at, first);
        self.write_at(at + first.len() as u64, second);
    }

    /// Transaction `tid`, which has the map with `free`, from the log's block
    /// `at` on, in three blocks.
    pub(super) fn commit(&mut self, tid: u32, at: u32, free: &[Block]) {
        self.commit_all(tid, at, &[(MAP, map(free))]);
    }

    /// Transaction `tid` of one block of no map, from `at` on.
    pub(super) fn commit_other(&mut self, tid: u32, at: u32) {
        self.commit_all(tid, at, &[(40, vec![9; BYTES])]);
    }

    /// Transaction `tid` of these blocks and their contents, from `at` on. Returns the block behind it.
    pub(super) fn commit_all(&mut self, tid: u32, at: u32, copies: &[(Block, Vec<u8>)]) -> u32 {
        let tags: Vec<_> = copies.iter().map(|(block, _)| (*block, 0)).collect();
        self.log(at, &descriptor(tid, &tags));
        for (at, (_, copy)) in (at + 1..).zip(copies) {
            self.log(at, copy);
        }
        let end = at + 1 + copies.len() as u32;
        self.log(end, &header(2, tid));
        end + 1
    }

    /// Mounts the file system: its journal begins with transaction 5 at block 1.
    pub(super) fn mount(&mut self) {
        self.mark(1);
        self.log(0, &superblock(5, 1));
    }

    pub(super) fn mark(&mut self, mounted: u8) {
        self.write(SUPER, &[mounted; BYTES]);
    }

    /// Lets so much time pass, without a change.
    pub(super) fn wait(&mut self, ms: u64) {
        self.now = Millis(self.now.0 + ms);
        self.observe(Observation::Tick);
        self.read();
    }

    /// The blocks called dead once the evidence is durable.
    pub(super) fn dead(&mut self) -> Vec<Block> {
        self.observe(Observation::Cut);
        self.observe(Observation::Proven);
        let mut dead = Vec::new();
        while let Some((extent, verdict)) = self.verdict() {
            assert_eq!(verdict, Verdict::Dead);
            dead.extend((extent.start.0 / 1024) as Block..(extent.end() / 1024) as Block);
        }
        dead
    }

    pub(super) fn verdict(&mut self) -> Option<(Extent<Addr>, Verdict)> {
        self.rule.verdict(Scope { layers: true, all: false, is_busy: &|_| false })
    }

    pub(super) fn figure(&self, name: &str) -> u64 {
        self.rule.figures().into_iter().find(|(it, _)| *it == name).expect("there is such a figure").1
    }
}

/// Where the journal's block `index` lies.
pub(super) fn place(index: u32) -> Block {
    if index < 10 { 20 + index } else { 8 + index - 10 }
}

/// All of the journal but its superblock.
pub(super) fn residue() -> Vec<Block> {
    (1..20).map(place).collect()
}

/// A map that has `free` free.
pub(super) fn map(free: &[Block]) -> Vec<u8> {
    let mut bytes = vec![1; BYTES];
    free.iter().for_each(|block| bytes[*block as usize] = 0);
    bytes
}

#[derive(Clone, Copy, Default)]
pub(super) struct Inode {
    pub(super) number: u8,
    pub(super) is_marked: bool,
    pub(super) generation: u8,
    pub(super) is_folder: bool,
    /// The only block of the file; 0 if it has no block.
    pub(super) block: Block,
    /// Level of pointers in that block.
    pub(super) level: u8,
}

/// A block of inodes; others are not in use.
pub(super) fn table(inodes: &[Inode]) -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    for inode in inodes {
        let (marked, folder) = (u8::from(inode.is_marked), u8::from(inode.is_folder));
        let fields = [1, marked, inode.generation, folder, inode.block as u8, inode.level];
        let at = usize::from(inode.number) * INODE_BYTES;
        bytes[at..at + 6].copy_from_slice(&fields);
    }
    bytes
}

/// A descriptor with tags of blocks, each with further flags.
pub(super) fn descriptor(tid: u32, tags: &[(Block, u32)]) -> Vec<u8> {
    let mut block = header(1, tid);
    for (n, (number, flags)) in tags.iter().enumerate() {
        let last = if n + 1 == tags.len() { 8 } else { 0 };
        put(&mut block, 12 + 8 * n, *number);
        put(&mut block, 16 + 8 * n, 2 | flags | last);
    }
    block
}

/// Continues a checksum of the journal over `bytes`.
fn crc(crc: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!crc, bytes)
}

/// `block` with its checksum at `at`, from `seed` on.
fn sealed(mut block: Vec<u8>, seed: u32, at: usize) -> Vec<u8> {
    let checksum = crc(seed, &block);
    put(&mut block, at, checksum);
    block
}

/// The superblock of a journal with checksums (`csum_v3`).
pub(super) fn summed_superblock(sequence: u32, start: u32) -> Vec<u8> {
    let mut block = superblock(sequence, start);
    put(&mut block, 0x28, 0x10);
    block[0x50] = 4;
    sealed(block, !0, 0xFC)
}

/// Transaction `tid` in a journal with checksums: its descriptor, the map with `free`, and its
/// commit block.
pub(super) fn summed(tid: u32, free: &[Block]) -> [Vec<u8>; 3] {
    let seed = crc(!0, &[0; 16]);
    let map = map(free);
    let mut descriptor = header(1, tid);
    let checksum = crc(crc(seed, &tid.to_be_bytes()), &map);
    for (at, value) in [(12, MAP), (16, 2 | 8), (24, checksum)] {
        put(&mut descriptor, at, value);
    }
    [sealed(descriptor, seed, BYTES - 4), map, sealed(header(2, tid), seed, 0x10)]
}

pub(super) fn superblock(sequence: u32, start: u32) -> Vec<u8> {
    let mut block = header(4, 0);
    for (at, value) in [(0xC, 1024), (0x10, 20), (0x14, 1), (0x18, sequence), (0x1C, start)] {
        put(&mut block, at, value);
    }
    block
}
