//! What the audit log says was destroyed.
//!
//! The host takes the space of destroyed content back, and then nothing is left to read there. The receipt of each such range tells it
//! from one that was never written.

use crate::evidence::audit_log::{Batch, Directory, HostDirectory, LINE_BYTES_MAX, names};
use quietus_core::base::blocks::BlockSet;
use quietus_core::base::units::{Addr, BLOCK_BYTES, Extent};
use serde::Deserialize;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// A line of the audit log that may be a receipt.
#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Line {
    Receipt(Batch<How>),
    #[serde(other)]
    Other,
}

/// How content was destroyed, or that it was not.
#[derive(Deserialize)]
struct How {
    act: String,
}

/// The whole blocks whose last receipt in the audit log of the disk in `dir` says that their content, or its key, was overwritten. The oldest
/// lines may be gone from there: then the set is smaller than the truth.
///
/// # Errors
/// The log cannot be read.
pub(super) fn destroyed(dir: &Path, size: u64) -> io::Result<BlockSet<Addr>> {
    let dir = HostDirectory(dir.into());
    let mut all = BlockSet::default();
    for name in names(&dir)? {
        let mut reader = BufReader::new(dir.read(&name)?);
        let mut line = Vec::new();
        while reader.by_ref().take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line)? > 0 {
            note(&line, size, &mut all);
            line.clear();
        }
    }
    Ok(all)
}

/// Notes what a line says of a disk of `size` bytes, if it is a receipt.
fn note(line: &[u8], size: u64, all: &mut BlockSet<Addr>) {
    let Ok(Line::Receipt(batch)) = serde_json::from_slice(line) else { return };
    for run in batch.all() {
        let Some(extent) = Extent::<Addr>::within(run.start, run.len, size) else { continue };
        match run.kind.act.as_str() {
            "shredded" | "rekeyed" | "erased" => {
                let end = extent.end() / BLOCK_BYTES * BLOCK_BYTES;
                let start = extent.start.0.next_multiple_of(BLOCK_BYTES);
                all.insert(Extent::between(start.min(end), end));
            }
            // The content was given back as it was.
            "freed" | "plain" => all.remove(extent),
            // It was kept, or another one took its place: that has a receipt of its own when it dies.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_whose_last_receipt_is_of_passes_or_of_a_key_count_as_destroyed() {
        let receipt = |act: &str, start: u64, len: u64| {
            format!(
                "{{\"event\":\"receipt\",\"n\":1,\"from_ms\":0,\"bytes\":{},\"unit\":512,\"kinds\":[{{\"act\":\"{act}\",\"passes\":1}}],\
                 \"runs\":[[0,0,{start},{len}]],\"through\":1}}",
                len * 512
            )
        };
        let mut all = BlockSet::default();
        let mut say = |line: String| note(line.as_bytes(), 1 << 20, &mut all);
        say(receipt("shredded", 0, 24));
        say(receipt("plain", 8, 8));
        say(receipt("retired", 16, 8));
        say(receipt("shredded", 100, 7));
        say(receipt("rekeyed", 104, 9));
        say("{\"event\":\"opened\"}".into());
        say("half a li".into());
        let runs: Vec<_> = all.runs().map(|run| (run.start.0, run.len)).collect();
        assert_eq!(runs, [(0, 4096), (8192, 4096), (104 * 512, 4096)]);
    }
}
