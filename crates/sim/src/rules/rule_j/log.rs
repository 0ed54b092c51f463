//! The journal's blocks as jbd2 lays them on the disk: what the guest writes,
//! and what it reads back when it recovers. Written from the format's
//! description alone; it shares nothing with the product.

use quietus_detect::formats::format::Block;
use std::collections::BTreeMap;

/// First bytes of each block of the journal's own.
pub const MAGIC: [u8; 4] = [0xc0, 0x3b, 0x39, 0x98];
/// Tags in a descriptor: few, so that transactions have several descriptors.
const TAGS_MAX: usize = 3;

const DESCRIPTOR: u32 = 1;
const COMMIT: u32 = 2;
const SUPERBLOCK: u32 = 4;
const REVOKE: u32 = 5;

const ESCAPED: u32 = 1;
const SAME_UUID: u32 = 2;
const LAST: u32 = 8;

const INCOMPAT_REVOKE: u32 = 1;
const INCOMPAT_64BIT: u32 = 2;
const INCOMPAT_CSUM_V3: u32 = 0x10;

const UUID: [u8; 16] = *b"a toy's journal.";
/// The part of the superblock that is summed.
const SUPERBLOCK_BYTES: usize = 1024;
/// Where the superblock's checksum stands.
const SUPERBLOCK_SUM: usize = 0xfc;

pub type Tid = u32;
/// A block of the journal: 0 is its superblock.
pub type At = u32;

/// How tags are written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Flavour {
    /// Tags of 8 bytes, no checksums.
    #[default]
    Plain,
    /// Tags of 16 bytes, everything summed.
    Summed,
}

/// Where the journal lies, and how it is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Area {
    pub first: Block,
    /// Number of blocks of the log, the superblock included.
    pub len: At,
    /// The number that the superblock gives itself, and counts the others from.
    pub base: u32,
    pub block_bytes: u32,
    /// How tags are written.
    pub flavour: Flavour,
}

/// The journal's superblock: where the log begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Tail {
    /// The first block of the log; 0: the log is empty.
    pub start: At,
    /// The transaction to be found there.
    pub tid: Tid,
}

/// A block that belongs to the log itself.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    pub tid: Tid,
    pub kind: Own,
}

/// Kinds of the log's own blocks.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Own {
    /// Copies follow: of these blocks.
    Descriptor(Vec<Tag>),
    Revoke,
    /// A block that ends the transaction.
    Commit,
}

/// Statement of a descriptor about one copy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tag {
    /// The block that it is a copy of.
    pub block: Block,
    flags: u32,
    sum: u32,
}

/// A transaction, as it is logged.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Logged {
    pub tid: Tid,
    pub contents: BTreeMap<Block, Vec<u8>>,
    /// Blocks of which no copy in the log counts any more, this or an earlier one.
    pub revoked: Vec<Block>,
}

impl Area {
    /// The block of the disk that is `at`.
    pub fn block(&self, at: At) -> Block {
        self.first + at
    }

    /// The block of the journal that is `block`, if it is one of its own.
    pub fn at(&self, block: Block) -> Option<At> {
        block.checked_sub(self.first).filter(|at| *at < self.len)
    }

    /// The block of the log `n` behind `at`.
    pub fn ahead(&self, at: At, n: u32) -> At {
        1 + (at - 1 + n) % (self.len - 1)
    }

    /// How many blocks of the log lie from `from` up to `to`.
    pub fn between(&self, from: At, to: At) -> u32 {
        (to + self.len - 1 - from) % (self.len - 1)
    }

    pub fn superblock(&self, tail: Tail) -> Vec<u8> {
        let mut bytes = self.begun(SUPERBLOCK, 0);
        let incompat = match self.flavour {
            Flavour::Plain => INCOMPAT_REVOKE,
            Flavour::Summed => INCOMPAT_REVOKE | INCOMPAT_64BIT | INCOMPAT_CSUM_V3,
        };
        let start = if tail.start == 0 { 0 } else { self.base + tail.start };
        let (end, first) = (self.base + self.len, self.base + 1);
        let fields = [(0xc, self.block_bytes), (0x10, end), (0x14, first), (0x18, tail.tid)];
        for (at, value) in fields.into_iter().chain([(0x1c, start), (0x28, incompat), (0x40, 1)]) {
            put(&mut bytes, at, value);
        }
        bytes[0x30..0x40].copy_from_slice(&UUID);
        if self.flavour == Flavour::Summed {
            bytes[0x50] = 4;
            let sum = summed(!0, &bytes[..SUPERBLOCK_BYTES]);
            put(&mut bytes, SUPERBLOCK_SUM, sum);
        }
        bytes
    }

