//! Two clocks: the caller's, and one that runs only while the guest writes.

use quietus_core::base::units::Millis;

/// Most that one gap between two changes counts for, ms.
const GAP_MS_MAX: u64 = 1000;
/// After so long without a change the maps are read again.
pub const QUIET_MS: u64 = 500;

/// When the maps are to be read again, and why.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Review {
    pub at: Millis,
    pub by_tool: bool,
}

/// A time on both clocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Moment {
    /// The caller's clock.
    pub now: u64,
    /// The guest's activity.
    pub active: u64,
}

#[derive(Clone, Debug)]
pub struct Clock {
    pub now: u64,
    change: Moment,
    /// The outcome hung on a time that the page does not fix.
    pub is_unsure: bool,
}

impl Clock {
    pub fn new(now: Millis) -> Self {
        Self { now: now.0, change: Moment { now: now.0, active: 0 }, is_unsure: false }
    }

    pub fn tick(&mut self, now: Millis) {
        self.now = self.now.max(now.0);
    }

    pub fn change(&mut self) {
        self.change = Moment { now: self.now, active: self.change.active + self.gap() };
    }

    pub fn moment(&self) -> Moment {
        Moment { now: self.now, ..self.change }
    }

    /// Time that the present gap counts for so far, ms.
    pub fn gap(&self) -> u64 {
        (self.now - self.change.now).min(GAP_MS_MAX)
    }

    /// Whether `since` is less than `ms` ago. The page lets a window end
    /// anywhere up to twice its length: in between it is not sure.
    pub fn is_within(&mut self, since: Moment, ms: u64) -> bool {
        self.judge(self.now - since.now, ms)
    }

    /// Whether `since` is less than `ms` of the guest's activity ago.
    pub fn is_within_active(&mut self, since: Moment, ms: u64) -> bool {
        self.judge(self.moment().active - since.active, ms)
    }

    fn judge(&mut self, age: u64, ms: u64) -> bool {
        self.is_unsure |= (ms..2 * ms).contains(&age);
        age < ms
    }
}
