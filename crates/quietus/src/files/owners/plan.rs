//! Which versions of blocks die with files, and what stays.

use super::census::{Census, Said, numbers};
use super::confirming::Confirming;
use super::log::{InLog, Search};
use super::part::{Moving, Part};
use crate::disk::Step;
use crate::files::disk::Disk;
use crate::files::history::{Unreadable, changed, epochs};
use crate::files::past::Past;
use crate::files::{Error, Look, Target};
use quietus_core::base::extents::ExtentMap;
use quietus_core::base::units::{Addr, BLOCK_BYTES, Extent};
use quietus_files::{FileId, Owner};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

/// Files whose content is to be forgotten, and in which epochs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Chosen {
    /// The spans of epochs of each file in which its content is meant: the first and the last one.
    pub files: HashMap<FileId, Vec<(u64, u64)>>,
}

impl Chosen {
    /// Adds `file` in the epochs from the first to the last one.
    pub fn add(&mut self, file: FileId, epochs: (u64, u64)) {
        self.files.entry(file).or_default().push(epochs);
    }

    fn means(&self, file: FileId, epoch: u64) -> bool {
        let spans = self.files.get(&file);
        spans.is_some_and(|spans| spans.iter().any(|(from, to)| (*from..=*to).contains(&epoch)))
    }

    /// The files that are meant in `epoch`.
    fn meant(&self, epoch: u64) -> BTreeSet<FileId> {
        self.files.keys().copied().filter(|file| self.means(*file, epoch)).collect()
    }
}

/// What dies with files, and what stays.
pub struct Plan {
    /// What dies, in the order of the blocks.
    pub parts: Vec<Part>,
    /// Of this, what has no place in the content of a file: space that was set aside, or what lies behind the end. The second witness, if
    /// there is one, does not speak of it.
    pub unnamed: Vec<Part>,
    /// What stays, and why.
    pub stays: Planned,
}

/// What stays of the blocks of files, and why: versions in blocks, each counted once.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct Planned {
    /// The current state shows them, too.
    pub current_blocks: u64,
    /// Another file, or the file system itself, has them, or a part of them, in an epoch that shows them.
    pub others_blocks: u64,
    /// Epochs that are not meant show them as content of the files, too.
    pub unmeant_blocks: u64,
    /// An epoch shows them that is not understood.
    pub unknown_blocks: u64,
    /// Files whose content lies within their metadata in an epoch that is meant: it stays.
    pub inline_files: u64,
    /// Copies of blocks that die in the log of the file system, in the epochs and in the current state.
    pub log_copies: u64,
    /// Bytes of that log, in all epochs, that could not be searched.
    pub log_unsearched_bytes: u64,
    /// Epochs whose file system is not understood, and the reasons: the first one of those that have the same.
    pub not_understood: Vec<Unreadable>,
}

/// What an epoch says of a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum State {
    /// No file has it.
    Free,
    /// One of the files has it, in an epoch that is meant; and no other.
    Own,
    /// The same, in an epoch that is not meant.
    Unmeant,
    /// Another file has it, or the file system.
    Other,
    /// The same, and one of the files has it, too, in an epoch that is meant.
    Shared,
    /// It is not known who has it.
    Unknown,
}

/// A block, and what the epochs say of it.
#[derive(Default)]
struct Block {
    /// By the place of an epoch among those that are kept: what it says, and the next ones up to the next entry.
    states: Vec<(usize, State)>,
}

impl Block {
    fn note(&mut self, at: usize, state: State) {
        if self.states.last().is_none_or(|(_, last)| *last != state) {
            self.states.push((at, state));
        }
    }

    /// What the epoch at this place says.
    fn at(&self, at: usize) -> State {
        let behind = self.states.partition_point(|(from, _)| *from <= at);
        behind.checked_sub(1).map_or(State::Free, |n| self.states[n].1)
    }

    /// What the epochs from `first` to `last` say.
    fn within(&self, first: usize, last: usize) -> impl Iterator<Item = State> {
        let later = self.states.iter().filter(move |(from, _)| first < *from && *from <= last);
        [self.at(first)].into_iter().chain(later.map(|(_, state)| *state))
    }
}

