//! Checks of a sealed disk: its key file, its root, and its content.

use super::CheckLine;
use crate::disk::{Step, keys};
use crate::engine::export::{Export, carry_out, liveness_runs};
use crate::open_disk::OpenDisk;
use crate::proof::top_cell;
use quietus_core::base::units::{Addr, Extent};
use quietus_core::request::{Liveness, Op, Request};

/// Bytes of content that are read at once.
const PIECE_BYTES: u64 = 1 << 20;

/// The checks of a sealed disk; empty for another disk. The key tree is read with the content that lies under it.
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
    let data = read_data.then(|| CheckLine::new("data", data(disk, step)));
    keys.into_iter().chain([root]).chain(data).collect()
}

/// The top cell in the root, in words, or what else lies there.
fn root(disk: &OpenDisk) -> Result<String, String> {
    let uuid = *disk.dir.toml().uuid.as_bytes();
    let found = top_cell::look(&disk.engine, uuid).map_err(|error| error.to_string())?;
    let (purge, judged) = (found.purge, found.judged);
    if !judged.residue.is_empty() {
        let at = judged.residue.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        return Err(format!(
            "bytes {at} of the root are neither its label nor the key of purge {purge}; the next start that writes destroys what is \
             left of an older key"
        ));
    }
    match judged.cells {
        0 => Err(format!("the root has no key of purge {purge}; restore the medium of the root")),
        _ => Ok(format!("the key of purge {purge}, and no older one")),
    }
}

/// Reads all content that is not dead, with the part of the key tree above it.
fn data(disk: &OpenDisk, step: Step<'_>) -> Result<String, String> {
    let (engine, size) = (&*disk.engine, disk.engine.size());
    let mut read_bytes = 0;
    for (run, liveness) in liveness_runs(engine, Extent::<Addr>::new(0, size)) {
        if liveness == Liveness::Dead {
            continue;
        }
        for piece in run.pieces(PIECE_BYTES) {
            let read = carry_out(engine, Request { op: Op::Read, extent: piece, fua: false });
            read.map_err(|refusal| format!("bytes {} to {}: {refusal}", piece.start.0, piece.end() - 1))?;
            read_bytes += piece.len;
            if !step(piece.end(), size) {
                return Err("interrupted".into());
            }
        }
    }
    Ok(format!("{read_bytes} bytes can be read; blocks of content have no checksums"))
}
