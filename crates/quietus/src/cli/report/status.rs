//! The status of a disk, for people: a summary that answers what they ask, and details.

use super::verdict::headline;
use super::waiting::{line, waiting};
use super::{bytes, scope_text};
use crate::disk::Size;
use crate::disk::epochs::HoldOf;
use crate::epochs::{At, Listed};
use crate::front::control::{EpochsKept, Space, StatusAnswer, Verdict};
use crate::host::attached::Finding;
use crate::host::guarantees::{DiskGuarantees, Part};
use quietus_core::owed::ledger::{Cause, Counters};
use quietus_core::store::overlay::{Mode, OverlayStatus};
use quietus_core::store::versions::VersionsStatus;
use quietus_core::watch::WatchStatus;
use std::fmt::{self, Write};

/// Doubts about the medium that the summary names.
pub(super) const DOUBTS_MAX: usize = 2;
/// Holds that the summary names.
const HOLDS_MAX: usize = 3;

/// Whether everything that was deleted is gone, what waits for what, how the disk is, and
/// what its medium can promise.
pub(super) fn summary(out: &mut String, now: &StatusAnswer, doubts_max: usize) -> fmt::Result {
    let it = &now.status;
    line(out, "deleted", &answer(now))?;
    waiting(out, now)?;
    let full = it.live_bytes * 100 / it.size_bytes.max(1);
    let (size, live) = (bytes(it.size_bytes), bytes(it.live_bytes));
    line(out, "disk", &format!("{}: {size}, {live} live ({full} %), {}", now.name, access(now)))?;
    line(out, "health", &health(now))?;
    line(out, "detection", &detection(now))?;
    if let Some(sensitivity) = &now.sensitive {
        line(out, "sensitive", &super::sensitive::summary(sensitivity))?;
    }
    if let Some(attached) = &now.attached {
        line(out, "attached", &attached_line(attached))?;
    }
    if let (Some(space), Some(overlay)) = (&now.space, it.store.overlay()) {
        line(out, "overlay", &overlay_line(space, overlay))?;
    }
    if let (Some(epochs), Some(store)) = (&now.epochs, it.store.versions()) {
        versions(out, now, epochs, store)?;
    }
    if let Some(store) = it.store.sealed() {
        super::sealed::summary(out, now, store)?;
    }
    line(out, "medium", &medium(now))?;
    let doubts = now.guarantees.doubts();
    for doubt in doubts.iter().take(doubts_max) {
        line(out, "", &format!("- {doubt}"))?;
    }
    match doubts.len().saturating_sub(doubts_max) {
        0 => Ok(()),
        _ if doubts_max == 0 => Ok(()),
        more => line(out, "", &format!("- {more} more: `quietus status --verbose`")),
    }?;
    now.guarantees.advice().map_or(Ok(()), |advice| line(out, "", &format!("- {advice}")))
}

/// How far overwriting reaches where content dies.
fn medium(now: &StatusAnswer) -> String {
    let root = now.guarantees.parts.get(&Part::Root).filter(|_| now.guarantees.dies_with_keys());
    match root {
        Some(root) => {
            let path = root.found.facts.path.display();
            let beside = match now.guarantees.root_lies_beside_content() {
                true => ", on the device of the content",
                false => "",
            };
            format!("root, {path}{beside}: {}; all else may lie anywhere", now.guarantees.level)
        }
        None => format!("{}: {}", now.medium, now.guarantees.level),
    }
}

/// Whether everything that was deleted is gone.
fn answer(now: &StatusAnswer) -> String {
    let it = &now.status;
    let plain = it.counters.plain_bytes;
    let plain = if plain > 0 { format!(", {} plain and only freed", bytes(plain)) } else { String::new() };
    let so_far = format!("{} so far, policy {}{plain}", bytes(it.counters.destroyed_bytes), it.policy);
    let headline = headline(&now.verdict);
    match &now.verdict {
        Verdict::Gone | Verdict::Limited { .. } => {
            format!("{headline} (as far as deletions are known: {so_far})")
        }
        Verdict::Stuck { .. } | Verdict::Found { .. } => headline,
        Verdict::Waits { .. } | Verdict::Unknown { .. } => format!("{headline}; {so_far}"),
    }
}

fn access(now: &StatusAnswer) -> &'static str {
    match (now.served, now.read_only) {
        (true, false) => "served",
        (true, true) => "served read-only",
        (false, _) => "not served",
    }
}

