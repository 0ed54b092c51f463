//! Mending single bytes on the media of a disk that keeps versions, where a checksum says which byte is wrong, and something else
//! confirms it: heads, labels, cells, the marks of homes, sectors of the log.

use crate::base::cell::{CELL_BYTES, Cell, Cells};
use crate::base::mend::one_byte;
use crate::base::units::{BLOCK_BYTES, Extent, Pos};
use crate::media::medium::{Medium, MediumError};
use crate::store::label;
use crate::store::label::LABEL_BYTES;
use crate::store::versions::catalog::Catalog;
use crate::store::versions::opening::Heads;
use crate::store::versions::opening::rebuilding::Media;
use crate::store::versions::stubs;
use crate::store::versions::stubs::root;
use crate::store::versions::stubs::root::{CellOf, Found, pages_of, read_cells};
use crate::store::versions::stubs::{HomePage, Layout, SECTOR_BYTES, bytes_at};
use crate::store::versions::{Setup, VersionsError};
use crate::tree::mended_head;
use std::collections::BTreeMap;

/// Bytes of the checksum of a label, and of a cell.
const CRC_BYTES: usize = 4;

/// Mends what can be; says what, in words.
///
/// # Errors
/// [`VersionsError`].
pub fn mend(
    (setup, disk, size): (&Setup, [u8; 16], u64),
    Media { map, stubs, root }: Media<'_>,
) -> Result<Vec<String>, VersionsError> {
    let mut done = Vec::new();
    for (medium, magic, name) in [(stubs, stubs::MAGIC, "stub medium"), (root, root::MAGIC, "root")] {
        if mend_label(medium, magic, disk)? {
            done.push(format!("{name}: the head at byte 0"));
        }
    }
    for at in Heads::PLACES {
        if let Some(bytes) = mended_head(&bytes_at(map, Pos(at), crate::tree::HEAD_BYTES)?, disk) {
            map.write(Pos(at), &bytes, true)?;
            done.push(format!("index: the head at byte {at}"));
        }
    }
    mend_cells(setup.layout, [stubs, root], &mut done)?;
    if let Ok(head) = Heads::read(map)?.newest(disk)
        && let Ok(cells) = root::open(root, disk)
    {
        let cells = (setup.sessions, (cells, Cells::new([0; CELL_BYTES])));
        let blocks = size.div_ceil(BLOCK_BYTES);
        if let Some(catalog) = Catalog::open(disk, blocks, setup.layout, &head, cells) {
            mend_log(catalog, stubs, &mut done)?;
        }
    }
    Ok(done)
}

/// Bytes and the checksum behind them, mended.
fn with_checksum_behind(bytes: &[u8]) -> Option<Vec<u8>> {
    let (body, crc) = bytes.split_last_chunk::<CRC_BYTES>()?;
    let (body, crc) = one_byte(body, u32::from_le_bytes(*crc))?;
    Some([body, crc.to_le_bytes().to_vec()].concat())
}

fn mend_label(medium: &dyn Medium, magic: [u8; 8], disk: [u8; 16]) -> Result<bool, MediumError> {
    let bytes = bytes_at(medium, Pos(0), LABEL_BYTES)?;
    let mended = with_checksum_behind(&bytes).filter(|it| label::check(it, magic, disk).is_ok());
    mended.map_or(Ok(false), |it| medium.write(Pos(0), &it, true).map(|()| true))
}

