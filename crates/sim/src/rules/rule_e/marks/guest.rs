//! The memory of a guest that has mounted the small ext2: it knows which file each block is of, and whether the file
//! is marked.

use crate::machine::rng::Rng;
use crate::rules::rule_e::marks::image::{
    BLOCK_BYTES, BLOCKS, DATA, Disk, FOLDER, FOLDER_BLOCK, IDLE, INODE_BYTES, INODES, MAP, SUPER, TABLE,
    folder, get32, map, place_of, put_inode, put32, superblock,
};
use quietus_detect::formats::format::Block;
use std::collections::{BTreeMap, BTreeSet};

/// The first inode of a file.
const FIRST: u32 = FOLDER + 1;
const DIRECT: usize = 2;
const BELOW: usize = 3;
const FILES_MAX: usize = 8;

/// A write of a whole block.
pub struct Put {
    pub block: Block,
    pub content: Vec<u8>,
    /// The content is of a marked file.
    pub is_secret: bool,
}

/// Number and generation of an inode.
type Id = (u32, u32);

#[derive(Clone, Debug)]
struct File {
    id: Id,
    is_flagged: bool,
    is_in_folder: bool,
    /// The file has a mark that covers its content from now on.
    is_secret: bool,
    direct: [Block; DIRECT],
    indirect: Block,
    below: [Block; BELOW],
}

#[derive(Clone, Debug, Default)]
pub struct Guest {
    files: BTreeMap<u32, File>,
    /// Inodes as they lie in memory.
    tables: BTreeMap<Block, Vec<u8>>,
    allocated: BTreeSet<Block>,
    /// Content of dirty data blocks, and whether it is of a marked file.
    pages: BTreeMap<Block, (Vec<u8>, bool)>,
    /// Blocks to be written, and since when.
    dirty: BTreeMap<Block, u64>,
    /// The writer of what lies in a block on the disk, unless the block was freed since.
    writers: BTreeMap<Block, Id>,
    generation: u32,
    mounts: u16,
    checks: u32,
    now: u64,
}

impl File {
    fn blocks(&self) -> impl Iterator<Item = Block> {
        let all = self.direct.into_iter().chain([self.indirect]).chain(self.below);
        all.filter(|block| *block != 0)
    }

    fn data(&self) -> Vec<Block> {
        self.blocks().filter(|block| *block != self.indirect).collect()
    }
}

impl Guest {
    /// The guest that finds nothing but the marked folder on `disk`.
    pub fn mount(disk: &Disk) -> Self {
        Self {
            tables: TABLE.map(|block| (block, disk.block(block).to_vec())).collect(),
            allocated: BTreeSet::from([FOLDER_BLOCK]),
            mounts: 1,
            checks: 1,
            ..Self::default()
        }
    }

    /// The superblock of one more mount.
    pub fn mounted(&mut self) -> Put {
        self.mounts += 1;
        self.superblock(false)
    }

    pub fn unmounted(&self) -> Put {
        self.superblock(true)
    }

    pub fn checked(&mut self) -> Put {
        (self.mounts, self.checks) = (0, self.checks + 1);
        self.superblock(true)
    }

    fn superblock(&self, is_clean: bool) -> Put {
        let content = superblock(self.mounts, self.checks, is_clean);
        Put { block: SUPER, content, is_secret: false }
    }

    /// A write that changes nothing.
    pub fn touched() -> Put {
        Put { block: IDLE, content: vec![0; BLOCK_BYTES], is_secret: false }
    }

    /// The guest after a crash and a check: it knows what lies on `disk`, and writes all metadata anew.
    pub fn mended(before: &Self, disk: &Disk) -> Self {
        let Self { mounts, checks, now, generation, .. } = *before;
        let mut guest = Self { mounts, checks, now, generation, ..Self::mount(disk) };
        guest.writers.clone_from(&before.writers);
        let entries: BTreeSet<u32> = entries(disk.block(FOLDER_BLOCK));
        for number in FIRST..=INODES {
            let (block, at) = place_of(number);
            let bytes = &disk.block(block)[at..][..INODE_BYTES];
            if get32(bytes, 0x14) == 0 && bytes[0x1A] != 0 {
                guest.mend(number, bytes, entries.contains(&number), disk);
            }
        }
        let files = &guest.files;
        guest.writers.retain(|block, id| {
            files.get(&id.0).is_some_and(|it| it.id == *id && it.blocks().any(|at| at == *block))
        });
        for block in TABLE.chain([MAP, FOLDER_BLOCK]) {
            guest.dirty.insert(block, guest.now);
        }
        guest
    }

