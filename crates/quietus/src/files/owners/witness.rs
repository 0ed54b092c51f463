//! The second witness: a library that reads a file by itself, from a disk on which the content of the file is replaced by its own addresses.
//! What the library returns spells where it read that, and so where the file lies. No content dies that this
//! program alone believes to be the file's.
//!
//! The library gets the true bytes of everything else, names and pointers among them.

use crate::files::state::State;
use crate::files::{Error, Look};
use ext4_view::{Ext4, Ext4Read};
use quietus_core::base::extents::ExtentMap;
use quietus_core::base::units::{Addr, Extent};
use quietus_files::{FileId, Run, Source};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Bytes of a cell: its address, and a check of it.
const CELL_BYTES: u64 = 16;
/// Bytes that are compared at once.
const PIECE_BYTES: u64 = 1 << 20;

/// What the content of a place says instead of that content.
#[derive(Clone)]
struct Code {
    /// Of each run of the program. A guest cannot write cells that are right.
    key: RandomState,
    start: u64,
}

impl Code {
    /// What stands in `at`, bytes of the disk.
    fn spell(&self, at: Extent<Addr>, to: &mut [u8]) {
        let (mut from, mut rest) = (at.start.0, to);
        while from < at.end() {
            let skip = from % CELL_BYTES;
            let len = (CELL_BYTES - skip).min(at.end() - from);
            let (part, behind) = rest.split_at_mut(len as usize);
            part.copy_from_slice(&self.cell(from - skip)[skip as usize..][..len as usize]);
            (from, rest) = (from + len, behind);
        }
    }

    fn cell(&self, address: u64) -> [u8; CELL_BYTES as usize] {
        let words = [address, self.key.hash_one(address)];
        let mut cell = [0; CELL_BYTES as usize];
        cell.iter_mut().zip(words.into_iter().flat_map(u64::to_le_bytes)).for_each(|(to, byte)| *to = byte);
        cell
    }

    /// The address that a whole cell spells.
    fn address(&self, cell: &[u8]) -> Option<u64> {
        let address = u64::from_le_bytes(*cell.first_chunk()?);
        (self.cell(address) == cell).then_some(address)
    }
}

/// A state of a disk, or of its partition, in which some places spell their addresses.
struct Coded {
    state: State,
    /// Where the library's disk begins.
    start: u64,
    places: ExtentMap<Addr, ()>,
    code: Code,
}

impl Ext4Read for Coded {
    fn read(
        &mut self,
        start_byte: u64,
        dst: &mut [u8],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync + 'static>> {
        let at = self.start.checked_add(start_byte);
        let at = at.and_then(|start| Extent::<Addr>::within(start, dst.len() as u64, self.state.bytes()));
        let at = at.ok_or("beyond the disk")?;
        // What is coded may be forgotten, and so may what lies beside it, which the library reads at once with it.
        for gap in self.places.gaps(at) {
            let to = &mut dst[(gap.start.0 - at.start.0) as usize..][..gap.len as usize];
            // In zeros the library finds no address and no pointer.
            self.state.read_around(gap, to);
        }
        for (part, ()) in self.places.within(at) {
            self.code.spell(part, &mut dst[(part.start.0 - at.start.0) as usize..][..part.len as usize]);
        }
        Ok(())
    }
}

/// Why the second witness does not confirm a file.
fn refused(look: &Look, path: &[u8], why: &dyn std::fmt::Display) -> Error {
    let (name, path) = (look.name(), String::from_utf8_lossy(path));
    let epoch = look.epoch.unwrap_or_default();
    Error::Refused(
        format!(
            "{name}: the second reader does not confirm where {path} lies in epoch {epoch}: {why}; nothing was changed. \
             --one-witness trusts the first one alone"
        )
        .into(),
    )
}

/// Checks that the library finds the content of `file`, whose name is `path`, where `look` finds it. `state` is the same state once more.
/// Returns the places.
pub(super) fn confirm(
    look: &mut Look,
    state: State,
    (file, path): (FileId, &[u8]),
) -> Result<ExtentMap<Addr, ()>, Error> {
    let (bytes, runs) = (look.attributes(file)?.bytes, look.runs(file)?);
    let mut places = ExtentMap::default();
    for run in &runs {
        run.place.into_iter().for_each(|place| places.insert(Extent::new(place.0, run.bytes), ()));
    }
    let start = look.place().start.0;
    let code = Code { key: RandomState::new(), start };
    let coded = Coded { state, start, places: places.clone(), code: code.clone() };
    if let Err(why) = compare(look, coded, &code, (file, path, bytes), &runs)? {
        return Err(refused(look, path, &why));
    }
    Ok(places)
}

