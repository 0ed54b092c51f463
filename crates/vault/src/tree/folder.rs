//! Folders: their entries, and the attributes of files.

use serde::{Deserialize, Serialize};

use super::group::{BYTES_MAX, Group};
use super::{BadMetadata, Recipe, RecipeBuilder, Role, Span, decode};
use crate::Reference;

/// An entry of a folder.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Node {
    /// The name, as the file system has it: any bytes but 0 and `/`.
    pub name: Vec<u8>,
    /// Owner, mode and so on.
    pub metadata: Metadata,
    /// The entry's kind.
    pub kind: Kind,
}

/// A file's attributes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Metadata {
    /// The 12 bits of permissions.
    pub mode: u32,
    /// The owner's number.
    pub user: u32,
    /// The group's number.
    pub group: u32,
    /// Time of the last change of the content, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Extended attributes, ACLs among them: name and value, by name.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
    /// Entries with the same number are names of one file.
    pub hard_link: Option<u64>,
    /// The file of the host that was put; `None` if the entry is not from a host's file system.
    pub origin: Option<Origin>,
}

/// Identity and state of a file of a host. While both stay, its content and its attributes are unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Origin {
    /// Number of the inode.
    pub inode: u64,
    /// Time of the last change of the inode (`st_ctime`), in nanoseconds since 1970. No program can set it.
    pub changed_ns: i64,
}

/// The kind of an entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Kind {
    /// A file of this content.
    File(Recipe),
    /// A folder of these entries.
    Folder(Recipe),
    /// A symbolic link to this path.
    Link(Vec<u8>),
    /// A block device: major and minor number.
    BlockDevice(u32, u32),
    /// A character device: major and minor number.
    CharacterDevice(u32, u32),
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
}

/// The entries that a chunk of a folder has.
///
/// # Errors
///
/// [`BadMetadata`] if it is not a chunk of a folder.
pub fn nodes(bytes: &[u8]) -> Result<Vec<Node>, BadMetadata> {
    match Role::take(bytes)? {
        (Role::Nodes, entries) => decode(entries, "entries of a folder"),
        _ => Err(BadMetadata::new(bytes, "entries of a folder")),
    }
}

/// Makes a folder of entries as they come, sorted by name.
#[derive(Debug)]
pub struct FolderBuilder {
    group: Group,
    recipe: RecipeBuilder,
    last: Option<Vec<u8>>,
}

/// Why a folder cannot have an entry.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadNode {
    /// Restoring such a name would write elsewhere, or nowhere.
    #[error("file name {0:?}: empty, `.`, `..`, or with `/` or a zero byte; rename the file")]
    Name(Vec<u8>),
    /// Entries come in another order, or twice.
    #[error("file name {0:?}: out of order or twice in one folder")]
    Order(Vec<u8>),
    /// The entry's attributes are longer than a chunk.
    #[error("file {name:?}: {bytes} bytes of metadata, at most {BYTES_MAX}; remove extended attributes")]
    Long {
        /// The entry's name.
        name: Vec<u8>,
        /// The entry's length.
        bytes: usize,
    },
}

impl Node {
    /// Whether restoring the name stays within its folder.
    pub fn has_good_name(&self) -> bool {
        !matches!(&self.name[..], b"" | b"." | b"..")
            && !self.name.iter().any(|byte| matches!(byte, 0 | b'/'))
    }
}

impl Default for FolderBuilder {
    fn default() -> FolderBuilder {
        FolderBuilder { group: Group::default(), recipe: RecipeBuilder::of_folder(), last: None }
    }
}

impl FolderBuilder {
    /// Adds the next entry; `store` takes each chunk that is complete now, and names it.
    ///
    /// # Errors
    ///
    /// [`BadNode`], and the errors of `store`.
    pub fn push<E: From<BadNode>>(
        &mut self,
        node: &Node,
        store: &mut dyn FnMut(&[u8]) -> Result<Reference, E>,
    ) -> Result<(), E> {
        let name = || node.name.clone();
        if !node.has_good_name() {
            return Err(BadNode::Name(name()).into());
        }
        if self.last.as_ref().is_some_and(|last| *last >= node.name) {
            return Err(BadNode::Order(name()).into());
        }
        let entry = postcard::to_allocvec(node).expect("a node has lengths that are known");
        if entry.len() > BYTES_MAX {
            return Err(BadNode::Long { name: name(), bytes: entry.len() }.into());
        }
        self.last = Some(name());
        let complete: Vec<_> = self.group.push(&entry).collect();
        complete.iter().try_for_each(|chunk| end_chunk(&mut self.recipe, chunk, store))
    }

    /// The folder's recipe.
    ///
    /// # Errors
    ///
    /// The errors of `store`.
    pub fn finish<E>(mut self, store: &mut dyn FnMut(&[u8]) -> Result<Reference, E>) -> Result<Recipe, E> {
        if let Some(rest) = self.group.take() {
            end_chunk(&mut self.recipe, &rest, store)?;
        }
        self.recipe.finish(store)
    }
}

fn end_chunk<E>(
    recipe: &mut RecipeBuilder,
    chunk: &[u8],
    store: &mut dyn FnMut(&[u8]) -> Result<Reference, E>,
) -> Result<(), E> {
    let reference = store(&[&[Role::Nodes.byte()], chunk].concat())?;
    recipe.push(Span::chunk(reference, chunk.len() as u64), store)
}
