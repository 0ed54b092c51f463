//! All files of a disk whose bytes are lies: no panic, no endless walk, and what is read stays within the disk.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quietus_core::base::units::{Addr, Extent};
use quietus_files::{FileId, Found, Source, Unread};

/// Bytes of the disk, which begins with the input.
const DISK_BYTES: usize = 1 << 20;
/// Most files that are looked at, and most bytes that are read of each.
const FILES_MAX: usize = 64;
const PIECE_BYTES: usize = 1 << 16;

struct Disk(Vec<u8>);

impl Source for Disk {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&mut self, at: Extent<Addr>) -> Result<Vec<u8>, Unread> {
        let (start, end) = (at.start.0 as usize, at.end() as usize);
        assert!(end <= self.0.len(), "{at:?} lies within the disk");
        Ok(self.0[start..end].to_vec())
    }
}

fn look_at(found: &mut Found, file: FileId) -> Vec<FileId> {
    let mut below = Vec::new();
    let _ = found.attributes(file);
    let _ = found.link(file);
    let _ = found.extended(file);
    let _ = found.runs(file, &mut |run| run.at < 1 << 40);
    if let Some((owners, source)) = found.owners() {
        let _ = owners.owned(source, file, &mut |extent| assert!(extent.len > 0, "a file has something"));
    }
    for at in [0, 1 << 20, u64::MAX - 1] {
        let read = found.read(file, at, PIECE_BYTES).unwrap_or_default();
        assert!(read.len() <= PIECE_BYTES, "no more is read than was asked for");
    }
    let _ = found.list(file, &mut |entry| {
        assert!(!entry.name.is_empty() && !entry.name.contains(&b'/') && !entry.name.contains(&0));
        below.push(entry.file);
        below.len() < FILES_MAX
    });
    below
}

fuzz_target!(|input: &[u8]| {
    let mut disk = vec![0; DISK_BYTES];
    let len = input.len().min(DISK_BYTES);
    disk[..len].copy_from_slice(&input[..len]);
    let Ok(mut found) = quietus_files::open(Box::new(Disk(disk)), None) else { return };
    if let Some((owners, source)) = found.owners() {
        for roll in owners.rolls(source).unwrap_or_default().into_iter().take(FILES_MAX) {
            let _ = owners.roll(source, roll, &mut |_, extent| assert!(extent.len > 0, "an owner has something"));
        }
        let _ = owners.moved();
    }
    let (mut pending, mut seen) = (vec![found.volume.root()], 0);
    while let Some(file) = pending.pop().filter(|_| seen < FILES_MAX) {
        seen += 1;
        pending.extend(look_at(&mut found, file));
    }
    let _ = found.look_up(b"/a/../b/c");
});
