//! The files of a state that a pattern is of.

use super::history::epochs;
use super::{Disk, Error, Look, Target, time_text};
use crate::base::path_text::PathText;
use crate::base::refused_paths::RefusedPaths;
use crate::disk::Step;
use crate::host::entries::DEPTH_MAX;
use quietus_files::{Attributes, Entry, FileId, Kind};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

/// What is looked for.
pub trait Wanted {
    /// Whether the file at `path`, which has no slash at its beginning, is wanted.
    fn wants(&self, path: &[u8], file: FileId, attributes: &Attributes) -> bool;
}

/// The result of a search.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct Found {
    /// Files that were found.
    pub files: u64,
    /// Paths, or epochs, that could not be read.
    #[serde(flatten)]
    pub refused: RefusedPaths,
}

/// A file that was found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct FoundFile {
    /// Its path, from the root of its file system on.
    pub path: PathText,
    /// The first epoch that shows it so; `None` if only the current state does.
    pub from: Option<u64>,
    /// The last one; `None` for the current state.
    pub to: Option<u64>,
    /// The number of its inode or record.
    pub file: u64,
    /// The file.
    #[serde(skip)]
    pub id: FileId,
    /// What it is: `file`, `folder`, `link`, or `other`.
    pub kind: &'static str,
    /// Its size in bytes.
    pub bytes: u64,
    /// The number of its owner, where the file system has owners.
    pub user: Option<u32>,
    /// The number of its group.
    pub group: Option<u32>,
    /// Its permission bits, where the file system has them.
    pub mode: Option<u32>,
    /// When its content changed last.
    #[schemars(extend("format" = "date-time"))]
    pub modified: Option<String>,
}

/// A search under way.
struct Task<'a> {
    look: &'a mut Look,
    wanted: &'a dyn Wanted,
    found: Found,
    /// The folders on the way to the present one: a folder below itself is not searched again.
    above: HashSet<FileId>,
    /// Folders that were searched.
    done: u64,
}

/// Calls `tell` for each file below `folder`, whose path is `path`, that is wanted.
pub fn find(
    look: &mut Look,
    (folder, path): (FileId, &[u8]),
    wanted: &dyn Wanted,
    tell: &mut dyn FnMut(FoundFile),
    step: Step<'_>,
) -> Result<Found, Error> {
    let (found, above) = (Found::default(), HashSet::new());
    let mut task = Task { look, wanted, found, above, done: 0 };
    let path = path.strip_prefix(b"/").unwrap_or(path);
    let path = path.strip_suffix(b"/").unwrap_or(path);
    task.folder(folder, path, tell, step)?;
    Ok(task.found)
}

/// As [`find`], in all kept epochs and the current state: each file once for each version of its attributes, once all are searched.
pub fn find_in_all(
    disk: &Rc<Disk>,
    target: &Target,
    wanted: &dyn Wanted,
    tell: &mut dyn FnMut(FoundFile),
    step: Step<'_>,
) -> Result<Found, Error> {
    let mut all = BTreeMap::<_, FoundFile>::new();
    let mut note = |it: FoundFile| {
        let key = (it.path.to_string(), it.id, it.bytes, it.modified.clone());
        all.entry(key).and_modify(|known| known.to = it.to).or_insert(it);
    };
    let found = find_in_each(disk, target, wanted, &mut note, step)?;
    let files = all.len() as u64;
    all.into_values().for_each(tell);
    Ok(Found { files, ..found })
}

/// The same, with each file once for each state.
pub(super) fn find_in_each(
    disk: &Rc<Disk>,
    target: &Target,
    wanted: &dyn Wanted,
    tell: &mut dyn FnMut(FoundFile),
    step: Step<'_>,
) -> Result<Found, Error> {
    let mut found = Found::default();
    let states = epochs(disk)?.into_iter().map(|line| Some(line.epoch)).chain([None]);
    for epoch in states {
        match find_at(disk, target, epoch, wanted, tell, step) {
            Ok(part) => {
                found.files += part.files;
                found.refused.add(part.refused);
            }
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(why) => {
                let name = epoch.map_or("the current state".into(), |it| format!("epoch {it}"));
                found.refused.note(name.as_bytes(), &why);
            }
        }
    }
    Ok(found)
}

/// The same in one state. A folder that is not there has no files.
fn find_at(
    disk: &Rc<Disk>,
    target: &Target,
    epoch: Option<u64>,
    wanted: &dyn Wanted,
    tell: &mut dyn FnMut(FoundFile),
    step: Step<'_>,
) -> Result<Found, Error> {
    let mut look = Look::new(disk, target, epoch.map(|it| it.to_string()).as_deref())?;
    let path = if target.path.is_empty() { "/" } else { &target.path };
    match look.find(path)? {
        Some(folder) => find(&mut look, (folder, path.as_bytes()), wanted, tell, step),
        None => Ok(Found::default()),
    }
}

impl Task<'_> {
    fn refuse(&mut self, path: &[u8], why: &Error) {
        self.found.refused.note(&[b"/", path].concat(), why);
    }

    fn folder(
        &mut self,
        folder: FileId,
        path: &[u8],
        tell: &mut dyn FnMut(FoundFile),
        step: Step<'_>,
    ) -> Result<(), Error> {
        self.done += 1;
        if !step(self.done, self.done) {
            return Err(Error::Interrupted);
        }
        if self.above.len() >= DEPTH_MAX || !self.above.insert(folder) {
            self.refuse(path, &Error::Refused("the folder lies below itself, or too deep".into()));
            return Ok(());
        }
        let entries = match self.look.list(folder) {
            Ok(entries) => entries,
            Err(why) => {
                self.refuse(path, &why);
                Vec::new()
            }
        };
        for Entry { name, file } in entries {
            let path = if path.is_empty() { name } else { [path, b"/", &name].concat() };
            let attributes = match self.look.attributes(file) {
                Ok(attributes) => attributes,
                Err(why) => {
                    self.refuse(&path, &why);
                    continue;
                }
            };
            if self.wanted.wants(&path, file, &attributes) {
                self.found.files += 1;
                tell(self.told(&path, file, &attributes));
            }
            if attributes.kind == Kind::Folder {
                self.folder(file, &path, tell, step)?;
            }
        }
        self.above.remove(&folder);
        Ok(())
    }

    fn told(&self, path: &[u8], file: FileId, attributes: &Attributes) -> FoundFile {
        let kind = match attributes.kind {
            Kind::Regular => "file",
            Kind::Folder => "folder",
            Kind::Link => "link",
            Kind::Pipe | Kind::Socket | Kind::Character(..) | Kind::Block(..) => "other",
        };
        let path = [b"/", path].concat();
        FoundFile {
            path: path[..].into(),
            from: self.look.epoch,
            to: self.look.epoch,
            file: file.number,
            id: file,
            kind,
            bytes: attributes.bytes,
            user: attributes.owner.map(|(user, _)| user),
            group: attributes.owner.map(|(_, group)| group),
            mode: attributes.mode,
            modified: attributes.modified.map(time_text),
        }
    }
}
