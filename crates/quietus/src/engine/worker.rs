//! The engine's threads that wait for no input or output of others.

use super::{Shared, TICK_MAX};
use quietus_core::units::Extent;
use quietus_core::volume::Event;
use std::sync::PoisonError;
use std::time::Duration;

/// Tells the volume that time has passed, when it wants to know.
pub(super) fn keep_time(shared: &Shared) {
    let mut inner = shared.lock();
    while !inner.closed {
        let now = shared.now();
        let wait = match inner.volume.next_wakeup() {
            Some(when) if when <= now => {
                drop(inner);
                shared.tell(Event::Tick);
                inner = shared.lock();
                // What could not begin waits for something else than time.
                Duration::from_millis(10)
            }
            Some(when) => Duration::from_millis(when.since(now)).min(TICK_MAX),
            None => TICK_MAX,
        };
        inner = shared.closing.wait_timeout(inner, wait).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Bytes of the medium that are told of at once.
const SPACE_BYTES_MAX: u64 = 64 << 20;

/// Finds out where the medium has space: a stop in a hurry, or a life without
/// holes, may have left some where nothing lies.
pub(super) fn find_space(shared: &Shared) {
    for data in shared.data.data_within(Extent::new(0, shared.size)) {
        for piece in data.pieces(SPACE_BYTES_MAX) {
            if shared.lock().closed {
                return;
            }
            shared.tell(Event::Space(Extent::new(piece.start.0, piece.len)));
        }
    }
}

/// Finds out, after a crash, which parts of the medium can hold no data.
pub(super) fn find_holes(shared: &Shared) {
    for hole in shared.data.holes() {
        if shared.lock().closed {
            return;
        }
        let within = Extent::within(hole.start.0, hole.len, shared.size);
        let cut = within
            .or_else(|| (hole.start.0 < shared.size).then(|| Extent::between(hole.start.0, shared.size)));
        if let Some(extent) = cut {
            shared.tell(Event::Hole(extent));
        }
    }
    shared.lock().volume.holes_known();
}
