//! How guests are attached: who finds out, and who is told.

use super::{Engine, Shared};
use crate::attached::{Attachment, Finding};
use quietus_core::volume::Event;
use std::sync::PoisonError;

impl Engine {
    /// From now on `attachment` says how guests are attached, and the watcher is told.
    ///
    /// # Panics
    /// If that is said twice.
    pub fn attach(&self, attachment: Attachment) {
        attachment.note(attachment.attached().is_cached());
        assert!(self.shared.attachment.set(attachment).is_ok(), "it is said once");
        self.shared.tell_attached();
    }

    /// Looks again at how the clients are attached, where that may change.
    pub fn look_at_clients(&self) {
        if let Some(attachment) = self.shared.attachment.get() {
            attachment.look_again();
            self.shared.tell_attached();
        }
    }

    /// How guests are attached, if anything is inferred.
    #[must_use]
    pub fn attachment(&self) -> Option<Finding> {
        self.shared.attachment.get().map(Attachment::finding)
    }
}

impl Shared {
    /// Tells the watcher how guests are attached, if that has changed.
    pub(super) fn tell_attached(&self) {
        let Some(attachment) = self.attachment.get() else { return };
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let now = attachment.attached();
        if *told != now {
            attachment.note(now.is_cached());
            self.tell(Event::Attached(now));
            *told = now;
        }
    }
}
