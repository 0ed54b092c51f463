//! The proof of a vault: all of its medium is read, and what was found is signed.

use crate::base::hex::sha256;
use crate::base::rfc3339::now_ms;
use crate::base::signed::{AsSigned, Signed};
use crate::evidence::audit_log::Head;
use crate::front::control::Verdict;
use crate::host::guarantees::DiskGuarantees;
use crate::vault::place::record::{Entry, OwedLine};
use crate::vault::{Error, Session, Step};
use quietus_core::base::units::{Extent, Pos};
use quietus_vault::vault::{Found, Residue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most places that a proof names.
const VIOLATIONS_MAX: usize = 1000;

/// Findings in a vault. All sizes are bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct VaultProof {
    /// `quietus-vault-proof-1`.
    pub format: String,
    /// Identity of the vault.
    pub vault: String,
    /// Path of the pool.
    pub medium: String,
    /// Time of the proof.
    #[serde(rename = "time", with = "crate::base::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub time_ms: u64,
    /// Program and version that made the proof.
    pub program: String,
    /// Policy of the vault.
    pub policy: String,
    /// Snapshots.
    pub snapshots: u64,
    /// Chunks that snapshots reach: the only ones that there may be.
    pub live_chunks: u64,
    /// Bytes of the pool that were read, by the way of reading.
    pub read_ways: BTreeMap<String, u64>,
    /// Bytes of the pool without space on the host, where there is nothing to read.
    pub hole_bytes: u64,
    /// Containers that hold what snapshots reach, and nothing else.
    pub containers: u64,
    /// Slots that are free, and hold zeros.
    pub free: u64,
    /// Slots that are still to be destroyed.
    pub condemned: u64,
    /// Content still to be destroyed.
    pub owed: Vec<OwedLine>,
    /// The first thousand slots that hold what is to be nowhere.
    pub violations: Vec<Violation>,
    /// How many slots hold that.
    pub violations_count: u64,
    /// Lines of the audit log, and the hash of the last one.
    pub record: Head,
    /// The host's guarantee for the pool.
    pub guarantees: AsSigned<DiskGuarantees>,
}

/// A slot that holds what is to be nowhere.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Violation {
    /// Its first byte in the pool.
    pub start: u64,
    /// The finding.
    pub what: String,
}

/// A proof with its signature.
pub type VaultReceipt = Signed<VaultProof>;

impl VaultProof {
    /// Whether everything that was forgotten is gone.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self.violations_count {
            0 if self.is_clean() => Verdict::allowed_by_signed(&self.guarantees),
            0 => Verdict::Waits { bytes: 0, at_least: true, oldest_ms: None },
            places => Verdict::Found { places },
        }
    }

    /// Whether nothing dead was found, and nothing is still to be destroyed.
    pub fn is_clean(&self) -> bool {
        self.violations_count == 0 && self.condemned == 0 && self.owed.is_empty()
    }
}

/// Reads all of the pool and signs what was found.
pub fn prove(session: &mut Session<'_>, step: Step<'_>) -> Result<VaultReceipt, Error> {
    session.dir.guard_write()?;
    let key = session.dir.directory().key()?;
    let live = session.vault.reached_by_all(&mut |_, _| step(0, 0))?;
    let toml = session.dir.home().toml();
    let mut proof = VaultProof {
        format: "quietus-vault-proof-1".into(),
        vault: toml.uuid.to_string(),
        medium: session.dir.home().pool_path().display().to_string(),
        time_ms: now_ms(),
        program: concat!("quietus ", env!("CARGO_PKG_VERSION")).into(),
        policy: toml.policy.clone(),
        snapshots: session.vault.status().snapshots as u64,
        live_chunks: live.len(),
        read_ways: BTreeMap::new(),
        hole_bytes: 0,
        containers: 0,
        free: 0,
        condemned: 0,
        owed: session.vault.owed().map(|(_, owed)| owed.into()).collect(),
        violations: Vec::new(),
        violations_count: 0,
        record: session.log_head(),
        guarantees: AsSigned::new(&session.dir.home().guarantees()),
    };
    let bytes = u64::from(session.vault.layout().slot_bytes);
    let (mut space, mut buffer) = (Space::of(session), vec![0; bytes as usize]);
    let mut done = 0;
    for slot in session.vault.slots() {
        let at = Extent::<Pos>::new(u64::from(slot.0) * bytes, bytes);
        let parts = space.within(session, at);
        let found = match parts.is_empty() {
            true => &[][..],
            false => {
                if !step(done, space.bytes) {
                    return Err(Error::Interrupted);
                }
                read(session, &mut proof, at, &parts, &mut buffer)?;
                &buffer
            }
        };
        let read: u64 = parts.iter().map(|part| part.len).sum();
        done += read;
        proof.hole_bytes += at.len - read;
        proof.note(at, session.vault.examine(slot, found, &live));
    }
    let signed = Signed::sign(proof, &key);
    session.note(&[Entry::Proved { digest: sha256(signed.covered().as_bytes()) }])?;
    Ok(signed)
}

