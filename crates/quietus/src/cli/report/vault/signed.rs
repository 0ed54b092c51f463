//! Signed statements about vaults, for people: the result, the time and the policy first, then whose signature it is.

use super::{LINES_MAX, in_words};
use crate::base::rfc3339;
use crate::cli::report::{Checked, bytes, guarantees_text, read_text, signature_text, verdict};
use crate::host::paths::Subject;
use crate::vault::{SanitizeReceipt, Sanitized, VaultProof, VaultReceipt, Violation};
use std::fmt::{Result, Write};

/// The command that says what the medium can promise.
const STATUS: &str = "quietus vault status";

pub(super) fn proof(out: &mut String, receipt: &VaultReceipt, checked: Checked) -> Result {
    let it = &receipt.statement;
    writeln!(out, "result       {}", proven(it))?;
    writeln!(out, "time         {}", rfc3339::text(it.time_ms))?;
    writeln!(out, "policy       {}", it.policy)?;
    signature_text(out, &receipt.public_key, checked, Subject::Vault)?;
    for Violation { start, what } in it.violations.iter().take(LINES_MAX) {
        writeln!(out, "DEAD CONTENT at {start}: {what}")?;
    }
    for owed in it.owed.iter().take(LINES_MAX) {
        writeln!(out, "to be destroyed: {}", in_words(*owed))?;
    }
    writeln!(out, "vault        {}", it.vault)?;
    writeln!(out, "snapshots    {}, of {} chunks", it.snapshots, it.live_chunks)?;
    writeln!(out, "containers   {}; free slots {}, condemned {}", it.containers, it.free, it.condemned)?;
    read_text(out, &it.read_ways, "of the pool")?;
    let holes = bytes(it.hole_bytes);
    writeln!(out, "no space     {holes:>12}  without space on the medium: nothing to read")?;
    guarantees_text(out, &it.guarantees, checked, STATUS)
}

/// The verdict of a proof, and what it rests on.
fn proven(proof: &VaultProof) -> String {
    let verdict = verdict::headline(&proof.verdict());
    let waits = proof.condemned > 0 || !proof.owed.is_empty();
    let remedy = if waits { "; run `quietus vault sanitize`" } else { "" };
    match proof.violations_count {
        0 if proof.is_clean() => format!("{verdict}: the medium holds only content of snapshots"),
        0 => format!("{verdict}{remedy}"),
        count => format!("NOT gone: {count} places hold content of no snapshot{remedy}"),
    }
}

pub(super) fn sanitization(out: &mut String, receipt: &SanitizeReceipt, checked: Checked) -> Result {
    let it = &receipt.statement;
    writeln!(out, "result       {}", destroyed(it))?;
    writeln!(out, "time         {}", rfc3339::text(it.to_ms))?;
    writeln!(out, "policy       {}", it.policy)?;
    signature_text(out, &receipt.public_key, checked, Subject::Vault)?;
    let (dead, copied) = (bytes(it.dead_bytes), bytes(it.copied_bytes));
    let would = if it.is_dry_run { "would be " } else { "" };
    writeln!(out, "destroyed    {dead:>12}  {would}in {} dead chunks", it.dead_chunks)?;
    writeln!(out, "copied       {copied:>12}  {would}in {} live chunks", it.copied_chunks)?;
    let (overwritten, judged) = (it.destroyed_containers, it.judged);
    writeln!(out, "containers   {overwritten} of {judged} {would}overwritten, {} passes", it.passes)?;
    for line in it.receipts.iter().take(LINES_MAX) {
        writeln!(out, "receipt for {}", in_words(line.of))?;
    }
    for owed in it.owed.iter().take(LINES_MAX) {
        writeln!(out, "still to be destroyed: {}", in_words(*owed))?;
    }
    for line in it.residue.iter().take(LINES_MAX) {
        writeln!(out, "not destroyed: {}: {}", line.at, line.why)?;
    }
    guarantees_text(out, &it.guarantees, checked, STATUS)
}

/// The verdict of a sanitization, and what it rests on.
fn destroyed(it: &Sanitized) -> String {
    let verdict = verdict::headline(&it.verdict());
    match it.left {
        _ if it.is_dry_run => "nothing was destroyed: a dry run".into(),
        0 => format!("{verdict}: nothing is left of {} forgets", it.receipts.len()),
        left => format!(
            "NOT gone: {left} damaged containers were left, and forgotten content may lie there, so that all of it stays owed"
        ),
    }
}
