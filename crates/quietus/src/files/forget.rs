//! Files that are forgotten in the past of a disk: which are meant, what that would destroy, and the request.

use super::disk::Disk;
use super::find::{FoundFile, Wanted, find_in_each};
use super::history::history;
use super::owners::{Chosen, Part, Plan, Planned, plan};
use super::{Error, Target};
use crate::base::refused_paths::RefusedPaths;
use crate::disk::Step;
use crate::front::control::{self, BlocksWeighed, Call, PartsForgotten, Refused};
use quietus_core::base::parts::PARTS_MAX;
use quietus_core::base::units::{EpochRange, SetId};
use quietus_files::{Attributes, FileId, Kind};
use schemars::JsonSchema;
use serde::Serialize;
use std::ops::RangeInclusive;
use std::path::Path;
use std::rc::Rc;

/// Which versions of files are meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Which {
    /// All of the past.
    All,
    /// Those that epochs show up to the one that people call so.
    Before(String),
    /// Those with these numbers in the file's history.
    Versions(RangeInclusive<usize>),
}

/// What a forget of files would destroy, and what would stay.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct FilesWeighed {
    /// The target, as it was named.
    pub forget: String,
    /// How many files are meant: a file that was replaced by another one of its name counts twice.
    pub files: u64,
    /// Versions of blocks that would die.
    pub dies_blocks: u64,
    /// The same in bytes.
    pub dies_bytes: u64,
    /// The first and the last epoch that show any of these.
    pub shown_by: Option<EpochRange>,
    /// Why the forget would be refused: a hold.
    pub held: Option<String>,
    /// Of the versions that would die, those that have no place in the content of a file: space that was set aside, or what lies behind the
    /// end. No second witness speaks of these; with one alone they are not counted.
    pub unnamed_blocks: u64,
    /// How many readers agree on where the content lies: two, unless one was to do.
    pub witnesses: u32,
    /// What would stay of the content of these files.
    pub stays: Planned,
    /// Folders, or epochs, in which files could not be looked for.
    #[serde(flatten)]
    pub refused: RefusedPaths,
}

impl FilesWeighed {
    fn add(&mut self, part: BlocksWeighed) {
        self.dies_blocks += part.dies_blocks;
        self.dies_bytes += part.dies_bytes;
        self.held = self.held.take().or(part.held);
        self.shown_by = match (self.shown_by, part.shown_by) {
            (Some(one), Some(other)) => {
                Some(EpochRange { from: one.from.min(other.from), to: one.to.max(other.to) })
            }
            (one, other) => one.or(other),
        };
    }

    /// Whether nothing is left of what is asked for: the current state may only show what `which` does not mean.
    #[must_use]
    pub fn is_all_that_is_asked(&self, which: &Which) -> bool {
        let it = &self.stays;
        let is_shown = *which == Which::All && it.current_blocks > 0;
        let others = it.others_blocks + it.unknown_blocks + it.inline_files;
        !is_shown && others + it.log_copies + it.log_unsearched_bytes == 0 && self.refused.is_empty()
    }
}

/// A forget of files that was carried out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct FilesForgotten {
    /// What was to be destroyed, and what stays.
    #[serde(flatten)]
    pub weighed: FilesWeighed,
    /// The sets of parts under which the disk's audit log has it.
    pub sets: Vec<SetId>,
    /// Whether the content is destroyed by now.
    pub done: bool,
}

/// A forget that is planned.
pub struct Planning {
    /// What it would do.
    pub weighed: FilesWeighed,
    parts: Vec<Part>,
}

/// Plans to forget the files of `target`. `pattern` is what its path means if that is of several files. A second witness confirms
/// where the files lie, if it `has_second`.
pub fn plan_forget(
    disk: &Rc<Disk>,
    target: &Target,
    (which, pattern): (&Which, Option<&dyn Wanted>),
    has_second: bool,
    step: Step<'_>,
) -> Result<Planning, Error> {
    let last = match which {
        Which::Before(at) => epoch_of(disk, at)?,
        Which::All | Which::Versions(_) => u64::MAX,
    };
    let (chosen, refused) = match pattern {
        None => (files_at(disk, target, (which, last), step)?, RefusedPaths::default()),
        Some(pattern) => files_of(disk, target, (pattern, last), step)?,
    };
    let Plan { parts, unnamed, stays } = plan(disk, target, &chosen, has_second, step)?;
    let mut weighed = FilesWeighed {
        forget: target.to_string(),
        files: chosen.files.len() as u64,
        witnesses: if has_second { 2 } else { 1 },
        stays,
        refused,
        ..FilesWeighed::default()
    };
    for some in parts.chunks(PARTS_MAX) {
        let answer: BlocksWeighed = disk.ask(&Call::WeighParts { parts: of_call(some) })?;
        weighed.add(answer);
    }
    for some in unnamed.chunks(PARTS_MAX) {
        let answer: BlocksWeighed = disk.ask(&Call::WeighParts { parts: of_call(some) })?;
        weighed.unnamed_blocks += answer.dies_blocks;
    }
    Ok(Planning { weighed, parts })
}

