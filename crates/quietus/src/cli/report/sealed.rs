//! What is said of sealed disks.

use super::bytes;
use super::waiting::{duration, line};
use crate::disk::DiskToml;
use crate::front::control::StatusAnswer;
use crate::host::guarantees::{DiskGuarantees, Finding};
use crate::proof::SealedFound;
use quietus_core::store::sealed::SealedStatus;
use std::fmt::{self, Write};

/// How far the keys of a sealed disk are, and how often its root is written.
pub(super) fn summary(out: &mut String, now: &StatusAnswer, store: &SealedStatus) -> fmt::Result {
    let purging = if store.is_purging { ", the next one is under way" } else { "" };
    let (early, most) = (store.early_entries, store.early_entries_max);
    let purge = store.purge;
    line(out, "sealed", &format!("purge {purge}{purging}; {early} of {most} entries for early keys in use"))?;
    line(out, "purges", &pace(now.deadline_ms, now.root_life_ms))?;
    if let Some(root) = now.guarantees.root_in_memory() {
        line(out, "root", &in_memory(root))?;
    }
    now.guarantees.while_live().map_or(Ok(()), |limit| line(out, "", &format!("- {limit}")))
}

/// What the owner of a new sealed disk has to know.
pub(super) fn created(out: &mut String, toml: &DiskToml) -> fmt::Result {
    let Some(sealed) = &toml.sealed else { return Ok(()) };
    let behaviour = &toml.behaviour;
    writeln!(out, "note: purges: {}", pace(behaviour.deadline_ms, toml.root_life_ms()))?;
    if sealed.begins_anew() {
        return writeln!(
            out,
            "note: the root is in the memory of the server: all content is gone when the server stops, and each server begins with \
             an empty disk"
        );
    }
    if !sealed.credential {
        writeln!(
            out,
            "note: the disk has no credential: an attacker with its files and its root can read all content but what was deleted"
        )?;
    }
    writeln!(
        out,
        "note: a copy of the directory is no backup, as it does not open after the next purge; without its root the disk is lost: \
         back up with `quietus export`"
    )
}

/// What a proof says of the root of a sealed disk.
pub(super) fn proof(out: &mut String, found: &SealedFound, host: Option<&DiskGuarantees>) -> fmt::Result {
    let (root, purge) = (&found.root, found.purge);
    let read = bytes(root.read_bytes);
    let (cells, owed) = (root.cells, root.owed);
    writeln!(
        out,
        "root         {read} read of {}: {cells} key of purge {purge}, which opens all live content; {owed} keys to be destroyed",
        root.medium
    )?;
    host.and_then(DiskGuarantees::root_in_memory)
        .map_or(Ok(()), |root| writeln!(out, "             {}", in_memory(root)))
}

/// The words for a root in the memory of the server.
fn in_memory(root: &Finding) -> String {
    format!("{}: all content is gone when the server stops", root.what)
}

/// When purges begin, and how long the root lasts then.
fn pace(deadline_ms: u64, life_ms: Option<u64>) -> String {
    let begins = format!("deleted content dies within {} at the latest", duration(deadline_ms));
    match life_ms {
        Some(life_ms) => {
            format!("{begins}; the root, which wears out, lasts {} at that pace", duration(life_ms))
        }
        None => begins,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_names_the_life_of_a_root_that_wears_out() {
        assert_eq!(pace(600_000, None), "deleted content dies within 10 min at the latest");
        let tpm = pace(3_600_000, Some(100_000 * 3_600_000));
        assert_eq!(
            tpm,
            "deleted content dies within 1 h at the latest; the root, which wears out, lasts 11 years at that pace"
        );
    }
}
