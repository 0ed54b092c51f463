//! Marks and classes, saved at a clean stop as bytes (`docs/formats/view.md`).

use crate::formats::format::{Block, Role};
use crate::rules::marks::Marks;
use crate::rules::marks::classes::Classes;
use crate::rules::marks::committed::Committed;
use crate::rules::marks::counted::Counted;
use crate::rules::marks::tree::{Node, Tree};
use crate::rules::rule::sets::{put_map, put_rows, put_sets, take_map, take_rows, take_sets};
use quietus_core::base::fields::Fields;
use roaring::RoaringBitmap;

/// Bit of a node's number for one that leads to entries of a folder; the level lies below.
const FOLDER: u32 = 1 << 8;
/// Bit of a node's number for one whose names count.
const READ: u32 = 1 << 9;
/// End of all numbers of inodes.
const NUMBERS_END: u32 = u32::MAX;

impl Classes {
    /// Writes the classes that are kept.
    pub(crate) fn put(&self, bytes: &mut Vec<u8>) {
        put_sets([&self.sensitive, &self.unsettled, &self.handed_out], bytes);
    }

    /// Takes the classes that [`Classes::put`] wrote.
    pub(crate) fn restore(&mut self, fields: &mut Fields<'_>) -> Option<()> {
        [self.sensitive, self.unsettled, self.handed_out] = take_sets(fields, self.blocks)?;
        Some(())
    }
}

impl Committed {
    /// Writes trees that are complete.
    pub(crate) fn put(&self, bytes: &mut Vec<u8>) {
        put_sets([&self.blocks], bytes);
        put_map(&self.inodes, bytes);
        put_rows(self.nodes.iter().map(|(block, role)| [*block, role_number(*role)]), bytes);
    }

    /// The trees that [`Committed::put`] wrote, in a file system of so many `blocks`.
    pub(crate) fn restored(fields: &mut Fields<'_>, blocks: Block) -> Option<Self> {
        let [named] = take_sets(fields, blocks)?;
        let inodes = take_map(fields, NUMBERS_END)?;
        let nodes = take_rows::<2>(fields, blocks)?.into_iter().map(|[block, role]| (block, role_of(role)));
        Some(Self { inodes, blocks: named, nodes: nodes.collect(), ..Self::default() })
    }
}

/// The number of `role` in a view.
fn role_number(role: Role) -> u32 {
    u32::from(role.level) | if role.is_folder { FOLDER } else { 0 }
}

fn role_of(number: u32) -> Role {
    Role { level: number as u8, is_folder: number & FOLDER != 0 }
}

impl Marks {
    /// Whether everything is known, so that a view can hold it.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_known && !self.is_reading() && !self.tree.is_overfull
    }

    /// Writes everything but what a restart knows.
    pub(crate) fn put(&self, bytes: &mut Vec<u8>) {
        let (tree, classes) = (&self.tree, &self.classes);
        bytes.push(u8::from(classes.has_any));
        put_sets([&tree.flagged, &tree.kept, &tree.followed, &tree.named.all], bytes);
        put_sets([&tree.blocks.all], bytes);
        classes.put(bytes);
        put_map(&tree.named.again, bytes);
        put_map(&tree.blocks.again, bytes);
        let nodes = tree.nodes.iter().map(|((block, role), node)| {
            let is_read = if node.is_read { READ } else { 0 };
            [*block, role_number(*role) | is_read, node.names]
        });
        put_rows(nodes, bytes);
    }

    /// The marks that [`Marks::put`] wrote; `None` if `fields` do not hold some.
    pub(crate) fn restored(&self, fields: &mut Fields<'_>) -> Option<Self> {
        let [has_any] = fields.array()?;
        let [flagged, kept, followed, named]: [RoaringBitmap; 4] = take_sets(fields, NUMBERS_END)?;
        let mut fresh = Self::new(self.classes.blocks, self.classes.fixed.clone(), self.is_doubtful);
        let [owned] = take_sets(fields, self.classes.blocks)?;
        fresh.classes.restore(fields)?;
        fresh.classes.has_any = has_any != 0;
        let named = Counted { all: named, again: take_map(fields, NUMBERS_END)? };
        let blocks = Counted { all: owned, again: take_map(fields, self.classes.blocks)? };
        let nodes = take_rows::<3>(fields, self.classes.blocks)?
            .into_iter()
            .map(|[block, role, names]| ((block, role_of(role)), Node { names, is_read: role & READ != 0 }));
        let nodes = nodes.collect();
        let tree = Tree { flagged, named, kept, followed, blocks, nodes, ..Tree::default() };
        let settling = fresh.classes.unsettled.clone();
        Some(Self { tree, is_known: true, settling, ..fresh })
    }
}