    /// The statement of the superblock `bytes`; `None` if these are not a superblock.
    pub fn tail(&self, bytes: &[u8]) -> Option<Tail> {
        let is_one = is_of(bytes, SUPERBLOCK) && get(bytes, 0x10) == self.base + self.len;
        let start = get(bytes, 0x1c).saturating_sub(self.base);
        is_one.then(|| Tail { start, tid: get(bytes, 0x18) })
    }

    fn begun(&self, kind: u32, tid: Tid) -> Vec<u8> {
        let mut bytes = vec![0; self.block_bytes as usize];
        bytes[..4].copy_from_slice(&MAGIC);
        put(&mut bytes, 4, kind);
        put(&mut bytes, 8, tid);
        bytes
    }

    fn seed(&self) -> u32 {
        summed(!0, &UUID)
    }

    /// `logged`, from `at` on: each block of the log and its content, the
    /// commit block last.
    pub fn encode(&self, logged: &Logged, at: At) -> Vec<(At, Vec<u8>)> {
        let mut blocks = Vec::new();
        if !logged.revoked.is_empty() {
            blocks.push(self.revoke(logged));
        }
        let contents: Vec<_> = logged.contents.iter().collect();
        for part in contents.chunks(TAGS_MAX) {
            let copies: Vec<_> = part.iter().map(|(_, content)| escaped(content)).collect();
            blocks.push(self.descriptor(logged.tid, part, &copies));
            blocks.extend(copies.into_iter().map(|(_, copy)| copy));
        }
        blocks.push(self.commit(logged.tid));
        blocks.into_iter().zip(0..).map(|(bytes, n)| (self.ahead(at, n), bytes)).collect()
    }

    fn revoke(&self, logged: &Logged) -> Vec<u8> {
        let mut bytes = self.begun(REVOKE, logged.tid);
        let mut end = 16;
        for block in &logged.revoked {
            let wide = if self.flavour == Flavour::Summed { 4 } else { 0 };
            put(&mut bytes, end + wide, *block);
            end += 4 + wide;
        }
        put(&mut bytes, 12, end as u32);
        self.sum_tail(&mut bytes);
        bytes
    }

    fn descriptor(&self, tid: Tid, part: &[(&Block, &Vec<u8>)], copies: &[(bool, Vec<u8>)]) -> Vec<u8> {
        let (mut bytes, mut end) = (self.begun(DESCRIPTOR, tid), 12);
        for (n, ((block, _), (is_escaped, copy))) in part.iter().zip(copies).enumerate() {
            let same = if n > 0 { SAME_UUID } else { 0 };
            let last = if n + 1 == part.len() { LAST } else { 0 };
            let flags = same | last | if *is_escaped { ESCAPED } else { 0 };
            put(&mut bytes, end, **block);
            put(&mut bytes, end + 4, flags);
            end += 8;
            if self.flavour == Flavour::Summed {
                let sum = summed(summed(self.seed(), &tid.to_be_bytes()), copy);
                put(&mut bytes, end + 4, sum);
                end += 8;
            }
            if n == 0 {
                bytes[end..end + 16].copy_from_slice(&UUID);
                end += 16;
            }
        }
        self.sum_tail(&mut bytes);
        bytes
    }

    fn commit(&self, tid: Tid) -> Vec<u8> {
        let mut bytes = self.begun(COMMIT, tid);
        if self.flavour == Flavour::Summed {
            let sum = summed(self.seed(), &bytes);
            put(&mut bytes, 16, sum);
        }
        bytes
    }

    fn sum_tail(&self, bytes: &mut [u8]) {
        if self.flavour == Flavour::Summed {
            let sum = summed(self.seed(), bytes);
            put(bytes, bytes.len() - 4, sum);
        }
    }

    /// The header of a block of the log's own, if its checksum is right.
    pub fn header(&self, bytes: &[u8]) -> Option<Header> {
        let kind = match get(bytes, 4) {
            DESCRIPTOR => Own::Descriptor(self.tags(bytes)),
            COMMIT => Own::Commit,
            REVOKE => Own::Revoke,
            _ => return None,
        };
        let sum_at = if kind == Own::Commit { 16 } else { bytes.len() - 4 };
        let mut blank = bytes.to_vec();
        blank[sum_at..sum_at + 4].fill(0);
        let is_sound = self.flavour == Flavour::Plain || summed(self.seed(), &blank) == get(bytes, sum_at);
        (bytes.starts_with(&MAGIC) && is_sound).then(|| Header { tid: get(bytes, 8), kind })
    }

