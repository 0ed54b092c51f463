//! Paths across snapshots: which of them have one, what differs between two, and what is damaged.
//!
//! Folders of all snapshots are read together, from the top down. Where several have the same recipe, the folder is read once.

use super::{Error, Globs, Step};
use crate::base::path_text::PathText;
use crate::host::entries::DEPTH_MAX;
use quietus_vault::client::{Access, joined, read_folder, read_snapshot};
use quietus_vault::tree::{Kind, Metadata, Node, Recipe, Span};
use quietus_vault::{Reference, SnapshotId, VaultError};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// An entry, and the snapshots that have it so, in the order of their numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Version {
    /// The entry. Which hard link and which inode it was, is not told: that is the host's matter.
    pub node: Node,
    /// The snapshots.
    pub snapshots: Vec<SnapshotId>,
}

/// How something is not the same in two snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// Only the second one has it.
    Added,
    /// Only the first one has it.
    Removed,
    /// Both have it.
    Changed,
}

/// The differences between two snapshots.
#[derive(Clone, Debug)]
pub struct Difference<'a> {
    /// How it differs.
    pub change: Change,
    /// Where it is.
    pub path: &'a [u8],
    /// The entry of the first snapshot.
    pub before: Option<&'a Node>,
    /// The entry of the second one.
    pub after: Option<&'a Node>,
    /// The changed attributes: kind, content, target, mode, owner, time, attributes.
    pub what: Vec<&'static str>,
}

/// Takes one version of a path.
type TakeOne<'a> = dyn FnMut(&[u8], &Version) -> Result<(), Error> + 'a;
/// Takes all versions of a path.
type TakeAll<'a> = dyn FnMut(&mut dyn Access, &[u8], &[Version]) -> Result<(), Error> + 'a;

/// Calls `take` with each entry that matches `pattern`, and with the snapshots that have it in this state.
/// Folders that could not be read are returned.
///
/// # Errors
/// [`Error`]: the vault's media, and the errors of `take`.
pub fn find(
    vault: &mut dyn Access,
    snapshots: &[SnapshotId],
    pattern: &Globs,
    take: &mut TakeOne<'_>,
) -> Result<Vec<String>, Error> {
    let mut unread = Vec::new();
    let folders = tops(vault, snapshots, &mut unread)?;
    let mut matching = |_: &mut dyn Access, path: &[u8], versions: &[Version]| {
        if !pattern.have(path) {
            return Ok(());
        }
        versions.iter().try_for_each(|version| take(path, version))
    };
    Walk { vault, take: &mut matching, is_entered: |_| true, unread: &mut unread }.folder(b"", folders, 0)?;
    Ok(unread)
}

/// Calls `take` with each difference between two snapshots, in the order of paths. Folders that are the same are not entered. A folder
/// is changed if its mode, owner or attributes are: what it has is told by itself.
///
/// # Errors
/// [`Error`]: a snapshot that cannot be read, and the errors of `take`.
pub fn diff(
    vault: &mut dyn Access,
    one: SnapshotId,
    other: SnapshotId,
    take: &mut dyn FnMut(Difference<'_>) -> Result<(), Error>,
) -> Result<Vec<String>, Error> {
    let mut folders = Vec::new();
    for snapshot in [one, other] {
        share(&mut folders, read_snapshot(vault, snapshot)?.folder, &[snapshot]);
    }
    let mut compare = |_: &mut dyn Access, path: &[u8], versions: &[Version]| {
        let of = |snapshot| versions.iter().find(|it| it.snapshots.contains(&snapshot)).map(|it| &it.node);
        difference(path, of(one), of(other)).map_or(Ok(()), &mut *take)
    };
    let mut unread = Vec::new();
    let is_entered = |snapshots: &[SnapshotId]| snapshots.len() == 1;
    folders.retain(|(_, snapshots)| is_entered(snapshots));
    Walk { vault, take: &mut compare, is_entered, unread: &mut unread }.folder(b"", folders, 0)?;
    Ok(unread)
}

/// Most files, and most folders, that are named one by one.
const DAMAGED_MAX: usize = 100;

/// The files of snapshots whose content is not whole.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct Damaged {
    /// The first hundred damaged files, in the order of their paths.
    pub damaged: Vec<DamagedFile>,
    /// How many files are damaged.
    pub damaged_count: u64,
    /// The first hundred folders and snapshots that cannot be read, so that nothing is known of what is in them: the path, a colon and the reason.
    pub unread: Vec<String>,
    /// How many folders and snapshots cannot be read.
    pub unread_count: u64,
}

