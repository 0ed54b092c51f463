//! Reports: for people, or as JSON, a line each.

mod audit;
mod epochs;
mod files;
mod past;
mod places;
mod sealed;
mod sensitive;
mod status;
mod vault;
mod verdict;
mod waiting;
mod wear;

use crate::base::rfc3339;
use crate::base::signed::{AsSigned, Signed};
use crate::cli::output::{
    self, AuditEntry, Created, KeyAdded, KeyRemoved, KeyRotated, KeySlot, KeySlots, Output, Plan,
    SensitiveReport, Serving,
};
use crate::disk::DiskToml;
use crate::front::control::{Compacted, Owed, Purged, Shredded, StatusAnswer, Verdict, WearAnswer};
use crate::host::guarantees::{self, DiskGuarantees, Level};
use crate::host::paths::Subject;
use crate::offline::{Committed, Exported, Rebased, Repaired};
use crate::proof::{Checks, Proof, Receipt};
use quietus_core::base::units::{Epoch, EpochRange, Extent, Part, Scope};
use quietus_seal::keys::{SlotNumber, SlotState};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::Path;

/// What is known of the key of a receipt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Checked {
    /// The receipt was just made.
    Made,
    /// Checked against the key that was given.
    ByKey,
    /// Checked against the key in the receipt, which any person may have made.
    SelfSigned,
}

impl Checked {
    /// What is known of the key of a receipt that was read: whether the one to check it with was given.
    pub(crate) fn with(known: Option<&str>) -> Self {
        if known.is_some() { Self::ByKey } else { Self::SelfSigned }
    }
}

/// The output for reports.
pub(crate) struct Report {
    pub(crate) json: bool,
}

impl Report {
    /// Prints `json`, or what `text` writes. Ends the process in silence when the reader is gone
    /// (`quietus … | head`).
    fn say(&self, report: &impl Output, text: impl FnOnce(&mut String) -> std::fmt::Result) {
        self.print_or_end(|| output::line(report), text);
    }

    /// Prints a signed statement, whose format is in the statement.
    fn say_signed<T: Serialize>(
        &self,
        signed: &Signed<T>,
        text: impl FnOnce(&mut String) -> std::fmt::Result,
    ) {
        self.print_or_end(|| serde_json::to_string(signed).expect("a statement is plain data"), text);
    }

    fn print_or_end(
        &self,
        json: impl FnOnce() -> String,
        text: impl FnOnce(&mut String) -> std::fmt::Result,
    ) {
        if self.print(json, text).is_err() {
            std::process::exit(0);
        }
    }

