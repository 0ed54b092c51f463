//! Reports about vaults.

mod signed;

use super::{Checked, Report, bytes};
use crate::base::rfc3339;
use crate::cli::output::vault::{
    EntryState, VaultCompared, VaultCreated, VaultDifference, VaultEntry, VaultFound, VaultHeld, VaultPut,
    VaultReleased, VaultSanitization, VaultSearched, VaultSnapshots, VaultStats, VaultStatus, VaultVerified,
};
use crate::host::guarantees::{DiskGuarantees, Level};
use crate::vault::{
    Change, Control, Difference, Forgotten, Line, LostHold, OwedLine, Put, RepairedVault, Restored,
    SanitizeReceipt, VaultReceipt, VaultToml, Version,
};
use quietus_vault::tree::{Kind, Node};
use quietus_vault::vault::Contents;
use std::fmt::Write;
use std::path::Path;

/// Lines of a kind that a report for people has.
const LINES_MAX: usize = 10;

/// The cause of dead content, in words.
fn in_words(owed: OwedLine) -> String {
    match owed {
        OwedLine::Snapshot(snapshot) => format!("snapshot {snapshot}"),
        OwedLine::PathsOfSnapshot(snapshot) => format!("paths of snapshot {snapshot}"),
        OwedLine::Put(put) => format!("put {put}, which ended without a snapshot or left files out"),
    }
}

/// A name or path for people: no control character reaches the terminal.
fn safe(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path);
    if text.chars().any(char::is_control) { format!("{text:?}") } else { text.into_owned() }
}

/// The letter of an entry's kind, as `ls` has it.
fn letter(node: &Node) -> char {
    match &node.kind {
        Kind::File(_) => '-',
        Kind::Folder(_) => 'd',
        Kind::Link(_) => 'l',
        Kind::BlockDevice(..) => 'b',
        Kind::CharacterDevice(..) => 'c',
        Kind::Pipe => 'p',
        Kind::Socket => 's',
    }
}

/// The path of an entry for people; that of a folder ends with a slash.
fn shown(path: &[u8], node: &Node) -> String {
    let path = safe(path);
    if let Kind::Folder(_) = node.kind { format!("{path}/") } else { path }
}

/// When an entry was changed last, for people: without micro- and nanoseconds.
fn modified(ns: i64) -> String {
    let text = rfc3339::text_ns(ns);
    format!("{}Z", &text[.."2026-11-20T10:00:00.000".len()])
}

/// Numbers of snapshots that follow one another, in short.
fn ranges(snapshots: &[u64]) -> String {
    let follows = |one: &u64, other: &u64| *other == one + 1;
    let in_short = |run: &[u64]| match run {
        [one] => one.to_string(),
        [one, .., last] => format!("{one}-{last}"),
        [] => String::new(),
    };
    snapshots.chunk_by(follows).map(in_short).collect::<Vec<_>>().join(", ")
}

/// The snapshots of a hold, and its name.
fn of_hold(snapshots: &[u64], name: &str) -> String {
    let all: Vec<String> = snapshots.iter().map(u64::to_string).collect();
    format!("snapshots {} ({})", all.join(", "), safe(name.as_bytes()))
}

/// Lines of a kind, and how many more of the `count` there are.
fn all_of(out: &mut String, what: &str, all: &[String], count: u64) -> std::fmt::Result {
    all.iter().try_for_each(|line| writeln!(out, "{what}: {}", safe(line.as_bytes())))?;
    let more = count.saturating_sub(all.len() as u64);
    if more > 0 { writeln!(out, "… and {more} more") } else { Ok(()) }
}

impl Report {
    pub(crate) fn vault_made(&self, path: &Path, toml: &VaultToml, guarantees: &DiskGuarantees) {
        let report =
            VaultCreated { created: path.into(), vault: toml.clone(), guarantees: guarantees.clone() };
        self.say(&report, |out| {
            writeln!(out, "created {} (policy {})", path.display(), toml.policy)?;
            match guarantees.level {
                Level::Clear => Ok(()),
                level => {
                    writeln!(out, "note: {level}; `quietus vault status {}` says why", path.display())
                }
            }
        });
    }