/// Carries out what was planned, on the disk at `path`.
pub fn forget(path: &Path, planning: Planning, wait: bool, step: Step<'_>) -> Result<FilesForgotten, Error> {
    let Planning { weighed, parts } = planning;
    let (mut sets, mut done) = (Vec::new(), wait);
    let parts = if weighed.dies_blocks == 0 { Vec::new() } else { parts };
    let all = parts.chunks(PARTS_MAX);
    let count = all.len();
    for (n, some) in all.enumerate() {
        let is_last = n + 1 == count;
        // Sets are forgotten in order: with the last one, all are.
        let call = Call::ForgetParts { parts: of_call(some), wait: wait && is_last };
        let answer: PartsForgotten = control::ask(path, &call, None, step)?;
        done = answer.done;
        sets.push(answer.set);
    }
    Ok(FilesForgotten { weighed, sets, done })
}

fn of_call(parts: &[Part]) -> Vec<(u64, u64, u64, u64)> {
    parts.iter().map(|it| (it.blocks.start.0, it.blocks.len, it.epochs.0, it.epochs.1)).collect()
}

/// The epoch that people call `at`.
fn epoch_of(disk: &Disk, at: &str) -> Result<u64, Error> {
    let (read, _) = disk.read(Some(at.into()), None)?;
    let unknown =
        || Refused::from(format!("\"{at}\" is no epoch; `quietus versions` lists those that are kept"));
    Ok(read.epoch.ok_or_else(unknown)?)
}

/// The files that the path of `target` has named, in the epochs that are meant up to `last`.
fn files_at(
    disk: &Rc<Disk>,
    target: &Target,
    (which, last): (&Which, u64),
    step: Step<'_>,
) -> Result<Chosen, Error> {
    let (history, mut chosen) = (history(disk, target, step)?, Chosen::default());
    for version in &history.versions {
        let spans = match which {
            Which::Versions(numbers) if !numbers.contains(&version.version) => continue,
            // The same file, whatever its name is.
            Which::All | Which::Before(_) if version.id.generation > 0 => (0, last),
            Which::All | Which::Before(_) | Which::Versions(_) => match version.from {
                Some(from) => (from, version.to.unwrap_or(u64::MAX).min(last)),
                None => continue,
            },
        };
        if version.kind != Kind::Regular {
            return Err(Error::Refused(not_a_file(target, version.kind).into()));
        }
        chosen.add(version.id, spans);
    }
    if let (true, Some(unreadable)) = (chosen.files.is_empty(), history.unreadable.first()) {
        let epoch = unreadable.epoch.map_or("the current state".into(), |it| format!("epoch {it}"));
        return Err(Error::Refused(format!("{target}: {epoch} cannot be read: {}", unreadable.why).into()));
    }
    Ok(chosen)
}

/// Why what `target` names has no content that can be forgotten, and what to do.
fn not_a_file(target: &Target, kind: Kind) -> String {
    let below = Target { path: format!("{}/**", target.path.trim_end_matches('/')), ..target.clone() };
    match kind {
        Kind::Folder => {
            format!("{target} is a folder, whose names stay; use \"{below}\" for the files below it")
        }
        _ => format!("{target} is no regular file, and has no content"),
    }
}

/// The files that `pattern` is of, in any epoch up to `last`.
fn files_of(
    disk: &Rc<Disk>,
    target: &Target,
    (pattern, last): (&dyn Wanted, u64),
    step: Step<'_>,
) -> Result<(Chosen, RefusedPaths), Error> {
    let mut chosen = Chosen::default();
    let whole = Target { path: String::new(), ..target.clone() };
    let mut note = |it: FoundFile| match it.from {
        Some(epoch) if it.id.generation == 0 && epoch <= last => chosen.add(it.id, (epoch, epoch)),
        _ if it.id.generation > 0 => _ = chosen.files.entry(it.id).or_insert_with(|| vec![(0, last)]),
        _ => {}
    };
    let found = find_in_each(disk, &whole, &FilesOnly(pattern), &mut note, step)?;
    Ok((chosen, found.refused))
}

/// The regular files that a pattern wants.
struct FilesOnly<'a>(&'a dyn Wanted);

impl Wanted for FilesOnly<'_> {
    fn wants(&self, path: &[u8], file: FileId, attributes: &Attributes) -> bool {
        attributes.kind == Kind::Regular && self.0.wants(path, file, attributes)
    }
}