    fn mend(&mut self, number: u32, bytes: &[u8], is_in_folder: bool, disk: &Disk) {
        let id = (number, get32(bytes, 0x64));
        let is_flagged = bytes[0x20] & 1 != 0;
        let is_secret = is_flagged || is_in_folder;
        let mut claim = |block: u32| {
            let is_valid = DATA.contains(&block) && self.allocated.insert(block);
            if is_valid { block } else { 0 }
        };
        let direct = [0, 1].map(|n| claim(get32(bytes, 0x28 + 4 * n)));
        let indirect = claim(get32(bytes, 0x28 + 48));
        let pointers = if indirect == 0 { &[0; 12] } else { disk.block(indirect) };
        let below = [0, 1, 2].map(|n| claim(get32(pointers, 4 * n)));
        let file = File { id, is_flagged, is_in_folder, is_secret, direct, indirect, below };
        if indirect != 0 {
            self.dirty.insert(indirect, self.now);
        }
        self.note_inode(&file, true);
        self.files.insert(number, file);
    }

    /// The dirty blocks that have to be written now.
    pub fn late(&mut self, now: u64, delay_ms: u64) -> Vec<Block> {
        self.now = now;
        self.dirty.iter().filter(|(_, since)| *since + delay_ms <= now).map(|(block, _)| *block).collect()
    }

    pub fn any_dirty(&self, rng: &mut Rng) -> Option<Block> {
        let all: Vec<Block> = self.dirty.keys().copied().collect();
        (!all.is_empty()).then(|| rng.pick(&all))
    }

    pub fn write_back(&mut self, block: Block) -> Option<Put> {
        self.dirty.remove(&block)?;
        let owner = self.files.values().find(|file| file.blocks().any(|it| it == block));
        let (content, is_secret) = match block {
            MAP => (map(|it| self.allocated.contains(&it)), false),
            FOLDER_BLOCK => (folder(&self.entries()), true),
            _ if TABLE.contains(&block) => (self.tables.get(&block)?.clone(), false),
            _ => match owner {
                Some(file) if file.indirect == block => {
                    let mut content = vec![0; BLOCK_BYTES];
                    file.below.iter().enumerate().for_each(|(n, it)| put32(&mut content, 4 * n, *it));
                    (content, file.is_secret)
                }
                _ => self.pages.remove(&block)?,
            },
        };
        if let Some(file) = owner {
            self.writers.insert(block, file.id);
        }
        Some(Put { block, content, is_secret })
    }

    fn entries(&self) -> Vec<u32> {
        self.files.values().filter(|file| file.is_in_folder).map(|file| file.id.0).collect()
    }

    /// The blocks that a mark covers which has just been written in `block`.
    pub fn newly_covered(&mut self, block: Block) -> Vec<Block> {
        let mut covered = Vec::new();
        for file in self.files.values_mut().filter(|file| !file.is_secret) {
            let is_flag = file.is_flagged && place_of(file.id.0).0 == block;
            let is_entry = file.is_in_folder && block == FOLDER_BLOCK;
            if !is_flag && !is_entry {
                continue;
            }
            file.is_secret = true;
            for block in file.blocks() {
                if self.writers.get(&block) == Some(&file.id) {
                    covered.push(block);
                }
                if let Some((_, is_secret)) = self.pages.get_mut(&block) {
                    *is_secret = true;
                }
            }
        }
        covered
    }

    /// Whether what lies in `block` on the disk was written by its present owner.
    pub fn has_on_disk(&self, block: Block) -> bool {
        let owner = self.files.values().find(|file| file.blocks().any(|it| it == block));
        owner.is_some_and(|file| self.writers.get(&block) == Some(&file.id))
    }

    /// Blocks of files without a mark.
    pub fn plain_blocks(&self) -> Vec<Block> {
        let plain = self.files.values().filter(|file| !file.is_secret).flat_map(File::blocks);
        plain.filter(|block| self.has_on_disk(*block)).collect()
    }

    pub fn delete_all(&mut self, now: u64) {
        self.now = now;
        for number in self.files.keys().copied().collect::<Vec<_>>() {
            self.delete(number);
        }
    }

    /// Does something to a file.
    pub fn act(&mut self, rng: &mut Rng, now: u64) {
        self.now = now;
        let all: Vec<u32> = self.files.keys().copied().collect();
        if all.is_empty() || (all.len() < FILES_MAX && rng.chance(20)) {
            return self.create(rng);
        }
        let number = rng.pick(&all);
        match rng.below(100) {
            0..45 => self.grow(rng, number),
            45..65 => self.rewrite(rng, number),
            65..85 => self.delete(number),
            85..91 => self.truncate(number),
            91..94 => self.mark(number, true),
            94..97 => self.move_in(number),
            _ => self.mark(number, false),
        }
    }

    fn dirty(&mut self, block: Block) {
        self.dirty.entry(block).or_insert(self.now);
    }

