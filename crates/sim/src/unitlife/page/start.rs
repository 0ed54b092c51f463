//! A start (9).

use super::tasks::each;
use super::{Page, Part, Place, RunId, Say, Slot, Task, Use};
use crate::unitlife::{BLOCKS, Disk, Look, PAGES, UNITS};

/// Blocks that a start wants to have before its session.
const SESSION_BLOCKS: usize = 2;

/// How a block looks: blank, full, or otherwise.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Blank,
    Full,
    Other,
}

impl Page {
    /// What a start reads if the pages `well` read, and the tasks that follow.
    pub(super) fn start(&mut self, well: u16) -> Vec<Task> {
        let mut shapes: [Shape; BLOCKS] = std::array::from_fn(|block| self.shape(block, well));
        let is_session = |run: RunId| self.runs[&run].part == Part::Session;
        let is_dropped = |(run, (block, page)): &(RunId, Place)| {
            let is_trial = self.runs[run].part == Part::Trial;
            is_trial && !self.reads((*block, page + 1), well).is_some_and(is_session)
        };
        let (dropped, read): (Vec<_>, Vec<_>) = self.read_runs(well).into_iter().partition(is_dropped);
        let Some((last, place)) = read.last().copied() else {
            self.disk = Disk::Refused;
            return Vec::new();
        };
        let disowned = self.runs[&last].disowns.clone();
        let (disowned_read, counted): (Vec<_>, Vec<_>) =
            read.iter().copied().partition(|(run, _)| disowned.contains(run));
        for (_, (block, _)) in dropped.iter().chain(&disowned_read) {
            shapes[*block] = Shape::Other;
        }
        self.knows(&counted, last, &shapes);
        let is_later = |run: &RunId| *run > last;
        self.disowned = disowned.into_iter().chain(self.runs.keys().copied().filter(is_later)).collect();
        // If the run before does not read, an erase of it began, and so the last run is whole.
        let behind = self.runs[&last].behind;
        let before =
            counted.iter().find(|(run, _)| Some(*run) == behind).map(|(run, _)| self.runs[run].lists);
        self.last = Some(last);
        self.candidates = Some(self.candidates(before.unwrap_or(self.listed), &shapes));
        // A session and its trial are one.
        let is_pair = self.runs[&last].part == Part::Session;
        let trial = std::array::from_fn(|unit| match self.counts[unit].place() {
            Some((block, page))
                if block == place.0 && (page == place.1 || is_pair && page + 1 == place.1) =>
            {
                self.known_says(block, page)[unit]
            }
            _ => Say::Nothing,
        });
        let nothing = [Say::Nothing; UNITS];
        vec![
            Task::Tend,
            Task::Run(Part::Plain, nothing),
            Task::EndStart,
            Task::Sweep,
            Task::Run(Part::Session, nothing),
            Task::Run(Part::Trial, trial),
        ]
    }

    /// What the run says that is known to be there.
    fn known_says(&self, block: usize, page: usize) -> [Say; UNITS] {
        self.blocks[block].known[page].map_or([Say::Nothing; UNITS], |run| self.runs[&run].says)
    }

    /// The run in a slot that reads.
    fn reads(&self, (block, page): Place, well: u16) -> Option<RunId> {
        let is_well = well >> (PAGES * block + page) & 1 == 1;
        match self.blocks[block].slots[page] {
            Slot::Holds(run, look) if look == Look::Sound || look == Look::Weak && is_well => Some(run),
            Slot::Holds(..) | Slot::Blank | Slot::Black => None,
        }
    }

    fn shape(&self, block: usize, well: u16) -> Shape {
        let first = self.blocks[block].slots[0];
        if self.reads((block, PAGES - 1), well).is_some() {
            Shape::Full
        } else if matches!(first, Slot::Blank | Slot::Holds(_, Look::Hidden)) {
            Shape::Blank
        } else {
            Shape::Other
        }
    }

    /// The runs that read, in the order in which they were tried.
    fn read_runs(&self, well: u16) -> Vec<(RunId, Place)> {
        let good = (0..BLOCKS).filter(|block| !self.blocks[*block].is_marked);
        let places = good.flat_map(|block| (0..PAGES).map(move |page| (block, page)));
        let read = places.filter_map(|place| self.reads(place, well).map(|run| (run, place)));
        let mut all: Vec<_> = read.collect();
        all.sort_by_key(|(run, _)| *run);
        all
    }

    /// What the layer knows from the runs that count.
    fn knows(&mut self, counted: &[(RunId, Place)], last: RunId, shapes: &[Shape; BLOCKS]) {
        self.listed = self.runs[&last].lists;
        for (block, shape) in shapes.iter().enumerate() {
            let is_listed = self.listed >> block & 1 == 1;
            let it = &mut self.blocks[block];
            it.used = match shape {
                _ if it.is_marked => Use::Bad,
                Shape::Blank if !is_listed => Use::Fresh,
                Shape::Blank | Shape::Full | Shape::Other => Use::Closed,
            };
            it.is_murky = !it.is_marked && (is_listed || *shape == Shape::Other);
        }
        for (run, (block, page)) in counted.iter().copied() {
            if self.listed >> block & 1 == 0 {
                self.blocks[block].known[page] = Some(run);
                self.count((block, page), self.runs[&run].says);
            }
        }
    }

    /// The blocks that may be taken before the session.
    fn candidates(&self, before: u8, shapes: &[Shape; BLOCKS]) -> Vec<usize> {
        let good = self.listed & self.such(|it| !it.is_marked);
        let both = || each(good & before);
        let mut all: Vec<_> = both().filter(|block| shapes[*block] != Shape::Other).collect();
        let missing = SESSION_BLOCKS.saturating_sub(all.len());
        all.extend(both().filter(|block| shapes[*block] == Shape::Other).take(missing));
        if all.is_empty() {
            all.extend(each(good));
        }
        all
    }
}
