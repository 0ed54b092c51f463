//! Reports about vaults.

use super::{Report, bytes, time};
use crate::audit_log::{CheckError, Checked};
use crate::host::{DiskGuarantees, Level};
use crate::vault::{
    Change, Control, Damaged, Difference, Fill, Forgotten, Line, OwedLine, Put, RepairedVault, Restored,
    SanitizeReceipt, VaultReceipt, VaultToml, Version,
};
use quietus_vault::SnapshotId;
use quietus_vault::tree::{Kind, Node};
use quietus_vault::vault::{Amount, Contents, Verified};
use serde::Serialize;
use serde_json::json;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Lines of a kind that a report for people has.
const LINES_MAX: usize = 10;

/// The state of a vault.
#[derive(Serialize)]
pub(crate) struct VaultStatus {
    vault: PathBuf,
    #[serde(flatten)]
    toml: VaultToml,
    snapshots: usize,
    /// Content still to be destroyed: the number of each forget, and its cause.
    owed: Vec<(u64, OwedLine)>,
    condemned_bytes: u64,
    used_bytes: u64,
    size_bytes: u64,
    container_bytes: u64,
    chunks: u64,
    guarantees: DiskGuarantees,
}

impl VaultStatus {
    pub(crate) fn new(
        vault: &Path,
        toml: VaultToml,
        Fill { layout, status, owed }: Fill,
        guarantees: DiskGuarantees,
    ) -> Self {
        let container_bytes = u64::from(layout.slot_bytes);
        Self {
            vault: vault.into(),
            toml,
            snapshots: status.snapshots,
            owed,
            condemned_bytes: status.condemned as u64 * container_bytes,
            used_bytes: (layout.slots as usize - status.free) as u64 * container_bytes,
            size_bytes: layout.pool_bytes(),
            container_bytes,
            chunks: status.chunks,
            guarantees,
        }
    }
}

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

/// The kind of an entry, and the bytes of its content.
fn kind_and_size(node: &Node) -> (&'static str, u64) {
    match &node.kind {
        Kind::File(recipe) => ("file", recipe.bytes()),
        Kind::Folder(_) => ("folder", 0),
        Kind::Link(_) => ("link", 0),
        Kind::BlockDevice(..) => ("block-device", 0),
        Kind::CharacterDevice(..) => ("character-device", 0),
        Kind::Pipe => ("pipe", 0),
        Kind::Socket => ("socket", 0),
    }
}

/// When an entry was changed last, for people.
fn modified(node: &Node) -> String {
    time(u64::try_from(node.metadata.modified_ns / 1_000_000).unwrap_or(0))
}

/// Numbers of snapshots that follow one another, in short.
fn ranges(snapshots: &[SnapshotId]) -> String {
    let follows = |one: &SnapshotId, other: &SnapshotId| other.0 == one.0 + 1;
    let in_short = |run: &[SnapshotId]| match run {
        [one] => one.0.to_string(),
        [one, .., last] => format!("{}-{}", one.0, last.0),
        [] => String::new(),
    };
    snapshots.chunk_by(follows).map(in_short).collect::<Vec<_>>().join(", ")
}

fn left(out: &mut String, what: &str, all: &[String], count: u64) -> std::fmt::Result {
    for line in all.iter().take(LINES_MAX) {
        writeln!(out, "{what}: {}", safe(line.as_bytes()))?;
    }
    let more = count.saturating_sub(LINES_MAX as u64);
    if more > 0 { writeln!(out, "… and {more} more") } else { Ok(()) }
}

/// All lines that were kept of `count`: nothing else tells of them.
fn all_of(out: &mut String, what: &str, all: &[String], count: u64) -> std::fmt::Result {
    all.iter().try_for_each(|line| writeln!(out, "{what}: {}", safe(line.as_bytes())))?;
    let more = count.saturating_sub(all.len() as u64);
    if more > 0 { writeln!(out, "… and {more} more") } else { Ok(()) }
}

impl Report {
    pub(crate) fn vault_made(&self, path: &Path, toml: &VaultToml, guarantees: &DiskGuarantees) {
        self.say_untyped(&json!({ "created": path, "vault": toml, "guarantees": guarantees }), |out| {
            writeln!(out, "created {} (policy {})", path.display(), toml.policy)?;
            match guarantees.level {
                Level::Clear => Ok(()),
                level => {
                    writeln!(out, "note: {level}; `quietus vault status {}` says why", path.display())
                }
            }
        });
    }

