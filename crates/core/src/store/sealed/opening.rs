//! Making the keys of a disk, and opening them after a stop or a crash.

use crate::base::blocks::BlockSet;
use crate::base::cell::{self, Cell, Cells};
use crate::base::units::{Addr, BLOCK_BYTES, Extent, Pos};
use crate::erase::policy::{Policy, Seed};
use crate::media::medium::{Keep, Medium, MediumError, MediumErrorKind};
use crate::mutant::{self, Mutant};
use crate::owed::KeysPosition;
use crate::store::allocated::{Allocated, outward};
use crate::store::label::{LABEL_BYTES, Wrong};
use crate::store::sealed::Sealed;
use crate::store::sealed::early::Early;
use crate::store::sealed::halves::Halves;
use crate::store::sealed::layout::{Layout, SECTOR_BYTES, SIZE_MAX};
use crate::store::sealed::log::{LogWriter, replay};
use crate::store::sealed::page::Page;
use crate::store::sealed::purge::Purge;
use crate::store::sealed::root::{self, Found, RootError, Slot};
use crate::store::sealed::tree::Tree;
use crate::store::{InPlace, Opening, StoreError};

/// The number of the purge that makes a disk.
const FIRST_PURGE: u32 = 1;
/// Bytes of the label of a medium, and more.
const HEAD_BYTES: u64 = 512;

/// The remedy where media do not belong together.
const RESTORE: &str = "restore root, key tree, journal and data of one time together; without the root of that time, the content of \
    the disk is lost";

/// Why the keys of a disk cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SealedError {
    /// A medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// The root cannot be used.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The disk is too large.
    #[error(
        "the disk has {size} bytes, and a sealed one at most {SIZE_MAX}; correct the size in the disk's configuration"
    )]
    Size {
        /// Bytes of the disk.
        size: u64,
    },
    /// The medium of the keys is too short.
    #[error(
        "the key tree has {found} bytes, and needs {needed}; put back the key tree of this disk, or restore a backup of the content"
    )]
    MapShort {
        /// Bytes of the medium.
        found: u64,
        /// Bytes that it has to have.
        needed: u64,
    },
    /// The medium of the keys has no valid head.
    #[error(
        "the key tree has no valid head at offset 0; `quietus repair` writes it anew if the root opens this key tree. If not, {RESTORE}"
    )]
    MapHead,
    /// A head is damaged, and the rest of the media does not tell whose they are.
    #[error(
        "the head of `{what}` is damaged, and no cell of the root opens the top page of the key tree, which would prove that both are \
         of this disk; nothing was written: {RESTORE}"
    )]
    Unproven {
        /// The media whose heads are damaged.
        what: String,
    },
    /// The keys belong to another disk.
    #[error("the key tree is that of another disk, {found:032x}; use the one that was made with this disk")]
    MapOtherDisk {
        /// The uuid of that disk.
        found: u128,
    },
    /// The root has no cell.
    #[error(
        "the root has no whole top cell in either slot; without it nothing on this disk can be read: restore the medium of \
         the root"
    )]
    NoTop,
    /// The root is older than the journal.
    #[error(
        "the root is that of purge {root}, but the journal knows of purge {journal}: with this older root, content that died since \
         would come back. Use the root that the last purge wrote; without it the content of the disk is lost"
    )]
    Older {
        /// The purge of the root.
        root: u32,
        /// The purge of the journal.
        journal: u32,
    },
    /// The journal is older than the root.
    #[error(
        "the root is that of purge {root}, but the journal knows only of purge {journal}: the journal is of an earlier time, and does not \
         know what died since; {RESTORE}"
    )]
    OldJournal {
        /// The purge of the root.
        root: u32,
        /// The purge of the journal.
        journal: u32,
    },
    /// No top cell opens the top page.
    #[error(
        "the top cell of purge {purge} does not open the top page of the key tree: root and key tree are of different times, or one \
         is damaged; {RESTORE}"
    )]
    TopPage {
        /// The purge of the newest top cell.
        purge: u32,
    },
    /// The log of cells is shorter than the journal says.
    #[error(
        "the log of cells has {found} sectors, but the journal knows of {journal}: the key tree is older than the journal, or damaged, \
         and content written since cannot be read; {RESTORE}"
    )]
    ShortLog {
        /// Sectors that can be read.
        found: u32,
        /// Sectors that the journal knows of.
        journal: u32,
    },
    /// The prepared cell of a staged block is missing.
    #[error(
        "the journal keeps a copy of the block at byte {at}, but the log of cells does not have its key: key tree and journal are of \
         different times; {RESTORE}"
    )]
    Staged {
        /// Where the block begins.
        at: u64,
    },
}

