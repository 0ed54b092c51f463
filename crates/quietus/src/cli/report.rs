//! Reports: for people, or as JSON, a line each.

mod epochs;
mod past;
mod sensitive;
mod status;
mod vault;
mod waiting;

pub(crate) use vault::VaultStatus;

use crate::audit_log::Batch;
use crate::control::{StatusAnswer, Waiting};
use crate::disk::DiskToml;
use crate::host::{DiskGuarantees, Level};
use crate::offline::{Committed, Exported, Rebased};
use crate::proof::{Proof, Receipt};
use quietus_seal::keys::{SlotNumber, SlotState};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::Path;

/// The output for reports.
pub(crate) struct Report {
    pub(crate) json: bool,
}

impl Report {
    /// Prints `json`, or what `text` writes. Ends the process in silence when nobody reads any more
    /// (`quietus … | head`).
    fn say(&self, json: &impl Serialize, text: impl FnOnce(&mut String) -> std::fmt::Result) {
        if self.print(json, text).is_err() {
            std::process::exit(0);
        }
    }

    fn print(
        &self,
        json: &impl Serialize,
        text: impl FnOnce(&mut String) -> std::fmt::Result,
    ) -> io::Result<()> {
        let mut out = String::new();
        if self.json {
            out = serde_json::to_string(json).expect("a report is plain data");
        } else {
            text(&mut out).expect("writing to memory does not fail");
        }
        let mut stdout = io::stdout();
        io::Write::write_fmt(&mut stdout, format_args!("{}\n", out.trim_end()))?;
        io::Write::flush(&mut stdout)
    }

    /// Reports a new disk. `asked` is the size on the command line.
    pub(crate) fn created(
        &self,
        path: &Path,
        toml: &DiskToml,
        asked: Option<u64>,
        guarantees: &DiskGuarantees,
    ) {
        let rounded = asked.filter(|asked| *asked != toml.size_bytes);
        let json = json!({
            "created": path, "disk": toml, "rounded_up_from_bytes": rounded, "guarantees": guarantees,
        });
        self.say(&json, |out| {
            let size = bytes(toml.size_bytes);
            writeln!(out, "created {} ({size}, policy {})", path.display(), toml.behaviour.policy)?;
            if let Some(asked) = rounded {
                let size = toml.size_bytes;
                writeln!(out, "size rounded up from {asked} to {size} bytes: whole blocks of 4 KiB")?;
            }
            let disk = path.display();
            match guarantees.level {
                Level::Clear => Ok(()),
                level => writeln!(out, "note: {level}; `quietus status {disk}` says why, and what to do"),
            }
        });
    }

    /// Prints the key slots that are not empty.
    pub(crate) fn key_slots(&self, slots: &[SlotState]) {
        let used = (0..).zip(slots).filter_map(|(number, slot)| match slot {
            SlotState::Empty => None,
            SlotState::Used(kind) => Some((number, kind.name())),
            SlotState::Damaged => Some((number, "damaged")),
        });
        let used: Vec<(u8, &str)> = used.collect();
        let json: Vec<Value> =
            used.iter().map(|(number, kind)| json!({ "slot": number, "kind": kind })).collect();
        self.say(&json!({ "slots": json, "slots_max": slots.len() }), |out| {
            writeln!(out, "{} of {} key slots in use", used.len(), slots.len())?;
            used.iter().try_for_each(|(number, kind)| writeln!(out, "{number}  {kind}"))
        });
    }

    pub(crate) fn key_added(&self, slot: SlotNumber) {
        self.say(&json!({ "added": slot.0 }), |out| write!(out, "key slot {} added", slot.0));
    }

    /// `level` is how far overwriting reached.
    pub(crate) fn key_removed(&self, slot: u8, passes: usize, level: Level) {
        self.say(&json!({ "removed": slot, "passes": passes, "level": level }), |out| {
            writeln!(out, "key slot {slot} removed, and overwritten ({passes} passes)")?;
            match level {
                Level::Clear => Ok(()),
                level => {
                    writeln!(out, "note: {level}; a copy of the slot opens the disk with its credential")
                }
            }
        });
    }

