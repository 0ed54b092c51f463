//! The proof: reads the medium and shows that no dead block holds anything.
//!
//! The signed receipt's format: `docs/formats/proof.md`.
//!
//! | question | where |
//! | --- | --- |
//! | what `status` and `quietus sensitive` say of marks | `sensitivity` |
//! | stubs and their keys on the medium | `stubs`, `stub_medium` |
//! | the root of a sealed disk | `top_cell` |
//! | every page of a flash chip | `flash` |
//! | `quietus verify` | `verify` |

mod flash;
mod receipts;
pub mod sensitivity;
mod stub_medium;
mod stubs;
mod top_cell;
mod verify;

pub use flash::{ChipFound, ChipPage};
pub use stubs::{RootFound, StubsFound};
pub use top_cell::SealedFound;
pub use verify::{CheckLine, Checks};

use crate::base::hex::{hex, sha256};
use crate::base::rfc3339;
use crate::base::signed::{AsSigned, Signed};
use crate::disk::{DiskDir, DiskError};
use crate::engine::export::{Export, liveness_runs};
use crate::engine::{Engine, Entry};
use crate::evidence::audit_log::Head;
use crate::host::guarantees::DiskGuarantees;
use quietus_core::base::blocks::BlockSet;
use quietus_core::base::units::{Addr, BLOCK_BYTES, Extent, Pos};
use quietus_core::base::zeros::is_zeros;
use quietus_core::media::medium::MediumError;
use quietus_core::owed::ledger::Counters;
use quietus_core::request::Liveness;
use quietus_core::store::StoreStatus;
use quietus_core::watch::WaitsFor;
use ring::digest;
use schemars::JsonSchema;
use sensitivity::Sensitivity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use stub_medium::ScanError;

/// Bytes read at once.
const PIECE_BYTES: u64 = 1 << 20;
/// Most places that a receipt names where dead content was found.
const VIOLATIONS_MAX: usize = 1000;

/// Findings about a disk. All sizes are bytes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Proof {
    /// `quietus-proof-1`.
    pub format: String,
    /// Identity of the disk.
    pub disk: String,
    /// Name of the disk.
    pub name: String,
    /// Path of the medium.
    pub medium: String,
    /// Time of the proof, milliseconds since 1970.
    #[serde(rename = "time", with = "crate::base::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub time_ms: u64,
    /// Program and version that made the proof.
    pub program: String,
    /// Size of the disk.
    pub size_bytes: u64,
    /// Policy of the disk: its passes.
    pub policy: String,
    /// Bytes by liveness: `live`, `dead`, `queued`, `suspicious`. Among those that are not dead: `waiting`, which may be
    /// dead and wait for evidence; `unowned`, which no file system owns.
    pub bytes: BTreeMap<String, u64>,
    /// Dead bytes that were read. Of an overlay: free bytes of its medium.
    pub read_bytes: u64,
    /// `read_bytes` by the way of reading: `around-cache` and `after-eviction` were read from the medium;
    /// `from-cache` may show only what the host has in memory.
    pub read_ways: BTreeMap<String, u64>,
    /// Dead bytes without space on the medium, where there is nothing to read.
    pub hole_bytes: u64,
    /// Those of the bytes without space with a receipt in the audit log: they, or their keys, were overwritten before their space was
    /// given back.
    pub destroyed_bytes: u64,
    /// Dead bytes that are not zeros: first byte and length. Of an overlay: on its medium.
    pub violations: Vec<Extent<Addr>>,
    /// SHA-256 over the map of liveness: each run's start, length and kind.
    pub map_digest: String,
    /// Counters since the disk was created.
    pub counters: Counters,
    /// End of the audit log.
    pub record: Head,
    /// Guarantees of the medium and the journal ([`DiskGuarantees`]),
    /// as they were signed, whatever version of the program did that.
    pub guarantees: AsSigned<DiskGuarantees>,
    /// The epochs of a disk that keeps versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<EpochsProven>,
    /// Findings on the stub medium and in the root of a disk whose content dies with its stubs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stubs: Option<StubsFound>,
    /// Findings in the root of a sealed disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<SealedFound>,
    /// Findings on the flash chip of a disk that lies on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chip: Option<ChipFound>,
    /// Which content had to be destroyed ([`Sensitivity`]), if that was not all, as it was signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensitive: Option<AsSigned<Sensitivity>>,
}

/// The epochs that a proof is about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EpochsProven {
    /// The epoch that took changes.
    pub open: u64,
    /// How many epochs are kept.
    pub kept: u64,
    /// How many of the epochs before the open one are not kept.
    pub forgotten: u64,
    /// Bytes of content that the current state or a kept epoch shows.
    pub shown_bytes: u64,
}

/// A proof with its signature, which [`Signed::parse`] checks.
pub type Receipt = Signed<Proof>;

