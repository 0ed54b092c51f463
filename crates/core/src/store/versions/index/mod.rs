//! What the index says: which epoch shows which version of a block, which versions are owed, and which epochs are kept. All of it is in ordered
//! tables ([`crate::tree`]), and nothing here reads or writes a medium.
//!
//! | question | file |
//! | --- | --- |
//! | which version a block has at an epoch; what a forget makes die | `history` |
//! | the versions that died with each epoch, in lists | `deaths` |
//! | blocks that were forgotten in all epochs | `gaps` |
//! | epochs that go on to show what has died | `lingering` |
//! | what epochs weigh | `weighing` |
//! | keys and values in pages; runs of versions that lie side by side; the two copies of a table | `key`, `span`, `twin` |

pub(super) mod deaths;
pub(super) mod gaps;
pub(super) mod history;
pub(super) mod key;
pub(super) mod lingering;
pub(super) mod span;
pub(super) mod twin;
pub(super) mod weighing;