impl From<Wrong> for SealedError {
    fn from(wrong: Wrong) -> Self {
        match wrong {
            Wrong::Label => Self::MapHead,
            Wrong::OtherDisk(found) => Self::MapOtherDisk { found },
        }
    }
}

/// The top cell that a start has chosen, and what it opens.
struct Top {
    purge: u32,
    cell: Cell,
    page: (Page, u8),
}

/// Makes the keys of a new disk of `size` bytes, durably. The media are as long as they have to be.
///
/// # Errors
/// A medium failed.
///
/// # Panics
/// If the disk has more than 2^40 blocks.
pub fn format(
    map: &dyn Medium,
    root: &dyn Medium,
    disk: [u8; 16],
    size: u64,
    mut cells: Cells,
) -> Result<(), MediumError> {
    let (layout, cell) = (Layout::new(disk, size), cells.draw_key());
    // What the guest was answered has its space: the log, and both top pages, which a purge that has come so far has to write.
    map.reserve(Extent::between(0, layout.pair(layout.top()).extent.end()))?;
    let mut top = Page::derived(&cells.draw_key(), FIRST_PURGE);
    top.set_log_cell(&cells.draw_key());
    map.write(layout.side(layout.top(), 0).extent.start, &top.seal(&cell, &layout, layout.top()), false)?;
    map.write(Pos(0), &layout.head(), false)?;
    map.sync()?;
    root::format(root, disk, &cell)
}

impl Sealed {
    /// The disk whose content, keys and root are on these media, and whether it is known which blocks have data.
    pub(in crate::store) fn open(
        opening: &mut Opening<'_>,
        [data, map, root]: [&dyn Medium; 3],
    ) -> Result<(Self, bool), StoreError> {
        let (medium, disk) = (data.size(), opening.size);
        if medium < disk {
            return Err(StoreError::Short { medium, disk });
        }
        if disk > SIZE_MAX {
            return Err(SealedError::Size { size: disk }.into());
        }
        let (allocated, knows) = InPlace::known(opening);
        let sealed = Self::open_keys(opening, [map, root], allocated)?;
        Ok((sealed, knows))
    }

    fn open_keys(
        opening: &mut Opening<'_>,
        [map, root]: [&dyn Medium; 2],
        allocated: Allocated,
    ) -> Result<Self, SealedError> {
        let size = opening.size;
        let layout = Layout::new(opening.disk, size);
        check_map(map, &layout)?;
        let (slots, is_head_clear) = root::read(root, opening.disk)?;
        let known = opening.keys.unwrap_or_default();
        let top = find_top(map, &layout, slots, known)?;
        if top.purge < known.purge {
            return Err(SealedError::Older { root: top.purge, journal: known.purge });
        }
        // A purge ends with a frame of the journal, and only the last one may lack it. A disk that was only made has none.
        if opening.keys.is_some() && top.purge > known.purge + 1 {
            return Err(SealedError::OldJournal { root: top.purge, journal: known.purge });
        }
        let (early, writer, log) = replayed(map, &layout, &top, opening.staged)?;
        check_log(&writer, top.purge, known)?;
        check_staged(&early, opening.staged)?;
        if !opening.read_only && !mutant::is(Mutant::StartUnsynced) {
            let durable = if top.purge == known.purge { known.log } else { 0 };
            settle_log(map, log, u64::from(durable) * SECTOR_BYTES)?;
        }
        let is_left = !opening.read_only && !settle(root, &layout, &top, is_head_clear, opening)?;
        let Top { purge, page, .. } = top;
        let tree = Tree::new(layout, purge, page, opening.memory_bytes);
        Ok(Self {
            size,
            allocated,
            purge: is_left.then(|| Purge::remains(&tree)),
            halves: Halves::new(writer, &layout, purge),
            tree,
            early,
            cells: Cells::split_off(opening.entropy),
            spacious: BlockSet::default(),
            stopped: None,
        })
    }
}

