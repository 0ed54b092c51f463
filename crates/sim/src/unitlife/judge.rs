//! The judge of the promises. It knows no rule: it notes what the guest asked for, and looks at what shows.

use super::{Answer, Disk, Keep, Outcome, Raw, Read, Step, UNITS};
use std::collections::BTreeSet;

/// What the disk may show.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    /// What each unit may show after a start.
    pub may: [BTreeSet<Read>; UNITS],
    /// What each unit shows while the disk is idle; `None` after a cut.
    pub expected: Option<[Read; UNITS]>,
    /// The request under way.
    pub request: Option<Step>,
    /// Versions that the deletion under way is to destroy.
    pub asked: BTreeSet<u32>,
    /// Versions of which a deletion returned.
    destroyed: BTreeSet<u32>,
    written: u32,
}

impl Judge {
    pub fn new() -> Self {
        Self {
            may: [(); UNITS].map(|()| BTreeSet::from([Read::Zeros])),
            expected: Some([Read::Zeros; UNITS]),
            request: None,
            asked: BTreeSet::new(),
            destroyed: BTreeSet::new(),
            written: 0,
        }
    }

    /// Notes what is asked for with `step`; `before` shows before it.
    pub fn notes(&mut self, step: Step, before: &Answer) {
        match step {
            Step::Write(unit) => {
                self.written += 1;
                self.shows(unit, Read::Version(self.written));
            }
            Step::Trim(unit) => self.shows(unit, Read::Zeros),
            Step::Erase(unit, keep) => {
                let present = before.reads[usize::from(unit)];
                let versions = before.raw.iter().flatten().filter_map(|raw| match raw {
                    Raw::Held(_, versions) => versions[usize::from(unit)],
                    Raw::Blank | Raw::Black => None,
                });
                let is_asked = |version: &u32| keep == Keep::Nothing || present != Read::Version(*version);
                self.asked = versions.filter(is_asked).collect();
                if keep == Keep::Nothing {
                    self.shows(unit, Read::Zeros);
                }
            }
            Step::Cut(_) => (self.expected, self.request) = (None, None),
            Step::Flush | Step::Move(_) | Step::Go | Step::Fail(_) | Step::Start(_) => {}
        }
        if matches!(step, Step::Flush | Step::Erase(..) | Step::Move(_) | Step::Start(_)) {
            self.request = Some(step);
        }
    }

    fn shows(&mut self, unit: u8, read: Read) {
        let unit = usize::from(unit);
        self.may[unit].insert(read);
        if let Some(expected) = &mut self.expected {
            expected[unit] = read;
        }
    }

    /// The promise that `now` breaks. `before` showed before the step.
    pub fn judges(&mut self, before: &Answer, now: &Answer) -> Result<(), String> {
        if now.disk == Disk::Refused {
            return Err("what was flushed is never lost: the disk does not start".into());
        }
        if now.disk == Disk::Idle {
            self.judges_reads(now)?;
        }
        if now.outcome.is_some() {
            self.returns(before, now)?;
        }
        match now.found().intersection(&self.destroyed).next() {
            Some(version) => {
                Err(format!("what was destroyed is not found: raw reads find version {version}"))
            }
            None => Ok(()),
        }
    }

    fn judges_reads(&mut self, now: &Answer) -> Result<(), String> {
        for (unit, (read, may)) in now.reads.iter().zip(&self.may).enumerate() {
            let is_well = match self.expected {
                Some(expected) => *read == expected[unit],
                None => may.contains(read),
            };
            if !is_well {
                let expected = self.expected.map(|expected| expected[unit]);
                return Err(format!(
                    "what was flushed is never lost: unit {unit} reads {read:?}, not {expected:?} of {may:?}"
                ));
            }
        }
        if self.expected.is_none() {
            self.expected = Some(now.reads);
            self.is_durable(now);
        }
        Ok(())
    }

    fn is_durable(&mut self, now: &Answer) {
        self.may = now.reads.map(|read| BTreeSet::from([read]));
    }

    /// An operation returned.
    fn returns(&mut self, before: &Answer, now: &Answer) -> Result<(), String> {
        let asked = std::mem::take(&mut self.asked);
        match (self.request.take(), now.outcome) {
            (Some(Step::Flush), _) => self.is_durable(now),
            (Some(Step::Erase(..)), Some(outcome)) => {
                self.is_durable(now);
                if outcome == Outcome::Done {
                    self.destroyed.extend(asked);
                } else if now.receipts != before.receipts {
                    return Err("no receipt while a block remains: there is one".into());
                }
            }
            _ => {}
        }
        Ok(())
    }
}
