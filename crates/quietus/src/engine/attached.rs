//! How guests are attached: how that is found out, and told to the volume.

use super::{Engine, Shared};
use crate::base::lock::lock;
use crate::host::attached::{Attachment, Finding};
use quietus_core::volume::Event;
use std::sync::Arc;
use std::time::Duration;

/// How often clients are looked at whose devices may be used otherwise by now: before a map
/// that a new cache holds back can be older than the reorder window.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Engine {
    /// Sets how guests are attached, and tells the watcher.
    ///
    /// # Panics
    /// If the attachment was set before.
    pub fn attach(&self, attachment: Attachment) {
        attachment.note(attachment.attached().is_cached());
        assert!(self.shared.attachment.set(attachment).is_ok(), "the attachment is set once");
        self.shared.tell_attached();
    }

    /// Looks again at how the clients are attached, where that may change.
    pub fn look_at_clients(&self) {
        self.shared.look_at_clients();
    }

    /// Looks at `client` again and again while the use of its device may change. No other client
    /// wakes an idle server.
    pub(super) fn keep_looking_at(&self, client: u64) {
        let may_change =
            move |shared: &Shared| shared.attachment.get().is_some_and(|it| it.may_change(client));
        if !may_change(&self.shared) {
            return;
        }
        let shared = Arc::downgrade(&self.shared);
        let body = move || {
            while let Some(shared) = shared.upgrade().filter(|it| may_change(it)) {
                shared.look_at_clients();
                // The wait must not keep a closed disk open.
                drop(shared);
                std::thread::sleep(LOOK_EVERY);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("clients".into()).spawn(body) {
            tracing::warn!(%error, "cannot watch the device of a client of nbd.ko; serve with --attached cached");
        }
    }

    /// How guests are attached; `None` if nothing is inferred.
    #[must_use]
    pub fn attachment(&self) -> Option<Finding> {
        self.shared.attachment.get().map(Attachment::finding)
    }
}

impl Shared {
    fn look_at_clients(&self) {
        if let Some(attachment) = self.attachment.get() {
            attachment.look_again();
            self.tell_attached();
        }
    }

    /// Tells the watcher how guests are attached, if that has changed.
    pub(super) fn tell_attached(&self) {
        let Some(attachment) = self.attachment.get() else { return };
        let mut told = lock(&self.told);
        let now = attachment.attached();
        if *told != now {
            attachment.note(now.is_cached());
            self.tell(Event::Attached(now));
            *told = now;
        }
    }
}
