//! `$LogFile`: whether a recovery may still undo changes of the metadata.
//!
//! Windows logs its changes, and after a crash undoes the unfinished ones. Linux's drivers keep no
//! log: ntfs3 fills the file with ones after a replay, and ntfs-3g mounts no volume whose log is in
//! use.

use crate::formats::ntfs::record::{RawProtected, restored};
use crate::input::bytes::head;
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Bytes of a restart page; there are two, at the start of the file.
pub(super) const PAGE_BYTES: u64 = 4096;
/// Content of pages that were never written, or were emptied.
const EMPTY: [u8; 4] = [0xFF; 4];
/// First major version of the format in which only Windows can tell a clean log.
const MAJOR_UNKNOWN: u16 = 2;
/// No client uses the log.
const NO_CLIENT: u16 = 0xFFFF;
/// The volume was unmounted in order.
const VOLUME_IS_CLEAN: u16 = 2;

/// A restart page as it lies on the disk.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawPage {
    protected: RawProtected,
    _chkdsk_lsn: U64,
    system_page_size: U32,
    _log_page_size: U32,
    restart_area_offset: U16,
    _minor_ver: U16,
    major_ver: U16,
}

/// The area at the offset that a page states.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawArea {
    current_lsn: U64,
    _log_clients: U16,
    _client_free_list: U16,
    client_in_use_list: U16,
    flags: U16,
}

const _: () = {
    assert!(offset_of!(RawPage, system_page_size) == 0x10 && offset_of!(RawPage, major_ver) == 0x1C);
    assert!(size_of::<RawArea>() == 0x10);
};

/// Whether the log with the first two pages `bytes` has nothing to undo.
pub(super) fn is_at_rest(bytes: &[u8]) -> bool {
    let pages = bytes.chunks_exact(PAGE_BYTES as usize);
    if pages.len() == 2 && pages.clone().all(|page| page.starts_with(&EMPTY)) {
        return true;
    }
    let newest = pages.filter_map(restart_area).max_by_key(|(current_lsn, _)| *current_lsn);
    newest.is_some_and(|(_, is_clean)| is_clean)
}

/// The newest entry that the page mentions, and whether the volume was unmounted in order.
fn restart_area(page: &[u8]) -> Option<(u64, bool)> {
    let header: &RawPage = head(page)?;
    let is_page = header.protected.magic == *b"RSTR" && u64::from(header.system_page_size) == PAGE_BYTES;
    let page = is_page.then(|| restored(page).ok()).flatten()?;
    let area: &RawArea = head(page.get(header.restart_area_offset.into()..)?)?;
    let is_clean = area.client_in_use_list == NO_CLIENT || area.flags.get() & VOLUME_IS_CLEAN != 0;
    Some((area.current_lsn.get(), is_clean && header.major_ver.get() < MAJOR_UNKNOWN))
}

#[cfg(test)]
mod tests;
