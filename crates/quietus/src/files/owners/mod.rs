//! What dies with files: the versions of blocks that only they have had, in all epochs that show them.
//!
//! A version of a block dies only if each kept epoch that shows it says that the block is of one of the files, or of no file; and if one of
//! these epochs says so of the files, or the one before or behind them. The check looks at each roll of the file system in each state in which that
//! has changed: so a guest cannot have evidence destroyed by pointing a doomed file at it.
//!
//! | question | where |
//! | --- | --- |
//! | who has which blocks, from epoch to epoch | `census` |
//! | which versions die, and what stays for which reason | `plan` |
//! | copies of what dies in the log of the file system | `log` |
//! | what a second reader says of where a file lies | `confirming`, `witness` |

mod census;
mod confirming;
mod log;
mod part;
mod plan;
mod witness;

pub use part::Part;
pub use plan::{Chosen, Plan, Planned, plan};
