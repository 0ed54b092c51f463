//! Receipts that are owed: they say what was destroyed, and are not in the audit log yet.
//!
//! An obligation that is completed becomes a receipt in the same journal frame, and the receipt stays
//! in the journal until the audit log has made it durable. So a crash loses neither: the next start
//! hands the receipt to the audit log again.
//!
//! Receipts have numbers, in the order in which they arose, from 0 on since the disk was
//! created. The audit log says up to which number it has receipts, so that no receipt is
//! written twice.

use crate::base::units::{Addr, Extent, Scope};
use crate::owed::ledger::Cause;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// How an obligation was completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Done {
    /// The content and all below it were destroyed.
    Shredded = 1,
    /// The guest wrote over the content, durably.
    Overwritten = 4,
    /// All below the content was destroyed; the content is kept.
    Rewritten = 2,
    /// A kept epoch shows the content: it dies with the last epoch that does.
    Retired = 5,
    /// The space is free; nothing was destroyed, as the policy has no passes.
    Freed = 3,
    /// The content was plain: its space is free, and nothing was destroyed.
    Plain = 6,
    /// The key of the content was destroyed.
    Rekeyed = 7,
    /// The medium destroyed the content and all older versions of it.
    Erased = 8,
}

impl Done {
    /// The one with this number in the journal.
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        let all = [
            Self::Shredded,
            Self::Rewritten,
            Self::Freed,
            Self::Overwritten,
            Self::Retired,
            Self::Plain,
            Self::Rekeyed,
            Self::Erased,
        ];
        all.into_iter().find(|it| *it as u8 == number)
    }

    /// The name, as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Shredded => "shredded",
            Self::Overwritten => "overwritten",
            Self::Rewritten => "rewritten",
            Self::Retired => "retired",
            Self::Freed => "freed",
            Self::Plain => "plain",
            Self::Rekeyed => "rekeyed",
            Self::Erased => "erased",
        }
    }
}

/// A statement that dead content is gone. The last sync of the medium came before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// How the obligation was completed.
    pub act: Done,
    /// Why the bytes were dead.
    pub cause: Cause,
    /// Passes over each byte.
    pub passes: u16,
    /// The bytes. Of a forget only the length counts: that of the content that died with it.
    pub extent: Extent<Addr>,
    /// The forgotten scope; `None` if the bytes died in the open epoch.
    pub forgot: Option<Scope>,
}

/// The end of the audit log, as far as the journal knows that it is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogHead {
    /// The number of lines since the disk was created.
    pub lines: u64,
    /// The SHA-256 of the last line; zeros if there is none.
    pub hash: [u8; 32],
}

/// Receipts that the audit log does not have yet, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Receipts {
    queue: VecDeque<Receipt>,
}

impl Receipts {
    /// The number of receipts that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether the audit log has all receipts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// All receipts that wait, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Receipt> {
        self.queue.iter()
    }

    pub(crate) fn push(&mut self, receipt: Receipt) {
        let is_of_forget = receipt.cause == Cause::Forget;
        assert!(is_of_forget == receipt.forgot.is_some(), "a receipt of a forget says what was forgotten");
        self.queue.push_back(receipt);
    }

    /// Removes the first `count` receipts: the audit log has them.
    pub(crate) fn recorded(&mut self, count: u64) {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.queue.len());
        self.queue.drain(..count);
    }
}