    /// `unmatched` are the patterns of `--exclude` that nothing matched.
    pub(crate) fn put(&self, put: &Put, unmatched: &[String]) {
        #[derive(Serialize)]
        struct Json<'p> {
            #[serde(flatten)]
            put: &'p Put,
            unmatched_excludes: &'p [String],
        }
        self.say_untyped(&Json { put, unmatched_excludes: unmatched }, |out| {
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
        self.say_untyped(restored, |out| {
            let (all, into) = (bytes(restored.bytes), restored.into.display());
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
            all_of(out, "NOT RESTORED, OR NOT WHOLLY", &restored.refused, restored.refused_count)
        });
    }

    pub(crate) fn snapshots(&self, lines: &[Line]) {
        self.say_untyped(&json!({ "snapshots": lines }), |out| {
            if lines.is_empty() {
                return writeln!(out, "no snapshots");
            }
            for line in lines {
                let (when, size) = (time(line.created_ms), bytes(line.bytes));
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
        let (kind, size) = kind_and_size(node);
        let target = if let Kind::Link(target) = &node.kind { Some(safe(target)) } else { None };
        let about = &node.metadata;
        let json = json!({
            "path": String::from_utf8_lossy(path), "kind": kind, "bytes": size, "target": target,
            "mode": about.mode, "user": about.user, "group": about.group, "modified_ns": about.modified_ns,
            "hard_link": about.hard_link, "attributes": about.attributes.len(),
        });
        self.say_untyped(&json, |out| {
            let (when, letter) = (modified(node), letter(node));
            write!(
                out,
                "{letter} {:04o} {:>5}:{:<5} {:>12} {when} ",
                about.mode,
                about.user,
                about.group,
                bytes(size)
            )?;
            write!(out, "{}{}", shown(path, node), target.map_or(String::new(), |it| format!(" -> {it}")))
        });
    }

    pub(crate) fn mounted(&self, at: &Path) {
        self.say_untyped(&json!({ "mounted": at }), |out| {
            let at = at.display();
            write!(out, "mounted at {at}; Ctrl-C unmounts it, or `fusermount3 -u {at}`")
        });
    }

    pub(crate) fn found_version(&self, path: &[u8], version: &Version) {
        let (node, (kind, size)) = (&version.node, kind_and_size(&version.node));
        let snapshots: Vec<u64> = version.snapshots.iter().map(|it| it.0).collect();
        let json = json!({
            "path": String::from_utf8_lossy(path), "kind": kind, "bytes": size,
            "modified_ns": node.metadata.modified_ns, "snapshots": snapshots,
        });
        self.say_untyped(&json, |out| {
            let (letter, size, when) = (letter(node), bytes(size), modified(node));
            write!(
                out,
                "{letter} {size:>12} {when} {}  (in {})",
                shown(path, node),
                ranges(&version.snapshots)
            )
        });
    }

    pub(crate) fn found_end(&self, count: u64, snapshots: usize, unread: &[String]) {
        let json = json!({ "found": count, "searched": snapshots, "unread": unread });
        self.say_untyped(&json, |out| {
            writeln!(out, "found {count} in {snapshots} snapshots")?;
            all_of(out, "NOT SEARCHED", unread, unread.len() as u64)
        });
    }

    pub(crate) fn difference(&self, it: &Difference<'_>) {
        let about = |node: Option<&Node>| {
            node.map(|node| {
                let (kind, size) = kind_and_size(node);
                json!({ "kind": kind, "bytes": size, "modified_ns": node.metadata.modified_ns })
            })
        };
        let json = json!({
            "change": it.change, "path": String::from_utf8_lossy(it.path), "what": it.what,
            "before": about(it.before), "after": about(it.after),
        });
        self.say_untyped(&json, |out| {
            let path = it.after.or(it.before).map_or_else(|| safe(it.path), |node| shown(it.path, node));
            match it.change {
                Change::Added => write!(out, "+ {path}"),
                Change::Removed => write!(out, "- {path}"),
                Change::Changed => write!(out, "M {path}  ({})", it.what.join(", ")),
            }
        });
    }

    /// `counts` are of what was added, removed, changed.
    pub(crate) fn differences_end(
        &self,
        one: SnapshotId,
        other: SnapshotId,
        [added, removed, changed]: [u64; 3],
        unread: &[String],
    ) {
        let json = json!({
            "snapshots": [one.0, other.0], "added": added, "removed": removed, "changed": changed, "unread": unread,
        });
        self.say_untyped(&json, |out| {
            writeln!(
                out,
                "{added} added, {removed} removed, {changed} changed from snapshot {} to {}",
                one.0, other.0
            )?;
            all_of(out, "NOT COMPARED", unread, unread.len() as u64)
        });
    }

    pub(crate) fn forgotten_snapshots(&self, vault: &Path, forgotten: &Forgotten) {
        self.say_untyped(forgotten, |out| {
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
                    time(line.created_ms),
                    safe(line.label.name.as_bytes())
                )?;
            }
            if forgotten.is_dry_run || forgotten.forgets.is_empty() {
                return Ok(());
            }
            writeln!(out, "run `quietus vault sanitize {}` to destroy it", vault.display())
        });
    }

    pub(crate) fn held_snapshots(&self, name: &str, snapshots: &[u64], is_held: bool) {
        let what = if is_held { "held" } else { "released" };
        self.say_untyped(&json!({ what: snapshots, "hold": name }), |out| {
            let all: Vec<String> = snapshots.iter().map(u64::to_string).collect();
            write!(out, "{what}: snapshots {} ({})", all.join(", "), safe(name.as_bytes()))
        });
    }

    pub(crate) fn sanitized(&self, receipt: &SanitizeReceipt, is_dry_run: bool) {
        self.say_untyped(receipt, |out| {
            let it = &receipt.statement;
            let (dead, copied) = (bytes(it.dead_bytes), bytes(it.copied_bytes));
            if is_dry_run {
                return write!(
                    out,
                    "would destroy {} dead chunks, {dead}: overwrite {} of {} containers, and copy {copied} of live chunks",
                    it.dead_chunks, it.destroyed_containers, it.judged
                );
            }
            match it.left {
                0 => writeln!(out, "nothing is left of {} forgets: {} dead chunks, {dead}", it.receipts.len(), it.dead_chunks)?,
                left => writeln!(
                    out,
                    "{left} damaged containers were left, and forgotten content may lie there, so that all of it stays owed; \
                     destroyed elsewhere: {} dead chunks, {dead}",
                    it.dead_chunks
                )?,
            }
            let passes = it.passes;
            writeln!(
                out,
                "overwrote {} of {} containers ({passes} passes), copied {copied} of live chunks",
                it.destroyed_containers, it.judged
            )?;
            for line in it.receipts.iter().take(LINES_MAX) {
                writeln!(out, "receipt for {}", in_words(line.of))?;
            }
            for owed in it.owed.iter().take(LINES_MAX) {
                writeln!(out, "still to be destroyed: {}", in_words(*owed))?;
            }
            for line in it.residue.iter().take(LINES_MAX) {
                writeln!(out, "not destroyed: {}: {}", line.at, line.why)?;
            }
            write!(out, "signed by the key {}", receipt.public_key)
        });
    }

    pub(crate) fn sanitization_controlled(&self, control: Control) {
        let done = match control {
            Control::Pause => "paused",
            Control::Resume => "resumed",
            Control::Cancel => "cancelled",
        };
        self.say_untyped(&serde_json::json!({ "sanitization": done }), |out| {
            write!(out, "sanitization {done}")
        });
    }

    pub(crate) fn vault_status(&self, status: &VaultStatus) {
        self.say_untyped(status, |out| {
            let vault = status.vault.display();
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
            for (_, owed) in status.owed.iter().take(LINES_MAX) {
                writeln!(out, "to be destroyed: {}", in_words(*owed))?;
            }
            let (used, size) = (bytes(status.used_bytes), bytes(status.size_bytes));
            writeln!(out, "{} snapshots, {} chunks; {used} of {size} used", status.snapshots, status.chunks)?;
            writeln!(out, "policy {}; {}", status.toml.policy, status.guarantees.level)?;
            status.guarantees.doubts().iter().try_for_each(|doubt| writeln!(out, "- {doubt}"))
        });
    }

    /// `all_bytes` are those of all files in all snapshots.
    pub(crate) fn vault_stats(&self, contents: &Contents, all_bytes: u64) {
        let amount = |it: &Amount| json!({ "chunks": it.chunks, "stored_bytes": it.stored_bytes, "raw_bytes": it.raw_bytes });
        let Contents { containers, data, metadata, dead } = contents;
        let json = json!({
            "all_bytes": all_bytes, "data": amount(data), "metadata": amount(metadata), "dead": amount(dead),
            "containers": { "data": containers.0, "metadata": containers.1 },
        });
        self.say_untyped(&json, |out| {
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
            write!(out, "containers             {:>14}  and {} of metadata", containers.0, containers.1)
        });
    }

    pub(crate) fn vault_verified(
        &self,
        verified: &Verified,
        damaged: &Damaged,
        log: &Result<Checked, CheckError>,
    ) {
        let faults: Vec<String> = verified.faults.iter().map(ToString::to_string).collect();
        let fault = log.as_ref().err().map(ToString::to_string);
        let json = json!({
            "ok": verified.faults_count == 0 && log.is_ok(), "containers": verified.containers,
            "chunks": verified.chunks, "entries": verified.entries, "reached": verified.reached,
            "faults": faults, "faults_count": verified.faults_count, "audit_log": fault,
            "damaged": damaged.damaged, "damaged_count": damaged.damaged_count, "unread": damaged.unread,
            "unread_count": damaged.unread_count,
        });
        self.say_untyped(&json, |out| {
            let Verified { containers, chunks, reached, .. } = verified;
            match verified.faults_count {
                0 => writeln!(out, "every chunk is as it was put")?,
                count => writeln!(out, "{count} FAULTS")?,
            }
            left(out, "BAD", &faults, verified.faults_count)?;
            let lines = damaged.damaged.iter().map(|it| {
                let snapshots: Vec<SnapshotId> = it.snapshots.iter().copied().map(SnapshotId).collect();
                format!("{} (in {})", it.path, ranges(&snapshots))
            });
            all_of(out, "DAMAGED", &lines.collect::<Vec<_>>(), damaged.damaged_count)?;
            all_of(out, "NOT READ", &damaged.unread, damaged.unread_count)?;
            if damaged.damaged_count > 0 || damaged.unread_count > 0 {
                writeln!(out, "put these files again, which makes the snapshots whole, or forget them")?;
            }
            if let Some(fault) = &fault {
                writeln!(out, "BAD: audit log: {fault}")?;
            }
            write!(out, "read {chunks} chunks in {containers} containers; snapshots reach {reached}")
        });
    }

    pub(crate) fn vault_repaired(&self, path: &Path, it: &RepairedVault) {
        self.say_untyped(it, |out| {
            let (path, all) = (path.display(), |them: &[u64]| {
                let them: Vec<SnapshotId> = them.iter().copied().map(SnapshotId).collect();
                ranges(&them)
            });
            let count = it.known.len() + it.found.len();
            writeln!(out, "the catalog is made anew: {count} snapshots, {} containers", it.containers)?;
            it.mended.iter().try_for_each(|file| writeln!(out, "one changed bit was set right in the file {file}"))?;
            if it.damaged > 0 {
                writeln!(out, "{} containers are DAMAGED; `quietus vault verify {path}` says what is lost", it.damaged)?;
            }
            if !it.back.is_empty() {
                let back = all(&it.back);
                writeln!(out, "FORGOTTEN, and back: snapshots {back}; run `quietus vault forget` for them again")?;
            }
            if !it.found.is_empty() {
                let found = all(&it.found);
                writeln!(
                    out,
                    "FOUND in the pool, and not in the old catalog: snapshots {found} (new numbers, the oldest first). Any of them may have \
                     been forgotten: see `quietus vault list {path}`, and forget those again"
                )?;
            }
            if !it.unmet.is_empty() {
                let unmet = all(&it.unmet);
                writeln!(out, "the audit log has forgets without a receipt, of the snapshots that had the numbers {unmet}")?;
            }
            for (name, snapshots) in &it.lost_holds {
                let (name, snapshots) = (safe(name.as_bytes()), all(snapshots));
                writeln!(out, "LOST: the hold {name} of the snapshots that had the numbers {snapshots}")?;
            }
            if it.is_old_kept { write!(out, "the old catalog is kept as catalog.old") } else { Ok(()) }
        });
    }

    pub(crate) fn vault_proof(&self, receipt: &VaultReceipt, is_checked: bool) {
        self.say_untyped(receipt, |out| {
            let it = &receipt.statement;
            match it.violations_count {
                0 if it.is_clean() => writeln!(out, "nothing on the medium but what snapshots have")?,
                0 => writeln!(out, "not all is destroyed yet; run `quietus vault sanitize`")?,
                count => writeln!(out, "{count} PLACES HOLD WHAT NO SNAPSHOT HAS")?,
            }
            for (at, what) in it.violations.iter().take(LINES_MAX) {
                writeln!(out, "DEAD CONTENT at {at}: {what}")?;
            }
            for owed in it.owed.iter().take(LINES_MAX) {
                writeln!(out, "to be destroyed: {}", in_words(*owed))?;
            }
            writeln!(out, "vault        {}", it.vault)?;
            writeln!(out, "snapshots    {}, of {} chunks", it.snapshots, it.live_chunks)?;
            writeln!(
                out,
                "containers   {}; free slots {}, condemned {}",
                it.containers, it.free, it.condemned
            )?;
            super::read_text(out, &it.read_ways)?;
            writeln!(
                out,
                "no space     {:>12}  without space on the medium: nothing to read",
                bytes(it.hole_bytes)
            )?;
            let signed = if is_checked { "the signature is valid, by the key" } else { "by the key" };
            write!(out, "signed       {signed} {}", receipt.public_key)
        });
    }
}