    fn print(
        &self,
        json: impl FnOnce() -> String,
        text: impl FnOnce(&mut String) -> std::fmt::Result,
    ) -> io::Result<()> {
        let mut out = String::new();
        if self.json {
            out = json();
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
        let report = Created {
            created: path.into(),
            disk: toml.clone(),
            rounded_up_from_bytes: rounded,
            guarantees: guarantees.clone(),
        };
        self.say(&report, |out| {
            let size = bytes(toml.size_bytes);
            writeln!(out, "created {} ({size}, policy {})", path.display(), toml.behaviour.policy)?;
            if let Some(asked) = rounded {
                let size = toml.size_bytes;
                writeln!(out, "size rounded up from {asked} to {size} bytes: whole blocks of 4 KiB")?;
            }
            let disk = path.display();
            if let Some(memory) = guarantees::volatile(path) {
                writeln!(
                    out,
                    "note: the disk lies in memory ({memory}), and is lost when the machine stops"
                )?;
            }
            if let Some(advice) = guarantees.advice() {
                let level = guarantees.level;
                writeln!(out, "note: {level}; `quietus status {disk}` says why")?;
                if guarantees.root_lies_beside_content() {
                    writeln!(out, "note: the root lies on the device of the content, where old copies of its keys may stay")?;
                }
                writeln!(out, "note: {advice}")?;
            }
            sealed::created(out, toml)
        });
    }

    /// Reports what a command would do.
    pub(crate) fn planned(&self, plan: &Plan, text: &str) {
        self.say(plan, |out| out.write_str(text));
    }

    /// Prints the key slots that are not empty.
    pub(crate) fn key_slots(&self, slots: &[SlotState]) {
        let used = (0..).zip(slots).filter_map(|(number, slot)| match slot {
            SlotState::Empty => None,
            SlotState::Used(kind) => Some((number, kind.name())),
            SlotState::Damaged => Some((number, "damaged")),
        });
        let used = used.map(|(slot, kind)| KeySlot { slot, kind: kind.into() });
        let report = KeySlots { slots: used.collect(), slots_max: slots.len() };
        self.say(&report, |out| {
            writeln!(out, "{} of {} key slots in use", report.slots.len(), report.slots_max)?;
            report.slots.iter().try_for_each(|it| writeln!(out, "{}  {}", it.slot, it.kind))
        });
    }

    pub(crate) fn key_added(&self, slot: SlotNumber) {
        self.say(&KeyAdded { added: slot.0 }, |out| write!(out, "key slot {} added", slot.0));
    }

    /// `level` is how far overwriting reached.
    pub(crate) fn key_removed(&self, slot: u8, passes: usize, level: Level) {
        self.say(&KeyRemoved { removed: slot, passes, level }, |out| {
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
        self.say(&KeyRotated { generation }, |out| {
            write!(out, "master key {generation} made; it seals what is written from the next start on")
        });
    }

    pub(crate) fn serving(&self, uri: &str, disks: &[String]) {
        // A server goes on, whether or not its output is read.
        let report = Serving { serving: disks.to_vec(), uri: uri.into() };
        let _ =
            self.print(|| output::line(&report), |out| write!(out, "serving {} at {uri}", disks.join(", ")));
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
        let report = SensitiveReport {
            name: now.name.clone(),
            sensitive: now.sensitive.clone(),
            waiting: now.waiting.clone(),
        };
        self.say(&report, |out| sensitive::report(out, now));
    }

    pub(crate) fn owed(&self, answer: &Owed) {
        self.say(answer, |out| {
            for it in &answer.owed {
                let (start, len, due) = (it.start, bytes(it.len), it.due.name());
                writeln!(out, "owed     {start:>14} {len:>12}  {due} ({})", it.cause.name())?;
            }
            match answer.more {
                0 if answer.owed.is_empty() => writeln!(out, "nothing is left to destroy"),
                0 => Ok(()),
                more => writeln!(out, "… and {more} more"),
            }
        });
    }

    /// The events of a line of the audit log: as JSON a line each.
    pub(crate) fn events(&self, events: &[AuditEntry]) {
        match self.json {
            true => events.iter().for_each(|it| self.say(it, |_| Ok(()))),
            false => self.print_or_end(String::new, |out| audit::text(out, events)),
        }
    }

    pub(crate) fn wear(&self, it: &WearAnswer) {
        self.say(it, |out| wear::text(out, it));
    }

    pub(crate) fn shred(&self, it: &Shredded) {
        self.say(it, |out| {
            let done = if it.done { "" } else { " (interrupted: the rest stays queued)" };
            let (destroyed, rewritten) = (bytes(it.destroyed_bytes), bytes(it.rewritten_bytes));
            writeln!(out, "destroyed {destroyed}, overwritten conservatively {rewritten}{done}")?;
            if it.plain_bytes > 0 {
                let plain = bytes(it.plain_bytes);
                writeln!(out, "freed {plain} of plain content, which is not destroyed")?;
            }
            waiting::still_waiting(out, &it.waiting)
        });
    }

    pub(crate) fn purged(&self, answer: &Purged) {
        self.say(answer, |out| write!(out, "newly dead: {}", bytes(answer.newly_dead_bytes)));
    }

    pub(crate) fn exported(&self, done: &Exported) {
        self.say(done, |out| {
            let (live, size) = (bytes(done.copied.live_bytes), bytes(done.copied.size_bytes));
            let (image, host) = (done.image.display(), bytes(done.host_bytes));
            write!(out, "exported {image}: {live} of {size} is live content; the image takes up {host}")?;
            match done.copied.gone_bytes {
                0 => Ok(()),
                gone => write!(out, "; {} of the epoch are forgotten, and zeros there", bytes(gone)),
            }
        });
    }

    pub(crate) fn rebased(&self, done: &Rebased) {
        self.say(done, |out| {
            let (copied, purged) = (bytes(done.copied_bytes), bytes(done.purged_bytes));
            write!(out, "rebased to {}: copied {copied}, purged {purged}", done.base.display())
        });
    }

    pub(crate) fn repaired(&self, done: &Repaired) {
        self.say(done, |out| {
            let (verb, dry) = if done.dry_run { ("would be", " (dry run: nothing was written)") } else { ("was", "") };
            match (done.is_empty(), &done.left) {
                (true, None) => writeln!(out, "nothing to repair")?,
                (true, Some(_)) => writeln!(out, "nothing can be repaired")?,
                (false, _) => writeln!(out, "repaired{dry}:")?,
            }
            for place in &done.mended {
                writeln!(out, "  {place}: one wrong byte {verb} mended")?;
            }
            for file in &done.heads {
                writeln!(out, "  {file}: the damaged head {verb} written anew")?;
            }
            for page in &done.rebuilt {
                writeln!(out, "  {page}: the index {verb} rebuilt")?;
            }
            if !done.rebuilt.is_empty() {
                let (versions, epochs) = (done.versions, done.epochs);
                let from = done.versions_from_stubs;
                writeln!(out, "  the rebuilt index has {versions} versions ({from} from the records of stubs) and {epochs} kept epochs")?;
            }
            match &done.left {
                Some(left) => write!(out, "NOT repaired: {left}"),
                None if done.is_empty() || done.dry_run => Ok(()),
                None => write!(out, "`quietus verify --read-data` checks the rest"),
            }
        });
    }

    pub(crate) fn committed(&self, done: &Committed) {
        self.say(done, |out| {
            let (written, purged) = (bytes(done.written_bytes), bytes(done.purged_bytes));
            writeln!(out, "committed to {}: wrote {written}, purged {purged}", done.base.display())?;
            write!(
                out,
                "note: other overlays above this base image can no longer be opened, since the base image has changed"
            )
        });
    }

    pub(crate) fn compacted(&self, it: &Compacted) {
        self.say(it, |out| {
            let done = if it.done { "" } else { " (interrupted: the rest is packed later)" };
            write!(out, "medium: {} before, {} now{done}", bytes(it.bytes_before), bytes(it.bytes_after))
        });
    }

    pub(crate) fn verify(&self, answer: &Checks) {
        self.say(answer, |out| {
            for check in &answer.checks {
                let mark = if check.ok { "ok " } else { "BAD" };
                writeln!(out, "{mark} {:<12} {}", check.what, check.detail)?;
            }
            Ok(())
        });
    }

    pub(crate) fn proof(&self, receipt: &Receipt, checked: Checked) {
        self.say_signed(receipt, |out| proof_text(out, receipt, checked));
    }
}

fn proof_text(out: &mut String, receipt: &Receipt, checked: Checked) -> std::fmt::Result {
    let proof = &receipt.statement;
    writeln!(out, "result       {}", result(proof))?;
    writeln!(out, "time         {}", rfc3339::text(proof.time_ms))?;
    writeln!(out, "policy       {}", proof.policy)?;
    signature_text(out, &receipt.public_key, checked, Subject::Disk)?;
    found_text(out, proof)?;
    writeln!(out, "disk         {} ({})", proof.name, proof.disk)?;
    for (liveness, amount) in &proof.bytes {
        writeln!(out, "{liveness:<12} {:>12}", bytes(*amount))?;
    }
    if proof.counters.plain_bytes > 0 {
        let plain = bytes(proof.counters.plain_bytes);
        writeln!(out, "plain        {plain:>12}  of unmarked content, freed so far and not destroyed")?;
    }
    proof.sensitive.iter().try_for_each(|it| sensitive::proven(out, it))?;
    read_text(out, &proof.read_ways, "of the dead bytes")?;
    holes_text(out, proof)?;
    epochs_text(out, proof)?;
    guarantees_text(out, &proof.guarantees, checked, "quietus status")
}

/// What a medium could promise when a statement was signed. The command `status` says that of a disk or vault that is there.
fn guarantees_text(
    out: &mut String,
    signed: &AsSigned<DiskGuarantees>,
    checked: Checked,
    status: &str,
) -> std::fmt::Result {
    match signed.read() {
        // The person who checks a receipt may not have the disk.
        Some(guarantees) if checked != Checked::Made => status::guarantees(out, &guarantees),
        Some(guarantees) if guarantees.level != Level::Clear => {
            writeln!(out, "note: {}; `{status}` says why, and what to do", guarantees.level)
        }
        Some(_) => Ok(()),
        None => writeln!(out, "guarantee    of another version of Quietus: {signed}"),
    }
}

/// The verdict of a proof, and what it rests on.
fn result(proof: &Proof) -> String {
    let verdict = verdict::headline(&Verdict::of_proof(proof));
    match (proof.is_clean(), &proof.stubs) {
        (true, _) if proof.sealed.is_some() => {
            format!("{verdict}: no key of dead content is left, and no dead byte holds ciphertext")
        }
        (true, Some(_)) => {
            format!(
                "{verdict}: no stub is left of content that no epoch shows, so that it cannot be read again"
            )
        }
        (true, None) => format!("{verdict}: no dead byte holds content"),
        (false, _) if proof.has_dead_content() => verdict,
        (false, _) => format!("{verdict}; run `quietus shred --now`"),
    }
}

/// Whose signature a receipt has.
fn signature_text(out: &mut String, key: &str, checked: Checked, subject: Subject) -> std::fmt::Result {
    match checked {
        Checked::Made => writeln!(out, "signed       by the key {key}"),
        Checked::ByKey => writeln!(out, "signed       the signature is valid, by the given key {key}"),
        Checked::SelfSigned => writeln!(
            out,
            "signed       self-signed, by a key that was not checked: {key}; get `key.pub` from the {subject}'s owner, and give it \
             with --key"
        ),
    }
}

/// Where a proof found dead content.
fn found_text(out: &mut String, proof: &Proof) -> std::fmt::Result {
    let stubs = proof.stubs.as_ref();
    let residue = stubs.map_or(&[][..], |found| &found.residue);
    let cells = stubs.map(|found| &found.root).or(proof.sealed.as_ref().map(|found| &found.root));
    let cells = cells.map_or(&[][..], |root| &root.residue);
    for Extent { start, len } in proof.violations.iter().take(10) {
        writeln!(out, "DEAD CONTENT at {}, {len} bytes", start.0)?;
    }
    for start in residue.iter().take(10) {
        writeln!(out, "STUB OF DEAD CONTENT at {start} of the stub medium")?;
    }
    for start in cells.iter().take(10) {
        writeln!(out, "KEY THAT IS NOT IN USE at {start} of the root")?;
    }
    proof.chip.as_ref().map_or(Ok(()), |chip| wear::proven(out, chip))
}

/// The dead bytes that have no space on the medium: those that were destroyed, and those with no receipt.
fn holes_text(out: &mut String, proof: &Proof) -> std::fmt::Result {
    if proof.destroyed_bytes > 0 {
        let destroyed = bytes(proof.destroyed_bytes);
        let how = match proof.sealed {
            Some(_) => "their keys destroyed, and given back to the host",
            None => "overwritten, then given back to the host",
        };
        writeln!(out, "destroyed    {destroyed:>12}  of the dead bytes: {how}")?;
    }
    let never = bytes(proof.hole_bytes.saturating_sub(proof.destroyed_bytes));
    writeln!(
        out,
        "no space     {never:>12}  of the dead bytes: no space on the medium, and no receipt; nothing to read"
    )
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
    if let Some(found) = &proof.sealed {
        sealed::proof(out, found, proof.guarantees.read().as_ref())?;
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

/// The amounts of bytes by the way they were read, `of` the dead bytes or of what else was read.
fn read_text(out: &mut String, ways: &BTreeMap<String, u64>, of: &str) -> std::fmt::Result {
    for (way, amount) in ways {
        let how = match way.as_str() {
            "around-cache" => "from the medium, around the host's cache",
            "after-eviction" => "from the medium: the host's cache was emptied first",
            "from-cache" => {
                "FROM THE HOST'S CACHE, which cannot be emptied here: these reads do not show the medium"
            }
            other => other,
        };
        writeln!(out, "read         {:>12}  {of}, {how}", bytes(*amount))?;
    }
    Ok(())
}

/// A size for people.
pub(crate) fn bytes(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

/// What is forgotten.
fn scope_text(scope: &Scope) -> String {
    let EpochRange { from: Epoch(from), to: Epoch(to) } = scope.epochs();
    match scope {
        Scope::Epochs(_) => format!("epochs {from} to {to}"),
        Scope::Chain { blocks, .. } => format!("{}+{} in all epochs up to {to}", blocks.start.0, blocks.len),
        Scope::Shown(Part { blocks, .. }) => {
            format!("{}+{} in epochs {from} to {to}", blocks.start.0, blocks.len)
        }
        Scope::Set(set) => format!("set {} in epochs {from} to {to}", set.id),
    }
}
