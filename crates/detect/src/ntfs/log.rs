//! `$LogFile`: whether somebody may still undo what the metadata say.
//!
//! Windows keeps a log of what it changes, and after a crash undoes what was not
//! finished. Linux's drivers keep none: ntfs3 fills the file with ones when it has
//! replayed it, and ntfs-3g mounts nothing whose log is in use.

use super::record::restored;
use crate::bytes::{u16_at, u32_at, u64_at};

/// Bytes of a restart page; there are two, at the start of the file.
pub(super) const PAGE_BYTES: u64 = 4096;
/// What pages hold that were never written, or were emptied.
const EMPTY: u32 = 0xFFFF_FFFF;
/// Version of the format from which on only Windows knows what is clean.
const MAJOR_UNKNOWN: u16 = 2;
/// No client of the log is at work.
const NO_CLIENT: u16 = 0xFFFF;
/// The volume was unmounted in order.
const VOLUME_IS_CLEAN: u16 = 2;

/// Whether the log that begins with the two pages in `bytes` has nothing to undo.
pub(super) fn is_at_rest(bytes: &[u8]) -> bool {
    let pages = bytes.chunks_exact(PAGE_BYTES as usize);
    if pages.len() == 2 && pages.clone().all(|page| u32_at(page, 0) == EMPTY) {
        return true;
    }
    let newest = pages.filter_map(restart_area).max_by_key(|(current_lsn, _)| *current_lsn);
    newest.is_some_and(|(_, is_clean)| is_clean)
}

/// The newest entry that the page knows of, and whether it was unmounted in order.
fn restart_area(page: &[u8]) -> Option<(u64, bool)> {
    let is_page = page.starts_with(b"RSTR") && u64::from(u32_at(page, 0x10)) == PAGE_BYTES;
    let page = is_page.then(|| restored(page).ok()).flatten()?;
    let area = page.get(usize::from(u16_at(&page, 0x18))..).filter(|area| area.len() >= 0x10)?;
    let (client_in_use_list, flags) = (u16_at(area, 0x0C), u16_at(area, 0x0E));
    let is_clean = client_in_use_list == NO_CLIENT || flags & VOLUME_IS_CLEAN != 0;
    Some((u64_at(area, 0), is_clean && u16_at(&page, 0x1C) < MAJOR_UNKNOWN))
}

#[cfg(test)]
mod tests;
