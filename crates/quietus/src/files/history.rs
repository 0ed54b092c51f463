//! The versions of one file: what each epoch shows at a path.
//!
//! An epoch is looked at only if it differs from the one before in a block that the look before it read, or in the content of the file.
//! Else the file is as it was.

use super::{Disk, Error, Look, Seen, Target, time_text};
use crate::base::rfc3339;
use crate::disk::Step;
use crate::front::control::{Call, Diff, VersionLine, Versions};
use quietus_core::base::extents::ExtentMap;
use quietus_core::base::units::{Addr, Extent};
use quietus_files::{Attributes, FileId};
use schemars::JsonSchema;
use serde::Serialize;
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
    epoch: Option<u64>,
    seen: Seen,
    shown: Option<Shown>,
}

/// The versions so far, and the state that was looked at last.
struct Task<'a> {
    disk: &'a Rc<Disk>,
    target: &'a Target,
    path: &'a [u8],
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
    let epochs = epochs(disk)?;
    let mut task = Task { disk, target, path, last: None, found: Vec::new(), unreadable: Vec::new() };
    let of = epochs.len() as u64 + 1;
    for (done, line) in epochs.iter().map(Some).chain([None]).enumerate() {
        if !step(done as u64, of) {
            return Err(Error::Interrupted);
        }
        task.state(line)?;
    }
    task.found.reverse();
    Ok(FileHistory { history: target.to_string(), versions: task.found, unreadable: task.unreadable })
}

impl Task<'_> {
    /// Goes on to the next state: the epoch of `line`, or the current one.
    fn state(&mut self, line: Option<&VersionLine>) -> Result<(), Error> {
        let epoch = line.map(|it| it.epoch);
        let changed = self.last.as_ref().map(|it| changed(self.disk, it.epoch, epoch)).transpose()?;
        if let (Some(last), Some(changed)) = (&mut self.last, &changed)
            && !touches(changed, last)
        {
            last.epoch = epoch;
            if last.shown.is_some() {
                self.found.last_mut().expect("a file that was shown has a version").to = epoch;
            }
            return Ok(());
        }
        match look(self.disk, (self.target, self.path), epoch) {
            Ok((seen, shown)) => {
                if let Some(shown) = &shown {
                    self.note(line, shown, changed.as_ref())?;
                }
                self.last = Some(Last { epoch, seen, shown });
            }
            Err(Error::Files(_, why)) => {
                self.unreadable.push(Unreadable { epoch, why: why.to_string() });
                self.last = None;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Notes what the state of `line` shows, where blocks have `changed` since the last one.
    fn note(
        &mut self,
        line: Option<&VersionLine>,
        shown: &Shown,
        changed: Option<&ExtentMap<Addr, ()>>,
    ) -> Result<(), Error> {
        let epoch = line.map(|it| it.epoch);
        let rewritten = changed.map(|changed| parts(&shown.runs, changed)).unwrap_or_default();
        let last = self.last.as_ref().and_then(|last| Some((last.epoch?, last.shown.as_ref()?)));
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
    if !disk.keeps_epochs()? {
        return Ok(all);
    }
    loop {
        let part: Versions = disk.ask(&Call::Versions { from, unique: false })?;
        let more = part.more;
        all.extend(part.versions);
        match all.last() {
            Some(last) if more => from = last.epoch + 1,
            _ => return Ok(all),
        }
    }
}

/// Where the state `to` differs from epoch `from`.
fn changed(disk: &Disk, from: Option<u64>, to: Option<u64>) -> Result<ExtentMap<Addr, ()>, Error> {
    let from = from.expect("nothing follows the current state").to_string();
    let (to, mut start, mut all) = (to.map(|to| to.to_string()), 0, ExtentMap::default());
    loop {
        let part: Diff = disk.ask(&Call::Diff { from: from.clone(), to: to.clone(), start })?;
        part.ranges.iter().for_each(|run| all.insert(*run, ()));
        let Some(next) = part.next else { return Ok(all) };
        start = next;
    }
}

/// Whether what changed concerns what the last look read, or the content of the file.
fn touches(changed: &ExtentMap<Addr, ()>, last: &Last) -> bool {
    let seen = last.seen.borrow();
    let runs = last.shown.iter().flat_map(|it| it.runs.iter());
    seen.iter().chain(runs).any(|(run, ())| changed.overlaps(run))
}

fn look(
    disk: &Rc<Disk>,
    (target, path): (&Target, &[u8]),
    epoch: Option<u64>,
) -> Result<(Seen, Option<Shown>), Error> {
    let at = epoch.map(|epoch| epoch.to_string());
    let mut look = Look::new(disk, target, at.as_deref())?;
    let file = look.find(path)?;
    let shown = match file {
        Some(file) => Some(Shown { file, attributes: look.attributes(file)?, runs: look.places(file)? }),
        None => None,
    };
    Ok((look.seen, shown))
}

/// The parts of `runs` that have changed.
fn parts(runs: &ExtentMap<Addr, ()>, changed: &ExtentMap<Addr, ()>) -> Vec<Extent<Addr>> {
    runs.iter().flat_map(|(run, ())| changed.within(run)).map(|(part, ())| part).collect()
}
