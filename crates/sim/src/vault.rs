//! Histories of a vault: puts, forgets, restores and sanitizations at once, and cuts of the power at any write.
//!
//! Oracles: what a live snapshot has is restored as it was put; what nothing refers to since before a sanitization is nowhere when that has
//! ended, whether as content, compressed, as a name, or as a fingerprint, on the media or in the findings of a laboratory; a forget
//! has one receipt, and only then; everything that the index finds is there; a vault that is left alone meets all that it owes. In
//! the end the catalog is damaged, and nothing live is lost by that; and the medium changes a bit of a container: what is dead elsewhere is destroyed all the same, and what a repair of that bit, or another
//! put of the same files, could bring back is there still.

mod client;
mod forensic;
mod items;
mod life;
mod model;

use crate::rules::rule_e::search::Part;
use crate::soak::figures;
use crate::verdict::caught;

figures! {
    /// Calls of the vault.
    steps,
    /// Snapshots that were committed.
    commits,
    /// Chunks that were there when a put offered them.
    shared,
    /// Snapshots that were forgotten.
    forgets,
    /// Sanitizations that ended.
    sanitized,
    /// Chunks that sanitizations copied.
    copied,
    /// Items that were looked for, and not found, when a sanitization ended.
    gone,
    /// Snapshots that were restored.
    restores,
    /// Cuts of the power.
    cuts,
    /// Lives that a failing medium ended.
    faults,
    /// Puts that found the vault full.
    full,
    /// Bits of a container that the medium has changed.
    damaged,
    /// Containers that were left because of such a bit.
    left,
    /// Catalogs that were damaged.
    mended,
}

/// The history of `seed`.
pub fn played(seed: u64) -> (Part, Figures) {
    let (figures, failure) = match caught(|| life::run(seed)) {
        Ok(figures) => (figures, None),
        Err(violation) => (Figures::default(), Some((String::new(), violation.to_string()))),
    };
    (Part::of(format!("a vault, seed {seed}"), figures.steps as usize, failure), figures)
}