    pub(crate) fn key_rotated(&self, generation: u32) {
        self.say(&json!({ "generation": generation }), |out| {
            write!(out, "master key {generation} made; it seals what is written from the next start on")
        });
    }

    pub(crate) fn serving(&self, uri: &str, disks: &[String]) {
        // A server goes on, whether or not anybody reads this.
        let _ = self.print(&json!({ "serving": disks, "uri": uri }), |out| {
            write!(out, "serving {} at {uri}", disks.join(", "))
        });
    }

    /// Prints the status; with `verbose` all details. `watched` clears the terminal first.
    pub(crate) fn status(
        &self,
        now: &StatusAnswer,
        before: Option<&StatusAnswer>,
        watched: bool,
        verbose: bool,
    ) {
        if watched && !self.json {
            let _ = io::Write::write_all(&mut io::stdout(), b"\x1b[2J\x1b[H");
        }
        self.say(now, |out| {
            if !verbose {
                return status::summary(out, now, status::DOUBTS_MAX);
            }
            // All doubts follow with the details.
            status::summary(out, now, 0)?;
            status::details(out, now, before)
        });
    }

    /// Prints which content is sensitive.
    pub(crate) fn sensitive(&self, now: &StatusAnswer) {
        let json = json!({ "name": now.name, "sensitive": now.sensitive, "waiting": now.waiting });
        self.say(&json, |out| sensitive::report(out, now));
    }

    pub(crate) fn owed(&self, answer: &Value) {
        self.say(answer, |out| {
            let owed = answer["owed"].as_array().map(Vec::as_slice).unwrap_or_default();
            for it in owed {
                writeln!(
                    out,
                    "owed     {:>14} {:>12}  {} ({})",
                    it["start"],
                    bytes(it["len"].as_u64().unwrap_or(0)),
                    it["due"].as_str().unwrap_or("?"),
                    it["cause"].as_str().unwrap_or("?")
                )?;
            }
            match answer["more"].as_u64() {
                Some(more) if more > 0 => writeln!(out, "… and {more} more"),
                _ if owed.is_empty() => writeln!(out, "nothing is left to destroy"),
                _ => Ok(()),
            }
        });
    }

    /// One line of the audit log.
    pub(crate) fn entry(&self, entry: &Value) {
        self.say(entry, |out| {
            let text = |name: &str| entry[name].as_str().unwrap_or("?").to_string();
            let now = time(entry["time_ms"].as_u64().unwrap_or(0));
            match text("event").as_str() {
                event @ ("died" | "owed" | "receipt") => batch_text(out, event, entry),
                "latched" => write!(out, "{now} latched  {}", text("reason")),
                "lost" => write!(out, "{now} lost     lines are missing here: {}", text("reason")),
                "dropped" => {
                    write!(out, "{now} dropped  {} deaths have no line of their own", entry["deaths"])
                }
                event @ ("forgets" | "named" | "held" | "released") => {
                    write!(out, "{now} {}", epochs::line(event, entry))
                }
                other => write!(out, "{now} {other}"),
            }
        });
    }

    pub(crate) fn shred(&self, answer: &Value) {
        self.say(answer, |out| {
            let number = |name: &str| bytes(answer[name].as_u64().unwrap_or(0));
            let done = if answer["done"] == true { "" } else { " (interrupted: the rest stays queued)" };
            writeln!(
                out,
                "destroyed {}, overwritten conservatively {}{done}",
                number("destroyed_bytes"),
                number("rewritten_bytes")
            )?;
            if answer["plain_bytes"].as_u64().unwrap_or(0) > 0 {
                writeln!(out, "freed {} of plain content, which is not destroyed", number("plain_bytes"))?;
            }
            let waiting = Vec::<Waiting>::deserialize(&answer["waiting"]).unwrap_or_default();
            waiting::still_waiting(out, &waiting)
        });
    }

    pub(crate) fn purged(&self, answer: &Value) {
        self.say(answer, |out| {
            write!(out, "newly dead: {}", bytes(answer["newly_dead_bytes"].as_u64().unwrap_or(0)))
        });
    }

