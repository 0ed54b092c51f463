//! An attacker of a disk whose content dies with its keys: has every page of the key tree and every sector of its log that was ever to be
//! written, also those that were torn or lost; all keys of the disk; and whatever the medium of the root may hold now.
//!
//! A second reading of the formats (`docs/formats/keytree.md`, `topcell.md`), by other hands than the store's. The log is read without its
//! tags: the key is enough.

use super::cipher::CellBytes;
use super::disk::DISK;
use crate::machine::medium::SimMedium;
use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit};
use quietus_core::base::cell::Cell;
use quietus_core::base::units::{BLOCK_BYTES, Pos};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

const PAGE_BYTES: u64 = 4096;
const SECTOR_BYTES: u64 = 512;
const HALVES_AT: u64 = 4096;
const LOG_BYTES: u64 = 2_797_568;
const PAGES_AT: u64 = HALVES_AT + 2 * LOG_BYTES;
/// Entries of a page.
const ENTRIES: u64 = 112;
const CELL_BYTES: usize = 32;
/// Where the tag and the ciphertext of a page begin, and its entries.
const PAGE_TAG: usize = 8;
const PAGE_SECRET: usize = 32;
const PAGE_ENTRIES: usize = CELL_BYTES;
const PAGE_ENTRY: usize = CELL_BYTES + 4;
/// Where the ciphertext of a sector of the log begins, and in that its entries.
const SECTOR_SECRET: usize = 28;
const SECTOR_ENTRIES: usize = 4;
const SECTOR_ENTRY: usize = 40;
const ENTRY_KIND: usize = 5;
const ENTRY_SEED: usize = 8;
/// Blocks that one seed can have cells for.
const SEED_BLOCKS: u64 = 1 << 16;
/// Where the slots of the root are, and the bytes of one that count.
const SLOTS_AT: [u64; 2] = [4096, 8192];
const SLOT_BYTES: usize = 40;

/// The place of a page in the tree.
type Node = (u8, u64);

/// How many versions of a page were tried under a cell, and what those are that it opens.
type Opened = (usize, Vec<Rc<[u8]>>);

/// An attacker; see the module's documentation.
#[derive(Debug)]
pub(crate) struct Attacker {
    /// Pages in each level, the leaves first.
    levels: Vec<u64>,
    /// Number of writes that were looked at.
    taken: usize,
    /// Each page, in all its versions.
    pages: BTreeMap<Node, Vec<Rc<[u8]>>>,
    /// Sectors of the log, in all versions, each with its number in its half.
    log: Vec<(u32, Rc<[u8]>)>,
    nonces: BTreeMap<[u8; 12], usize>,
    /// What was opened under a cell so far, and how many versions were tried.
    opened: BTreeMap<(CellBytes, Node), Opened>,
    logged: BTreeMap<CellBytes, (usize, BTreeSet<CellBytes>)>,
    /// What no writer of these media may do.
    fault: Option<String>,
}

impl Attacker {
    /// An attacker of a disk of `size` bytes.
    pub fn new(size: u64) -> Self {
        let blocks = size.div_ceil(BLOCK_BYTES);
        let mut levels = vec![blocks.div_ceil(ENTRIES).max(1)];
        while levels[levels.len() - 1] > 1 {
            levels.push(levels[levels.len() - 1].div_ceil(ENTRIES));
        }
        Self {
            levels,
            taken: 0,
            pages: BTreeMap::new(),
            log: Vec::new(),
            nonces: BTreeMap::new(),
            opened: BTreeMap::new(),
            logged: BTreeMap::new(),
            fault: None,
        }
    }

    /// What was done that no writer of these media may do: a nonce or the key of a page serves twice.
    pub fn fault(&self) -> Option<&String> {
        self.fault.as_ref()
    }

