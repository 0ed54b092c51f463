//! The guarantees of a file system, and what can be inferred from them.
//!
//! Tables 2 and 5 of "Life or Death at Block-Level" (sections 4.2 and 6), as
//! data and as a function.

/// Properties of a file system's updates (table 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Properties {
    /// A free block is not reused before the map that shows it free has reached the disk.
    pub reuse_ordering: bool,
    /// At most one dirty copy of a block exists, and it does not change while
    /// it is being written.
    pub block_exclusivity: bool,
    /// Each owner of pointers carries a version that changes with each reuse.
    pub generation_marking: bool,
    /// Deleted blocks are no longer written.
    pub delete_suppression: bool,
    /// Metadata reaches the disk in consistent states.
    pub consistent_metadata: bool,
    /// The data that belongs to the metadata reaches the disk with it.
    pub data_metadata_coupling: bool,
}

/// Kinds of deaths that can be inferred (table 5). Approximate: live content is overestimated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Inferable {
    /// Some blocks whose present content is dead.
    pub block_approximate: bool,
    /// All blocks whose present content is dead.
    pub block_accurate: bool,
    /// Some blocks of which past content is dead.
    pub generation_approximate: bool,
    /// All blocks of which past content is dead.
    pub generation_accurate: bool,
}

const NONE: Properties = Properties {
    reuse_ordering: false,
    block_exclusivity: false,
    generation_marking: false,
    delete_suppression: false,
    consistent_metadata: false,
    data_metadata_coupling: false,
};

/// ext2, mounted as usual; and what the ext4 driver mounts without a journal.
pub const EXT2: Properties =
    Properties { block_exclusivity: true, generation_marking: true, delete_suppression: true, ..NONE };
/// VFAT, and exFAT.
pub const VFAT: Properties = Properties { block_exclusivity: true, delete_suppression: true, ..NONE };
/// NTFS, as its known drivers write it (`docs/decisions/0011-ntfs.md`): ntfs-3g still writes
/// deleted blocks.
pub const NTFS: Properties = Properties { block_exclusivity: true, generation_marking: true, ..NONE };
/// ext3 and ext4, `data=writeback`. Unlike the paper's kernel, today's reuses data blocks at once.
pub const EXT3_WRITEBACK: Properties =
    Properties { generation_marking: true, delete_suppression: true, consistent_metadata: true, ..NONE };
/// ext3 and ext4, `data=ordered`.
pub const EXT3_ORDERED: Properties = Properties { reuse_ordering: true, ..EXT3_WRITEBACK };

impl Properties {
    /// The kinds of deaths that follow from the properties (table 5). Where the paper needs data
    /// coupled to metadata, consistent metadata suffices: two commits later nothing older is under
    /// way (decision 8).
    #[must_use]
    pub fn inferable(self) -> Inferable {
        let block_approximate = self.block_exclusivity || self.consistent_metadata;
        let block_accurate = block_approximate && self.delete_suppression;
        Inferable {
            block_approximate,
            block_accurate,
            generation_approximate: block_approximate && self.generation_marking,
            generation_accurate: block_accurate && self.reuse_ordering,
        }
    }

    /// Names and values of the properties, in the order of table 2.
    #[must_use]
    pub fn named(self) -> [(&'static str, bool); 6] {
        [
            ("reuse ordering", self.reuse_ordering),
            ("block exclusivity", self.block_exclusivity),
            ("generation marking", self.generation_marking),
            ("delete suppression", self.delete_suppression),
            ("consistent metadata", self.consistent_metadata),
            ("data-metadata coupling", self.data_metadata_coupling),
        ]
    }
}

impl Inferable {
    /// Names and values of the kinds of deaths, in the order of table 5.
    #[must_use]
    pub fn named(self) -> [(&'static str, bool); 4] {
        [
            ("block deaths, approximately", self.block_approximate),
            ("block deaths, accurately", self.block_accurate),
            ("generation deaths, approximately", self.generation_approximate),
            ("generation deaths, accurately", self.generation_accurate),
        ]
    }
}

#[cfg(test)]
mod tests {
    use crate::formats::properties::*;

    /// Table 2: a row for each property, an "x" where the column's file system has it, and an "o"
    /// where it had it when the paper was written.
    const MARKS: [&str; 6] = ["..ox", "xx..", "x.xx", "xxxx", "..xx", "...."];
    const COLUMNS: [Properties; 4] = [EXT2, VFAT, EXT3_WRITEBACK, EXT3_ORDERED];

    #[test]
    fn the_data_are_table_2_as_it_is_today() {
        for (row, marks) in MARKS.iter().enumerate() {
            for (column, mark) in COLUMNS.iter().zip(marks.chars()) {
                let (name, has) = column.named()[row];
                assert_eq!(has, mark == 'x', "{name}: {marks}");
            }
        }
    }

    #[test]
    fn what_is_inferred_below_each_can_be_inferred() {
        let of = |properties: Properties| properties.inferable().named().map(|(_, can)| can);
        assert_eq!(of(EXT2), [true, true, true, false]);
        assert_eq!(of(VFAT), [true, true, false, false]);
        assert_eq!(of(NTFS), [true, false, true, false]);
        assert_eq!(of(EXT3_WRITEBACK), [true, true, true, false]);
        assert_eq!(of(EXT3_ORDERED), [true; 4]);
    }
}
