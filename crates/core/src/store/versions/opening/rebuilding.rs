//! Rebuilding an index some of whose pages are damaged: a fresh one is written beside it, and one write of a head makes that the
//! index. A crash before leaves the damaged one as it was.
//!
//! The rebuilt index is of the same instant as the head whose pages are damaged: the next start replays the log on top of it, and
//! carries out again what the journal has begun.
//!
//! | lost | taken from |
//! | --- | --- |
//! | versions | the records of homes, where the slot is used and neither owed nor in the log; their ends, and tombstones, from the lists of the dead |
//! | dead, runs | the versions and the kept epochs |
//! | owed | the slots that are used and have no version |
//! | clusters | the slots of versions, and those that are owed |
//! | kept epochs, gaps | the second tree with the same entries |
//!
//! Invariant: nothing is guessed. Where two readings are possible, and one of them would lose content or bring forgotten content
//! back, the index stays as it is ([`VersionsError::Undecided`]).

mod building;
mod deriving;
mod homes;

use crate::base::cell::Cells;
use crate::base::units::{BLOCK_BYTES, Slot};
use crate::media::medium::Medium;
use crate::store::versions::catalog::{Catalog, Note};
use crate::store::versions::index::history::Salvage;
use crate::store::versions::opening::{Heads, next_sector, page, pages};
use crate::store::versions::stubs;
use crate::store::versions::stubs::root;
use crate::store::versions::{Setup, VersionsError};
use crate::tree::Absent;
use deriving::Derived;
use homes::Records;
use std::collections::BTreeSet;

/// What a repair of an index has found, and what the rebuilt one has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rebuilt {
    /// The damaged pages, in words.
    pub damage: Vec<String>,
    /// The versions that only the records of stubs name.
    pub from_stubs: u64,
    /// All versions, and all kept epochs.
    pub versions: u64,
    /// The kept epochs.
    pub epochs: u64,
    /// The pages of the rebuilt index.
    pub pages: u64,
}

/// The media of a disk whose index is rebuilt.
#[derive(Clone, Copy)]
pub struct Media<'a> {
    /// The index.
    pub map: &'a dyn Medium,
    /// The stubs.
    pub stubs: &'a dyn Medium,
    /// The cells.
    pub root: &'a dyn Medium,
}

/// A callback that is told how many bytes are done, of how many; it says whether to go on.
pub type Step<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// Looks at all pages of the index of `disk`, which has `size` bytes, and rebuilds it if some are damaged.
///
/// # Errors
/// [`VersionsError`]; the index is as it was then.
pub fn rebuild(
    (setup, disk, size): (&Setup, [u8; 16], u64),
    media: Media<'_>,
    step: Step<'_>,
) -> Result<Rebuilt, VersionsError> {
    let Media { map, stubs, root } = media;
    let head = Heads::read(map)?.newest(disk)?;
    stubs::check_medium(stubs, disk)?;
    // No cell is drawn.
    let cells = (root::open(root, disk)?, Cells::new([0; 32]));
    let blocks = size.div_ceil(BLOCK_BYTES);
    let note = Note::of(&head).ok_or(VersionsError::Note)?;
    let catalog = Catalog::open(disk, blocks, setup.layout, &head, (note.sessions, cells));
    let mut catalog = catalog.ok_or(VersionsError::Note)?;
    catalog.history.use_all_pages(pages(map));
    let salvaged = salvage(&mut catalog, map)?;
    if salvaged.damage.is_empty() {
        return Ok(Rebuilt::default());
    }
    let logged = logged(&mut catalog, stubs)?;
    let records = Records::read(setup.layout, [stubs, root], step)?;
    let mut rebuilt =
        Rebuilt { damage: salvaged.damage.iter().map(ToString::to_string).collect(), ..Rebuilt::default() };
    let derived = Derived::of(salvaged, &records, &logged, (setup.layout, &head, &note))?;
    rebuilt.from_stubs = derived.from_stubs;
    (rebuilt.versions, rebuilt.epochs) = (derived.content().count() as u64, derived.epochs.len() as u64);
    rebuilt.pages = building::write(&derived, (disk, blocks, setup.layout, &head, &note), map, step)?;
    Ok(rebuilt)
}

fn salvage(catalog: &mut Catalog, map: &dyn Medium) -> Result<Salvage, VersionsError> {
    let Catalog { history, slots, limits, .. } = catalog;
    let mut salvage = history.salvage(limits.pages, |it| page(map, it))?;
    slots.table.walk(
        &mut history.pages,
        limits.pages,
        |it| page(map, it),
        |part| salvage.clusters.take(part, &mut salvage.damage),
    )?;
    Ok(salvage)
}

/// The slots of the versions that the log has on top of the head.
fn logged(catalog: &mut Catalog, stubs: &dyn Medium) -> Result<BTreeSet<Slot>, VersionsError> {
    while let Some((at, _, sector)) = next_sector(catalog, stubs)? {
        catalog.log.replay(at, &sector);
    }
    Ok(catalog.log.homeless(..).collect())
}

/// The answer of a tree all of whose pages are in memory.
fn found<T>(answer: Result<T, Absent>) -> T {
    answer.expect("all pages of a fresh index are in memory")
}

/// Whether to go on.
fn go_on(step: Step<'_>, done: u64, of: u64) -> Result<(), VersionsError> {
    if step(done, of) { Ok(()) } else { Err(VersionsError::Interrupted) }
}
