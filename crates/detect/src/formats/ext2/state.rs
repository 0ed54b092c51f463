//! The condition of the file system, by its superblock.

use crate::formats::ext2::raw::RawSuperblock;
use crate::formats::format::Geometry;

const EXT2_VALID_FS: u16 = 0x1;
const EXT2_ERROR_FS: u16 = 0x2;
const HAS_JOURNAL: u32 = 0x4;
const NEEDS_RECOVERY: u32 = 0x4;

/// Linux clears [`EXT2_VALID_FS`] and counts the mount when it mounts for writing, and sets the
/// flag last of all when it unmounts. e2fsck restarts the count and notes the time; other tools
/// keep the flag. Where there is a journal, `needs_recovery` takes the flag's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct State {
    s_mnt_count: u16,
    s_state: u16,
    s_lastcheck: u32,
    has_journal: bool,
    needs_recovery: bool,
}

impl State {
    pub(super) fn of(superblock: &RawSuperblock) -> Self {
        let [compat, incompat, _] = superblock.features();
        Self {
            s_mnt_count: superblock.s_mnt_count.get(),
            s_state: superblock.s_state.get(),
            s_lastcheck: superblock.s_lastcheck.get(),
            has_journal: compat & HAS_JOURNAL != 0,
            needs_recovery: incompat & NEEDS_RECOVERY != 0,
        }
    }

    /// Whether everything was written, without an error.
    pub(super) fn is_clean(self) -> bool {
        !self.needs_recovery && self.s_state & (EXT2_VALID_FS | EXT2_ERROR_FS) == EXT2_VALID_FS
    }

    fn is_in_use(self) -> bool {
        self.needs_recovery || self.s_state & EXT2_VALID_FS == 0
    }

    /// Whether the file system was mounted without its journal, which then misses changes.
    pub(super) fn lacks_its_journal(self) -> bool {
        self.has_journal && !self.needs_recovery && self.is_in_use()
    }

    /// The meaning of this state after `old`, of the same file system.
    pub(super) fn since(self, old: Self) -> Geometry {
        if self.is_in_use() {
            let is_counted = self.s_mnt_count == old.s_mnt_count.wrapping_add(1);
            if is_counted { Geometry::Mounted } else { Geometry::InUse }
        } else if !self.is_clean() {
            Geometry::Same
        } else if old.is_in_use() && self.is_of_mount(old) {
            Geometry::Unmounted
        } else {
            Geometry::Clean
        }
    }

    /// Whether no check ran since `old`, while the file system was mounted.
    fn is_of_mount(self, old: Self) -> bool {
        let mount = |it: Self| (it.s_mnt_count, it.s_lastcheck);
        self.s_mnt_count > 0 && mount(self) == mount(old)
    }
}