    /// `unmatched_excludes` are the patterns of `--exclude` that nothing matched.
    pub(crate) fn put(&self, put: Put, unmatched_excludes: Vec<String>) {
        let report = VaultPut { put, unmatched_excludes };
        let (put, unmatched) = (&report.put, &report.unmatched_excludes);
        self.say(&report, |out| {
            let (all, new) = (bytes(put.bytes), bytes(put.new_bytes));
            let (name, unchanged) = (safe(put.label.name.as_bytes()), put.unchanged);
            writeln!(
                out,
                "snapshot {} ({name}): {} files ({unchanged} unchanged), {all}; {} new chunks, {new} stored",
                put.snapshot, put.files, put.new_chunks
            )?;
            all_of(out, "LEFT OUT", &put.left_out, put.left_out_count)?;
            all_of(out, "changed while it was read", &put.changed, put.changed_count)?;
            unmatched.iter().try_for_each(|it| writeln!(out, "note: --exclude {it:?} matched nothing"))
        });
    }

    pub(crate) fn restored_snapshot(&self, restored: &Restored) {
        self.say(restored, |out| {
            let (all, into) = (bytes(restored.bytes), &restored.into);
            let snapshot = restored.snapshot;
            writeln!(out, "restored snapshot {snapshot} into {into}: {} files, {all}", restored.files)?;
            if restored.there_already > 0 {
                writeln!(out, "{} of the files were there already", restored.there_already)?;
            }
            if restored.needs_root > 0 {
                let count = restored.needs_root;
                writeln!(
                    out,
                    "{count} entries belong to you now: only root restores owners and security attributes"
                )?;
            }
            all_of(out, "NOT RESTORED, OR ONLY IN PART", &restored.refused.named, restored.refused.count)
        });
    }

    pub(crate) fn snapshots(&self, lines: Vec<Line>) {
        let report = VaultSnapshots { snapshots: lines };
        self.say(&report, |out| {
            let lines = &report.snapshots;
            if lines.is_empty() {
                return writeln!(out, "no snapshots");
            }
            for line in lines {
                let (when, size) = (rfc3339::text(line.created_ms), bytes(line.bytes));
                let (name, host) = (safe(line.label.name.as_bytes()), safe(line.label.host.as_bytes()));
                let number = line.snapshot;
                write!(out, "{number:>6}  {when}  {:>9} files  {size:>12}  {host:<12}  {name}", line.files)?;
                if let Some(fault) = &line.fault {
                    writeln!(out, "  DAMAGED: {fault}")?;
                    continue;
                }
                let tags = &line.label.tags;
                if !tags.is_empty() {
                    write!(out, "  [{}]", safe(tags.join(", ").as_bytes()))?;
                }
                if !line.holds.is_empty() {
                    write!(out, "  (held: {})", safe(line.holds.join(", ").as_bytes()))?;
                }
                writeln!(out)?;
            }
            Ok(())
        });
    }

    pub(crate) fn snapshot_entry(&self, path: &[u8], node: &Node) {
        let target = if let Kind::Link(target) = &node.kind { Some(target.as_slice()) } else { None };
        let about = &node.metadata;
        let entry = VaultEntry {
            path: path.into(),
            state: node.into(),
            target: target.map(Into::into),
            mode: about.mode,
            user: about.user,
            group: about.group,
            hard_link: about.hard_link,
            attributes: about.attributes.len(),
        };
        self.say(&entry, |out| {
            let EntryState { bytes: size, modified_ns, .. } = entry.state;
            let (when, letter) = (modified(modified_ns), letter(node));
            write!(
                out,
                "{letter} {:04o} {:>5}:{:<5} {:>12} {when} ",
                entry.mode,
                entry.user,
                entry.group,
                bytes(size)
            )?;
            let target = target.map_or(String::new(), |it| format!(" -> {}", safe(it)));
            write!(out, "{}{target}", shown(path, node))
        });
    }

    pub(crate) fn found_version(&self, path: &[u8], version: &Version) {
        let (node, snapshots) = (&version.node, version.snapshots.iter().map(|it| it.0).collect());
        let found = VaultFound { path: path.into(), state: node.into(), snapshots };
        self.say(&found, |out| {
            let EntryState { bytes: size, modified_ns, .. } = found.state;
            let (letter, size, when) = (letter(node), bytes(size), modified(modified_ns));
            write!(out, "{letter} {size:>12} {when} {}  (in {})", shown(path, node), ranges(&found.snapshots))
        });
    }

    pub(crate) fn searched(&self, it: &VaultSearched) {
        self.say(it, |out| {
            writeln!(out, "found {} in {} snapshots", it.found, it.searched)?;
            all_of(out, "NOT SEARCHED", &it.unread, it.unread.len() as u64)
        });
    }

