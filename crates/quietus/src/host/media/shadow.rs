//! A medium that is only read, for what has to write while it reads: what is written is in memory, and gone with it.

use super::FileMedium;
use crate::base::lock::lock;
use quietus_core::base::units::{Extent, Pos};
use quietus_core::media::medium::{Capabilities, Medium, MediumError};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex};

/// Bytes that are kept together.
const PAGE_BYTES: u64 = 4096;

/// See the module's documentation.
#[derive(Debug)]
pub struct Shadow<M = FileMedium> {
    below: Arc<M>,
    /// Pages that were written, by number.
    pages: Mutex<BTreeMap<u64, Vec<u8>>>,
}

impl<M: Medium> Shadow<M> {
    /// A shadow of the medium, which is not written to.
    #[must_use]
    pub fn new(below: Arc<M>) -> Self {
        Self { below, pages: Mutex::default() }
    }
}

/// The pages of a range: the number of each, where the part of it begins there, and where in the range.
fn parts(pos: Pos, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let end = pos.0 + length as u64;
    (pos.0 / PAGE_BYTES..end.div_ceil(PAGE_BYTES)).map(move |page| {
        let start = pos.0.max(page * PAGE_BYTES);
        let range = (start - pos.0) as usize..(end.min((page + 1) * PAGE_BYTES) - pos.0) as usize;
        (page, (start % PAGE_BYTES) as usize, range)
    })
}

impl<M: Medium> Medium for Shadow<M> {
    fn size(&self) -> u64 {
        self.below.size()
    }

    fn read(&self, pos: Pos, into: &mut [u8]) -> Result<(), MediumError> {
        self.below.read(pos, into)?;
        let pages = lock(&self.pages);
        for (page, within, range) in parts(pos, into.len()) {
            if let Some(page) = pages.get(&page) {
                let length = range.len();
                into[range].copy_from_slice(&page[within..within + length]);
            }
        }
        Ok(())
    }

    fn write(&self, pos: Pos, from: &[u8], _durable: bool) -> Result<(), MediumError> {
        let mut pages = lock(&self.pages);
        // What lies behind the medium is not read again.
        let length = from.len().min(self.size().saturating_sub(pos.0) as usize);
        for (number, within, range) in parts(pos, length) {
            let page = match pages.entry(number) {
                Entry::Occupied(page) => page.into_mut(),
                Entry::Vacant(place) => {
                    let start = number * PAGE_BYTES;
                    let mut page = vec![0; PAGE_BYTES as usize];
                    let there = PAGE_BYTES.min(self.size() - start) as usize;
                    self.below.read(Pos(start), &mut page[..there])?;
                    place.insert(page)
                }
            };
            page[within..within + range.len()].copy_from_slice(&from[range]);
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), MediumError> {
        Ok(())
    }

    fn punch(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        self.zero(extent)
    }

    fn zero(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        let zeros = vec![0; PAGE_BYTES as usize];
        let mut pieces = extent.pieces(PAGE_BYTES);
        pieces.try_for_each(|piece| self.write(piece.start, &zeros[..piece.len as usize], false))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_the_file_stays_as_it_was() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("medium");
        let content: Vec<u8> = (0..10_000_u32).map(|at| at as u8).collect();
        std::fs::write(&path, &content).expect("a file");
        let shadow = Shadow::new(Arc::new(FileMedium::open(&path, true).expect("a medium")));
        let mut expected = content.clone();
        for (pos, length) in [(0, 1), (4000, 200), (4095, 5000), (9990, 10)] {
            let bytes = vec![0xaa; length];
            shadow.write(Pos(pos), &bytes, true).expect("a write");
            expected[pos as usize..pos as usize + length].copy_from_slice(&bytes);
        }
        shadow.zero(Extent::new(100, 5000)).expect("zeros");
        expected[100..5100].fill(0);
        for (pos, length) in [(0, 10_000), (1, 9000), (4096, 4096), (8191, 2)] {
            let mut found = vec![0; length];
            shadow.read(Pos(pos), &mut found).expect("a read");
            assert!(found == expected[pos as usize..pos as usize + length], "{pos}");
        }
        assert!(std::fs::read(&path).expect("a file") == content);
    }
}