fn health(now: &StatusAnswer) -> String {
    let record = &now.record;
    if let Some(why) = now.status.store.trouble().filter(|_| now.status.latched.is_none()) {
        return format!("DAMAGED: {why}");
    }
    let pauses = &now.status.owed.pauses;
    match (&now.status.latched, &record.trouble) {
        (Some(reason), _) => format!("READ-ONLY, nothing is destroyed any more: {reason}"),
        (None, Some(trouble)) => {
            let pauses = if pauses.is_some() { "destruction pauses, as " } else { "" };
            let waiting = record.receipts_waiting;
            format!("{pauses}the audit log cannot be written, {waiting} receipts wait: {trouble}")
        }
        (None, None) if now.status.holes_unknown => {
            "good; scanning for the holes of the medium after a crash".into()
        }
        (None, None) => pauses.as_ref().map_or_else(
            || "good".into(),
            |why| format!("destruction pauses, and is tried again by itself: {why}"),
        ),
    }
}

/// The sources from which deletions are known.
fn detection(now: &StatusAnswer) -> String {
    let Some(watch) = &now.status.watch else {
        let why = if now.served {
            "off: deletions are known from discards only"
        } else {
            "none: only a served disk is watched"
        };
        return why.into();
    };
    let one = |watch: &WatchStatus| match (&watch.file_system, watch.progress) {
        (Some(name), Some((done, of))) => {
            format!("{name}: {}, {} of {}", watch.state, bytes(done), bytes(of))
        }
        (Some(name), None) => format!("{name}: {}", watch.state),
        (None, _) => format!("{}; deletions are known from discards", watch.state),
    };
    if watch.parts.is_empty() {
        return one(watch);
    }
    let parts = watch.parts.iter().map(|part| format!("partition {} {}", part.number, one(&part.watch)));
    parts.collect::<Vec<_>>().join("; ")
}

/// Whether deaths wait because a cache may be between, and why.
fn attached_line(attached: &Finding) -> String {
    if attached.cached {
        format!("cached, deaths wait longer: {}", attached.why)
    } else {
        format!("direct: {}", attached.why)
    }
}

fn overlay_line(space: &Space, overlay: &OverlayStatus) -> String {
    let (host, live) = (bytes(space.now.host_bytes), bytes(space.now.live_bytes));
    format!("{}, above {}: {host} on the host, for {live} of live data", mode(overlay), space.base)
}

/// Which epochs are kept, what is being forgotten, what is held, and what the rules of retention do.
fn versions(
    out: &mut String,
    now: &StatusAnswer,
    epochs: &EpochsKept,
    store: &VersionsStatus,
) -> fmt::Result {
    let said = |it: &Option<Listed>| match it {
        Some(Listed { epoch, closed_ms, .. }) => format!("{epoch} ({})", At::Time(*closed_ms)),
        None => "none".into(),
    };
    let kept = match store.epochs {
        0 => "no epoch is kept".to_string(),
        1 => format!("epoch {} is kept", said(&epochs.first)),
        count => format!("{count} epochs are kept, {} to {}", said(&epochs.first), said(&epochs.last)),
    };
    let (stored, retired) = (bytes(store.stored_bytes), bytes(store.retired_bytes));
    line(out, "versions", &format!("{kept}; {stored} stored, {retired} of it only they show"))?;
    if !now.status.owed.forgets.is_empty() || store.owed_bytes > 0 {
        let all = now.status.owed.forgets.iter().map(scope_text);
        let forgets = all.collect::<Vec<_>>().join(", ");
        let forgets = if forgets.is_empty() { forgets } else { format!("{forgets}: ") };
        line(out, "forgetting", &format!("{forgets}{} to destroy", bytes(store.owed_bytes)))?;
    }
    if let Some(why) = &store.stopped {
        let stopped = format!(
            "STOPPED until the next start: {why}; stop the server and run `quietus verify`, which names what is lost, and \
             `quietus repair`"
        );
        line(out, "destroying", &stopped)?;
    }
    for (name, hold) in epochs.holds.iter().take(HOLDS_MAX) {
        let HoldOf { from, to, who, why, .. } = hold;
        line(out, "held", &format!("epochs {from} to {to}, {name}, by {who}: {why}"))?;
    }
    if let Some(more) = epochs.holds.len().checked_sub(HOLDS_MAX).filter(|more| *more > 0) {
        line(out, "", &format!("{more} holds more: `quietus versions` lists them"))?;
    }
    let rules = match (&epochs.stopped, epochs.retention.as_str()) {
        (_, "") => "every epoch is kept until it is forgotten on command".into(),
        (Some(why), rules) => format!("{rules}: STOPPED, nothing expires: {why}"),
        (None, rules) => format!("{rules}; named and held epochs stay"),
    };
    line(out, "retention", &rules)
}