/// Reason why there is no proof.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// The medium cannot be read.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// The key cannot be read.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The policy destroys nothing.
    #[error(
        "cannot prove anything: policy `{0}` only frees what dies; set another one in [behaviour] of disk.toml"
    )]
    Policy(String),
    /// The audit log, whose end the proof names, cannot be made durable.
    #[error("{0}")]
    Record(String),
    /// The stub medium, or the root, cannot be looked at.
    #[error(transparent)]
    Stubs(ScanError),
    /// The proof was interrupted.
    #[error("interrupted")]
    Interrupted,
}

impl Proof {
    /// Whether no dead byte holds content, and no obligation is left.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        !self.has_dead_content()
            && self.bytes.get("queued").is_none_or(|bytes| *bytes == 0)
            && self.stubs.as_ref().is_none_or(|found| found.owed + found.root.owed == 0)
            && self.sealed.as_ref().is_none_or(|found| found.root.owed == 0 && found.root.cells == 1)
    }

    /// Whether dead content was found.
    #[must_use]
    pub fn has_dead_content(&self) -> bool {
        self.places_found() > 0
    }

    /// How many places were found that hold dead content, or keys to it.
    #[must_use]
    pub fn places_found(&self) -> u64 {
        let stubs = self.stubs.as_ref().map_or(0, |found| found.residue.len() + found.root.residue.len());
        let sealed = self.sealed.as_ref().map_or(0, |found| found.root.residue.len());
        let chip = self.chip.as_ref().map_or(0, |found| found.remains);
        (self.violations.len() + stubs + sealed) as u64 + chip
    }
}

/// Reads the medium and signs the findings, with what is `sensitive` of the disk. `step` is told how far that has come, of how many
/// bytes, and says whether to go on.
pub fn prove(
    engine: &Engine,
    dir: &DiskDir,
    sensitive: Option<&Sensitivity>,
    step: impl FnMut(u64, u64) -> bool,
) -> Result<Receipt, ProofError> {
    let key = dir.key()?;
    engine.wait_until_known(|_| true);
    let policy = dir.config()?.policy;
    if policy.passes().is_empty() {
        return Err(ProofError::Policy(policy.to_string()));
    }
    let dies_with_stub = dir.toml().versions.as_ref().is_some_and(|it| it.seal.dies_with_stub());
    engine.recorder().flush().map_err(ProofError::Record)?;
    let destroyed = receipts::destroyed(dir.path(), engine.info().size).map_err(|error| {
        ProofError::Record(format!("cannot read the audit log: {error}; run `quietus verify`"))
    })?;
    let mut search = Search::new(engine, dies_with_stub, destroyed, step);
    search.run()?;
    let stubs = if dies_with_stub { Some(search.look_at_stubs(dir)?) } else { None };
    let sealed = dir.toml().sealed.as_ref().map(|_| search.look_at_top_cell(dir)).transpose()?;
    let chip = search.look_at_chip(dir)?;
    let Search { mut bytes, read_ways, hole_bytes, destroyed_bytes, violations, digest, .. } = search;
    let (status, waiting) = engine.ask(|volume| (volume.status(), volume.waiting_bytes()));
    for (cause, amount) in waiting.by_cause.into_iter().filter(|(_, amount)| *amount > 0) {
        let name = if cause == WaitsFor::Owner { "unowned" } else { "waiting" };
        *bytes.entry(name.into()).or_default() += amount;
    }
    let proof = Proof {
        format: "quietus-proof-1".into(),
        disk: dir.toml().uuid.to_string(),
        name: dir.name(),
        medium: dir.medium_path().display().to_string(),
        time_ms: rfc3339::now_ms(),
        program: concat!("quietus ", env!("CARGO_PKG_VERSION")).into(),
        size_bytes: status.size_bytes,
        policy: status.policy,
        bytes,
        read_bytes: read_ways.values().sum(),
        read_ways,
        hole_bytes,
        destroyed_bytes,
        violations,
        map_digest: hex(digest.finish().as_ref()),
        counters: status.counters,
        record: engine.recorder().flush().map_err(ProofError::Record)?,
        guarantees: AsSigned::new(&dir.guarantees()),
        epochs: epochs(&status.store, status.live_bytes),
        stubs,
        sealed,
        chip,
        sensitive: sensitive.map(AsSigned::new),
    };
    let receipt = Signed::sign(proof, &key);
    let digest = sha256(receipt.covered().as_bytes());
    engine.recorder().note(Entry::Proved { digest });
    engine.recorder().flush().map_err(ProofError::Record)?;
    Ok(receipt)
}

fn epochs(store: &StoreStatus, live_bytes: u64) -> Option<EpochsProven> {
    let it = store.versions()?;
    let (open, kept) = (it.open_epoch, it.epochs);
    let forgotten = open.saturating_sub(1 + kept);
    Some(EpochsProven { open, kept, forgotten, shown_bytes: live_bytes + it.retired_bytes })
}

