//! How long a chip takes.

/// Time that the operations of a chip take, in microseconds, and how often a block can be erased.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Microseconds from the command of a read to the page in the chip's register.
    pub read_us: u64,
    /// Microseconds to program a page.
    pub program_us: u64,
    /// Microseconds to erase a block.
    pub erase_us: u64,
    /// Number of erases after which a block may fail.
    pub endurance: u32,
}

/// One bit a cell: Micron's MT29F2G08, with pages of 2 KiB, 64 in a block. Source: its data sheet.
pub const SLC: Timing = Timing { read_us: 25, program_us: 300, erase_us: 2_000, endurance: 100_000 };

/// Two bits a cell: Micron's MT29F128G08, with pages of 16 KiB, 512 in a block. Source: its data sheet.
pub const MLC: Timing = Timing { read_us: 115, program_us: 1_600, erase_us: 3_000, endurance: 3_000 };

/// Three bits a cell. Source: the upper ends of table 1 in Hewlett-Packard's white paper *Solid State Drive Technology: Differences
/// between SLC, MLC and TLC NAND*.
pub const TLC: Timing = Timing { read_us: 75, program_us: 1_350, erase_us: 4_500, endurance: 1_000 };

/// The operations of a chip, and how long they take on a real one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Number of pages read.
    pub reads: u64,
    /// Number of pages programmed.
    pub programs: u64,
    /// Number of blocks erased.
    pub erases: u64,
    /// Microseconds of all operations together.
    pub micros: u64,
}