    /// All cells of `blocks` that can be had from `map` and from `root`, of which bytes are gone after `passes` passes.
    pub fn cells(
        &mut self,
        (map, root): (&SimMedium, &SimMedium),
        passes: usize,
        blocks: &BTreeSet<u64>,
    ) -> BTreeSet<CellBytes> {
        self.take(map);
        let mut found = BTreeSet::new();
        for top in SLOTS_AT.into_iter().flat_map(|at| tops(root, Pos(at), passes)) {
            let node = (self.levels.len() as u8 - 1, 0);
            for page in self.open(top, node) {
                self.add_logged(cell_at(&page, 0), blocks, &mut found);
                self.add_page(&page, node, blocks, &mut found);
            }
        }
        found
    }

    /// Takes what was written to `map` since.
    fn take(&mut self, map: &SimMedium) {
        let writes = map.writes_since(self.taken);
        self.taken += writes.len();
        for (pos, bytes) in writes {
            let unit = if pos.0 < PAGES_AT { SECTOR_BYTES } else { PAGE_BYTES };
            for (n, part) in (0..).zip(bytes.chunks(unit as usize)) {
                let at = pos.0 + n * unit;
                match at {
                    _ if part.len() as u64 != unit || !at.is_multiple_of(unit) => {
                        self.blame(format!("{} bytes were written at {at} of the key tree", part.len()));
                    }
                    ..HALVES_AT => {}
                    HALVES_AT..PAGES_AT => {
                        self.take_sector(((at - HALVES_AT) % LOG_BYTES / SECTOR_BYTES) as u32, part)
                    }
                    _ => self.take_page(at, part),
                }
            }
        }
    }

    fn take_sector(&mut self, number: u32, bytes: &[u8]) {
        if self.log.iter().any(|it| it.0 == number && *it.1 == *bytes) {
            return;
        }
        let nonce: [u8; 12] = bytes[..12].try_into().expect("a sector has a nonce");
        if self.nonces.insert(nonce, self.log.len()).is_some() {
            self.blame(format!("two sectors of the log, one number {number}, have the same nonce"));
        }
        self.log.push((number, bytes.into()));
    }

    fn take_page(&mut self, at: u64, bytes: &[u8]) {
        let mut number = (at - PAGES_AT) / (2 * PAGE_BYTES);
        for (level, count) in self.levels.iter().enumerate().rev() {
            if number < *count {
                let versions = self.pages.entry((level as u8, number)).or_default();
                if !versions.iter().any(|it| **it == *bytes) {
                    versions.push(bytes.into());
                }
                return;
            }
            number -= count;
        }
        self.blame(format!("a page was written at {at}, behind all pages"));
    }

    /// All versions of a page that open under `cell`.
    fn open(&mut self, cell: CellBytes, node: Node) -> Vec<Rc<[u8]>> {
        let Some(versions) = self.pages.get(&node) else { return Vec::new() };
        let (tried, pages) = self.opened.entry((cell, node)).or_default();
        pages.extend(versions[*tried..].iter().filter_map(|it| opened(&cell, node, it)));
        *tried = versions.len();
        let (pages, is_well) = (pages.clone(), pages.len() < 2);
        if !is_well {
            self.blame(format!("{} versions of page {node:?} lie under one cell", pages.len()));
        }
        pages
    }

    fn add_page(
        &mut self,
        page: &[u8],
        (level, index): Node,
        blocks: &BTreeSet<u64>,
        found: &mut BTreeSet<CellBytes>,
    ) {
        for n in 0..ENTRIES {
            let (at, child) = (PAGE_ENTRIES + PAGE_ENTRY * n as usize, index * ENTRIES + n);
            if !has_any(level, child, blocks) {
                continue;
            }
            let cell = cell_at(page, at);
            let is_stored = page[at + PAGE_ENTRY - 1] & 0x80 != 0;
            match level.checked_sub(1) {
                Some(below) if is_stored => {
                    for page in self.open(cell, (below, child)) {
                        self.add_page(&page, (below, child), blocks, found);
                    }
                }
                _ => derive(cell, (level, child), blocks, found),
            }
        }
    }

