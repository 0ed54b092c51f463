//! The snapshot before: what it says of the files of this host, so that unchanged files are not read again.
//!
//! Invariants:
//! 1. A file is taken for unchanged only if its inode has the same number, the same time of its last change, which no program can
//!    set, and the same length and time of modification as when it was read.
//! 2. A file that had been changed so shortly before it was read that another change could bear the same time is read again.
//! 3. What the snapshot before says is content of the vault, and nothing else has it: it is destroyed like all else that is forgotten.

use crate::vault::transfer::source::attributes::{origin, time_ns};
use crate::vault::{Client, Error, Label};
use quietus_vault::client::Access;
use quietus_vault::tree::{Cursor, Kind, Node, Origin, Recipe, Snapshot, nodes};
use std::fs;
use std::iter::Peekable;
use std::os::unix::fs::MetadataExt;
use std::vec::IntoIter;

/// The longest step of a file system's clock: FAT counts in two seconds.
const CLOCK_STEP_NS: i64 = 2_000_000_000;
const MS_NS: i64 = 1_000_000;

/// The snapshot before, for the thread that walks.
pub(super) struct Parent {
    client: Client,
    /// Its top.
    pub(super) folder: Recipe,
    /// A file that was last changed before this was read as it still is.
    settled_ns: i64,
}

impl Parent {
    /// The newest snapshot of the same series, or else of the same host.
    pub(super) fn find(client: &mut Client, label: &Label) -> Result<Option<Self>, Error> {
        let mut others = None;
        for (_, root) in client.roots()?.into_iter().rev() {
            let read = client.get(&root).and_then(|bytes| Ok(Snapshot::from_bytes(&bytes)?));
            let snapshot = match read {
                Err(error) if error.is_of_media() => return Err(error.into()),
                // Damaged, or forgotten meanwhile.
                Err(_) => continue,
                Ok(snapshot) if snapshot.host != label.host.as_bytes() => continue,
                Ok(snapshot) => snapshot,
            };
            if snapshot.name == label.name.as_bytes() {
                return Ok(Self::of(client, snapshot));
            }
            others.get_or_insert(snapshot);
        }
        Ok(others.and_then(|snapshot| Self::of(client, snapshot)))
    }

    fn of(client: &Client, snapshot: Snapshot) -> Option<Self> {
        let begun_ns = i64::try_from(snapshot.begun_ms).unwrap_or(0).saturating_mul(MS_NS);
        let settled_ns = begun_ns.saturating_sub(CLOCK_STEP_NS);
        let another = client.another();
        let another = another.inspect_err(|error| tracing::warn!(%error, "all files are read again"));
        Some(Self { client: another.ok()?, folder: snapshot.folder, settled_ns })
    }

    /// The content of a file that is still as the snapshot has it.
    pub(super) fn unchanged(&self, node: Node, about: &fs::Metadata) -> Option<Recipe> {
        is_unchanged(&node, State::of(about), self.settled_ns).then_some(())?;
        if let Kind::File(recipe) = node.kind { Some(recipe) } else { None }
    }
}

/// What the host says of a file without opening it.
#[derive(Clone, Copy)]
struct State {
    origin: Origin,
    modified_ns: i64,
    bytes: u64,
    /// Whether the length may say nothing of the content: `/proc` and its like have files of length 0 with content, whose times are
    /// not the time of any change. Like all file systems without a device of their own, they have the major number 0.
    is_of_no_length: bool,
}

impl State {
    fn of(about: &fs::Metadata) -> Self {
        Self {
            origin: origin(about),
            modified_ns: time_ns(about.mtime(), about.mtime_nsec()),
            bytes: about.len(),
            is_of_no_length: about.len() == 0 && rustix::fs::major(about.dev()) == 0,
        }
    }
}