    pub(crate) fn exported(&self, done: &Exported) {
        self.say(done, |out| {
            let (live, size) = (bytes(done.copied.live_bytes), bytes(done.copied.size_bytes));
            let (image, host) = (done.image.display(), bytes(done.host_bytes));
            write!(out, "exported {image}: {live} of {size} is live content; the image takes up {host}")
        });
    }

    pub(crate) fn rebased(&self, done: &Rebased) {
        self.say(done, |out| {
            let (copied, purged) = (bytes(done.copied_bytes), bytes(done.purged_bytes));
            write!(out, "rebased to {}: copied {copied}, purged {purged}", done.base.display())
        });
    }

    pub(crate) fn committed(&self, done: &Committed) {
        self.say(done, |out| {
            let (written, purged) = (bytes(done.written_bytes), bytes(done.purged_bytes));
            writeln!(out, "committed to {}: wrote {written}, purged {purged}", done.base.display())?;
            write!(
                out,
                "note: other overlays above this base image can no longer be opened, since it has changed"
            )
        });
    }

    pub(crate) fn compacted(&self, answer: &Value) {
        self.say(answer, |out| {
            let number = |name: &str| bytes(answer[name].as_u64().unwrap_or(0));
            let done = if answer["done"] == true { "" } else { " (interrupted: the rest is packed later)" };
            write!(out, "medium: {} before, {} now{done}", number("bytes_before"), number("bytes_after"))
        });
    }

    pub(crate) fn verify(&self, answer: &Value) {
        self.say(answer, |out| {
            for check in answer["checks"].as_array().into_iter().flatten() {
                let mark = if check["ok"] == true { "ok " } else { "BAD" };
                let text = |name: &str| check[name].as_str().unwrap_or("?").to_string();
                writeln!(out, "{mark} {:<12} {}", text("what"), text("detail"))?;
            }
            Ok(())
        });
    }

    pub(crate) fn proof(&self, receipt: &Receipt, checked: bool) {
        self.say(receipt, |out| proof_text(out, receipt, checked));
    }
}

/// Prints a line for the events of one instant.
fn batch_text(out: &mut String, event: &str, entry: &Value) -> std::fmt::Result {
    let Ok(batch) = Batch::<Value>::deserialize(entry) else { return write!(out, "{entry}") };
    let all: Vec<_> = batch.all().collect();
    for it in all.chunk_by(|one, next| (one.time_ms, one.kind) == (next.time_ms, next.kind)) {
        let text = |name: &str| it[0].kind[name].as_str().unwrap_or("?").to_string();
        let (when, len) = (time(it[0].time_ms), bytes(it.iter().map(|it| it.len).sum()));
        let what = if event == "receipt" { text("act") } else { event.to_string() };
        write!(out, "{when} {what:<8} {:>14} {len:>12}  {}", it[0].start, text("cause"))?;
        if it[0].kind["class"] == "plain" {
            write!(out, ", plain: freed, not destroyed")?;
        }
        if let Some(passes) = it[0].kind["passes"].as_u64() {
            write!(out, ", {passes} passes")?;
        }
        writeln!(out, "{}", if it.len() > 1 { format!(", in {} places", it.len()) } else { String::new() })?;
    }
    Ok(())
}

