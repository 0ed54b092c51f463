//! A judge of content, who knows no rule: which content marked files have held, and whether the medium still has it.

use super::guest::{BLOCK, FILES, Inode};
use super::product::Product;
use crate::content::Tag;
use crate::rule_e::marks::image::place;
use quietus_core::ledger::Due;
use quietus_core::watch::Class;
use std::collections::BTreeSet;

/// What the judge has seen of the guest.
#[derive(Debug, Default)]
pub struct Judge {
    inodes: [Inode; FILES],
    /// The file of each inode has had the flag.
    marked: [bool; FILES],
    /// The block's content; none after the guest has freed it.
    content: Option<Tag>,
    /// Content that was in the block while a marked file named it.
    secrets: BTreeSet<Tag>,
}

impl Judge {
    /// The block is written from end to end.
    pub fn written(&mut self, tag: Tag) {
        self.content = Some(tag);
        self.look();
    }

    /// The guest frees the block: a file that names it from now on does not hold what was there.
    pub fn freed(&mut self) {
        self.content = None;
    }

    /// The inodes are overwritten.
    pub fn inodes_written(&mut self, inodes: [Inode; FILES]) {
        for (file, (old, new)) in self.inodes.into_iter().zip(inodes).enumerate() {
            let is_same = (old.generation, old.is_in_use) == (new.generation, new.is_in_use);
            self.marked[file] = new.is_in_use && (new.has_flag || is_same && self.marked[file]);
        }
        self.inodes = inodes;
        self.look();
    }

    fn look(&mut self) {
        if self.inodes.iter().zip(self.marked).any(|(inode, is_marked)| is_marked && inode.names) {
            self.secrets.extend(self.content);
        }
    }

    /// Checks that no content of a marked file is left where nothing is to be destroyed.
    ///
    /// # Errors
    /// The content that is left.
    pub fn judge(&self, product: &Product) -> Result<(), String> {
        let is_plain = product.class() == Some(Class::Plain);
        let is_owed = product.due().iter().any(|it| !matches!(it, Due::Free { .. }));
        if !is_plain || is_owed || self.secrets.is_empty() {
            return Ok(());
        }
        let server = &product.server;
        let left = server.survivor(|trace| {
            let is_secret = self.secrets.contains(&trace.tag);
            server.lacking(trace, place(BLOCK)).next().filter(|_| is_secret)
        });
        Ok(server.report(left, "promise: the block is plain, and nothing is owed")?)
    }
}