/// Whether the head of the key tree is valid and this disk's.
fn head_of(map: &dyn Medium, layout: &Layout) -> Result<Result<(), Wrong>, MediumError> {
    let mut head = vec![0; HEAD_BYTES.min(map.size()) as usize];
    map.read(Pos(0), &mut head)?;
    Ok(layout.check_head(&head))
}

fn check_map(map: &dyn Medium, layout: &Layout) -> Result<(), SealedError> {
    head_of(map, layout)??;
    let (found, needed) = (map.size(), layout.map_bytes());
    if found < needed { Err(SealedError::MapShort { found, needed }) } else { Ok(()) }
}

/// Writes the damaged heads of the media of a disk of `size` bytes anew, and names the media. A head says only whose the medium is: that is
/// proved first, by a top cell with this disk's checksum that opens the top page as this disk's.
///
/// # Errors
/// [`SealedError`]; nothing was written then, unless a medium failed.
pub fn mend(
    [map, root]: [&dyn Medium; 2],
    disk: [u8; 16],
    size: u64,
) -> Result<Vec<&'static str>, SealedError> {
    if size > SIZE_MAX {
        return Err(SealedError::Size { size });
    }
    let layout = Layout::new(disk, size);
    let Found { label, slots, .. } = root::look(root, disk)?;
    let (of_map, of_root) = (head_of(map, &layout)? == Err(Wrong::Label), label == Err(Wrong::Label));
    let names = [("keytree", of_map), ("root", of_root)].into_iter().filter(|(_, is_damaged)| *is_damaged);
    let names: Vec<_> = names.map(|(name, _)| name).collect();
    if names.is_empty() {
        return Ok(names);
    }
    let is_whole = map.size() >= layout.map_bytes();
    if !is_whole || find_top(map, &layout, slots, KeysPosition::default()).is_err() {
        return Err(SealedError::Unproven { what: names.join("` and of `") });
    }
    if of_map {
        map.write(Pos(0), &layout.head()[..LABEL_BYTES], true)?;
    }
    if of_root {
        root::renew_head(root, disk)?;
    }
    Ok(names)
}

/// The newest top cell that opens the top page. The cell of an old root opens no page, which is the lesser part of what is wrong with it.
fn find_top(
    map: &dyn Medium,
    layout: &Layout,
    slots: [Slot; 2],
    known: KeysPosition,
) -> Result<Top, SealedError> {
    let top_of = |slot| if let Slot::Top { purge, cell } = slot { Some((purge, cell)) } else { None };
    let mut tops: Vec<_> = slots.into_iter().filter_map(top_of).collect();
    tops.sort_by_key(|(purge, _)| std::cmp::Reverse(*purge));
    let newest = tops.first().ok_or(SealedError::NoTop)?.0;
    if newest < known.purge {
        return Err(SealedError::Older { root: newest, journal: known.purge });
    }
    let place = layout.pair(layout.top()).extent;
    let mut pair = vec![0; place.len as usize];
    map.read(place.start, &mut pair)?;
    tops.into_iter()
        .find_map(|(purge, cell)| {
            let page = Page::open_either(&cell, layout, layout.top(), &pair)?;
            Some(Top { purge, cell, page })
        })
        .ok_or(SealedError::TopPage { purge: newest })
}

/// Sectors of a medium, and their bytes.
type Sectors = (Extent<Pos>, Vec<u8>);

