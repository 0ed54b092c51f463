//! The files that differ between two states.

use super::{Error, Look};
use crate::base::path_text::PathText;
use crate::base::refused_paths::RefusedPaths;
use crate::disk::Step;
use crate::host::entries::DEPTH_MAX;
use quietus_files::{Attributes, FileId, Kind};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// How a file differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileChange {
    /// Only the later state has it.
    Added,
    /// Only the earlier state has it.
    Removed,
    /// Both have it, with another kind, size, owner, mode or time of change, or another inode.
    Changed,
}

/// A file that differs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct FileDifference {
    /// Its path, from the root of its file system on.
    pub path: PathText,
    /// How it differs.
    pub change: FileChange,
}

/// The end of a comparison.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct FilesCompared {
    /// Files that only the later state has.
    pub added: u64,
    /// Files that only the earlier state has.
    pub removed: u64,
    /// Files that both have, and that differ.
    pub changed: u64,
    /// Paths that could not be read.
    #[serde(flatten)]
    pub refused: RefusedPaths,
}

/// What a state has at a path.
type Node = (FileId, Attributes);

struct Task<'a, 's> {
    states: [&'a mut Look; 2],
    tell: &'a mut dyn FnMut(FileDifference),
    step: Step<'s>,
    compared: FilesCompared,
    done: u64,
}

/// Calls `tell` for each file at `path` and below that differs between the two states, the earlier one first.
pub fn differences(
    states: [&mut Look; 2],
    path: &str,
    tell: &mut dyn FnMut(FileDifference),
    step: Step<'_>,
) -> Result<FilesCompared, Error> {
    let mut task = Task { states, tell, step, compared: FilesCompared::default(), done: 0 };
    let mut nodes = [None, None];
    for (look, node) in task.states.iter_mut().zip(&mut nodes) {
        if let Some(file) = look.find(path)? {
            *node = Some((file, look.attributes(file)?));
        }
    }
    if nodes.iter().all(Option::is_none) {
        return Err(Error::Refused(format!("{path}: neither state has such a file").into()));
    }
    task.node(path.trim_end_matches('/').as_bytes(), nodes, 0)?;
    Ok(task.compared)
}

impl Task<'_, '_> {
    fn tell(&mut self, path: &[u8], change: FileChange) {
        let count = match change {
            FileChange::Added => &mut self.compared.added,
            FileChange::Removed => &mut self.compared.removed,
            FileChange::Changed => &mut self.compared.changed,
        };
        *count += 1;
        let path = if path.is_empty() { b"/" } else { path };
        (self.tell)(FileDifference { path: path.into(), change });
    }

    /// Compares what the states have at `path`.
    fn node(&mut self, path: &[u8], nodes: [Option<Node>; 2], depth: usize) -> Result<(), Error> {
        let change = match &nodes {
            [None, _] => Some(FileChange::Added),
            [_, None] => Some(FileChange::Removed),
            [Some(one), Some(other)] => is_other(one, other).then_some(FileChange::Changed),
        };
        if let Some(change) = change {
            self.tell(path, change);
        }
        let folder = |node: &Option<Node>| {
            node.as_ref().filter(|(_, it)| it.kind == Kind::Folder).map(|(file, _)| *file)
        };
        let folders = nodes.each_ref().map(folder);
        if folders.iter().all(Option::is_none) {
            return Ok(());
        }
        if depth >= DEPTH_MAX {
            self.compared.refused.note(path, &"too deep");
            return Ok(());
        }
        self.folders(path, folders, depth)
    }

    fn folders(&mut self, path: &[u8], folders: [Option<FileId>; 2], depth: usize) -> Result<(), Error> {
        self.done += 1;
        if !(self.step)(self.done, self.done) {
            return Err(Error::Interrupted);
        }
        let mut names = BTreeMap::<Vec<u8>, [Option<Node>; 2]>::new();
        for (n, folder) in folders.into_iter().enumerate() {
            if let Some(folder) = folder {
                self.entries(path, n, folder, &mut names);
            }
        }
        for (name, nodes) in names {
            self.node(&[path, b"/", &name].concat(), nodes, depth + 1)?;
        }
        Ok(())
    }

    /// Adds the entries of `folder`, at `path` in state `n`, to `names`.
    fn entries(
        &mut self,
        path: &[u8],
        n: usize,
        folder: FileId,
        names: &mut BTreeMap<Vec<u8>, [Option<Node>; 2]>,
    ) {
        let look = &mut *self.states[n];
        let refused = &mut self.compared.refused;
        let entries = look.list(folder).unwrap_or_else(|why| {
            refused.note(path, &why);
            Vec::new()
        });
        for entry in entries {
            match look.attributes(entry.file) {
                Ok(attributes) => {
                    names.entry(entry.name).or_default()[n] = Some((entry.file, attributes));
                }
                Err(why) => refused.note(&[path, b"/", &entry.name].concat(), &why),
            }
        }
    }
}

/// Whether one is another file than the other, or has changed. When a folder was read last, or a file, does not count.
fn is_other((one, before): &Node, (other, after): &Node) -> bool {
    let key = |it: &Attributes| (it.kind, it.bytes, it.mode, it.owner, it.modified, it.changed);
    // A folder changes with what it has, which is told by itself.
    let is_folder = before.kind == Kind::Folder && after.kind == Kind::Folder;
    let is_same_folder = || (before.mode, before.owner) == (after.mode, after.owner);
    one != other || if is_folder { !is_same_folder() } else { key(before) != key(after) }
}