/// A file whose content is not whole.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct DamagedFile {
    /// Its path in the snapshots.
    pub path: PathText,
    /// The snapshots that have the entry in this state.
    pub snapshots: Vec<u64>,
}

/// The files of all snapshots that have something which `is_whole` denies.
///
/// # Errors
/// [`Error`]: the vault's media, and [`Error::Interrupted`].
pub fn damaged(
    vault: &mut dyn Access,
    is_whole: &dyn Fn(&Reference) -> bool,
    step: Step<'_>,
) -> Result<Damaged, Error> {
    let (mut found, mut unread, mut files) = (Damaged::default(), Vec::new(), 0);
    let all: Vec<SnapshotId> = vault.roots()?.into_iter().map(|(snapshot, _)| snapshot).collect();
    let folders = tops(vault, &all, &mut unread)?;
    let mut check = |vault: &mut dyn Access, path: &[u8], versions: &[Version]| {
        files += 1;
        if !step(files, files) {
            return Err(Error::Interrupted);
        }
        let mut snapshots = Vec::new();
        for version in versions {
            if let Kind::File(recipe) = &version.node.kind
                && !is_whole_file(vault, recipe, is_whole)?
            {
                snapshots.extend(version.snapshots.iter().map(|it| it.0));
            }
        }
        if snapshots.is_empty() {
            return Ok(());
        }
        found.damaged_count += 1;
        if found.damaged.len() < DAMAGED_MAX {
            snapshots.sort_unstable();
            found.damaged.push(DamagedFile { path: path.into(), snapshots });
        }
        Ok(())
    };
    Walk { vault, take: &mut check, is_entered: |_| true, unread: &mut unread }.folder(b"", folders, 0)?;
    let unread_count = unread.len() as u64;
    unread.truncate(DAMAGED_MAX);
    Ok(Damaged { unread, unread_count, ..found })
}

/// Whether all of a file's content is whole, and the chunks of its recipe.
fn is_whole_file(
    vault: &mut dyn Access,
    recipe: &Recipe,
    is_whole: &dyn Fn(&Reference) -> bool,
) -> Result<bool, Error> {
    let mut is_all = true;
    let mut visit = |span: &Span, _| {
        is_all &= span.reference().is_none_or(|chunk| is_whole(&chunk));
        is_all
    };
    match recipe.walk(&mut |chunk| vault.get(chunk), &mut visit) {
        Err(error) if error.is_of_media() => Err(error.into()),
        walked => Ok(walked.is_ok() && is_all),
    }
}

fn difference<'a>(
    path: &'a [u8],
    before: Option<&'a Node>,
    after: Option<&'a Node>,
) -> Option<Difference<'a>> {
    let (change, what) = match (before, after) {
        (None, None) => return None,
        (None, Some(_)) => (Change::Added, Vec::new()),
        (Some(_), None) => (Change::Removed, Vec::new()),
        (Some(before), Some(after)) => (Change::Changed, changes(before, after)),
    };
    let is_difference = change != Change::Changed || !what.is_empty();
    is_difference.then_some(Difference { change, path, before, after, what })
}

fn changes(before: &Node, after: &Node) -> Vec<&'static str> {
    let Metadata { mode, user, group, modified_ns, attributes, hard_link: _, origin: _ } = &before.metadata;
    let new = &after.metadata;
    let (mut what, mut is_folder) = (Vec::new(), false);
    match (&before.kind, &after.kind) {
        (Kind::Folder(_), Kind::Folder(_)) => is_folder = true,
        (Kind::File(one), Kind::File(other)) if one != other => what.push("content"),
        (Kind::Link(one), Kind::Link(other)) if one != other => what.push("target"),
        (Kind::File(_), Kind::File(_)) | (Kind::Link(_), Kind::Link(_)) => {}
        (one, other) if one != other => what.push("kind"),
        _ => {}
    }
    let all = [
        ("mode", *mode != new.mode),
        ("owner", (*user, *group) != (new.user, new.group)),
        ("time", !is_folder && *modified_ns != new.modified_ns),
        ("attributes", *attributes != new.attributes),
    ];
    what.extend(all.iter().filter(|(_, has_changed)| *has_changed).map(|(name, _)| name));
    what
}