struct Task<'a> {
    disk: &'a Rc<Disk>,
    target: &'a Target,
    chosen: &'a Chosen,
    size_bytes: u64,
    /// The kept epochs, in order.
    kept: Vec<u64>,
    stays: Planned,
    /// In the order of epochs.
    moving: Vec<Moving>,
}

/// Which versions die with `chosen`, files of the file system of `target`; with a second witness, if it `has_second`.
pub fn plan(
    disk: &Rc<Disk>,
    target: &Target,
    chosen: &Chosen,
    has_second: bool,
    step: Step<'_>,
) -> Result<Plan, Error> {
    let kept = epochs(disk)?.into_iter().map(|line| line.epoch).collect();
    let size_bytes = disk.size_bytes()?;
    let mut task =
        Task { disk, target, chosen, size_bytes, kept, stays: Planned::default(), moving: Vec::new() };
    let wanted = task.wanted(step)?;
    if wanted.is_empty() {
        return Ok(Plan { parts: Vec::new(), unnamed: Vec::new(), stays: task.stays });
    }
    let blocks = task.states(&wanted, step)?;
    let parts = task.parts(&wanted, &blocks)?;
    let unnamed = match has_second {
        true => Confirming { disk, target, parts: &parts, moving: &task.moving }.run(step)?,
        false => Vec::new(),
    };
    let last = task.kept.last().copied();
    let in_log = match parts.is_empty() {
        true => InLog::default(),
        false => Search::new(disk, target, last, &parts)?.run(step)?,
    };
    (task.stays.log_copies, task.stays.log_unsearched_bytes) = (in_log.copies, in_log.unsearched);
    Ok(Plan { parts, unnamed: joined(unnamed), stays: task.stays })
}