/// Whether a file is as `node` says, which was read after `settled_ns`.
fn is_unchanged(node: &Node, now: State, settled_ns: i64) -> bool {
    let Kind::File(recipe) = &node.kind else { return false };
    let is_same = node.metadata.origin == Some(now.origin)
        && node.metadata.modified_ns == now.modified_ns
        && recipe.bytes() == now.bytes;
    let is_settled = now.origin.changed_ns.max(now.modified_ns) < settled_ns;
    is_same && is_settled && !now.is_of_no_length
}

/// A folder of the snapshot before: its entries as they are asked for, in the order of names.
pub(super) struct Before {
    rest: Option<Cursor>,
    nodes: Peekable<IntoIter<Node>>,
}

impl Before {
    /// The entries of a folder; empty if the snapshot does not have the folder.
    pub(super) fn of(folder: Option<&Recipe>) -> Self {
        Self {
            rest: folder.and_then(|folder| folder.cursor().ok()),
            nodes: Vec::new().into_iter().peekable(),
        }
    }

    /// The entry of that name. Later calls ask for later names.
    pub(super) fn take(&mut self, parent: Option<&mut Parent>, name: &[u8]) -> Option<Node> {
        let client = &mut parent?.client;
        loop {
            match self.nodes.next_if(|node| node.name.as_slice() <= name) {
                Some(node) if node.name == name => return Some(node),
                Some(_) => {}
                None if self.nodes.peek().is_some() => return None,
                None => self.nodes = self.more(client)?.into_iter().peekable(),
            }
        }
    }

    /// The next chunk of entries. What cannot be read is read from the host again.
    fn more(&mut self, client: &mut Client) -> Option<Vec<Node>> {
        let rest = self.rest.as_mut()?;
        let mut next = || {
            let span = rest.next(&mut |chunk| client.get(chunk))?;
            let Some(chunk) = span.and_then(|span| span.reference()) else { return Ok(None) };
            Ok::<_, quietus_vault::VaultError>(Some(nodes(&client.get(&chunk)?)?))
        };
        let read = next().inspect_err(|error| tracing::debug!(%error, "a folder of the snapshot before"));
        let more = read.ok().flatten();
        if more.is_none() {
            self.rest = None;
        }
        more
    }
}

#[cfg(test)]
mod tests {
    use crate::vault::transfer::source::parent::*;
    use quietus_vault::tree::Metadata;

    const NOW: State = State {
        origin: Origin { inode: 7, changed_ns: 1000 },
        modified_ns: 900,
        bytes: 0,
        is_of_no_length: false,
    };

    fn node() -> Node {
        let metadata = Metadata { modified_ns: 900, origin: Some(NOW.origin), ..Metadata::default() };
        Node { name: b"a".to_vec(), metadata, kind: Kind::File(Recipe::default()) }
    }

    #[test]
    fn any_difference_makes_a_file_changed() {
        assert!(is_unchanged(&node(), NOW, 1001));
        let others = [
            State { origin: Origin { inode: 8, ..NOW.origin }, ..NOW },
            State { origin: Origin { changed_ns: 999, ..NOW.origin }, ..NOW },
            State { modified_ns: 901, ..NOW },
            State { bytes: 1, ..NOW },
            State { is_of_no_length: true, ..NOW },
        ];
        assert!(others.iter().all(|other| !is_unchanged(&node(), *other, 1001)));
        let metadata = Metadata { origin: None, ..node().metadata };
        assert!(!is_unchanged(&Node { metadata, ..node() }, NOW, 1001));
        assert!(!is_unchanged(&Node { kind: Kind::Pipe, ..node() }, NOW, 1001));
    }

    #[test]
    fn a_file_that_changed_shortly_before_it_was_read_or_later_is_not_trusted() {
        assert!(!is_unchanged(&node(), NOW, 1000));
        let modified = State { modified_ns: 2000, ..NOW };
        let metadata = Metadata { modified_ns: 2000, ..node().metadata };
        let node = Node { metadata, ..node() };
        assert!(!is_unchanged(&node, modified, 2000) && is_unchanged(&node, modified, 2001));
    }
}
