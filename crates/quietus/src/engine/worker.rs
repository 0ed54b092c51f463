//! The engine's threads that wait for no input or output of others.

use super::{LOOK_EVERY, Shared, defect};
use quietus_core::units::Extent;
use quietus_core::volume::Event;
use std::time::Duration;

/// Longest rest at once, whatever is next.
const REST_MAX: Duration = Duration::from_secs(3600);
/// What is due and could not begin waits for something other than time.
const RETRY_EVERY: Duration = Duration::from_millis(10);

/// Tells the volume that time has passed, when it wants to know. A disk where
/// nothing happens wakes nobody.
pub(super) fn keep_time(shared: &Shared) {
    let mut inner = shared.lock();
    while !inner.closed {
        let now = shared.now();
        let wait = match inner.volume.next_wakeup() {
            Some(when) if when <= now => {
                drop(inner);
                shared.tell(Event::Tick);
                inner = shared.lock();
                RETRY_EVERY
            }
            Some(when) => Duration::from_millis(when.since(now)).min(REST_MAX),
            None => REST_MAX,
        };
        inner.timekeeper_rests = !std::mem::take(&mut inner.is_stirred);
        let wait = if inner.timekeeper_rests { wait } else { wait.min(LOOK_EVERY) };
        inner = shared.clock.wait_timeout(inner, wait).unwrap_or_else(|_| defect::abort(&shared.name)).0;
        inner.timekeeper_rests = false;
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
    let mut inner = shared.lock();
    inner.volume.holes_known();
    shared.stir(&mut inner);
}
