//! Taking entries out of the folders of many snapshots.
//!
//! Snapshots share most of what they have. So each chunk of a folder is read once for each path where it is, and each
//! folder is stored again once, however many snapshots there are.

use std::collections::BTreeMap;

use super::{Access, Writer, joined, read_folder};
use crate::tree::{Kind, Recipe, Totals, nodes};
use crate::{Fingerprint, Reference, VaultError};

/// Whether the entry of a path is to be taken out.
pub type IsGone<'a> = dyn Fn(&[u8]) -> bool + 'a;

/// The entries to take out of folders, and the knowledge of the folders that were read.
pub struct Thinning<'a> {
    is_gone: &'a IsGone<'a>,
    /// The amount to take out of a chunk of the folder of a path, and of all below.
    gone: BTreeMap<(Vec<u8>, Fingerprint), Totals>,
    /// The amount in a chunk of a folder, and below.
    all: BTreeMap<Fingerprint, Totals>,
    /// The folders of a path that were stored again.
    stored: BTreeMap<(Vec<u8>, Recipe), Recipe>,
}

impl<'a> Thinning<'a> {
    /// Takes out the entries that `is_gone` names by their path, with all below.
    pub fn new(is_gone: &'a IsGone<'a>) -> Thinning<'a> {
        Thinning { is_gone, gone: BTreeMap::new(), all: BTreeMap::new(), stored: BTreeMap::new() }
    }

    /// The amount to take out of a folder, and of all below.
    ///
    /// # Errors
    ///
    /// As [`Access::get`].
    pub fn matching(
        &mut self,
        vault: &mut dyn Access,
        folder: &Recipe,
        path: &[u8],
    ) -> Result<Totals, VaultError> {
        let mut found = Totals::default();
        for chunk in chunks(vault, folder)? {
            let place = (path.to_vec(), chunk.fingerprint);
            if let Some(known) = self.gone.get(&place) {
                found.add(*known);
                continue;
            }
            let mut new = Totals::default();
            for node in nodes(&vault.get(&chunk)?)? {
                let path = joined(path, &node.name);
                match ((self.is_gone)(&path), &node.kind) {
                    (true, Kind::Folder(below)) => {
                        new.count(&node);
                        new.add(self.totals(vault, below)?);
                    }
                    (true, _) => new.count(&node),
                    (false, Kind::Folder(below)) => new.add(self.matching(vault, below, &path)?),
                    (false, _) => {}
                }
            }
            self.gone.insert(place, new);
            found.add(new);
        }
        Ok(found)
    }

    /// The amount of entries and bytes in a folder and below.
    ///
    /// # Errors
    ///
    /// As [`Access::get`].
    pub fn totals(&mut self, vault: &mut dyn Access, folder: &Recipe) -> Result<Totals, VaultError> {
        let mut totals = Totals::default();
        for chunk in chunks(vault, folder)? {
            if let Some(known) = self.all.get(&chunk.fingerprint) {
                totals.add(*known);
                continue;
            }
            let mut new = Totals::default();
            for node in nodes(&vault.get(&chunk)?)? {
                new.count(&node);
                if let Kind::Folder(below) = &node.kind {
                    new.add(self.totals(vault, below)?);
                }
            }
            self.all.insert(chunk.fingerprint, new);
            totals.add(new);
        }
        Ok(totals)
    }

    /// Stores a folder again without the entries to take out; `None` if there is nothing to take out. All folders of a
    /// thinning are stored by the same put.
    ///
    /// # Errors
    ///
    /// As [`Writer::folder`], and as [`Access::get`].
    pub fn without(
        &mut self,
        writer: &mut Writer,
        vault: &mut dyn Access,
        folder: &Recipe,
        path: &[u8],
    ) -> Result<Option<Recipe>, VaultError> {
        if self.matching(vault, folder, path)? == Totals::default() {
            return Ok(None);
        }
        let place = (path.to_vec(), folder.clone());
        if let Some(stored) = self.stored.get(&place) {
            return Ok(Some(stored.clone()));
        }
        let mut kept = Vec::new();
        for mut node in read_folder(vault, folder)? {
            let path = joined(path, &node.name);
            if (self.is_gone)(&path) {
                continue;
            }
            if let Kind::Folder(below) = &mut node.kind
                && let Some(new) = self.without(writer, vault, below, &path)?
            {
                *below = new;
            }
            kept.push(node);
        }
        let stored = writer.folder(vault, &kept)?;
        self.stored.insert(place, stored.clone());
        Ok(Some(stored))
    }
}

/// The chunks of a folder that have its entries.
fn chunks(vault: &mut dyn Access, folder: &Recipe) -> Result<Vec<Reference>, VaultError> {
    let (mut found, mut at) = (Vec::new(), folder.cursor()?);
    while let Some(span) = at.next(&mut |chunk| vault.get(chunk))? {
        found.extend(span.reference());
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
