//! The versions of one file: what each epoch shows at a path.
//!
//! An epoch is looked at only if it changes a block that the look before it read, or the content of the file. Else the file is as it
//! was. The index says which epochs these are, so that the others cost nothing.

use super::past::{Past, RANGES_MAX};
use super::{Disk, Error, Look, State, Target, time_text};
use crate::base::rfc3339;
use crate::disk::Step;
use crate::front::control::{Call, Diff, VersionLine, Versions};
use quietus_core::base::extents::ExtentMap;
use quietus_core::base::units::{Addr, BLOCK_BYTES, Extent};
use quietus_files::{Attributes, FileId, Kind};
use schemars::JsonSchema;
use serde::Serialize;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The versions of a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct FileHistory {
    /// The target, as it was named.
    pub history: String,
    /// The versions, the newest first.
    pub versions: Vec<FileVersion>,
    /// Epochs whose file system cannot be read, and the reasons.
    pub unreadable: Vec<Unreadable>,
}

/// A version of a file: what epochs that follow one another show.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct FileVersion {
    /// Its number, from 1 on, the oldest first.
    pub version: usize,
    /// The first epoch that shows it; `None` if only the current state does.
    pub from: Option<u64>,
    /// When that closed; `None` if that is not known.
    #[schemars(extend("format" = "date-time"))]
    pub closed: Option<String>,
    /// The last epoch that shows it; `None` if the current state does, too.
    pub to: Option<u64>,
    /// The number of its inode or record.
    pub file: u64,
    /// The file.
    #[serde(skip)]
    pub id: FileId,
    /// What it is.
    #[serde(skip)]
    pub kind: Kind,
    /// Its size in bytes.
    pub bytes: u64,
    /// Bytes of its content that are in other blocks, or were written since the version before; all of them for the first one.
    pub changed_bytes: u64,
    /// How many names it has, where the file system counts them.
    pub links: Option<u32>,
    /// When its content changed last.
    #[schemars(extend("format" = "date-time"))]
    pub modified: Option<String>,
}

/// An epoch that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Unreadable {
    /// Its number; `None` for the current state.
    pub epoch: Option<u64>,
    /// The reason.
    pub why: String,
}

/// What one state shows at the path.
struct Shown {
    file: FileId,
    attributes: Attributes,
    /// Where its content lies.
    runs: ExtentMap<Addr, ()>,
}

impl Shown {
    /// Whether the other one, whose content has not changed in its blocks, is the same version.
    fn is(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.file, it.attributes.bytes, it.attributes.modified, it.attributes.changed);
        key(self) == key(other)
    }
}

/// The last state that was looked at.
struct Last {
    /// The last epoch that shows the same as far as was looked.
    epoch: Option<u64>,
    /// The blocks that were read, and the content of the file.
    parts: Vec<Extent<Addr>>,
    shown: Option<Shown>,
}

/// A kept epoch: its number, and when it closed.
#[derive(Clone, Copy)]
struct Line {
    epoch: u64,
    closed_ms: u64,
}

/// The versions so far, and the state that was looked at last.
struct Task<'a> {
    disk: &'a Rc<Disk>,
    size_bytes: u64,
    target: &'a Target,
    path: &'a [u8],
    past: Rc<RefCell<Past>>,
    /// Kept epochs that come next, as far as they were listed.
    listed: VecDeque<Line>,
    last: Option<Last>,
    found: Vec<FileVersion>,
    unreadable: Vec<Unreadable>,
}

/// The versions of the file at the path of `target`, of all kept epochs and the current state.
pub fn history(disk: &Rc<Disk>, target: &Target, step: Step<'_>) -> Result<FileHistory, Error> {
    history_of(disk, target, target.path.as_bytes(), step)
}

