//! The proof about stubs: what lies on their medium, compared with the index.
//!
//! Where content dies with its stub, its ciphertext may stay anywhere. So the medium of stubs is read as a whole, around
//! the host's cache, and each stub that lies there has to be that of a version which the current state or a kept epoch
//! shows.

use super::{ProofError, Search};
use crate::disk::DiskDir;
use crate::export::Export;
use crate::host::{Part, inspect_disk};
use crate::stub_medium::{ScanError, StubScan};
use quietus_core::media::MediumId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What was found on a stub medium.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StubsFound {
    /// Path of the stub medium.
    pub medium: String,
    /// Bytes of it that were read; the rest are holes.
    pub read_bytes: u64,
    /// Stubs of versions that the current state or a kept epoch shows; twice, if the log has one that is at home by now.
    pub live: u64,
    /// Stubs that are still to be destroyed.
    pub owed: u64,
    /// Where stubs lie that no version has, or damaged sectors of the log.
    pub residue: Vec<u64>,
    /// The guarantees of the medium of the content, where nothing has to be destroyed.
    pub data: Value,
}

impl<F: FnMut(u64, u64) -> bool> Search<'_, F> {
    /// Reads the stub medium.
    pub(super) fn look_at_stubs(&mut self, dir: &DiskDir) -> Result<StubsFound, ProofError> {
        let (engine, size) = (self.engine, self.engine.info().size);
        let scan = StubScan::of(engine, || self.go_on(size).is_ok()).map_err(|error| match error {
            ScanError::Interrupted => ProofError::Interrupted,
            error => ProofError::Stubs(error),
        })?;
        let StubScan { read_ways, live, owed, residue, .. } = scan;
        let read_bytes = read_ways.values().sum();
        self.read_ways.extend(read_ways);
        let row = dir.media().iter().find(|row| row.id == MediumId::Stubs);
        let medium = row.map(|row| row.path(dir.toml(), dir.path())).unwrap_or_default();
        let data = json!(inspect_disk([(Part::Medium, dir.medium_path())]));
        Ok(StubsFound { medium: medium.display().to_string(), read_bytes, live, owed, residue, data })
    }
}