    /// Adds the cells of the log that lies under `cell`, in whatever half. A seed gives more cells than its entry means.
    fn add_logged(&mut self, cell: CellBytes, blocks: &BTreeSet<u64>, found: &mut BTreeSet<CellBytes>) {
        let (tried, seeds) = self.logged.entry(cell).or_default();
        seeds.extend(self.log[*tried..].iter().flat_map(|(number, it)| seeds_in(&cell, *number, it)));
        *tried = self.log.len();
        for seed in seeds.iter() {
            let seed = Cell::from_bytes(seed).expect("it has 32 bytes");
            found.extend(blocks.iter().map(|block| *seed.child(block % SEED_BLOCKS).bytes()));
        }
    }

    fn blame(&mut self, what: String) {
        self.fault.get_or_insert(what);
    }
}

/// Whether any of `blocks` lies below entry `child` of a page of `level`, or is that entry.
fn has_any(level: u8, child: u64, blocks: &BTreeSet<u64>) -> bool {
    let span = ENTRIES.pow(level.into());
    blocks.range(child * span..(child + 1) * span).next().is_some()
}

/// Adds what follows from `cell`, which is `entry` of a page of `level`.
fn derive(cell: CellBytes, (level, entry): Node, blocks: &BTreeSet<u64>, found: &mut BTreeSet<CellBytes>) {
    let Some(below) = level.checked_sub(1) else {
        found.insert(cell);
        return;
    };
    let seed = Cell::from_bytes(&cell).expect("it has 32 bytes");
    for n in (0..ENTRIES).filter(|n| has_any(below, entry * ENTRIES + n, blocks)) {
        derive(*seed.child(n).bytes(), (below, entry * ENTRIES + n), blocks, found);
    }
}

/// The top cells that the slot at `at` has or had.
fn tops(root: &SimMedium, at: Pos, passes: usize) -> BTreeSet<CellBytes> {
    let layers = root.layers(at, 0, SLOT_BYTES, passes).into_iter();
    let whole = layers.filter(|it| {
        let (bytes, check) = it[..SLOT_BYTES].split_at(SLOT_BYTES - 4);
        crc32c::crc32c_append(crc32c::crc32c(&DISK), bytes).to_le_bytes() == check
    });
    whole.map(|it| cell_at(&it, 4)).collect()
}

fn cell_at(bytes: &[u8], at: usize) -> CellBytes {
    bytes[at..at + CELL_BYTES].try_into().expect("a cell has 32 bytes")
}

/// The secret bytes of a page, if `cell` sealed it.
fn opened(cell: &CellBytes, (level, index): Node, bytes: &[u8]) -> Option<Rc<[u8]>> {
    let (tag, mut secret) = (&bytes[PAGE_TAG..PAGE_TAG + 16], bytes[PAGE_SECRET..].to_vec());
    let associated = [&b"QKEYPAGE"[..], &DISK, &[level], &index.to_le_bytes()].concat();
    let aead = ChaCha20Poly1305::new(cell.into());
    aead.decrypt_in_place_detached(&[0; 12].into(), &associated, &mut secret, tag.into()).ok()?;
    Some(secret.into())
}

/// The seeds in a sector of the log with this number, if it lies under `cell`.
fn seeds_in(cell: &CellBytes, number: u32, bytes: &[u8]) -> Vec<CellBytes> {
    let mut secret = bytes[SECTOR_SECRET..].to_vec();
    let nonce: [u8; 12] = bytes[..12].try_into().expect("a sector has a nonce");
    let mut stream = ChaCha20::new(cell.into(), &nonce.into());
    // The first block of the keystream is the key of the tag.
    stream.seek(64_u32);
    stream.apply_keystream(&mut secret);
    if secret[..SECTOR_ENTRIES] != number.to_le_bytes() {
        return Vec::new();
    }
    let entries = secret[SECTOR_ENTRIES..].chunks_exact(SECTOR_ENTRY).filter(|it| it[ENTRY_KIND] != 0);
    entries.map(|it| cell_at(it, ENTRY_SEED)).collect()
}

#[cfg(test)]
mod tests;
