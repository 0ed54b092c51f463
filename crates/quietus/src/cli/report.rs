//! What is shown: for people, or as JSON, a line a report.

use crate::control::{Space, StatusAnswer};
use crate::disk::{DiskToml, Size};
use crate::engine::Batch;
use crate::host::DiskGuarantees;
use crate::offline::{Committed, Exported, Rebased};
use crate::proof::Receipt;
use quietus_core::ledger::{Cause, Counters};
use quietus_core::store::overlay::OverlayStatus;
use quietus_core::watch::WatchStatus;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt::Write;
use std::io;
use std::path::Path;

/// Where reports go.
pub(crate) struct Report {
    pub(crate) json: bool,
}

impl Report {
    /// Prints `json`, or what `text` writes. Ends the process, without a word,
    /// when nobody reads any more (`quietus … | head`).
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

    pub(crate) fn created(&self, path: &Path, toml: &DiskToml, guarantees: &DiskGuarantees) {
        let json = json!({ "created": path, "disk": toml, "guarantees": guarantees });
        self.say(&json, |out| {
            let size = bytes(toml.size_bytes);
            writeln!(out, "created {} ({size}, policy {})", path.display(), toml.behaviour.policy)?;
            guarantees_text(out, guarantees)
        });
    }

    pub(crate) fn serving(&self, uri: &str, disks: &[String]) {
        // A server goes on, whoever reads this.
        let _ = self.print(&json!({ "serving": disks, "uri": uri }), |out| {
            write!(out, "serving {} at {uri}", disks.join(", "))
        });
    }