fn proof_text(out: &mut String, receipt: &Receipt, checked: bool) -> std::fmt::Result {
    let proof = &receipt.statement;
    let stubs = proof.stubs.as_ref();
    let residue = stubs.map_or(&[][..], |found| &found.residue);
    let cells = stubs.map_or(&[][..], |found| &found.root.residue);
    match (proof.is_clean(), proof.has_dead_content()) {
        (true, _) if stubs.is_some() => {
            writeln!(out, "no stub is left of content that no epoch shows: nobody can read that again")?;
        }
        (true, _) => writeln!(out, "no dead byte holds content")?,
        (_, false) => writeln!(out, "not all dead content is destroyed yet; run `quietus shred --now`")?,
        _ => {
            let places = proof.violations.len() + residue.len() + cells.len();
            writeln!(out, "{places} places hold dead content, or keys to it")?;
        }
    }
    for (start, len) in proof.violations.iter().take(10) {
        writeln!(out, "DEAD CONTENT at {start}, {len} bytes")?;
    }
    for start in residue.iter().take(10) {
        writeln!(out, "STUB OF DEAD CONTENT at {start} of the stub medium")?;
    }
    for start in cells.iter().take(10) {
        writeln!(out, "KEY THAT IS NOT IN USE at {start} of the root")?;
    }
    writeln!(out, "disk         {} ({})", proof.name, proof.disk)?;
    for (liveness, amount) in &proof.bytes {
        writeln!(out, "{liveness:<12} {:>12}", bytes(*amount))?;
    }
    if proof.counters.plain_bytes > 0 {
        let plain = bytes(proof.counters.plain_bytes);
        writeln!(
            out,
            "plain        {plain:>12}  of content that nobody had marked, freed so far and not destroyed"
        )?;
    }
    proof.sensitive.iter().try_for_each(|it| sensitive::proven(out, it))?;
    read_text(out, &proof.read_ways)?;
    writeln!(
        out,
        "no space     {:>12}  of the dead bytes, without space on the medium: nothing to read",
        bytes(proof.hole_bytes)
    )?;
    epochs_text(out, proof)?;
    let signed = if checked { "the signature is valid, by the key" } else { "by the key" };
    writeln!(out, "signed       {signed} {}", receipt.public_key)?;
    match DiskGuarantees::deserialize(&proof.guarantees) {
        // The person who checks a receipt may not have the disk.
        Ok(guarantees) if checked => status::guarantees(out, &guarantees),
        Ok(guarantees) if guarantees.level != Level::Clear => {
            writeln!(out, "note: {}; `quietus status` says why, and what to do", guarantees.level)
        }
        Ok(_) => Ok(()),
        Err(_) => writeln!(out, "guarantee    of another version of Quietus: {}", proof.guarantees),
    }
}

/// What a proof says of epochs and stubs.
fn epochs_text(out: &mut String, proof: &Proof) -> std::fmt::Result {
    if let Some(epochs) = &proof.epochs {
        let (kept, forgotten) = (epochs.kept, epochs.forgotten);
        writeln!(
            out,
            "epochs       {kept} kept, {forgotten} forgotten; they show {}",
            bytes(epochs.shown_bytes)
        )?;
    }
    let Some(found) = &proof.stubs else { return Ok(()) };
    writeln!(
        out,
        "stubs        {} of content that is shown, {} to be destroyed, in {} of {}",
        found.live,
        found.owed,
        bytes(found.read_bytes),
        found.medium
    )?;
    let root = &found.root;
    writeln!(
        out,
        "root         {} keys that hide them, {} to be destroyed, in {} of {}",
        root.cells,
        root.owed,
        bytes(root.read_bytes),
        root.medium
    )
}

/// The amounts of dead bytes by the way they were read.
fn read_text(out: &mut String, ways: &BTreeMap<String, u64>) -> std::fmt::Result {
    for (way, amount) in ways {
        let how = match way.as_str() {
            "around-cache" => "of the dead bytes, from the medium, around the host's cache",
            "after-eviction" => "of the dead bytes, from the medium: the host's cache was emptied first",
            "from-cache" => {
                "of the dead bytes, FROM THE HOST'S CACHE, which cannot be emptied here: \
                 these reads do not show the medium"
            }
            other => other,
        };
        writeln!(out, "read         {:>12}  {how}", bytes(*amount))?;
    }
    Ok(())
}

/// A size for people.
pub(crate) fn bytes(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

/// Milliseconds since 1970, for people, in UTC.
fn time(ms: u64) -> String {
    let (days, second) = (ms / 86_400_000, ms / 1000 % 86_400);
    // Days from civil, the other way round (H. Hinnant, "chrono-Compatible
    // Low-Level Date Algorithms").
    let z = days + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1000)
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_are_civil() {
        assert_eq!(super::time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(super::time(951_827_696_789), "2000-02-29T12:34:56.789Z");
    }
}
