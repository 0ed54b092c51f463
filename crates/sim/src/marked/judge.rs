//! A judge of content, which knows no rule: which content marked files have held, and whether the medium still has it.

use super::guest::{BLOCK, FILES, Inode};
use super::product::Product;
use crate::machine::content::Tag;
use crate::rules::rule_e::marks::image::place;
use quietus_core::owed::ledger::Due;
use quietus_core::watch::Class;
use std::collections::BTreeSet;

/// The state of the guest's disk, as the judge has seen it.
#[derive(Debug, Default)]
pub struct Judge {
    inodes: [Inode; FILES],
    /// The file of each inode has had the flag.
    marked: [bool; FILES],
    /// The block's content; `None` after the guest has freed it.
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

    /// Checks that no content of a marked file is left in or below a plain block, unless its destruction is owed.
    pub fn judge(&self, product: &Product) -> Result<(), String> {
        if self.secrets.is_empty() || product.class() != Some(Class::Plain) {
            return Ok(());
        }
        let (server, due) = (&product.server, product.due());
        let is_owed = |tag: Tag| match due[..] {
            [Due::Shred { .. }] => true,
            [Due::ConservativeOverwrite] => self.content != Some(tag),
            _ => false,
        };
        let counts = |tag: Tag| self.secrets.contains(&tag) && !is_owed(tag);
        if let Some(tag) = server.visible_tags(place(BLOCK)).into_iter().find(|it| counts(*it)) {
            return Err(format!("promise: the block is plain, and {tag:?} can be read"));
        }
        let left =
            server.survivor(|trace| server.lacking(trace, place(BLOCK)).next().filter(|_| counts(trace.tag)));
        Ok(server.report(left, "promise: the block is plain")?)
    }
}