/// The early cells in the log, its end, and its sectors.
fn replayed(
    map: &dyn Medium,
    layout: &Layout,
    top: &Top,
    staged: &[Extent<Addr>],
) -> Result<(Early, LogWriter, Sectors), SealedError> {
    let half = layout.log_half((top.purge % 2) as u8);
    let mut bytes = vec![0; half.len as usize];
    map.read(half.start, &mut bytes)?;
    let (entries, writer) = replay(&bytes, &top.page.0.log_cell(), layout, top.purge);
    let staged: Vec<_> = staged.iter().map(|extent| outward(*extent, BLOCK_BYTES)).collect();
    let mut early = Early::default();
    entries.into_iter().for_each(|entry| early.replayed(entry, &staged));
    bytes.truncate(writer.sectors() as usize * SECTOR_BYTES as usize);
    let log = (Extent::new(half.start.0, bytes.len() as u64), bytes);
    Ok((early, writer, log))
}

/// Makes `log` durable, of which so many bytes are certainly so. A kill leaves writes in the host's cache, where a crash could take them after
/// this start relies on them. So does a sync that failed, and no later one makes durable what was written before it.
fn settle_log(map: &dyn Medium, (at, bytes): Sectors, durable: u64) -> Result<(), MediumError> {
    let tail = &bytes[durable.min(at.len) as usize..];
    if !tail.is_empty() {
        map.write(Pos(at.end() - tail.len() as u64), tail, false)?;
    }
    map.sync()
}

fn check_log(writer: &LogWriter, purge: u32, known: KeysPosition) -> Result<(), SealedError> {
    let (found, journal) = (writer.sectors(), known.log);
    let is_short = purge == known.purge && found < journal && !mutant::is(Mutant::ShortLog);
    if is_short { Err(SealedError::ShortLog { found, journal }) } else { Ok(()) }
}

fn check_staged(early: &Early, staged: &[Extent<Addr>]) -> Result<(), SealedError> {
    let lacks = |extent: &&Extent<Addr>| !early.are_prepared(outward(**extent, BLOCK_BYTES));
    match staged.iter().find(lacks) {
        Some(extent) => Err(SealedError::Staged { at: extent.start.0 }),
        None => Ok(()),
    }
}

/// Makes the top cell durable, and destroys what else lies on the root. Whether what the other slot has was destroyed.
fn settle(
    root: &dyn Medium,
    layout: &Layout,
    top: &Top,
    is_head_clear: bool,
    opening: &mut Opening<'_>,
) -> Result<bool, SealedError> {
    let slot = root::slot_of(top.purge);
    root.write(
        root::slot_place(slot).extent.start,
        &root::slot_bytes(layout.disk(), top.purge, &top.cell),
        false,
    )?;
    sync(root)?;
    if !is_head_clear {
        root::renew_head(root, layout.disk())?;
    }
    match destroy(root, root::area(1 - slot).extent, opening.policy, opening.entropy) {
        Err(MediumError { kind: MediumErrorKind::Remains | MediumErrorKind::Busy, .. }) => Ok(false),
        other => Ok(other.map(|()| true)?),
    }
}

fn destroy(
    root: &dyn Medium,
    extent: Extent<Pos>,
    policy: &Policy,
    entropy: &mut [u8; 32],
) -> Result<(), MediumError> {
    if root.capabilities().erases {
        return root.erase(&[extent], Keep::Nothing);
    }
    let mut bytes = vec![0; extent.len as usize];
    for (pattern, nonce) in policy.passes().iter().zip(0..) {
        pattern.fill(Seed { entropy: cell::split_off(entropy), nonce }, &mut bytes);
        root.overwrite(extent.start, &bytes)?;
        sync(root)?;
    }
    bytes.fill(0);
    root.overwrite(extent.start, &bytes)?;
    sync(root)
}

fn sync(root: &dyn Medium) -> Result<(), MediumError> {
    if mutant::is(Mutant::StartUnsynced) { Ok(()) } else { root.sync() }
}
