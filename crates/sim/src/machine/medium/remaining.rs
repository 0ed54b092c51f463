//! Sectors that will not be erased, and media that take no write for a moment.

use crate::machine::content::indices;
use crate::machine::medium::{Fault, FaultKind, Platter, SimMedium, error};
use quietus_core::base::units::{Extent, Pos};
use quietus_core::media::medium::{MediumError, MediumErrorKind};

impl SimMedium {
    /// Refuses `times` writes or passes in a row, after `after` that are taken.
    pub fn be_busy(&self, after: u32, times: u32) {
        (after..after + times).for_each(|after| self.plan(Fault { kind: FaultKind::Busy, after }));
    }

    /// How many sectors will not be erased.
    pub fn stubborn(&self) -> usize {
        self.inner.borrow().stubborn.len()
    }

    /// Lets all sectors be erased again.
    pub fn mend(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.stubborn.clear();
        inner.faults.retain(|fault| fault.kind != FaultKind::Remains);
    }
}

impl Platter {
    /// Refuses a write, or a pass, that was to find the medium busy.
    pub(super) fn be_ready(&mut self) -> Result<(), MediumError> {
        if !self.comes(FaultKind::Busy) {
            return Ok(());
        }
        self.fired.push(FaultKind::Busy);
        Err(error(MediumErrorKind::Busy, "planned: it is busy"))
    }

    /// Refuses a pass or a hole in `extent` where a sector will not be erased; some of the other sectors get the bytes of the pass.
    pub(super) fn erase(&mut self, extent: Extent<Pos>, pass: Option<&[u8]>) -> Result<(), MediumError> {
        let sectors = || Self::parts(extent.start, extent.len as usize);
        if self.comes(FaultKind::Remains) {
            self.stubborn.extend(sectors().map(|(sector, _)| sector).next());
        }
        if !sectors().any(|(sector, _)| self.stubborn.contains(&sector)) {
            return Ok(());
        }
        for (sector, part) in sectors() {
            if let Some(pass) = pass.filter(|_| !self.stubborn.contains(&sector))
                && self.rng.chance(50)
            {
                self.put(sector, part, &pass[indices(part, extent.start.0)]);
            }
        }
        self.fired.push(FaultKind::Remains);
        Err(error(MediumErrorKind::Remains, "planned: a sector will not be erased"))
    }
}
