//! The audit log, as far as the volume knows it: receipts go in, and become durable some time
//! later; later again, the volume is told. A kill in between must neither lose nor repeat a receipt.

use super::{Said, Server};
use crate::verdict::{Judged, unrecorded};
use quietus_core::volume::{Done, Event, LogHead, Receipt};
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(super) struct Log {
    /// Receipts that are durable: their number, and their bytes.
    durable: u64,
    shredded_bytes: u64,
    rewritten_bytes: u64,
    /// Receipts that are not durable yet.
    coming: VecDeque<Receipt>,
    /// Number of receipts of which the volume was told.
    told: u64,
    /// Receipts before this one are of an earlier life of the server.
    late_before: u64,
}

impl Log {
    /// Takes receipt `number`: the one after all that the log has.
    fn take(&mut self, number: u64, receipt: Receipt) -> Judged {
        let next = self.durable + self.coming.len() as u64;
        if number != next {
            return Err(unrecorded(format!("receipt {number} comes instead of receipt {next}")));
        }
        self.coming.push_back(receipt);
        Ok(())
    }

    /// Makes the first `count` of the coming receipts durable.
    fn sync(&mut self, count: usize) {
        for receipt in self.coming.drain(..count) {
            self.durable += 1;
            match receipt.act {
                Done::Retired | Done::Plain => {}
                Done::Rewritten => self.rewritten_bytes += receipt.extent.len,
                Done::Shredded | Done::Freed | Done::Overwritten | Done::Rekeyed | Done::Erased => {
                    self.shredded_bytes += receipt.extent.len
                }
            }
        }
    }

    /// Whether the volume does not wait for the log.
    pub(super) fn is_at_rest(&self) -> bool {
        self.coming.is_empty() && self.told == self.durable
    }

    fn event(&mut self) -> Event {
        self.told = self.durable;
        let head = LogHead { lines: self.durable, hash: [self.durable as u8; 32] };
        Event::Recorded { receipts: self.durable, head }
    }
}

impl Server {
    pub(super) fn log_receipt(&mut self, number: u64, receipt: Receipt) -> Judged {
        // Newer content may be there.
        let is_late = !self.setup.is_in_place()
            || self.setup.erases
            || number < self.log.late_before
            || receipt.act == Done::Overwritten;
        if is_late {
            self.count(&receipt)?;
            if self.is_keyed() {
                self.judge_rekeyed(&receipt)?;
            }
            self.say(Said::Late(receipt));
        } else if receipt.act != Done::Plain {
            self.judge_receipt(&receipt)?;
        }
        self.log.take(number, receipt)
    }

    /// Takes the log a step further.
    pub(super) fn turn_log(&mut self) -> Judged {
        if self.log.is_at_rest() || !self.rng.chance(20) {
            return Ok(());
        }
        if self.log.told < self.log.durable {
            let event = self.log.event();
            return self.tell(event);
        }
        self.log.sync(self.rng.index(self.log.coming.len()) + 1);
        Ok(())
    }

    /// Makes the log durable as it is, and says so.
    pub(super) fn log_at_once(&mut self) -> Judged {
        self.log.sync(self.log.coming.len());
        if self.log.is_at_rest() {
            return Ok(());
        }
        let event = self.log.event();
        self.tell(event)
    }

    /// Loses the process: coming receipts may be durable, or some of them.
    pub(super) fn lose_log(&mut self) {
        let count = self.rng.index(self.log.coming.len() + 1);
        self.log.sync(count);
        self.log.coming.clear();
    }

    /// Reports the log as read, which comes before all else at a start.
    pub(super) fn resume_log(&mut self) -> Judged {
        self.log.late_before = self.volume.status().counters.receipts;
        let event = self.log.event();
        self.tell(event)
    }

    /// Checks that every obligation that was ever completed has its receipt in the log.
    pub fn judge_log(&self) -> Judged {
        let counters = self.volume.status().counters;
        // A key that live content had is destroyed later than the content is rewritten, and has its receipt then.
        let rewritten = if self.is_keyed() { self.log.rewritten_bytes } else { counters.rewritten_bytes };
        let completed = (counters.receipts, counters.destroyed_bytes, rewritten);
        let logged = (self.log.durable, self.log.shredded_bytes, self.log.rewritten_bytes);
        if completed == logged {
            return Ok(());
        }
        Err(unrecorded(format!(
            "(receipts, shredded, rewritten): {completed:?} were completed, {logged:?} are in the log"
        )))
    }
}
