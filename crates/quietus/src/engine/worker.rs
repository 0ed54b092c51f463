//! The engine's threads that wait for no input or output of others.

use super::{LOOK_EVERY, Shared, defect};
use crate::base::aligned;
use quietus_core::base::units::Extent;
use quietus_core::volume::{Event, Volume};
use std::time::Duration;

/// Longest rest of the timekeeper, whatever is next.
const REST_MAX: Duration = Duration::from_secs(3600);
/// Time between tries of what is due and could not begin: it waits for something other than time.
const RETRY_EVERY: Duration = Duration::from_millis(10);

/// Time that guests at work have between two steps of what is done in steps.
const GIVE_WAY: Duration = Duration::from_millis(1);

/// Tells the volume that time has passed, when it wants to know. An idle disk wakes no thread, and keeps no free memory.
pub(super) fn keep_time(shared: &Shared) {
    let mut media_are_whole = true;
    let mut has_free = false;
    let mut inner = shared.lock();
    while !inner.closed {
        if inner.is_stirred && media_are_whole {
            drop(inner);
            // For a guest that never flushes.
            media_are_whole = shared.look_at_files().is_ok();
            inner = shared.lock();
        }
        let now = shared.now();
        let wait = match inner.volume.next_wakeup() {
            Some(when) if when <= now => {
                drop(inner);
                shared.tell(Event::Tick);
                inner = shared.lock();
                pause(&inner.volume)
            }
            Some(when) => Duration::from_millis(when.since(now)).min(REST_MAX),
            None => REST_MAX,
        };
        let is_stirred = std::mem::take(&mut inner.is_stirred);
        if !is_stirred && std::mem::take(&mut has_free) {
            drop(inner);
            aligned::give_back();
            inner = shared.lock();
            continue;
        }
        has_free |= is_stirred;
        inner.timekeeper_rests = !is_stirred;
        let wait = if inner.timekeeper_rests { wait } else { wait.min(LOOK_EVERY) };
        inner = shared.clock.wait_timeout(inner, wait).unwrap_or_else(|_| defect::abort(&shared.name)).0;
        inner.timekeeper_rests = false;
    }
}

/// How long the timekeeper rests although something is due: work that goes on in steps gives way to guests only.
fn pause(volume: &Volume) -> Duration {
    match (volume.forgets_go_on(), volume.is_at_work()) {
        (true, false) => Duration::ZERO,
        (true, true) => GIVE_WAY,
        (false, _) => RETRY_EVERY,
    }
}

/// Bytes of the medium that are reported at once.
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
    let mut inner = shared.lock();
    inner.volume.holes_known();
    shared.stir(&mut inner);
}