struct Search<'a, F> {
    engine: &'a Engine,
    dead_has_no_place: bool,
    step: F,
    buf: Vec<u8>,
    bytes: BTreeMap<String, u64>,
    read_ways: BTreeMap<String, u64>,
    hole_bytes: u64,
    /// What the audit log says was destroyed.
    destroyed: BlockSet<Addr>,
    destroyed_bytes: u64,
    violations: Vec<Extent<Addr>>,
    digest: digest::Context,
}

impl<'a, F: FnMut(u64, u64) -> bool> Search<'a, F> {
    fn new(engine: &'a Engine, dies_with_stub: bool, destroyed: BlockSet<Addr>, step: F) -> Self {
        Self {
            engine,
            dead_has_no_place: dies_with_stub || engine.unallocated().is_some(),
            step,
            buf: vec![0; PIECE_BYTES as usize],
            bytes: BTreeMap::new(),
            read_ways: BTreeMap::new(),
            hole_bytes: 0,
            destroyed,
            destroyed_bytes: 0,
            violations: Vec::new(),
            digest: digest::Context::new(&digest::SHA256),
        }
    }

    fn run(&mut self) -> Result<(), ProofError> {
        let size = self.engine.info().size;
        for (run, liveness) in liveness_runs(self.engine, Extent::new(0, size)) {
            self.look(run, liveness)?;
            self.go_on(run.end())?;
        }
        self.look_at_vacant()
    }

    /// Reads the unallocated space on a medium where content has no fixed place.
    fn look_at_vacant(&mut self) -> Result<(), ProofError> {
        let (residue, vacant) = (self.engine.status().store.residue_bytes(), self.engine.unallocated());
        if residue > 0 || vacant.is_some() {
            *self.bytes.entry("queued".into()).or_default() += residue;
        }
        let Some(vacant) = vacant else { return Ok(()) };
        for run in vacant.runs() {
            for data in self.engine.data().data_within(run) {
                data.pieces(PIECE_BYTES).try_for_each(|piece| self.read(piece))?;
            }
            self.go_on(self.engine.info().size)?;
        }
        Ok(())
    }

    fn go_on(&mut self, at: u64) -> Result<(), ProofError> {
        let size = self.engine.info().size;
        if (self.step)(at, size) { Ok(()) } else { Err(ProofError::Interrupted) }
    }

    fn look(&mut self, run: Extent<Addr>, liveness: Liveness) -> Result<(), ProofError> {
        let name = format!("{liveness:?}").to_lowercase();
        self.digest.update(&run.start.0.to_le_bytes());
        self.digest.update(&run.len.to_le_bytes());
        self.digest.update(name.as_bytes());
        *self.bytes.entry(name).or_default() += run.len;
        if liveness != Liveness::Dead {
            return Ok(());
        }
        if self.dead_has_no_place {
            self.note_hole(run);
            return Ok(());
        }
        let mut at = run.start.0;
        for data in self.engine.data().data_within(Extent::new(run.start.0, run.len)) {
            self.note_hole(Extent::between(at, data.start.0));
            at = data.end();
            for piece in data.pieces(PIECE_BYTES) {
                self.read(piece)?;
                self.go_on(piece.end())?;
            }
        }
        self.note_hole(Extent::between(at, run.end()));
        Ok(())
    }

    /// Notes dead bytes without space on the medium.
    fn note_hole(&mut self, hole: Extent<Addr>) {
        self.hole_bytes += hole.len;
        self.destroyed_bytes += self.destroyed.runs_within(hole).map(|run| run.len).sum::<u64>();
    }

    fn read(&mut self, piece: Extent<Pos>) -> Result<(), ProofError> {
        let buf = &mut self.buf[..piece.len as usize];
        let way = match self.engine.data().read_uncached(piece.start, buf) {
            Ok(way) => way,
            // Free space may have been cut off meanwhile.
            Err(error) => return if self.is_dead(piece) { Err(error.into()) } else { Ok(()) },
        };
        *self.read_ways.entry(way.name().into()).or_default() += piece.len;
        if is_zeros(&self.buf[..piece.len as usize]) { Ok(()) } else { self.look_closer(piece) }
    }

    /// Judges a piece that is not zeros: it is live if it was written meanwhile.
    fn look_closer(&mut self, piece: Extent<Pos>) -> Result<(), ProofError> {
        for block in piece.pieces(BLOCK_BYTES) {
            self.engine.data().read_uncached(block.start, &mut self.buf[..block.len as usize])?;
            let something = !is_zeros(&self.buf[..block.len as usize]);
            if something && self.is_dead(block) && self.violations.len() < VIOLATIONS_MAX {
                self.violations.push(Extent::new(block.start.0, block.len));
            }
        }
        Ok(())
    }

    /// Whether some of the piece is dead by now.
    fn is_dead(&self, there: Extent<Pos>) -> bool {
        if let Some(vacant) = self.engine.unallocated() {
            return vacant.first_run(there).is_some();
        }
        let extent = Extent::new(there.start.0, there.len);
        liveness_runs(self.engine, extent).any(|(_, it)| it == Liveness::Dead)
    }
}
