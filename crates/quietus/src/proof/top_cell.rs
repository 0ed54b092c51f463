//! The proof about the root of a sealed disk: its medium, read as a whole around the host's cache.
//!
//! All dead content of a sealed disk lies under keys that only an older top cell opens. So the root must have one whole slot, that of the
//! last purge, and nothing else but its label: no older cell, no copy of one, and no remains of one. The format: `docs/formats/topcell.md`.

use super::stubs::RootFound;
use super::{ProofError, Search};
use crate::disk::DiskDir;
use crate::engine::Engine;
use crate::host::media::Way;
use crate::proof::stub_medium::ScanError;
use quietus_core::base::units::Pos;
use quietus_core::base::zeros::is_zeros;
use quietus_core::media::MediumId;
use quietus_core::store::sealed::{ROOT_BYTES, SealedStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// Bytes of the label: a magic, the version of the format, the disk, a checksum.
const LABEL_BYTES: usize = 32;
/// Bytes that the label has for itself, and each slot.
const AREA_BYTES: usize = 4096;
/// Bytes of a slot before its checksum: the number of its purge, and the cell.
const BODY_BYTES: usize = 36;
/// Bytes of a slot.
const SLOT_BYTES: usize = BODY_BYTES + 4;
/// Bytes that one finding is about.
const SECTOR_BYTES: usize = 512;
/// How often the root is read while purges change it.
const LOOKS: usize = 3;

/// Findings about the keys of a sealed disk.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SealedFound {
    /// The number of the last purge. Keys of content that died before are gone with the cells that came before its cell.
    pub purge: u32,
    /// Findings in the root, whose guarantees decide.
    pub root: RootFound,
}

/// What the bytes of a root are, compared with the last purge.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Judged {
    /// Top cells of the last purge: one.
    pub(super) cells: u64,
    /// Top cells of the purge before or after that, while a purge is under way.
    pub(super) owed: u64,
    /// Sectors with anything else than the label.
    pub(super) residue: Vec<u64>,
}

/// A root, as it was read.
pub(super) struct Looked {
    pub(super) purge: u32,
    pub(super) judged: Judged,
    way: Way,
}

impl<F: FnMut(u64, u64) -> bool> Search<'_, F> {
    /// Reads the root of a sealed disk.
    pub(super) fn look_at_top_cell(&mut self, dir: &DiskDir) -> Result<SealedFound, ProofError> {
        let Looked { purge, judged, way } =
            look(self.engine, *dir.toml().uuid.as_bytes()).map_err(ProofError::Stubs)?;
        *self.read_ways.entry(way.name().into()).or_default() += ROOT_BYTES;
        let medium = dir.medium_of(MediumId::Root).map(|path| path.display().to_string());
        let Judged { cells, owed, residue } = judged;
        let root =
            RootFound { medium: medium.unwrap_or_default(), read_bytes: ROOT_BYTES, cells, owed, residue };
        Ok(SealedFound { purge, root })
    }
}

/// Reads and judges the root of the sealed `disk` that `engine` runs.
pub(super) fn look(engine: &Engine, disk: [u8; 16]) -> Result<Looked, ScanError> {
    let medium = engine.medium(MediumId::Root).ok_or(ScanError::None)?;
    let mut bytes = Zeroizing::new(vec![0; ROOT_BYTES as usize]);
    let mut looks = 0;
    loop {
        let before = status(engine)?;
        let way = medium.read_uncached(Pos(0), &mut bytes)?;
        looks += 1;
        // A purge that ended meanwhile has changed what should be there.
        if status(engine)?.purge == before.purge || looks == LOOKS {
            let judged = judge(&bytes, disk, before.purge, before.is_purging);
            return Ok(Looked { purge: before.purge, judged, way });
        }
    }
}

fn status(engine: &Engine) -> Result<SealedStatus, ScanError> {
    engine.status().store.sealed().cloned().ok_or(ScanError::None)
}