impl Task<'_> {
    /// The blocks that the files have had, in whole blocks of the disk.
    fn wanted(&mut self, step: Step<'_>) -> Result<ExtentMap<Addr, ()>, Error> {
        let files = self.chosen.files.keys().copied();
        let mut census = Census::of_files(self.disk, self.target, self.size_bytes, files);
        let (mut wanted, mut moving) = (ExtentMap::default(), Vec::<Moving>::new());
        let last = self.kept.last().copied().unwrap_or_default();
        let (mut meant_before, mut inline) = (None, BTreeSet::new());
        for (n, epoch) in self.kept.iter().copied().enumerate() {
            if !step(n as u64, 2 * self.kept.len() as u64) {
                return Err(Error::Interrupted);
            }
            let meant = self.chosen.meant(epoch);
            let is_same = census.look(epoch, step)? == Said::Same && meant_before.as_ref() == Some(&meant);
            if is_same {
                continue;
            }
            inline.extend(self.inline(epoch, &meant));
            let mut files = HashSet::new();
            for (owner, extent) in census.owners() {
                let Owner::File(file) = owner else { continue };
                if !meant.contains(&file) {
                    continue;
                }
                files.insert(file);
                let numbers = numbers(extent);
                let whole = Extent::between(numbers.start * BLOCK_BYTES, numbers.end * BLOCK_BYTES);
                wanted.insert(whole.overlap(Extent::new(0, self.size_bytes)).unwrap_or_default(), ());
            }
            moving.push(Moving { epochs: (epoch, last), files });
            meant_before = Some(meant);
        }
        let next: Vec<u64> = moving.iter().skip(1).map(|it| it.epochs.0 - 1).collect();
        moving.iter_mut().zip(next).for_each(|(it, to)| it.epochs.1 = to);
        self.moving = moving;
        self.stays.inline_files = inline.len() as u64;
        Ok(wanted)
    }

    /// Those of `files` whose content lies within their metadata in `epoch`, at least in part.
    fn inline(&self, epoch: u64, files: &BTreeSet<FileId>) -> BTreeSet<FileId> {
        // An epoch that is not understood keeps all that it shows.
        let Ok(mut look) = Look::new(self.disk, self.target, Some(&epoch.to_string())) else {
            return BTreeSet::new();
        };
        let is_inline =
            |file: &FileId| look.runs(*file).is_ok_and(|runs| runs.iter().any(|run| run.place.is_none()));
        files.iter().copied().filter(is_inline).collect()
    }

    /// What each kept epoch says of the blocks that are wanted, by their numbers.
    fn states(
        &mut self,
        wanted: &ExtentMap<Addr, ()>,
        step: Step<'_>,
    ) -> Result<BTreeMap<u64, Block>, Error> {
        let all = wanted.iter().flat_map(|(extent, ())| numbers(extent));
        let mut blocks: BTreeMap<u64, Block> = all.map(|number| (number, Block::default())).collect();
        let mut census = Census::of_all(self.disk, self.target, self.size_bytes, wanted.clone());
        let kept = std::mem::take(&mut self.kept);
        let mut meant_before = None;
        for (n, epoch) in kept.iter().copied().enumerate() {
            if !step((kept.len() + n) as u64, 2 * kept.len() as u64) {
                return Err(Error::Interrupted);
            }
            let meant = self.chosen.meant(epoch);
            match census.look(epoch, step)? {
                Said::Same if meant_before.as_ref() == Some(&meant) => {}
                Said::Same | Said::Changed => {
                    self.note(&mut blocks, n, &meant, &census);
                    meant_before = Some(meant);
                }
                Said::Unknown(why) => {
                    let known = self.stays.not_understood.last().is_some_and(|last| last.why == why);
                    let epoch = Some(epoch);
                    self.stays.not_understood.extend((!known).then_some(Unreadable { epoch, why }));
                    blocks.values_mut().for_each(|block| block.note(n, State::Unknown));
                    meant_before = None;
                }
            }
        }
        self.kept = kept;
        Ok(blocks)
    }

    fn note(
        &self,
        blocks: &mut BTreeMap<u64, Block>,
        at: usize,
        meant: &BTreeSet<FileId>,
        census: &Census<'_>,
    ) {
        let (mut now, mut own) = (BTreeMap::<u64, State>::new(), HashSet::new());
        for (owner, extent) in census.owners() {
            let state = match owner {
                Owner::File(file) if meant.contains(&file) => State::Own,
                Owner::File(file) if self.chosen.files.contains_key(&file) => State::Unmeant,
                Owner::File(_) | Owner::System => State::Other,
            };
            if state == State::Own {
                own.extend(numbers(extent));
            }
            for number in numbers(extent) {
                now.entry(number).and_modify(|known| *known = state.max(*known)).or_insert(state);
            }
        }
        for (number, block) in blocks {
            let state = match now.get(number).copied().unwrap_or(State::Free) {
                State::Other if own.contains(number) => State::Shared,
                state => state,
            };
            block.note(at, state);
        }
    }

    /// The versions that die, as parts. Counts those that stay.
    fn parts(
        &mut self,
        wanted: &ExtentMap<Addr, ()>,
        blocks: &BTreeMap<u64, Block>,
    ) -> Result<Vec<Part>, Error> {
        let extent = |number: &u64| {
            Extent::between(number * BLOCK_BYTES, self.size_bytes.min((number + 1) * BLOCK_BYTES))
        };
        let extents: Vec<_> = blocks.keys().map(extent).collect();
        let mut past = Past::default();
        past.learn(self.disk, &extents, 0)?;
        let last = self.kept.last().copied().unwrap_or_default();
        let mut gone = ExtentMap::<Addr, ()>::default();
        for part in changed(self.disk, (last, None), wanted)? {
            gone.insert(part, ());
        }
        let mut dying = Vec::new();
        for (extent, block) in extents.iter().zip(blocks.values()) {
            let mut from = past.next_change(&[*extent], 0);
            while let Some(born) = from {
                let next = past.next_change(&[*extent], born.epoch);
                let to = next.map_or(last, |it| it.before);
                let is_current = next.is_none() && !gone.overlaps(*extent);
                if self.dies(block, (born.epoch, to), is_current) {
                    dying.push(Part { blocks: *extent, epochs: (born.epoch, to) });
                }
                from = next;
            }
        }
        Ok(joined(dying))
    }

    /// Whether the version of `block` dies that these epochs show, and the current state if it `is_current`. Counts it if it stays.
    fn dies(&mut self, block: &Block, (from, to): (u64, u64), is_current: bool) -> bool {
        let place = |epoch: u64| self.kept.partition_point(|kept| *kept < epoch);
        let (first, last) = (place(from), place(to));
        if first > last || last >= self.kept.len() {
            return false;
        }
        let worst = block.within(first, last).max().unwrap_or(State::Free);
        let is_own = block.within(first, last).any(|it| matches!(it, State::Own | State::Shared));
        let around = [first.checked_sub(1), Some(last + 1).filter(|at| *at < self.kept.len())];
        let was_own = || around.into_iter().flatten().any(|at| block.at(at) == State::Own);
        if !(is_own || worst == State::Free && was_own()) {
            return false;
        }
        let stays = &mut self.stays;
        let count = match worst {
            // What was never named is perhaps of another file that the guest makes just now.
            _ if is_current && !is_own => return false,
            _ if is_current => &mut stays.current_blocks,
            State::Free | State::Own => return true,
            State::Unmeant => &mut stays.unmeant_blocks,
            State::Other | State::Shared => &mut stays.others_blocks,
            State::Unknown => &mut stays.unknown_blocks,
        };
        *count += 1;
        false
    }
}