fn mode(overlay: &OverlayStatus) -> &'static str {
    match overlay.mode {
        Mode::Packed => "packed",
        Mode::Lazy => "lazy",
        Mode::Punch => "punch",
    }
}

/// Prints what the host can and cannot guarantee, and why.
pub(super) fn guarantees(out: &mut String, guarantees: &DiskGuarantees) -> fmt::Result {
    writeln!(out, "guarantee    {}", guarantees.to_string().replace('\n', "\n  "))
}

/// Prints all details, for readers who want the counters.
pub(super) fn details(out: &mut String, now: &StatusAnswer, before: Option<&StatusAnswer>) -> fmt::Result {
    let it = &now.status;
    writeln!(out)?;
    writeln!(out, "disk         {} ({})", now.name, now.disk)?;
    let unsure = if it.holes_unknown { "  (still looking for holes after a crash)" } else { "" };
    writeln!(out, "live         {:>12}{unsure}", bytes(it.live_bytes))?;
    writeln!(
        out,
        "queued       {:>12}{}",
        bytes(it.owed.queued_bytes),
        if it.owed.destroying { "  being destroyed" } else { "" }
    )?;
    writeln!(
        out,
        "suspicious   {:>12}  and {} to be overwritten below present content",
        bytes(it.owed.suspicious_bytes),
        bytes(it.owed.conservative_bytes)
    )?;
    if it.owed.remains_bytes > 0 {
        writeln!(
            out,
            "remains      {:>12}  of these, which the medium would not erase",
            bytes(it.owed.remains_bytes)
        )?;
    }
    let counters = &it.counters;
    writeln!(
        out,
        "destroyed    {:>12}  in {} receipts, policy {}",
        bytes(counters.destroyed_bytes),
        counters.receipts,
        it.policy
    )?;
    if counters.plain_bytes > 0 {
        writeln!(out, "plain        {:>12}  freed, not destroyed", bytes(counters.plain_bytes))?;
    }
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
            writeln!(out, "  {:<12} {:>10}  in {count} deaths", cause.name(), bytes(dead))?;
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
    if let (Some(space), Some(overlay)) = (&now.space, it.store.overlay()) {
        space_text(out, space, overlay)?;
    }
    guarantees(out, &now.guarantees)
}

/// Prints the sizes of an overlay, now and before.
fn space_text(out: &mut String, space: &Space, overlay: &OverlayStatus) -> fmt::Result {
    writeln!(out, "overlay      {}, above {}", mode(overlay), space.base)?;
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

/// Prints the state of the file systems, and the deaths inferred from them.
fn watch_text(out: &mut String, watch: &WatchStatus, counters: &Counters) -> fmt::Result {
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

/// The deaths that can be inferred, and how precisely.
fn detects(inferred: &[(String, bool)]) -> Vec<String> {
    let holds = |name: String| inferred.iter().any(|(it, is)| *is && *it == name);
    let kinds = [("block", "freed blocks"), ("generation", "reused blocks")].into_iter();
    let precisely = kinds.filter_map(|(kind, deaths)| {
        if holds(format!("{kind} deaths, accurately")) {
            return Some(format!("{deaths} (exact)"));
        }
        holds(format!("{kind} deaths, approximately")).then(|| format!("{deaths} (approximate)"))
    });
    precisely.collect()
}

/// Prints the state of one file system, after its `title`.
fn file_system_text(out: &mut String, title: &str, watch: &WatchStatus) -> fmt::Result {
    let name = watch.file_system.as_deref().unwrap_or("none");
    write!(out, "{title} {name}: {}", watch.state)?;
    if let Some((done, of)) = watch.progress {
        write!(out, ", {} of {}", bytes(done), bytes(of))?;
    }
    writeln!(out)?;
    let properties: Vec<_> =
        watch.properties.iter().filter(|(_, has)| *has).map(|(name, _)| &**name).collect();
    if !properties.is_empty() {
        writeln!(out, "  properties: {}", properties.join(", "))?;
    }
    let detects = detects(&watch.inferred);
    if !detects.is_empty() {
        writeln!(out, "  can detect: {}", detects.join(", "))?;
    }
    if !watch.hidden.is_empty() {
        writeln!(out, "  cannot detect: {}", watch.hidden.join(", "))?;
    }
    for (name, figure) in &watch.figures {
        writeln!(out, "  {figure:>12} {name}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