/// The top folders of snapshots.
fn tops(
    vault: &mut dyn Access,
    snapshots: &[SnapshotId],
    unread: &mut Vec<String>,
) -> Result<Folders, Error> {
    let mut folders = Vec::new();
    for &snapshot in snapshots {
        match read_snapshot(vault, snapshot) {
            Ok(found) => share(&mut folders, found.folder, &[snapshot]),
            Err(error) => note(unread, &format!("snapshot {}", snapshot.0), error)?,
        }
    }
    Ok(folders)
}

/// A folder, and the snapshots that have it.
type Folders = Vec<(Recipe, Vec<SnapshotId>)>;

/// Adds the snapshots that have a folder to the others that have the same.
fn share(folders: &mut Folders, folder: Recipe, snapshots: &[SnapshotId]) {
    match folders.iter_mut().rev().find(|(known, _)| *known == folder) {
        Some((_, known)) => known.extend(snapshots),
        None => folders.push((folder, snapshots.to_vec())),
    }
}

/// Notes what is damaged. A medium that fails is an error.
fn note(unread: &mut Vec<String>, what: &str, error: VaultError) -> Result<(), Error> {
    if error.is_of_media() {
        return Err(error.into());
    }
    unread.push(format!("{what}: {error}"));
    Ok(())
}

struct Walk<'v, 'a> {
    vault: &'v mut dyn Access,
    take: &'a mut TakeAll<'a>,
    /// Whether a folder is entered that these snapshots have.
    is_entered: fn(&[SnapshotId]) -> bool,
    unread: &'a mut Vec<String>,
}

impl Walk<'_, '_> {
    fn folder(&mut self, path: &[u8], folders: Folders, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            self.unread.push(format!("{}: deeper than {DEPTH_MAX} folders", String::from_utf8_lossy(path)));
            return Ok(());
        }
        for (name, versions) in self.names(path, folders)? {
            let path = joined(path, &name);
            (self.take)(self.vault, &path, &versions)?;
            let mut below = Folders::new();
            for Version { node, snapshots } in versions {
                if let Kind::Folder(folder) = node.kind {
                    share(&mut below, folder, &snapshots);
                }
            }
            below.retain(|(_, snapshots)| (self.is_entered)(snapshots));
            if !below.is_empty() {
                self.folder(&path, below, depth + 1)?;
            }
        }
        Ok(())
    }

    /// All versions of each name in these folders, which are at one path.
    fn names(&mut self, path: &[u8], folders: Folders) -> Result<BTreeMap<Vec<u8>, Vec<Version>>, Error> {
        let mut names: BTreeMap<Vec<u8>, Vec<Version>> = BTreeMap::new();
        for (folder, snapshots) in folders {
            let nodes = match read_folder(self.vault, &folder) {
                Ok(nodes) => nodes,
                Err(error) => {
                    let numbers: Vec<String> = snapshots.iter().map(|it| it.0.to_string()).collect();
                    let path = String::from_utf8_lossy(path);
                    note(self.unread, &format!("/{path} of snapshot {}", numbers.join(", ")), error)?;
                    continue;
                }
            };
            for mut node in nodes {
                (node.metadata.hard_link, node.metadata.origin) = (None, None);
                let versions = names.entry(node.name.clone()).or_default();
                match versions.iter_mut().rev().find(|it| it.node == node) {
                    Some(known) => known.snapshots.extend(&snapshots),
                    None => versions.push(Version { node, snapshots: snapshots.clone() }),
                }
            }
        }
        for version in names.values_mut().flatten() {
            version.snapshots.sort_unstable();
        }
        Ok(names)
    }
}