/// The answer of the library, or why it is another one than that of `look`.
fn compare(
    look: &mut Look,
    coded: Coded,
    code: &Code,
    (file, path, bytes): (FileId, &[u8], u64),
    runs: &[Run],
) -> Result<Result<(), String>, Error> {
    let path = [b"/", path.strip_prefix(b"/").unwrap_or(path)].concat();
    let opened = Ext4::load(Box::new(coded)).and_then(|volume| volume.open(&path[..]));
    let mut opened = match opened {
        Ok(opened) => opened,
        Err(error) => return Ok(Err(error.to_string())),
    };
    if opened.metadata().len() != bytes {
        return Ok(Err(format!("it has {} bytes there, and {bytes} here", opened.metadata().len())));
    }
    let (mut at, mut buffer) = (0, vec![0; PIECE_BYTES as usize]);
    while at < bytes {
        let read = match opened.read_bytes(&mut buffer) {
            Ok(0) => return Ok(Err(format!("it ends at byte {at} there"))),
            Ok(read) => read,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let (found, here) = (&buffer[..read], Extent::<Addr>::new(at, read as u64));
        let expected = expected(look, code, (file, here), runs)?;
        if let Some(n) = found.iter().zip(&expected).position(|(one, other)| one != other) {
            return Ok(Err(difference(code, at + n as u64, &found[n / 16 * 16..])));
        }
        at += read as u64;
    }
    Ok(Ok(()))
}

/// Where byte `at` of the file lies by the library, which is elsewhere.
fn difference(code: &Code, at: u64, cell: &[u8]) -> String {
    let address = cell.get(..CELL_BYTES as usize).and_then(|cell| code.address(cell));
    let there = address.map_or("elsewhere".into(), |address| format!("at address {}", address - code.start));
    format!("byte {at} lies {there} for it")
}

/// What the library has to return of the bytes `here` of a file.
fn expected(
    look: &mut Look,
    code: &Code,
    (file, here): (FileId, Extent<Addr>),
    runs: &[Run],
) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; here.len as usize];
    let first = runs.partition_point(|run| run.at + run.bytes <= here.start.0);
    for run in &runs[first..] {
        let Some(part) = Extent::new(run.at, run.bytes).overlap(here) else { break };
        let to = &mut bytes[(part.start.0 - here.start.0) as usize..][..part.len as usize];
        match run.place {
            Some(place) => code.spell(Extent::new(place.0 + (part.start.0 - run.at), part.len), to),
            None => {
                let content = look.piece(file, part.start.0, part.len)?;
                to.iter_mut().zip(content).for_each(|(to, byte)| *to = byte);
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_of_a_place_is_that_of_its_cell_wherever_a_read_begins() {
        let code = Code { key: RandomState::new(), start: 0 };
        let mut whole = vec![0; 4096];
        code.spell(Extent::new(8192, 4096), &mut whole);
        for (n, cell) in whole.chunks(CELL_BYTES as usize).enumerate() {
            assert_eq!(code.address(cell), Some(8192 + n as u64 * CELL_BYTES));
        }
        for (from, len) in [(1, 1), (15, 2), (7, 100), (4095, 1), (16, 16), (3, 0)] {
            let mut part = vec![0; len];
            code.spell(Extent::new(8192 + from as u64, len as u64), &mut part);
            assert_eq!(part, whole[from..from + len], "{len} bytes from {from}");
        }
    }

    #[test]
    fn a_cell_of_another_place_or_run_or_a_guest_s_own_is_told_apart() {
        let [code, other] = [(); 2].map(|()| Code { key: RandomState::new(), start: 4096 });
        let mut cell = code.cell(65_536);
        assert_eq!(difference(&code, 9, &cell), "byte 9 lies at address 61440 for it");
        assert_eq!(difference(&other, 9, &cell), "byte 9 lies elsewhere for it");
        cell[15] ^= 1;
        assert_eq!(code.address(&cell), None);
        assert_eq!(difference(&code, 9, &cell[..15]), "byte 9 lies elsewhere for it");
    }
}
