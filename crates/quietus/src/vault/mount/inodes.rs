//! The entries that the kernel knows, by number. It says which it has forgotten.

use quietus_vault::tree::Node;
use std::collections::HashMap;
use std::rc::Rc;

/// The folder that is mounted.
pub(super) const ROOT: u64 = 1;

/// An entry that the kernel knows.
#[derive(Debug)]
pub(super) struct Inode {
    /// The entry.
    pub(super) node: Rc<Node>,
    /// The top folder of its snapshot: hard links are numbered within it.
    pub(super) snapshot: u64,
    /// The folder where it was found first.
    pub(super) parent: u64,
    /// How often the kernel has been given the number, and not forgotten it again.
    lookups: u64,
    key: Key,
}

/// The identity of an entry.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Key {
    /// A name in a folder.
    Name(u64, Vec<u8>),
    /// All names of a file in a snapshot.
    Link(u64, u64),
}

/// The entries that the kernel knows. The root is always there.
#[derive(Debug)]
pub(super) struct Inodes {
    known: HashMap<u64, Inode>,
    numbers: HashMap<Key, u64>,
    next: u64,
}

impl Inodes {
    pub(super) fn new(root: Node) -> Self {
        let key = Key::Name(0, Vec::new());
        let root = Inode { node: Rc::new(root), snapshot: ROOT, parent: ROOT, lookups: 1, key };
        Self { known: [(ROOT, root)].into(), numbers: HashMap::new(), next: ROOT + 1 }
    }

    pub(super) fn get(&self, number: u64) -> Option<&Inode> {
        self.known.get(&number)
    }

    /// The number of an entry in the folder `parent`, which the kernel then has once more. `snapshot` is its top folder; None if it is
    /// one itself.
    pub(super) fn look_up(&mut self, parent: u64, snapshot: Option<u64>, node: &Rc<Node>) -> u64 {
        let key = match (snapshot, node.metadata.hard_link) {
            (Some(snapshot), Some(link)) => Key::Link(snapshot, link),
            _ => Key::Name(parent, node.name.clone()),
        };
        let number = *self.numbers.entry(key.clone()).or_insert(self.next);
        self.next += u64::from(number == self.next);
        let snapshot = snapshot.unwrap_or(number);
        let fresh = || Inode { node: Rc::clone(node), snapshot, parent, lookups: 0, key };
        self.known.entry(number).or_insert_with(fresh).lookups += 1;
        number
    }

    /// The kernel has forgotten this number of lookups of an entry.
    pub(super) fn forget(&mut self, number: u64, times: u64) {
        let Some(inode) = self.known.get_mut(&number).filter(|_| number != ROOT) else { return };
        inode.lookups = inode.lookups.saturating_sub(times);
        if inode.lookups == 0
            && let Some(gone) = self.known.remove(&number)
        {
            self.numbers.remove(&gone.key);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        (self.known.len(), self.numbers.len())
    }
}
