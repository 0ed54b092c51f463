//! The proof about stubs: what lies on their medium, compared with the index.
//!
//! Where content dies with its stub, its ciphertext may stay anywhere. So the medium of stubs is read as a whole, around
//! the host's cache, and each stub that lies there has to be that of a version which the current state or a kept epoch
//! shows. So is the root: each cell there has to be one in use.

use super::{ProofError, Search};
use crate::disk::DiskDir;
use crate::engine::export::Export;
use crate::proof::stub_medium::{ScanError, StubScan};
use quietus_core::media::MediumId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Findings on a stub medium.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StubsFound {
    /// Path of the stub medium.
    pub medium: String,
    /// Bytes of it that were read; the rest are holes.
    pub read_bytes: u64,
    /// Stubs of versions that the current state or a kept epoch shows; twice, if the log has one that is at home by now.
    pub live: u64,
    /// Stubs that are still to be destroyed.
    pub owed: u64,
    /// Where stubs lie that no version has, or damaged sectors.
    pub residue: Vec<u64>,
    /// Findings in the root, whose guarantees decide.
    pub root: RootFound,
}

/// Findings in a root.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RootFound {
    /// Path of the medium of the root.
    pub medium: String,
    /// Bytes of it that were read; the rest are holes.
    pub read_bytes: u64,
    /// Cells in use.
    pub cells: u64,
    /// Cells that are still to be destroyed.
    pub owed: u64,
    /// Where something lies that is no cell in use.
    pub residue: Vec<u64>,
}

impl<F: FnMut(u64, u64) -> bool> Search<'_, F> {
    /// Reads the stub medium.
    pub(super) fn look_at_stubs(&mut self, dir: &DiskDir) -> Result<StubsFound, ProofError> {
        let (medium, read_bytes, scan) = self.look_at(dir, MediumId::Stubs)?;
        let StubScan { live, owed, residue, .. } = scan;
        let (of_root, read_of_root, cells) = self.look_at(dir, MediumId::Root)?;
        let root = RootFound {
            medium: of_root,
            read_bytes: read_of_root,
            cells: cells.live,
            owed: cells.owed,
            residue: cells.residue,
        };
        Ok(StubsFound { medium, read_bytes, live, owed, residue, root })
    }

    /// Looks at all of a medium: its path, how much of it was read, and what was found.
    fn look_at(&mut self, dir: &DiskDir, id: MediumId) -> Result<(String, u64, StubScan), ProofError> {
        let (engine, size) = (self.engine, self.engine.info().size);
        let scan = StubScan::of(engine, id, || self.go_on(size).is_ok()).map_err(|error| match error {
            ScanError::Interrupted => ProofError::Interrupted,
            error => ProofError::Stubs(error),
        })?;
        let read_bytes = scan.read_ways.values().sum();
        for (way, bytes) in &scan.read_ways {
            *self.read_ways.entry(way.clone()).or_default() += bytes;
        }
        let medium = dir.medium_of(id).map(|path| path.display().to_string());
        Ok((medium.unwrap_or_default(), read_bytes, scan))
    }
}
