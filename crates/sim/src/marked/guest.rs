//! The guest's disk, and all that may be written there.

use super::Step;
use crate::rules::rule_e::marks::image::{
    BLOCK_BYTES, DATA, FOLDER_BLOCK, IDLE, INODE_BYTES, MAP, SUPER, map, place_of, put_inode, superblock,
};
use quietus_core::base::units::Extent;
use quietus_detect::formats::format::Block;
use std::sync::LazyLock;

/// The block whose life is enumerated.
pub const BLOCK: Block = FOLDER_BLOCK + 1;
/// The inodes of the files; both lie in the same block.
const NUMBERS: [u32; FILES] = [13, 14];
pub const FILES: usize = 2;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Inode {
    pub is_in_use: bool,
    pub has_flag: bool,
    /// The inode names the block.
    pub names: bool,
    /// One of two generations: an inode that comes into use has another one than before.
    pub generation: bool,
}

/// Everything on the disk that may change, but for the block's content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Disk {
    pub is_mounted: bool,
    mounts: u16,
    /// The map shows the block allocated.
    pub is_allocated: bool,
    pub inodes: [Inode; FILES],
}

/// A write of a whole block.
pub struct Put {
    pub block: Block,
    pub content: Vec<u8>,
}

impl Disk {
    pub fn put_superblock(&self) -> Put {
        Put { block: SUPER, content: superblock(2 + self.mounts, 1, !self.is_mounted) }
    }

    /// The superblock of one more mount.
    pub fn mount(&mut self) -> Put {
        (self.is_mounted, self.mounts) = (true, self.mounts + 1);
        self.put_superblock()
    }

    pub fn unmount(&mut self) -> Put {
        self.is_mounted = false;
        self.put_superblock()
    }

    pub fn put_map(&mut self, is_allocated: bool) -> Put {
        self.is_allocated = is_allocated;
        Put { block: MAP, content: MAPS[usize::from(is_allocated)].clone() }
    }

    pub fn put_inodes(&mut self, inodes: [Inode; FILES]) -> Put {
        self.inodes = inodes;
        let mut content = vec![0; BLOCK_BYTES];
        for (number, inode) in NUMBERS.into_iter().zip(inodes) {
            let bytes = &mut content[place_of(number).1..][..INODE_BYTES];
            let named = if inode.names { BLOCK } else { 0 };
            put_inode(bytes, inode.is_in_use, inode.has_flag, &[named], 1 + u32::from(inode.generation));
        }
        Put { block: place_of(NUMBERS[0]).0, content }
    }

    /// Whether a guest could do this next. Its requests are all legal while the file system is mounted, but for those that
    /// would change nothing.
    pub fn allows(&self, step: Step) -> bool {
        let mut inodes = self.inodes;
        step.change(&mut inodes);
        match step {
            Step::Time | Step::Act => false,
            Step::Mount => !self.is_mounted,
            Step::Unmount | Step::Crash | Step::Map(_) | Step::Data | Step::Trim | Step::Nothing => {
                self.is_mounted
            }
            Step::Create { file, .. } => self.is_mounted && !self.inodes[file].is_in_use,
            Step::HandOver(from) => {
                let is_whole = self.inodes.iter().all(|it| it.is_in_use) && self.inodes[from].names;
                self.is_mounted && is_whole && !self.inodes[1 - from].names
            }
            Step::Delete(file) | Step::Renew(file) | Step::Flag(file, _) | Step::Name(file, _) => {
                self.is_mounted && self.inodes[file].is_in_use && inodes != self.inodes
            }
        }
    }

    /// A write that changes nothing.
    pub fn put_nothing() -> Put {
        Put { block: IDLE, content: vec![0; BLOCK_BYTES] }
    }
}

/// The whole disk, clean and without files.
pub static IMAGE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut image = crate::rules::rule_e::marks::image::Disk::new();
    image.put(place_of(crate::rules::rule_e::marks::image::FOLDER).0, &[0; BLOCK_BYTES]);
    let mut disk = Disk::default();
    let puts = [disk.put_superblock(), disk.put_map(false), disk.put_inodes(Default::default())];
    puts.iter().for_each(|it| image.put(it.block, &it.content));
    image.at(Extent::new(0, u64::from(DATA.end) * BLOCK_BYTES as u64)).to_vec()
});

/// The map that shows the block free, and the one that shows it allocated.
static MAPS: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    [false, true].map(|is_allocated| map(|it| it == BLOCK && is_allocated || it == FOLDER_BLOCK))
});