/// Mends the cells under which something still lies, and the marks of homes under whole cells.
fn mend_cells(
    layout: Layout,
    [stubs, root]: [&dyn Medium; 2],
    done: &mut Vec<String>,
) -> Result<(), MediumError> {
    for half in 0..2 {
        let at = root::place_of(half).extent.start;
        let bytes = bytes_at(root, at, CELL_BYTES)?;
        let Some(cell) = mended_cell(&bytes) else { continue };
        let log = bytes_at(stubs, layout.half(half).start, layout.half_bytes as usize)?;
        let sectors = log.chunks_exact(SECTOR_BYTES as usize);
        if sectors.filter_map(|it| layout.parse_sector(it)).any(|sector| sector.is_under(&cell)) {
            root.write(at, &cell.to_bytes(), true)?;
            done.push(format!("root: the cell of half {half} of the log, at byte {}", at.0));
        }
    }
    if layout.stub_bytes == 0 {
        return Ok(());
    }
    let (mut cells, mut remains) = (BTreeMap::<HomePage, Vec<Cell>>::new(), Vec::new());
    read_cells(root, pages_of(root), |place, found| match found {
        Found::Cell(cell) => cells.entry(place.0).or_default().push(cell),
        Found::Remains => remains.push(place),
        Found::Nothing => {}
    })?;
    for place in remains {
        let CellOf(page, _) = place;
        let at = place.place().extent.start;
        let Some(cell) = mended_cell(&bytes_at(root, at, CELL_BYTES)?) else { continue };
        let is_used = marks(layout, page, stubs)?.any(|(number, _, mark)| cell.check(number) == mark);
        if is_used {
            root.write(at, &cell.to_bytes(), true)?;
            cells.entry(page).or_default().push(cell);
            done.push(format!("root: a cell of homes at byte {}", at.0));
        }
    }
    for (page, cells) in cells {
        for (number, at, mark) in marks(layout, page, stubs)? {
            let checks: Vec<u64> = cells.iter().map(|cell| cell.check(number)).collect();
            let differs_in_one =
                |check: &&u64| (**check ^ mark).to_le_bytes().iter().filter(|it| **it != 0).count() == 1;
            let near = checks.iter().find(differs_in_one);
            if let Some(check) = near.filter(|_| !checks.contains(&mark)) {
                stubs.write(at, &check.to_le_bytes(), true)?;
                done.push(format!("stub medium: the mark of homes at byte {}", at.0));
            }
        }
    }
    Ok(())
}

/// The cell in these bytes, if one of them is wrong.
fn mended_cell(bytes: &[u8]) -> Option<Cell> {
    Cell::from_bytes(&with_checksum_behind(bytes)?).filter(|cell| cell.is_whole())
}

/// The marks of the sectors of a page of homes: the number of each sector, its place, and what it shows under.
fn marks(
    layout: Layout,
    page: HomePage,
    stubs: &dyn Medium,
) -> Result<impl Iterator<Item = (u64, Pos, u64)> + use<>, MediumError> {
    let Extent { start, len, .. } = layout.page(page);
    let bytes =
        if start.0 + len <= stubs.size() { bytes_at(stubs, start, len as usize)? } else { Vec::new() };
    let first = (start.0 - layout.homes().0) / SECTOR_BYTES;
    let marks: Vec<_> = (0..)
        .zip(bytes.chunks_exact(SECTOR_BYTES as usize))
        .map(|(n, sector)| {
            let mark = sector.first_chunk().map_or(0, |mark| u64::from_le_bytes(*mark));
            (first + n, Pos(start.0 + n * SECTOR_BYTES), mark)
        })
        .collect();
    Ok(marks.into_iter())
}

/// Mends sectors of the log that follow the head.
fn mend_log(mut catalog: Catalog, stubs: &dyn Medium, done: &mut Vec<String>) -> Result<(), MediumError> {
    while let Some(place) = catalog.next_sector() {
        let at = place.extent.start;
        let bytes = bytes_at(stubs, at, SECTOR_BYTES as usize)?;
        let (found, is_mended) = match catalog.sector_to_read(&bytes) {
            Some(found) => (found, false),
            None => {
                let mended = catalog.layout.mended_sector(&bytes);
                let Some((bytes, found)) =
                    mended.and_then(|it| Some((it.clone(), catalog.sector_to_read(&it)?)))
                else {
                    break;
                };
                if found.1 {
                    stubs.write(at, &bytes, true)?;
                    done.push(format!("stub medium: the sector of the log at byte {}", at.0));
                }
                (found, true)
            }
        };
        if !found.1 && is_mended {
            break;
        }
        catalog.log.replay(at, &found.0);
    }
    Ok(())
}