    pub(crate) fn difference(&self, it: &Difference<'_>) {
        self.say(&VaultDifference::from(it), |out| {
            let path = it.after.or(it.before).map_or_else(|| safe(it.path), |node| shown(it.path, node));
            match it.change {
                Change::Added => write!(out, "+ {path}"),
                Change::Removed => write!(out, "- {path}"),
                Change::Changed => write!(out, "M {path}  ({})", it.what.join(", ")),
            }
        });
    }

    pub(crate) fn compared(&self, it: &VaultCompared) {
        self.say(it, |out| {
            let VaultCompared { before, after, added, removed, changed, unread } = it;
            writeln!(
                out,
                "{added} added, {removed} removed, {changed} changed from snapshot {before} to {after}"
            )?;
            all_of(out, "NOT COMPARED", unread, unread.len() as u64)
        });
    }

    pub(crate) fn forgotten_snapshots(&self, vault: &Path, forgotten: &Forgotten) {
        self.say(forgotten, |out| {
            let count = forgotten.snapshots.len();
            let would = if forgotten.is_dry_run { "would be " } else { "" };
            match (forgotten.chunks, forgotten.stored_bytes) {
                (Some(chunks), Some(stored)) => {
                    let stored = bytes(stored);
                    writeln!(
                        out,
                        "{count} snapshots {would}forgotten; only they have {chunks} chunks, {stored}"
                    )?;
                }
                _ if count == 0 => writeln!(out, "nothing {would}forgotten: no snapshot has such a path")?,
                _ => {
                    let (files, all) = (forgotten.files, bytes(forgotten.bytes));
                    writeln!(out, "{files} files ({all}) {would}forgotten in {count} snapshots")?;
                }
            }
            for line in &forgotten.snapshots {
                writeln!(
                    out,
                    "{:>6}  {}  {}",
                    line.snapshot,
                    rfc3339::text(line.created_ms),
                    safe(line.label.name.as_bytes())
                )?;
            }
            for pattern in &forgotten.unmatched_paths {
                writeln!(out, "NOTHING MATCHED --path {pattern:?}")?;
            }
            if forgotten.is_dry_run || forgotten.forgets.is_empty() {
                return Ok(());
            }
            writeln!(out, "run `quietus vault sanitize {}` to destroy it", vault.display())
        });
    }

    pub(crate) fn held_snapshots(&self, it: &VaultHeld) {
        self.say(it, |out| write!(out, "held: {}", of_hold(&it.snapshots, &it.held)));
    }

    pub(crate) fn released_snapshots(&self, it: &VaultReleased) {
        self.say(it, |out| write!(out, "released: {}", of_hold(&it.snapshots, &it.released)));
    }

    pub(crate) fn sanitized(&self, receipt: &SanitizeReceipt, checked: Checked) {
        self.say_signed(receipt, |out| signed::sanitization(out, receipt, checked));
    }

    pub(crate) fn sanitization_controlled(&self, control: Control) {
        let done = match control {
            Control::Pause => "paused",
            Control::Resume => "resumed",
            Control::Cancel => "cancelled",
        };
        self.say(&VaultSanitization { sanitization: control }, |out| write!(out, "sanitization {done}"));
    }

    pub(crate) fn vault_status(&self, status: &VaultStatus) {
        self.say(status, |out| {
            let vault = &status.vault;
            if status.owed.is_empty() && status.condemned_bytes == 0 {
                writeln!(out, "nothing is left to destroy")?;
            } else {
                let condemned = bytes(status.condemned_bytes);
                let owed = status.owed.len();
                writeln!(
                    out,
                    "{owed} forgets are not destroyed yet, and {condemned} of containers; run `quietus vault sanitize {vault}`"
                )?;
            }
            for owed in status.owed.iter().take(LINES_MAX) {
                writeln!(out, "to be destroyed: {}", in_words(owed.of))?;
            }
            let (used, size) = (bytes(status.used_bytes), bytes(status.size_bytes));
            writeln!(out, "{} snapshots, {} chunks; {used} of {size} used", status.snapshots, status.chunks)?;
            writeln!(out, "policy {}; {}", status.toml.policy, status.guarantees.level)?;
            status.guarantees.doubts().iter().try_for_each(|doubt| writeln!(out, "- {doubt}"))
        });
    }