/// The parts, those together whose blocks follow one another and whose epochs are the same; in the order of the blocks.
fn joined(mut parts: Vec<Part>) -> Vec<Part> {
    parts.sort_unstable_by_key(|part| (part.epochs, part.blocks.start));
    let mut all: Vec<Part> = Vec::new();
    for part in parts {
        match all.last_mut() {
            Some(last) if last.epochs == part.epochs && last.blocks.end() == part.blocks.start.0 => {
                last.blocks.len += part.blocks.len;
            }
            _ => all.push(part),
        }
    }
    all.sort_unstable_by_key(|part| (part.blocks.start, part.epochs));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(first: u64, blocks: u64, epochs: (u64, u64)) -> Part {
        Part { blocks: Extent::new(first * BLOCK_BYTES, blocks * BLOCK_BYTES), epochs }
    }

    #[test]
    fn neighbours_of_the_same_epochs_are_one_part_and_parts_are_in_order() {
        let all = vec![
            part(7, 1, (1, 2)),
            part(4, 1, (3, 3)),
            part(5, 1, (1, 2)),
            part(6, 1, (1, 2)),
            part(4, 1, (1, 2)),
        ];
        assert_eq!(joined(all), [part(4, 4, (1, 2)), part(4, 1, (3, 3))]);
        assert_eq!(joined(Vec::new()), []);
    }

    #[test]
    fn a_block_is_what_the_last_epoch_said_that_said_something_else() {
        let mut block = Block::default();
        for (at, state) in [(0, State::Free), (2, State::Own), (3, State::Own), (6, State::Other)] {
            block.note(at, state);
        }
        let all: Vec<_> = (0..8).map(|at| block.at(at)).collect();
        use State::{Free, Other, Own};
        assert_eq!(all, [Free, Free, Own, Own, Own, Own, Other, Other]);
        assert!(block.within(3, 5).eq([Own]) && block.within(1, 6).eq([Free, Own, Other]));
        assert_eq!(Block::default().at(9), Free);
    }

    #[test]
    fn a_file_is_meant_in_the_spans_that_were_chosen() {
        let [one, other] = [1, 2].map(|number| FileId { number, generation: 0 });
        let mut chosen = Chosen::default();
        for (file, span) in [(one, (2, 3)), (one, (6, 9)), (other, (3, 3))] {
            chosen.add(file, span);
        }
        let meant = |epoch| chosen.meant(epoch).into_iter().collect::<Vec<_>>();
        assert_eq!([1, 2, 3, 4, 9].map(meant), [vec![], vec![one], vec![one, other], vec![], vec![one]]);
    }
}
