//! Checks of a disk that keeps versions: its keys, its index, its stubs, and the content of every version.
//!
//! The disk may be served meanwhile. What seems wrong is looked at again before it counts, as it may have changed in
//! between.

use super::CheckLine;
use crate::disk::Step;
use crate::disk::epochs::{NAMES_FILE, Told};
use crate::disk::keys;
use crate::engine::export::{Export, carry_out};
use crate::epochs;
use crate::open_disk::OpenDisk;
use crate::proof::stub_medium::StubScan;
use quietus_core::base::blocks::BlockSet;
use quietus_core::base::units::{BLOCK_BYTES, Block, Epoch, Extent, Pos, Slot};
use quietus_core::base::zeros::is_zeros;
use quietus_core::media::MediumId;
use quietus_core::media::medium::Medium;
use quietus_core::request::{Op, Refusal, Request};
use quietus_seal::keys::SessionIndex;

/// Bytes of the index that are read at once.
const PIECE_BYTES: u64 = 1 << 20;
/// Bytes of a page of the index.
const PAGE_BYTES: u64 = 4096;
/// How often something is looked at before it counts as wrong.
const LOOKS: usize = 3;
/// Most findings that are named of each kind.
const FINDINGS_MAX: usize = 100;

/// A version, as the index lists it.
type Version = (Block, Epoch, Option<Slot>);

/// The checks of a disk that keeps versions; empty for another disk.
pub(super) fn verify(disk: &OpenDisk, read_data: bool, step: Step<'_>) -> Vec<CheckLine> {
    if disk.dir.toml().versions.is_none() {
        return Vec::new();
    }
    let mut verifying = Verifying { disk, step, checks: Vec::new() };
    // A damaged index is not asked: the disk would become read-only.
    if let Err(why) = verifying.run(read_data) {
        verifying.checks.push(CheckLine::new("versions", Err::<String, _>(why)));
    }
    verifying.checks
}

struct Verifying<'a> {
    disk: &'a OpenDisk,
    step: Step<'a>,
    checks: Vec<CheckLine>,
}

/// Findings of a walk over all versions.
#[derive(Default)]
struct Walk {
    versions: u64,
    opened: u64,
    used: BlockSet<Pos>,
    /// Faults of entries of the index, of stubs, and of content.
    entries: Findings,
    stubs: Findings,
    content: Findings,
}

/// Findings of one kind: the first ones, and how many others there are.
#[derive(Default)]
struct Findings {
    first: Vec<String>,
    others: u64,
}

impl Findings {
    fn add(&mut self, what: String) {
        if self.first.len() < FINDINGS_MAX {
            self.first.push(what);
        } else {
            self.others += 1;
        }
    }

    /// A check for each finding, or one that says what is `right`.
    fn into_checks(mut self, what: &'static str, right: String) -> Vec<CheckLine> {
        if self.others > 0 {
            self.first.push(format!("{} more findings", self.others));
        }
        if self.first.is_empty() {
            return vec![CheckLine::new(what, Ok::<_, String>(right))];
        }
        self.first.into_iter().map(|it| CheckLine::new(what, Err::<String, _>(it))).collect()
    }
}

