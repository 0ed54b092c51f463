//! Checks of a sealed disk: its key file, its root, and its content.

use super::CheckLine;
use crate::disk::{Step, keys};
use crate::engine::export::{Export, carry_out, liveness_runs};
use crate::open_disk::OpenDisk;
use crate::proof::top_cell;
use quietus_core::base::units::{Addr, Extent};
use quietus_core::media::cipher::SECTOR_BYTES;
use quietus_core::request::{Liveness, Op, Request};
use quietus_core::store::sealed::LEAF_BYTES;

/// Bytes of content that are read at once.
const PIECE_BYTES: u64 = 1 << 20;

/// The checks of a sealed disk; empty for another disk.
pub(super) fn verify(disk: &OpenDisk, read_data: bool, step: Step<'_>) -> Vec<CheckLine> {
    if disk.dir.toml().sealed.is_none() {
        return Vec::new();
    }
    let keys = disk.dir.key_file().map(|file| {
        let damage = keys::damage(&file).map_err(|error| error.to_string());
        let found = damage.and_then(|it| if it.is_empty() { Ok("whole") } else { Err(it.join("; ")) });
        CheckLine::new("keys", found)
    });
    let root = CheckLine::new("top cell", root(disk));
    let tree = CheckLine::new("key tree", tree(disk, &mut *step));
    let data = read_data.then(|| CheckLine::new("data", data(disk, step)));
    keys.into_iter().chain([root, tree]).chain(data).collect()
}

/// The top cell in the root, in words, or what else lies there.
fn root(disk: &OpenDisk) -> Result<String, String> {
    let uuid = *disk.dir.toml().uuid.as_bytes();
    let found = top_cell::look(&disk.engine, uuid).map_err(|error| error.to_string())?;
    let (purge, judged) = (found.purge, found.judged);
    if !judged.residue.is_empty() {
        let at = judged.residue.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        return Err(format!(
            "the root holds other bytes than its label and the key of purge {purge}, in the sectors at bytes {at}; the next start that \
             writes destroys what is left of an older key"
        ));
    }
    match judged.cells {
        0 => Err(format!("the root has no key of purge {purge}; restore the medium of the root")),
        _ => Ok(format!("the key of purge {purge}, and no older one")),
    }
}

/// Opens every page of the key tree that content which is not dead lies under, by a read of one sector under each leaf.
fn tree(disk: &OpenDisk, step: Step<'_>) -> Result<String, String> {
    let (mut leaves, mut last) = (0_u64, None);
    read(disk, LEAF_BYTES, step, |piece| {
        let leaf = piece.start.0 / LEAF_BYTES;
        let is_new = last.replace(leaf) != Some(leaf);
        leaves += u64::from(is_new);
        is_new.then(|| Extent::new(piece.start.0, piece.len.min(SECTOR_BYTES)))
    })?;
    Ok(format!("whole; {leaves} leaves have content"))
}

/// Reads all content that is not dead.
fn data(disk: &OpenDisk, step: Step<'_>) -> Result<String, String> {
    let mut read_bytes = 0;
    read(disk, PIECE_BYTES, step, |piece| {
        read_bytes += piece.len;
        Some(piece)
    })?;
    Ok(format!("{read_bytes} bytes can be read; content has no checksums"))
}

/// Reads what `choose` says of each piece of content that is not dead; a piece does not cross a multiple of `piece_bytes`.
fn read(
    disk: &OpenDisk,
    piece_bytes: u64,
    step: Step<'_>,
    mut choose: impl FnMut(Extent<Addr>) -> Option<Extent<Addr>>,
) -> Result<(), String> {
    let (engine, size) = (&*disk.engine, disk.engine.size());
    let (mut first, mut others) = (None, 0_u64);
    let runs = liveness_runs(engine, Extent::<Addr>::new(0, size));
    for (run, _) in runs.filter(|(_, liveness)| *liveness != Liveness::Dead) {
        let mut at = run.start.0;
        while at < run.end() {
            let end = ((at / piece_bytes + 1) * piece_bytes).min(run.end());
            if let Some(extent) = choose(Extent::between(at, end))
                && let Err(refusal) = carry_out(engine, Request { op: Op::Read, extent, fua: false })
            {
                others += u64::from(first.is_some());
                first.get_or_insert_with(|| format!("bytes {at} to {}: {refusal}", end - 1));
            }
            if !step(end, size) {
                return Err("interrupted".into());
            }
            at = end;
        }
    }
    match first {
        None => Ok(()),
        Some(first) if others == 0 => Err(first),
        Some(first) => Err(format!("{first}; {others} other pieces of the disk cannot be read either")),
    }
}