/// The versions of the file at `path` of the file system of `target`.
pub(super) fn history_of(
    disk: &Rc<Disk>,
    target: &Target,
    path: &[u8],
    step: Step<'_>,
) -> Result<FileHistory, Error> {
    let kept = disk.epochs_kept()?.and_then(|kept| kept.first.zip(kept.last));
    let mut task = Task {
        disk,
        size_bytes: disk.size_bytes()?,
        target,
        path,
        past: Rc::default(),
        listed: VecDeque::new(),
        last: None,
        found: Vec::new(),
        unreadable: Vec::new(),
    };
    if let Some((first, last)) = kept {
        let mut next = Some(Line { epoch: first.epoch, closed_ms: first.closed_ms });
        while let Some(line) = next {
            if !step(line.epoch - first.epoch, last.epoch - first.epoch + 1) {
                return Err(Error::Interrupted);
            }
            task.look(Some(line))?;
            next = task.next(line.epoch, last.epoch)?;
        }
    }
    task.current()?;
    task.found.reverse();
    Ok(FileHistory { history: target.to_string(), versions: task.found, unreadable: task.unreadable })
}

impl Task<'_> {
    /// The next epoch to look at, after `epoch`; `None` if no other one up to the kept epoch `end` shows anything else.
    fn next(&mut self, epoch: u64, end: u64) -> Result<Option<Line>, Error> {
        let Some(last) = &self.last else {
            return Ok(self.line_after(epoch)?.filter(|line| line.epoch <= end));
        };
        let change = self.past.borrow().next_change(&last.parts, epoch).filter(|it| it.epoch <= end);
        self.goes_on(Some(change.map_or(end, |it| it.before.max(epoch))));
        Ok(change.map(|it| Line { epoch: it.epoch, closed_ms: it.closed_ms }))
    }

    /// The kept epoch that follows `epoch`.
    fn line_after(&mut self, epoch: u64) -> Result<Option<Line>, Error> {
        self.listed.drain(..self.listed.partition_point(|line| line.epoch <= epoch));
        if self.listed.is_empty() {
            let lines: Versions = self.disk.ask(&Call::Versions { from: epoch + 1, unique: false })?;
            let lines = lines.versions.iter();
            self.listed.extend(lines.map(|it| Line { epoch: it.epoch, closed_ms: it.closed_ms }));
        }
        Ok(self.listed.front().copied())
    }

    /// Notes that the states up to that of `epoch` show the same as the last one that was looked at.
    fn goes_on(&mut self, epoch: Option<u64>) {
        let Some(last) = &mut self.last else { return };
        last.epoch = epoch;
        if last.shown.is_some() {
            self.found.last_mut().expect("a file that was shown has a version").to = epoch;
        }
    }

    /// Goes on to the current state.
    fn current(&mut self) -> Result<(), Error> {
        let is_same = match &self.last {
            Some(Last { epoch: Some(from), parts, .. }) => {
                let mut all = ExtentMap::default();
                parts.iter().for_each(|part| all.insert(*part, ()));
                changed(self.disk, (*from, None), &all)?.is_empty()
            }
            _ => false,
        };
        if !is_same {
            return self.look(None);
        }
        self.goes_on(None);
        Ok(())
    }

    /// Looks at the epoch of `line`, or the current state.
    fn look(&mut self, line: Option<Line>) -> Result<(), Error> {
        let epoch = line.map(|it| it.epoch);
        match self.shown(epoch) {
            Ok((parts, shown)) => {
                if let Some(epoch) = epoch {
                    self.past.borrow_mut().learn(self.disk, &parts, epoch)?;
                }
                if let Some(shown) = &shown {
                    self.note(line, shown)?;
                }
                self.last = Some(Last { epoch, parts, shown });
            }
            Err(Error::Files(_, why)) => {
                self.unreadable.push(Unreadable { epoch, why: why.to_string() });
                self.last = None;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// What a state shows at the path, and where that was found.
    fn shown(&self, epoch: Option<u64>) -> Result<(Vec<Extent<Addr>>, Option<Shown>), Error> {
        let mut look = match epoch {
            Some(epoch) => {
                let state = State::of_many(self.disk, epoch, self.size_bytes, &self.past);
                Look::of(state, self.target)?
            }
            None => Look::new(self.disk, self.target, None)?,
        };
        let shown = match look.find(self.path)? {
            Some(file) => Some(Shown { file, attributes: look.attributes(file)?, runs: look.places(file)? }),
            None => None,
        };
        let runs = shown.iter().flat_map(|it| it.runs.iter()).map(|(run, ())| run);
        let seen = look.seen.borrow();
        let parts = blocks(&seen, self.size_bytes).into_iter().chain(runs).collect();
        drop(seen);
        Ok((parts, shown))
    }

    /// Notes what the state of `line` shows.
    fn note(&mut self, line: Option<Line>, shown: &Shown) -> Result<(), Error> {
        let epoch = line.map(|it| it.epoch);
        let last = self.last.as_ref().and_then(|last| Some((last.epoch?, last.shown.as_ref()?)));
        let rewritten = match last {
            Some((from, _)) => changed(self.disk, (from, epoch), &shown.runs)?,
            None => Vec::new(),
        };
        if let Some((from, before)) = last
            && before.is(shown)
            && self.disk.is_same(&rewritten, from, epoch)?
        {
            self.found.last_mut().expect("a file that was shown has a version").to = epoch;
            return Ok(());
        }
        let goes_on = last.is_some_and(|(_, before)| before.file == shown.file);
        let bytes = shown.attributes.bytes;
        let rewritten_bytes = rewritten.iter().map(|part| part.len).sum::<u64>();
        self.found.push(FileVersion {
            version: self.found.len() + 1,
            from: epoch,
            closed: line.map(|it| it.closed_ms).filter(|ms| *ms > 0).map(rfc3339::text),
            to: epoch,
            file: shown.file.number,
            id: shown.file,
            kind: shown.attributes.kind,
            bytes,
            changed_bytes: if goes_on { rewritten_bytes.min(bytes) } else { bytes },
            links: shown.attributes.links,
            modified: shown.attributes.modified.map(time_text),
        });
        Ok(())
    }
}

/// All kept epochs, in order. A disk that keeps no past has an empty list.
pub(super) fn epochs(disk: &Disk) -> Result<Vec<VersionLine>, Error> {
    let (mut all, mut from) = (Vec::new(), 0);
    if disk.epochs_kept()?.is_none() {
        return Ok(all);
    }
    loop {
        let part: Versions = disk.ask(&Call::Versions { from, unique: false })?;
        all.extend(part.versions);
        match all.last() {
            Some(last) if part.more => from = last.epoch + 1,
            _ => return Ok(all),
        }
    }
}

/// Where the state `to` differs from epoch `from`, in `parts`.
pub(super) fn changed(
    disk: &Disk,
    (from, to): (u64, Option<u64>),
    parts: &ExtentMap<Addr, ()>,
) -> Result<Vec<Extent<Addr>>, Error> {
    let mut all = Vec::new();
    let ranges: Vec<_> = parts.iter().map(|(part, ())| (part.start.0, part.len)).collect();
    let (from, to) = (from.to_string(), to.map(|to| to.to_string()));
    for some in ranges.chunks(RANGES_MAX) {
        let mut start = Some(0);
        while let Some(next) = start {
            let call = Call::Diff { from: from.clone(), to: to.clone(), start: next, ranges: some.to_vec() };
            let part: Diff = disk.ask(&call)?;
            all.extend(part.ranges);
            start = part.next;
        }
    }
    Ok(all)
}

/// The blocks that `seen` lies in, on a disk of this size, in order.
pub(super) fn blocks(seen: &ExtentMap<Addr, ()>, size_bytes: u64) -> Vec<Extent<Addr>> {
    let numbers = |run: Extent<Addr>| run.start.0 / BLOCK_BYTES..run.end().div_ceil(BLOCK_BYTES);
    let mut all: Vec<u64> = seen.iter().flat_map(|(run, ())| numbers(run)).collect();
    all.dedup();
    let extent = |n: u64| Extent::between(n * BLOCK_BYTES, size_bytes.min((n + 1) * BLOCK_BYTES));
    all.into_iter().map(extent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_known_by_its_blocks_each_once_and_the_last_one_ends_with_the_disk() {
        let mut seen = ExtentMap::default();
        for (at, len) in [(1024, 1024), (3000, 5000), (20_479, 1), (20_480, 20)] {
            seen.insert(Extent::new(at, len), ());
        }
        let found = blocks(&seen, 20_500).into_iter().map(|it| (it.start.0, it.len));
        assert_eq!(found.collect::<Vec<_>>(), [(0, 4096), (4096, 4096), (16_384, 4096), (20_480, 20)]);
    }
}
