//! The replies that are allowed, and their meaning for the model.

use super::{Pending, World};
use crate::content::Tag;
use crate::history::Ask;
use crate::medium::FaultKind;
use crate::server::{Moment, bad_reply};
use crate::violation::Violation;
use quietus_core::request::{Buf, Outcome, Refusal, RequestId};
use quietus_core::units::{Addr, BLOCK_BYTES, Extent};

impl World {
    pub(super) fn replied(
        &mut self,
        moment: Moment,
        id: RequestId,
        outcome: Outcome,
    ) -> Result<(), Violation> {
        let Some(pending) = self.pending.remove(&id) else {
            return Err(bad_reply(format!("{id:?} was replied to twice, or never sent")));
        };
        let tag = Tag(id.0 as u32);
        match outcome {
            Ok(buf) => self.is_done(moment, tag, &pending, &buf),
            Err(refusal) => self.is_refused(tag, &pending, &refusal),
        }
    }

    fn is_done(&mut self, moment: Moment, tag: Tag, pending: &Pending, buf: &Buf) -> Result<(), Violation> {
        self.server.figures.done += 1;
        let extent = pending.extent;
        match pending.ask {
            Ask::Read => {
                let reading = pending.reading.as_ref().expect("a read has a reading");
                self.model.end_read(reading, buf, moment)?;
            }
            Ask::Write => self.model.settle(tag, extent, moment, pending.fua),
            Ask::WriteZeros => {
                self.model.settle(tag, extent, moment, pending.fua);
                self.zeros_written(moment, tag, extent);
            }
            Ask::Trim | Ask::Zero { .. } | Ask::Purge => self.died(moment, tag, extent),
            Ask::ConservativeOverwrite => self.model.rewritten(tag, extent),
            Ask::Flush => self.model.flushed(pending.since),
            Ask::Cache => {}
        }
        Ok(())
    }

    fn died(&mut self, moment: Moment, tag: Tag, extent: Extent<Addr>) {
        self.model.settle(tag, extent, moment, true);
        self.model.died(tag, extent);
    }

    /// Notes that whole blocks of zeros are deaths, if the disk looks for them.
    fn zeros_written(&mut self, moment: Moment, tag: Tag, extent: Extent<Addr>) {
        let from = extent.start.0.next_multiple_of(BLOCK_BYTES);
        let to = extent.end() / BLOCK_BYTES * BLOCK_BYTES;
        if self.server.setup.detect_zeroes && from < to {
            self.died(moment, tag, Extent::between(from, to));
        }
    }

    fn is_refused(&mut self, tag: Tag, pending: &Pending, refusal: &Refusal) -> Result<(), Violation> {
        self.server.figures.refused += 1;
        let failed = |kind| self.server.trouble.contains(&kind);
        let may_be = match refusal {
            Refusal::NotSupported(_) => {
                matches!(pending.ask, Ask::Zero { fast: true, .. })
                    || pending.ask == Ask::ConservativeOverwrite
                        && (self.server.passes() == 0 || self.server.setup.keeps_versions())
            }
            // An answered write has its space: nothing is left to be refused at a flush.
            Refusal::NoSpace(_) if matches!(pending.ask, Ask::Read | Ask::Flush) => failed(FaultKind::Space),
            Refusal::NoSpace(_) => failed(FaultKind::Space) || failed(FaultKind::Full),
            Refusal::Io(_) if pending.ask == Ask::Read => failed(FaultKind::Read),
            Refusal::Io(_) => self.server.has_failed(),
            Refusal::Latched(_) => self.server.is_latched,
            Refusal::ShuttingDown => self.server.is_stopping,
            Refusal::ReadOnly
            | Refusal::Invalid(_)
            | Refusal::Unauthentic(_)
            | Refusal::Forgotten(_)
            | Refusal::Restoring => false,
        };
        if !may_be {
            return Err(bad_reply(format!(
                "{:?} of {:?} was refused: {refusal}",
                pending.ask, pending.extent
            )));
        }
        if pending.reading.is_some() {
            self.model.abandon_read();
        }
        if matches!(refusal, Refusal::NotSupported(_)) && pending.ask != Ask::ConservativeOverwrite {
            self.model.withdraw(tag, pending.extent);
        }
        Ok(())
    }
}