impl Verifying<'_> {
    fn run(&mut self, read_data: bool) -> Result<(), String> {
        self.keys();
        self.names();
        if !self.index()? {
            let why = "not compared with the index, which is damaged: run `quietus repair`, then `quietus verify` again";
            return Err(format!("stubs and content are {why}"));
        }
        let kept = self.epochs()?;
        let scan = self.stubs()?;
        let walk = self.walk(scan.as_ref(), &kept, read_data)?;
        let Walk { versions, opened, entries, stubs, content, .. } = walk;
        self.checks.extend(
            entries.into_checks("versions", format!("{versions} versions, each in a slot of its own")),
        );
        if scan.is_some() {
            self.checks.extend(stubs.into_checks("stubs", "every version has its stub".into()));
        }
        if read_data {
            self.checks.extend(content.into_checks("data", format!("{opened} versions can be read")));
        }
        Ok(())
    }

    fn go_on(&mut self, done: u64, of: u64) -> Result<(), String> {
        if (self.step)(done, of) { Ok(()) } else { Err("interrupted".into()) }
    }

    fn keys(&mut self) {
        let Some(file) = self.disk.dir.key_file() else { return };
        let mut findings = Findings::default();
        match keys::damage(&file) {
            Ok(damage) => damage.into_iter().for_each(|it| findings.add(it)),
            Err(error) => findings.add(error.to_string()),
        }
        self.checks.extend(findings.into_checks("keys", "whole".into()));
    }

    /// Compares the names and holds with what the audit log tells of them.
    fn names(&mut self) {
        let (names, directory) = (&self.disk.names, self.disk.dir.directory());
        let mut findings = Findings::default();
        if !directory.file(NAMES_FILE).exists() {
            findings.add("missing: the next start that writes makes it anew from the audit log".into());
        }
        // A damaged log is a finding of its own.
        let told = Told::by(|see| self.disk.engine.read_record(see)).unwrap_or_default();
        for lost in told.missing_in(&names.holds(), &names.by_epoch()) {
            findings.add(format!(
                "the audit log has {lost}, and the file does not: the file is older than the disk, or was changed"
            ));
        }
        self.checks.extend(findings.into_checks(NAMES_FILE, "has what the audit log tells".into()));
    }

    /// Reads every page of the index; whether all are whole.
    fn index(&mut self) -> Result<bool, String> {
        let engine = &self.disk.engine;
        let medium = engine.medium(MediumId::Map).ok_or("the disk has no index")?;
        let (mut findings, mut pages, size) = (Findings::default(), 0_u64, medium.size());
        // Which pages are in use is not known of a damaged index: zeros may be a page that was lost, or one that never was.
        let mut is_unsure = false;
        for run in medium.data_within(Extent::new(0, size / PAGE_BYTES * PAGE_BYTES)) {
            for piece in run.pieces(PIECE_BYTES) {
                let mut bytes = vec![0; piece.len as usize];
                medium.read_uncached(piece.start, &mut bytes).map_err(|error| error.to_string())?;
                for (page, bytes) in piece.pieces(PAGE_BYTES).zip(bytes.chunks_exact(PAGE_BYTES as usize)) {
                    pages += 1;
                    match self.page_fault(page, bytes.to_vec())? {
                        Some(_) if is_zeros(bytes) && self.disk.dir.is_read_only() => is_unsure = true,
                        Some(fault) => findings.add(format!("byte {}: {fault}", page.start.0)),
                        None => {}
                    }
                }
                self.go_on(piece.end(), size)?;
            }
        }
        let trouble = engine.status().store.trouble();
        let is_whole = findings.first.is_empty() && !is_unsure;
        match trouble {
            Some(trouble) if !is_whole => findings.add(trouble),
            Some(trouble) => self.checks.push(CheckLine::new("start", Err::<String, _>(trouble))),
            None => {}
        }
        self.checks.extend(findings.into_checks("map", format!("{pages} pages, and all in use are whole")));
        Ok(is_whole)
    }

    fn page_fault(&self, page: Extent<Pos>, mut bytes: Vec<u8>) -> Result<Option<String>, String> {
        let engine = &self.disk.engine;
        let mut fault = None;
        for _ in 0..LOOKS {
            fault = epochs::page_fault(engine, page.start, bytes.clone()).map_err(|it| it.to_string())?;
            if fault.is_none() {
                break;
            }
            let medium = engine.medium(MediumId::Map).ok_or("the disk has no index")?;
            medium.read_uncached(page.start, &mut bytes).map_err(|error| error.to_string())?;
        }
        Ok(fault)
    }

    /// The kept epochs.
    fn epochs(&mut self) -> Result<Vec<Epoch>, String> {
        let mut kept: Vec<Epoch> = Vec::new();
        for listed in epochs::kept(&self.disk.engine) {
            let from = kept.last().map_or(0, |last| last.0 + 1);
            let listed =
                listed.map_err(|refusal| format!("epochs cannot be listed from {from} on: {refusal}"))?;
            kept.push(Epoch(listed.epoch));
        }
        self.checks.push(CheckLine::new("epochs", Ok::<_, String>(format!("{} are kept", kept.len()))));
        Ok(kept)
    }

    /// Looks at the stub medium of a disk whose content dies with its stubs.
    fn stubs(&mut self) -> Result<Option<StubScan>, String> {
        let seal = self.disk.dir.toml().versions.as_ref().map(|it| it.seal);
        if !seal.is_some_and(quietus_seal::Seal::dies_with_stub) {
            return Ok(None);
        }
        let size = self.disk.engine.info().size;
        let mut scan_of = |id| {
            StubScan::of(&self.disk.engine, id, || (self.step)(size, size)).map_err(|error| error.to_string())
        };
        let (scan, root) = (scan_of(MediumId::Stubs)?, scan_of(MediumId::Root)?);
        let mut findings = Findings::default();
        for at in &scan.residue {
            findings.add(format!("byte {at}: a stub that no version has, or a damaged sector"));
        }
        for lacking in self.lacking(&scan) {
            findings.add(format!("stubs of versions name session {lacking}, which the file `keys` lacks: those stubs cannot be opened"));
        }
        let found = format!("{} stubs of versions, {} to be destroyed", scan.live, scan.owed);
        self.checks.extend(findings.into_checks("stubs", found));
        let mut findings = Findings::default();
        for at in &root.residue {
            findings.add(format!("byte {at}: no cell of the log, or of a page of homes, that is in use"));
        }
        let found = format!("{} cells in use, {} to be destroyed", root.live, root.owed);
        self.checks.extend(findings.into_checks("cells", found));
        Ok(Some(scan))
    }

    /// The sessions of stubs that the key file does not have.
    fn lacking(&self, scan: &StubScan) -> Vec<u16> {
        let stored = self.disk.dir.key_file().and_then(|file| keys::stored(&file).ok());
        let lacks =
            |it: &u16| stored.as_ref().is_some_and(|keys| keys.file().session(SessionIndex(*it)).is_none());
        scan.sessions.iter().map(|it| it.0).filter(lacks).collect()
    }

    /// Looks at every version.
    fn walk(&mut self, scan: Option<&StubScan>, kept: &[Epoch], read_data: bool) -> Result<Walk, String> {
        let (mut walk, mut from) = (Walk::default(), Some((Block(0), Epoch(0))));
        let slots = self.disk.engine.data().size().div_ceil(BLOCK_BYTES);
        let size = self.disk.engine.info().size;
        let mut last: Option<Version> = None;
        while let Some((block, born)) = from {
            let listed =
                epochs::versions(&self.disk.engine, block, born).map_err(|refusal| refusal.to_string())?;
            for version in listed.versions {
                if let Some(before) = last.replace(version) {
                    self.look(&mut walk, before, Some(version), (scan, kept, slots, read_data));
                }
            }
            from = listed.next;
            self.go_on((block.0 * BLOCK_BYTES).min(size), size)?;
        }
        if let Some(last) = last {
            self.look(&mut walk, last, None, (scan, kept, slots, read_data));
        }
        Ok(walk)
    }

    /// Looks at one version; `next` follows it in the index.
    fn look(
        &self,
        walk: &mut Walk,
        version: Version,
        next: Option<Version>,
        (scan, kept, slots, read_data): (Option<&StubScan>, &[Epoch], u64, bool),
    ) {
        let (block, born, Some(slot)) = version else { return };
        walk.versions += 1;
        let named = format!("block {} of epoch {}", block.0, born.0);
        if slot.0 >= slots && self.is_listed(version) {
            return walk.entries.add(format!("{named} lies in slot {}, behind the end of data", slot.0));
        }
        if walk.used.contains(slot.0) && self.is_listed(version) {
            walk.entries.add(format!("{named} lies in slot {}, which another version has, too", slot.0));
        }
        walk.used.insert(Extent::new(slot.0 * BLOCK_BYTES, BLOCK_BYTES));
        let died = next.filter(|(of, ..)| *of == block).map(|(_, died, _)| died);
        let opens = || self.read(version, died, kept);
        if scan.is_some_and(|scan| !scan.slots.contains(slot.0))
            && self.is_listed(version)
            && opens().is_some()
        {
            walk.stubs.add(format!("{named}, in slot {}, has no stub", slot.0));
        }
        if read_data {
            match opens() {
                None => walk.opened += 1,
                Some(why) => {
                    walk.content.add(format!("slot {}, byte {}: {why}", slot.0, slot.0 * BLOCK_BYTES))
                }
            }
        }
    }

    /// Whether the index still has the version.
    fn is_listed(&self, version: Version) -> bool {
        let listed = epochs::versions(&self.disk.engine, version.0, version.1);
        listed.is_ok_and(|listed| listed.versions.first() == Some(&version))
    }

    /// Why a version cannot be read, if it cannot: by the first kept epoch that shows it, or as the current state.
    fn read(&self, version: Version, died: Option<Epoch>, kept: &[Epoch]) -> Option<String> {
        let (block, born, _) = version;
        let shows = kept.get(kept.partition_point(|epoch| *epoch < born)).copied();
        let op = match shows.filter(|epoch| died.is_none_or(|died| *epoch < died)) {
            Some(epoch) => Op::ReadPast(epoch),
            None => Op::Copy,
        };
        let size = self.disk.engine.info().size;
        let start = block.0 * BLOCK_BYTES;
        let extent = Extent::between(start, (start + BLOCK_BYTES).min(size));
        match carry_out(&*self.disk.engine, Request { op, extent, fua: false }) {
            Ok(_) | Err(Refusal::Forgotten(_) | Refusal::ForgottenBlocks(..)) => None,
            Err(refusal) => Some(refusal.to_string()).filter(|_| self.is_listed(version)),
        }
    }
}