    /// What `copy`, logged by `tid` under `tag`, stands for; `None` if its checksum
    /// is wrong.
    pub fn content(&self, tid: Tid, tag: Tag, copy: &[u8]) -> Option<Vec<u8>> {
        let sum = || summed(summed(self.seed(), &tid.to_be_bytes()), copy);
        (self.flavour == Flavour::Plain || sum() == tag.sum).then(|| plain(copy, tag.flags))
    }

    /// The transaction `tid` that begins at `at`, and what lies behind it; `None` if
    /// it is missing or incomplete.
    pub fn decode<'a>(&self, tid: Tid, at: At, content: impl Fn(At) -> &'a [u8]) -> Option<(Logged, At)> {
        let mut logged = Logged { tid, ..Logged::default() };
        let mut n = 0;
        while n < self.len {
            let bytes = content(self.ahead(at, n));
            if !bytes.starts_with(&MAGIC) || get(bytes, 8) != tid {
                return None;
            }
            n += 1;
            match get(bytes, 4) {
                DESCRIPTOR => {
                    for tag in self.tags(bytes) {
                        let copy = content(self.ahead(at, n));
                        logged.contents.insert(tag.block, self.content(tid, tag, copy)?);
                        n += 1;
                    }
                }
                REVOKE => logged.revoked.extend(self.revoked(bytes)),
                COMMIT => return Some((logged, self.ahead(at, n))),
                _ => return None,
            }
        }
        None
    }

    fn tags(&self, bytes: &[u8]) -> Vec<Tag> {
        let (mut tags, mut end) = (Vec::new(), 12);
        while end + 32 <= bytes.len() {
            let (block, flags) = (get(bytes, end), get(bytes, end + 4));
            let wide = self.flavour == Flavour::Summed;
            tags.push(Tag { block, flags, sum: if wide { get(bytes, end + 12) } else { 0 } });
            end += if wide { 16 } else { 8 };
            end += if flags & SAME_UUID == 0 { 16 } else { 0 };
            if flags & LAST != 0 {
                break;
            }
        }
        tags
    }

    fn revoked(&self, bytes: &[u8]) -> Vec<Block> {
        let end = (get(bytes, 12) as usize).clamp(16, bytes.len());
        let wide = if self.flavour == Flavour::Summed { 4 } else { 0 };
        (16..end).step_by(4 + wide).map(|at| get(bytes, at + wide)).collect()
    }
}

/// A guest's recovery of a log that was not emptied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovery {
    /// Blocks that are written to their places.
    pub contents: BTreeMap<Block, Vec<u8>>,
    /// The blocks as Linux writes them: one transaction after the other.
    pub in_order: Vec<(Block, Vec<u8>)>,
    /// The first transaction that is not there.
    pub next: Tid,
    /// The log said that it is empty.
    pub is_empty: bool,
}

/// Reads the log on `disk`; `None` if there is no journal.
pub fn recovery(area: Area, disk: &[&[u8]]) -> Option<Recovery> {
    let tail = area.tail(disk.get(area.block(0) as usize)?)?;
    let (is_empty, mut found, mut next, mut at) = (tail.start == 0, Vec::new(), tail.tid, tail.start);
    while !is_empty && let Some((logged, end)) = area.decode(next, at, |at| disk[area.block(at) as usize]) {
        found.push(logged);
        (next, at) = (next + 1, end);
    }
    let in_order = in_order(&found);
    let contents = in_order.iter().cloned().collect();
    Some(Recovery { contents, in_order, next, is_empty })
}

/// Each copy that no revocation covers.
fn in_order(found: &[Logged]) -> Vec<(Block, Vec<u8>)> {
    let mut contents = Vec::new();
    for logged in found {
        let is_revoked = |block| found.iter().any(|it| it.tid >= logged.tid && it.revoked.contains(block));
        let copies = logged.contents.iter().filter(|(block, _)| !is_revoked(block));
        contents.extend(copies.map(|(block, content)| (*block, content.clone())));
    }
    contents
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn get(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn is_of(bytes: &[u8], kind: u32) -> bool {
    bytes.starts_with(&MAGIC) && get(bytes, 4) == kind
}

/// The content that goes into the log instead of `content`; and whether it had to be changed.
fn escaped(content: &[u8]) -> (bool, Vec<u8>) {
    let (is_escaped, mut copy) = (content.starts_with(&MAGIC), content.to_vec());
    if is_escaped {
        copy[..4].fill(0);
    }
    (is_escaped, copy)
}

/// The content for which `copy` stands.
fn plain(copy: &[u8], flags: u32) -> Vec<u8> {
    let mut content = copy.to_vec();
    if flags & ESCAPED != 0 {
        content[..4].copy_from_slice(&MAGIC);
    }
    content
}

/// CRC-32C as jbd2 has it: not inverted.
fn summed(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}