    fn create(&mut self, rng: &mut Rng) {
        let free: Vec<u32> = (FIRST..=INODES).filter(|number| !self.files.contains_key(number)).collect();
        let number = if rng.chance(70) { free[0] } else { rng.pick(&free) };
        self.generation += 1;
        let is_secret = rng.chance(40);
        let id = (number, self.generation);
        let file = File {
            id,
            is_flagged: is_secret,
            is_in_folder: is_secret,
            is_secret,
            direct: [0; DIRECT],
            indirect: 0,
            below: [0; BELOW],
        };
        if is_secret {
            self.dirty(FOLDER_BLOCK);
        }
        self.note_inode(&file, true);
        self.files.insert(number, file);
    }

    fn allocate(&mut self, rng: &mut Rng) -> Option<Block> {
        let free: Vec<Block> = DATA.filter(|block| !self.allocated.contains(block)).collect();
        let near = free.len().min(4);
        let block = if near > 0 { free[rng.index(near)] } else { return None };
        self.allocated.insert(block);
        self.dirty(MAP);
        Some(block)
    }

    fn grow(&mut self, rng: &mut Rng, number: u32) {
        let Some(mut file) = self.files.get(&number).cloned() else { return };
        if let Some(slot) = file.direct.iter().position(|block| *block == 0) {
            let Some(block) = self.allocate(rng) else { return };
            file.direct[slot] = block;
            self.fill(rng, &file, block);
        } else if let Some(slot) = file.below.iter().position(|block| *block == 0) {
            if file.indirect == 0 {
                let Some(block) = self.allocate(rng) else { return };
                file.indirect = block;
            }
            self.dirty(file.indirect);
            if let Some(block) = self.allocate(rng) {
                file.below[slot] = block;
                self.fill(rng, &file, block);
            }
        }
        self.note_inode(&file, true);
        self.files.insert(number, file);
    }

    /// Gives `block` new content, which may look like pointers, or entries.
    fn fill(&mut self, rng: &mut Rng, file: &File, block: Block) {
        let mut content = vec![0; BLOCK_BYTES];
        match rng.below(3) {
            0 => (0..8).for_each(|n| put32(&mut content, 4 * n, rng.below(u64::from(BLOCKS)) as u32)),
            1 => content = folder(&[rng.range(u64::from(FIRST), u64::from(INODES)) as u32]),
            _ => content.fill(file.id.1 as u8),
        }
        self.pages.insert(block, (content, file.is_secret));
        self.dirty(block);
    }

    fn rewrite(&mut self, rng: &mut Rng, number: u32) {
        let Some(file) = self.files.get(&number).cloned() else { return };
        let data = file.data();
        if !data.is_empty() {
            let block = rng.pick(&data);
            self.fill(rng, &file, block);
        }
    }

    fn free(&mut self, file: &File) {
        for block in file.blocks() {
            self.allocated.remove(&block);
            self.pages.remove(&block);
            self.dirty.remove(&block);
            self.writers.remove(&block);
            self.dirty(MAP);
        }
    }

    fn delete(&mut self, number: u32) {
        let Some(file) = self.files.remove(&number) else { return };
        self.free(&file);
        self.note_inode(&file, false);
        if file.is_in_folder {
            self.dirty(FOLDER_BLOCK);
        }
    }

    fn truncate(&mut self, number: u32) {
        let Some(mut file) = self.files.get(&number).cloned() else { return };
        self.free(&file);
        (file.direct, file.indirect, file.below) = ([0; DIRECT], 0, [0; BELOW]);
        self.note_inode(&file, true);
        self.files.insert(number, file);
    }

    /// Sets the flag, or clears it: then what is written from now on is not covered, unless the folder covers it.
    fn mark(&mut self, number: u32, is_flagged: bool) {
        let Some(mut file) = self.files.get(&number).cloned() else { return };
        file.is_flagged = is_flagged;
        file.is_secret &= is_flagged || file.is_in_folder;
        self.note_inode(&file, true);
        self.files.insert(number, file);
    }

    fn move_in(&mut self, number: u32) {
        if let Some(file) = self.files.get_mut(&number) {
            file.is_in_folder = true;
            self.dirty(FOLDER_BLOCK);
        }
    }

    /// Puts an inode into its table. A deleted one keeps its pointers.
    fn note_inode(&mut self, file: &File, is_in_use: bool) {
        let (block, at) = place_of(file.id.0);
        let Some(table) = self.tables.get_mut(&block) else { return };
        let bytes = &mut table[at..][..INODE_BYTES];
        put_inode(bytes, is_in_use, file.is_flagged, &file.direct, file.id.1);
        put32(bytes, 0x14, u32::from(!is_in_use));
        put32(bytes, 0x28 + 48, file.indirect);
        self.dirty(block);
    }
}

/// The inodes that a folder's block names.
fn entries(content: &[u8]) -> BTreeSet<u32> {
    (2..BLOCK_BYTES / 16).map(|n| get32(content, 16 * n)).take_while(|number| *number != 0).collect()
}