/// Judges the `bytes` of the root of `disk`, whose last purge was `purge`.
fn judge(bytes: &[u8], disk: [u8; 16], purge: u32, is_purging: bool) -> Judged {
    let mut judged = Judged::default();
    judged.note_rest(bytes, 0, LABEL_BYTES);
    for n in 0..2 {
        let at = (n as usize + 1) * AREA_BYTES;
        let slot = bytes.get(at..at + SLOT_BYTES).unwrap_or_default();
        let found = top_of(slot, disk).filter(|found| found % 2 == n);
        let used = match found {
            Some(found) if found == purge => {
                judged.cells += 1;
                SLOT_BYTES
            }
            // While a purge is under way, both cells may be there.
            Some(found) if is_purging && found.abs_diff(purge) == 1 => {
                judged.owed += 1;
                SLOT_BYTES
            }
            _ => 0,
        };
        judged.note_rest(bytes, at, used);
    }
    judged
}

/// The number of the purge whose top cell a slot has; `None` if the slot has no whole one.
fn top_of(slot: &[u8], disk: [u8; 16]) -> Option<u32> {
    let (body, crc) = slot.split_at_checked(BODY_BYTES)?;
    let found = crc32c::crc32c_append(crc32c::crc32c(&disk), body);
    (crc == found.to_le_bytes()).then(|| u32::from_le_bytes(*body.first_chunk().expect("a body is longer")))
}

impl Judged {
    /// Notes the sectors of the area at `at` that are not zeros, but for its first `used` bytes.
    fn note_rest(&mut self, bytes: &[u8], at: usize, used: usize) {
        let area = bytes.get(at..at + AREA_BYTES).unwrap_or_default();
        for (n, sector) in area.chunks(SECTOR_BYTES).enumerate() {
            let rest = if n == 0 { &sector[used..] } else { sector };
            if !is_zeros(rest) {
                self.residue.push((at + n * SECTOR_BYTES) as u64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: [u8; 16] = [5; 16];

    /// A root with the top cells of these purges.
    fn root(purges: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; ROOT_BYTES as usize];
        bytes[..LABEL_BYTES].fill(7);
        for purge in purges {
            let mut slot = purge.to_le_bytes().to_vec();
            slot.extend([9; 32]);
            slot.extend(crc32c::crc32c_append(crc32c::crc32c(&DISK), &slot).to_le_bytes());
            let at = (*purge as usize % 2 + 1) * AREA_BYTES;
            bytes[at..at + SLOT_BYTES].copy_from_slice(&slot);
        }
        bytes
    }

    #[test]
    fn a_root_has_the_cell_of_the_last_purge_and_no_other() {
        let clean = Judged { cells: 1, ..Judged::default() };
        for purge in [1, 2, 77] {
            assert_eq!(judge(&root(&[purge]), DISK, purge, false), clean, "{purge}");
        }
        let old = judge(&root(&[6, 7]), DISK, 7, false);
        assert_eq!(old, Judged { residue: vec![8192 / 2], ..clean.clone() }, "the cell before is residue");
        let under_way = judge(&root(&[6, 7]), DISK, 6, true);
        assert_eq!(under_way, Judged { owed: 1, ..clean });
    }

    #[test]
    fn a_lost_cell_another_disks_or_an_older_one_is_no_cell_in_use() {
        for (bytes, purge) in [(root(&[]), 3), (root(&[1]), 3), (root(&[3]), 5)] {
            assert_eq!(judge(&bytes, DISK, purge, false).cells, 0);
        }
        assert_eq!(judge(&root(&[3]), [6; 16], 3, false).residue, [8192]);
    }

    #[test]
    fn one_bit_anywhere_outside_the_label_and_the_slot_is_residue() {
        let whole = root(&[2]);
        for at in [LABEL_BYTES, 4095, 4096 + SLOT_BYTES, 4096 + 600, 8191, 8192, 8192 + 511, 12287] {
            let mut bytes = whole.clone();
            bytes[at] |= 1;
            let judged = judge(&bytes, DISK, 2, false);
            assert_eq!((judged.cells, judged.residue), (1, vec![(at / 512 * 512) as u64]), "{at}");
        }
    }

    #[test]
    fn a_slot_with_a_flipped_bit_is_residue() {
        for bit in 0..SLOT_BYTES * 8 {
            let mut bytes = root(&[2]);
            bytes[4096 + bit / 8] ^= 1 << (bit % 8);
            let judged = judge(&bytes, DISK, 2, false);
            assert_eq!((judged.cells, judged.residue), (0, vec![4096]), "{bit}");
        }
    }
}