    /// `all_bytes`: the bytes of all files in all snapshots.
    pub(crate) fn vault_stats(&self, stats: &VaultStats) {
        self.say(stats, |out| {
            let VaultStats { all_bytes, contents: Contents { containers, data, metadata, dead } } = *stats;
            let ratio = |one: u64, other: u64| one as f64 / other.max(1) as f64;
            let (all, unique, stored) = (bytes(all_bytes), bytes(data.raw_bytes), bytes(data.stored_bytes));
            writeln!(out, "files of all snapshots {all:>14}")?;
            let times = ratio(all_bytes, data.raw_bytes);
            writeln!(
                out,
                "deduplicated           {unique:>14}  {times:.2} times less, in {} chunks",
                data.chunks
            )?;
            let times = ratio(data.raw_bytes, data.stored_bytes);
            writeln!(out, "compressed             {stored:>14}  {times:.2} times less")?;
            let (names, count) = (bytes(metadata.stored_bytes), metadata.chunks);
            writeln!(out, "folders and recipes    {names:>14}  in {count} chunks")?;
            let (gone, count) = (bytes(dead.stored_bytes), dead.chunks);
            writeln!(out, "dead                   {gone:>14}  in {count} chunks, to be destroyed")?;
            write!(
                out,
                "containers             {:>14}  and {} of metadata",
                containers.data, containers.metadata
            )
        });
    }

    pub(crate) fn vault_verified(&self, it: &VaultVerified) {
        self.say(it, |out| {
            let VaultVerified { faults, faults_count, damaged, .. } = it;
            match faults_count {
                0 => writeln!(out, "every chunk is intact")?,
                count => writeln!(out, "{count} FAULTS")?,
            }
            all_of(out, "BAD", &faults[..faults.len().min(LINES_MAX)], *faults_count)?;
            let lines =
                damaged.damaged.iter().map(|it| format!("{} (in {})", it.path, ranges(&it.snapshots)));
            all_of(out, "DAMAGED", &lines.collect::<Vec<_>>(), damaged.damaged_count)?;
            all_of(out, "NOT READ", &damaged.unread, damaged.unread_count)?;
            if damaged.damaged_count > 0 || damaged.unread_count > 0 {
                writeln!(out, "put these files again, which makes the snapshots whole, or forget them")?;
            }
            if let Some(fault) = &it.audit_log {
                writeln!(out, "BAD: audit log: {fault}")?;
            }
            let VaultVerified { chunks, containers, reached, .. } = it;
            write!(out, "read {chunks} chunks in {containers} containers; snapshots reach {reached}")
        });
    }

    pub(crate) fn vault_repaired(&self, path: &Path, it: &RepairedVault) {
        self.say(it, |out| {
            let path = path.display();
            let count = it.known.len() + it.found.len();
            writeln!(out, "the catalog was rebuilt: {count} snapshots, {} containers", it.containers)?;
            it.mended.iter().try_for_each(|file| writeln!(out, "one changed bit was corrected in the file {file}"))?;
            if it.damaged > 0 {
                writeln!(out, "{} containers are DAMAGED; `quietus vault verify {path}` says what is lost", it.damaged)?;
            }
            if !it.back.is_empty() {
                let back = ranges(&it.back);
                writeln!(out, "FORGOTTEN, and back: snapshots {back}; run `quietus vault forget` for them again")?;
            }
            if !it.found.is_empty() {
                let found = ranges(&it.found);
                writeln!(
                    out,
                    "FOUND in the pool, and not in the old catalog: snapshots {found} (new numbers, the oldest first). Any of them may have \
                     been forgotten: see `quietus vault list {path}`, and forget those again"
                )?;
            }
            if !it.unmet.is_empty() {
                let unmet = ranges(&it.unmet);
                writeln!(out, "the audit log has forgets without a receipt, of the snapshots that had the numbers {unmet}")?;
            }
            for LostHold { name, snapshots } in &it.lost_holds {
                let (name, snapshots) = (safe(name.as_bytes()), ranges(snapshots));
                writeln!(out, "LOST: the hold {name} of the snapshots that had the numbers {snapshots}")?;
            }
            if it.is_old_kept { write!(out, "the old catalog is kept as catalog.old") } else { Ok(()) }
        });
    }

    pub(crate) fn vault_proof(&self, receipt: &VaultReceipt, checked: Checked) {
        self.say_signed(receipt, |out| signed::proof(out, receipt, checked));
    }
}
