//! The replies that are allowed, and their meaning for the model.

use crate::guests::world::{Pending, World};
use crate::machine::content::Tag;
use crate::machine::history::Ask;
use crate::machine::medium::FaultKind;
use crate::server::Moment;
use crate::verdict::{Judged, bad_reply};
use quietus_core::base::units::{Addr, BLOCK_BYTES, Extent};
use quietus_core::request::{Outcome, Refusal, Reply, RequestId};

impl World {
    pub(super) fn replied(&mut self, moment: Moment, id: RequestId, outcome: Outcome) -> Judged {
        let Some(pending) = self.pending.remove(&id) else {
            return Err(bad_reply(format!("{id:?} was replied to twice, or never sent")));
        };
        let tag = Tag(id.0 as u32);
        match outcome {
            Ok(reply) => self.is_done(moment, tag, &pending, reply),
            Err(refusal) => self.is_refused(tag, &pending, &refusal),
        }
    }

    fn is_done(&mut self, moment: Moment, tag: Tag, pending: &Pending, reply: Reply) -> Judged {
        self.server.figures.done += 1;
        let extent = pending.extent;
        match pending.ask {
            Ask::Read => {
                let reading = pending.reading.as_ref().expect("a read has a reading");
                self.model.end_read(reading, &reply.into_buf(), moment)?;
            }
            Ask::Write => self.settle(tag, extent, moment, pending.fua),
            Ask::WriteZeros => {
                self.settle(tag, extent, moment, pending.fua);
                self.zeros_written(moment, tag, extent);
            }
            Ask::Trim | Ask::Zero { .. } | Ask::Purge => self.died(moment, tag, extent),
            Ask::ConservativeOverwrite => self.model.rewritten(tag, extent),
            Ask::Flush => self.model.flushed(pending.since),
            Ask::Cache => {}
            Ask::CloseEpoch
            | Ask::ReadPast { .. }
            | Ask::ListEpochs { .. }
            | Ask::Forget { .. }
            | Ask::ForgetBlocks
            | Ask::ForgetShown { .. }
            | Ask::ForgetSet { .. } => {
                self.epochs_done(tag, pending, reply)?;
            }
        }
        Ok(())
    }

    fn settle(&mut self, tag: Tag, extent: Extent<Addr>, moment: Moment, durable: bool) {
        self.model.settle(tag, extent, moment, durable);
        self.book.settle(tag, extent, moment, durable);
    }

    fn died(&mut self, moment: Moment, tag: Tag, extent: Extent<Addr>) {
        self.settle(tag, extent, moment, true);
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

    fn is_refused(&mut self, tag: Tag, pending: &Pending, refusal: &Refusal) -> Judged {
        self.server.figures.refused += 1;
        if !self.may_refuse(pending, refusal) {
            return Err(bad_reply(format!(
                "{:?} of {:?} was refused: {refusal}",
                pending.ask, pending.extent
            )));
        }
        if pending.reading.is_some() {
            self.model.abandon_read();
        }
        if pending.ask == Ask::CloseEpoch {
            self.book.close_refused(tag);
        }
        // A disk that latches may have noted the forget.
        if !matches!(refusal, Refusal::Latched(_) | Refusal::Io(_)) {
            self.book.lost.refused(tag);
        }
        if matches!(refusal, Refusal::NotSupported(_)) && pending.ask != Ask::ConservativeOverwrite {
            self.model.withdraw(tag, pending.extent);
            self.book.withdraw(tag, pending.extent);
        }
        Ok(())
    }

    fn may_refuse(&mut self, pending: &Pending, refusal: &Refusal) -> bool {
        let failed = |kind| self.server.trouble.contains(&kind);
        let has_nothing_below = self.server.setup.has_nothing_below();
        match refusal {
            Refusal::NotSupported(_) => {
                matches!(pending.ask, Ask::Zero { fast: true, .. })
                    || pending.ask == Ask::ConservativeOverwrite
                        && (self.server.passes() == 0 || has_nothing_below)
                    || pending.ask.is_about_epochs() && !self.server.setup.keeps_versions()
            }
            // An answered write has its space: nothing is left to be refused at a flush.
            Refusal::NoSpace(_) if pending.ask.is_read() || pending.ask == Ask::Flush => {
                failed(FaultKind::Space)
            }
            // A set has its parts in the journal.
            Refusal::NoSpace(_) if matches!(pending.ask, Ask::ForgetSet { .. }) => true,
            Refusal::NoSpace(_) => failed(FaultKind::Space) || failed(FaultKind::Full),
            Refusal::Io(_) if pending.ask.is_read() => failed(FaultKind::Read),
            Refusal::Io(_) => self.server.has_failed() || failed(FaultKind::Remains),
            Refusal::Latched(_) => self.server.is_latched,
            Refusal::ShuttingDown => self.server.is_stopping,
            Refusal::Forgotten(epoch) => {
                matches!(pending.ask, Ask::ReadPast { .. })
                    && *epoch == pending.about.epochs.from
                    && self.book.may_refuse(pending)
            }
            Refusal::ForgottenBlocks(epoch, gap) => {
                matches!(pending.ask, Ask::ReadPast { .. })
                    && *epoch == pending.about.epochs.from
                    && self.book.lost.may_refuse(epoch.0, pending.extent, *gap)
            }
            Refusal::Current(..) => pending.ask.forgets_blocks(),
            Refusal::Shared(..) => pending.ask.forgets_shown(),
            Refusal::Invalid(_) => match pending.ask {
                Ask::Forget { .. } => pending.about.is_open,
                // Nothing has closed, or another epoch has, or is closing.
                Ask::ForgetBlocks | Ask::ForgetShown { .. } | Ask::ForgetSet { .. } => {
                    let about = &pending.about;
                    let is_early = about.epochs.to.0 == 0 || about.is_open;
                    is_early || about.open != self.book.open || self.book.is_closing()
                }
                // An epoch that has not closed yet.
                Ask::ReadPast { .. } => self.book.may_refuse(pending),
                _ => false,
            },
            Refusal::ReadOnly | Refusal::Unauthentic(_) | Refusal::Restoring => false,
        }
    }
}