    /// The status screen; `watched` clears the terminal before it.
    pub(crate) fn status(&self, now: &StatusAnswer, before: Option<&StatusAnswer>, watched: bool) {
        if watched && !self.json {
            let _ = io::Write::write_all(&mut io::stdout(), b"\x1b[2J\x1b[H");
        }
        self.say(now, |out| status_text(out, now, before));
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
                _ if owed.is_empty() => writeln!(out, "nothing is owed"),
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
                "dropped" => write!(out, "{now} dropped  {} deaths are not named", entry["deaths"]),
                other => write!(out, "{now} {other}"),
            }
        });
    }

    pub(crate) fn shred(&self, answer: &Value) {
        self.say(answer, |out| {
            let number = |name: &str| bytes(answer[name].as_u64().unwrap_or(0));
            let done = if answer["done"] == true { "" } else { " (interrupted: the rest stays queued)" };
            write!(out, "destroyed {}, scoured {}{done}", number("destroyed_bytes"), number("scoured_bytes"))
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
            write!(out, "exported {image}: {live} of {size} hold something; it takes up {host}")
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
            write!(out, "other overlays above this base will say that it has changed, and not open")
        });
    }

    pub(crate) fn compacted(&self, answer: &Value) {
        self.say(answer, |out| {
            let number = |name: &str| bytes(answer[name].as_u64().unwrap_or(0));
            let done = if answer["done"] == true { "" } else { " (interrupted: the rest is packed later)" };
            write!(out, "the medium had {}, and has {}{done}", number("bytes_before"), number("bytes_after"))
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

fn status_text(out: &mut String, now: &StatusAnswer, before: Option<&StatusAnswer>) -> std::fmt::Result {
    let it = &now.status;
    writeln!(out, "disk         {} ({}){}", now.name, now.disk, if now.served { ", served" } else { "" })?;
    writeln!(out, "medium       {}", now.medium)?;
    writeln!(out, "size         {:>12}", bytes(it.size_bytes))?;
    let unsure = if it.holes_unknown { "  (still looking for holes after a crash)" } else { "" };
    writeln!(out, "live         {:>12}{unsure}", bytes(it.live_bytes))?;
    writeln!(
        out,
        "queued       {:>12}{}",
        bytes(it.queued_bytes),
        if it.destroying { "  being destroyed" } else { "" }
    )?;
    writeln!(
        out,
        "suspicious   {:>12}  and to be scoured {}",
        bytes(it.suspicious_bytes),
        bytes(it.scour_bytes)
    )?;
    let counters = &it.counters;
    writeln!(
        out,
        "destroyed    {:>12}  in {} receipts, policy {}",
        bytes(counters.destroyed_bytes),
        counters.receipts,
        it.policy
    )?;
    if let Some(before) = before {
        let then = &before.status.counters;
        let rate = |now: u64, then: u64| bytes(now.saturating_sub(then));
        writeln!(
            out,
            "rates        {:>12}/s destroyed, {}/s written in passes",
            rate(counters.destroyed_bytes, then.destroyed_bytes),
            rate(counters.passed_bytes, then.passed_bytes)
        )?;
    }
    writeln!(out, "deaths by source")?;
    for cause in Cause::ALL {
        let (count, dead) = (counters.deaths[cause as usize], counters.dead_bytes[cause as usize]);
        if count > 0 {
            let name = serde_json::to_value(cause).ok().and_then(|it| it.as_str().map(String::from));
            writeln!(out, "  {:<12} {:>10}  in {count} deaths", name.unwrap_or_default(), bytes(dead))?;
        }
    }
    writeln!(
        out,
        "  freed again  {:>10}, freed though never written {}",
        bytes(counters.freed_again_bytes),
        bytes(counters.freed_unwritten_bytes)
    )?;
    if let Some(watch) = &it.watch {
        watch_text(out, watch, counters)?;
    }
    if let (Some(space), Some(overlay)) = (&now.space, &it.overlay) {
        space_text(out, space, overlay)?;
    }
    if let Some(trouble) = &now.record.trouble {
        writeln!(out, "AUDIT LOG    {} receipts wait: {trouble}", now.record.receipts_waiting)?;
    }
    if let Some(reason) = &it.latched {
        writeln!(out, "READ-ONLY    {reason}")?;
    }
    guarantees_text(out, &now.guarantees)
}

/// A line for what happened at one instant.
fn batch_text(out: &mut String, event: &str, entry: &Value) -> std::fmt::Result {
    let Ok(batch) = Batch::<Value>::deserialize(entry) else { return write!(out, "{entry}") };
    let all: Vec<_> = batch.all().collect();
    for it in all.chunk_by(|one, next| (one.time_ms, one.kind) == (next.time_ms, next.kind)) {
        let text = |name: &str| it[0].kind[name].as_str().unwrap_or("?").to_string();
        let (when, len) = (time(it[0].time_ms), bytes(it.iter().map(|it| it.len).sum()));
        let what = if event == "receipt" { text("act") } else { event.to_string() };
        write!(out, "{when} {what:<8} {:>14} {len:>12}  {}", it[0].start, text("cause"))?;
        if let Some(passes) = it[0].kind["passes"].as_u64() {
            write!(out, ", {passes} passes")?;
        }
        writeln!(out, "{}", if it.len() > 1 { format!(", in {} places", it.len()) } else { String::new() })?;
    }
    Ok(())
}

/// How large an overlay is, and was.
fn space_text(out: &mut String, space: &Space, overlay: &OverlayStatus) -> std::fmt::Result {
    let mode = serde_json::to_value(overlay.mode).ok().and_then(|it| it.as_str().map(String::from));
    writeln!(out, "overlay      {}, above {}", mode.unwrap_or_default(), space.base)?;
    let line = |out: &mut String, when: &str, it: &Size| {
        let more = it.host_bytes.abs_diff(it.live_bytes);
        let word = if it.host_bytes < it.live_bytes { "less" } else { "more" };
        let (host, live, more) = (bytes(it.host_bytes), bytes(it.live_bytes), bytes(more));
        writeln!(out, "  {when:<12} {host:>10}  on the host, for {live} of live data: {more} {word}")
    };
    line(out, "now", &space.now)?;
    for (when, ms) in [("an hour ago", 3_600_000), ("a day ago", 86_400_000), ("a week ago", 604_800_000)] {
        let then = space.now.time_ms.saturating_sub(ms);
        if let Some(size) = space.before.iter().rfind(|it| it.time_ms <= then) {
            line(out, when, size)?;
        }
    }
    let (free, residue) = (bytes(overlay.free_bytes), bytes(overlay.residue_bytes));
    writeln!(out, "  {:<12} {free:>10}, and {residue} still to be destroyed", "free")?;
    let (purged, shown) = (bytes(overlay.purged_bytes), bytes(overlay.base_bytes));
    writeln!(out, "  {:<12} {shown:>10}  show through, {purged} are purged", "of the base")
}

/// What is known of the file systems, and inferred from them.
fn watch_text(out: &mut String, watch: &WatchStatus, counters: &Counters) -> std::fmt::Result {
    if watch.parts.is_empty() {
        file_system_text(out, "file system ", watch)?;
    } else {
        writeln!(out, "partitions   {}", watch.state)?;
    }
    for part in &watch.parts {
        file_system_text(out, &format!("partition {:<2}", part.number), &part.watch)?;
        let end = part.start_bytes.saturating_add(part.len_bytes);
        writeln!(out, "  {} from byte {} to {end}", bytes(part.len_bytes), part.start_bytes)?;
    }
    let found = bytes(counters.dead_bytes[Cause::Map as usize]);
    writeln!(out, "  discards alone would have missed {found}")
}

/// What is known of one file system, after its `title`.
fn file_system_text(out: &mut String, title: &str, watch: &WatchStatus) -> std::fmt::Result {
    let name = watch.file_system.as_deref().unwrap_or("none");
    write!(out, "{title} {name}: {}", watch.state)?;
    if let Some((done, of)) = watch.progress {
        write!(out, ", {} of {}", bytes(done), bytes(of))?;
    }
    writeln!(out)?;
    for (title, list) in [("it has", &watch.properties), ("known are", &watch.inferred)] {
        let list: Vec<_> =
            list.iter().map(|(name, is)| format!("{}{name}", if *is { "+" } else { "-" })).collect();
        if !list.is_empty() {
            writeln!(out, "  {title:<10} {}", list.join(", "))?;
        }
    }
    for (name, figure) in &watch.figures {
        writeln!(out, "  {figure:>12} {name}")?;
    }
    Ok(())
}

fn proof_text(out: &mut String, receipt: &Receipt, checked: bool) -> std::fmt::Result {
    let proof = &receipt.proof;
    writeln!(out, "disk         {} ({})", proof.name, proof.disk)?;
    for (liveness, amount) in &proof.bytes {
        writeln!(out, "{liveness:<12} {:>12}", bytes(*amount))?;
    }
    writeln!(
        out,
        "dead bytes read from the medium {}, without space there {}",
        bytes(proof.read_bytes),
        bytes(proof.hole_bytes)
    )?;
    for (start, len) in proof.violations.iter().take(10) {
        writeln!(out, "DEAD CONTENT at {start}, {len} bytes")?;
    }
    let signed = if checked { "the signature fits" } else { "signed" };
    match (proof.is_clean(), proof.violations.is_empty()) {
        (true, _) => writeln!(out, "no dead byte holds anything; {signed} by {}", receipt.public_key)?,
        (_, true) => writeln!(out, "not all that is dead is destroyed yet: quietus shred --now")?,
        _ => writeln!(out, "{} places hold dead content", proof.violations.len())?,
    }
    match DiskGuarantees::deserialize(&proof.guarantees) {
        Ok(guarantees) => guarantees_text(out, &guarantees),
        Err(_) => writeln!(out, "guarantee    in the words of another version: {}", proof.guarantees),
    }
}

/// What the host can and cannot guarantee, and why.
fn guarantees_text(out: &mut String, guarantees: &DiskGuarantees) -> std::fmt::Result {
    writeln!(out, "guarantee    {}", guarantees.to_string().replace('\n', "\n  "))
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
