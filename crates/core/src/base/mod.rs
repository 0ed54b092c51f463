//! The plainest types: units of measure, sets and maps of extents, bytes and the numbers in them, secrets in memory. Nothing here knows of a
//! disk.
//!
//! | question | file |
//! | --- | --- |
//! | an address, a position, an epoch, a slot | `units` |
//! | parts that are forgotten as one | `parts` |
//! | a table by a number that the program gave | `numbers` |
//! | which bytes of a disk: as ranges, as a set of blocks | `extents`, `blocks` |
//! | bytes that are shared; numbers in the bytes of a format | `buf`, `fields` |
//! | keys that hide stubs; memory that is wiped | `cell`, `memory` |
//! | one wrong bit or byte under a checksum | `mend` |
//! | work counted instead of time, in tests | `steps` |

pub mod blocks;
pub mod buf;
pub mod cell;
pub mod extents;
pub mod fields;
pub mod memory;
pub mod mend;
pub mod named;
pub mod numbers;
pub mod parts;
pub(crate) mod steps;
pub mod units;
pub mod zeros;
