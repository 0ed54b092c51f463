//! A watcher that begins anew.

use super::Engine;
use quietus_core::volume::Event;

impl Engine {
    /// Has the watcher forget all that it knows, and infer nothing until [`Engine::watch_anew`].
    pub fn keep_watcher_out(&self) {
        self.shared.tell(Event::KeepWatcherOut);
    }

    /// Has a watcher that knows nothing begin, and waits until it has begun, or the engine stops or latches.
    pub fn watch_anew(&self) {
        self.shared.tell(Event::WatchAnew);
        self.wait_until(|volume| !volume.is_watcher_awaited(), |_| true);
    }
}