/// The parts of the pool that have space. A file has no space for most of its slots, and the host is not asked about each of these.
struct Space {
    /// Bytes with space.
    bytes: u64,
    /// Where the next ones begin, from the last part on that was asked for.
    next: u64,
}

impl Space {
    fn of(session: &Session<'_>) -> Self {
        let all = Extent::new(0, session.vault.layout().pool_bytes());
        let bytes = parts(session, all).map(|part| part.len).sum();
        Self { bytes, next: 0 }
    }

    /// The parts of `at` that have space. Later calls ask for later parts.
    fn within(&mut self, session: &Session<'_>, at: Extent<Pos>) -> Vec<Extent<Pos>> {
        if self.next >= at.end() {
            return Vec::new();
        }
        let rest = Extent::between(at.start.0, session.vault.layout().pool_bytes());
        self.next = parts(session, rest).next().map_or(u64::MAX, |part| part.start.0);
        parts(session, at).collect()
    }
}

/// The parts of an extent that have space; all of it on a device, where nothing can be known.
fn parts<'s>(session: &'s Session<'_>, at: Extent<Pos>) -> Box<dyn Iterator<Item = Extent<Pos>> + 's> {
    let pool = session.dir.pool();
    if pool.is_device() { Box::new(std::iter::once(at)) } else { Box::new(pool.data_within(at)) }
}

/// Reads parts of a slot from the medium itself, as far as the host allows. The rest is zeros.
fn read(
    session: &Session<'_>,
    proof: &mut VaultProof,
    at: Extent<Pos>,
    parts: &[Extent<Pos>],
    buffer: &mut [u8],
) -> Result<(), Error> {
    buffer.fill(0);
    for part in parts {
        let from = (part.start.0 - at.start.0) as usize;
        let into = &mut buffer[from..from + part.len as usize];
        let way = session.dir.pool().read_uncached(part.start, into)?;
        *proof.read_ways.entry(way.name().into()).or_default() += part.len;
    }
    Ok(())
}

impl VaultProof {
    fn note(&mut self, at: Extent<Pos>, found: Found) {
        let residue = match found {
            Found::Free => return self.free += 1,
            Found::Owed => return self.condemned += 1,
            Found::Live(_) => return self.containers += 1,
            Found::Residue(residue) => residue,
        };
        self.violations_count += 1;
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(Violation { start: at.start.0, what: in_words(&residue) });
        }
    }
}

fn in_words(residue: &Residue) -> String {
    match residue {
        Residue::Free => "bytes in a free slot".into(),
        Residue::Chunks(1) => "a chunk that no snapshot has".into(),
        Residue::Chunks(count) => format!("{count} chunks that no snapshot has"),
        Residue::Names(count) => format!("{count} names of chunks that no snapshot has"),
        Residue::Entry => "an entry of a directory that cannot be read".into(),
        Residue::Gap => "bytes that belong to no chunk".into(),
        Residue::Container => "no container of this vault where one has to be".into(),
    }
}
