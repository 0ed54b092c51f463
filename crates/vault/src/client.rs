//! A client of a vault: cuts and names the content of files, offers the chunks, and stores those that the vault wants.

mod access;
mod image;
mod prepare;
mod thinning;

#[cfg(test)]
mod tests;

pub use access::{Access, Answer, Request};
pub use image::{IMAGE_CHUNK_BYTES, ImageWriter};
pub use prepare::{Chunk, Preparer};
pub use thinning::{IsGone, Thinning};

use crate::chunk::{CHUNK_BYTES_MAX, Compression, Packed, VaultKey};
use crate::container::Class;
use crate::tree::{FolderBuilder, Layer, Node, Recipe, RecipeBuilder, Role, Snapshot, Span, children, nodes};
use crate::{Fingerprint, ForgetId, PutId, Reference, SnapshotId, VaultError};

/// A put, as its client has it.
#[derive(Debug)]
pub struct Writer {
    put: PutId,
    preparer: Preparer,
    /// Chunks that were not there, and their bytes as stored.
    stored: (u64, u64),
    /// The number of entries that were left out of the snapshot.
    left_out: u64,
    /// Whether the vault knows that a part of the put will be left behind.
    leaves: bool,
}

impl Writer {
    /// Begins a put.
    ///
    /// # Errors
    ///
    /// [`VaultError::Puts`] if too many are under way.
    pub fn begin(
        vault: &mut dyn Access,
        key: &VaultKey,
        compression: Compression,
    ) -> Result<Writer, VaultError> {
        let (put, preparer) = (vault.begin_put()?, Preparer::new(key, compression));
        Ok(Writer { put, preparer, stored: (0, 0), left_out: 0, leaves: false })
    }

    /// The put.
    pub fn put(&self) -> PutId {
        self.put
    }

    /// Chunks that were not there, and their bytes as stored.
    pub fn stored(&self) -> (u64, u64) {
        self.stored
    }

    /// Stores one chunk, unless the vault has it.
    ///
    /// # Errors
    ///
    /// As [`Access::offer`] and [`Access::store`].
    pub fn chunk(
        &mut self,
        vault: &mut dyn Access,
        class: Class,
        content: &[u8],
    ) -> Result<Reference, VaultError> {
        let chunk = self.preparer.name(class, content);
        let stored = self.together(vault, vec![chunk])?;
        stored.first().copied().ok_or(VaultError::Answer)
    }

    /// Stores chunks, unless the vault has them: with two requests, however many they are.
    fn together(
        &mut self,
        vault: &mut dyn Access,
        chunks: Vec<Chunk<'_>>,
    ) -> Result<Vec<Reference>, VaultError> {
        if chunks.is_empty() {
            return Ok(Vec::new());
        }
        let names: Vec<Fingerprint> = chunks.iter().map(Chunk::fingerprint).collect();
        let offered = vault.offer(self.put, names.clone())?;
        if offered.len() != names.len() {
            return Err(VaultError::Answer);
        }
        let wanted = self.pack_wanted(&offered, chunks);
        let stored = if wanted.is_empty() { Vec::new() } else { vault.store(self.put, wanted)? };
        let place = |(name, found): (&Fingerprint, Option<Reference>)| {
            found
                .or_else(|| stored.iter().find(|it| it.fingerprint == *name).copied())
                .ok_or(VaultError::Answer)
        };
        names.iter().zip(offered).map(place).collect()
    }

    /// Compresses the chunks that the vault did not find, each once.
    fn pack_wanted(&mut self, offered: &[Option<Reference>], chunks: Vec<Chunk<'_>>) -> Vec<Packed> {
        let mut wanted: Vec<Packed> = Vec::new();
        for (found, chunk) in offered.iter().zip(chunks) {
            let name = chunk.fingerprint();
            if found.is_none() && !wanted.iter().any(|packed| packed.fingerprint() == name) {
                wanted.push(self.preparer.pack(chunk));
            }
        }
        self.stored.0 += wanted.len() as u64;
        self.stored.1 += wanted.iter().map(|packed| packed.stored().len() as u64).sum::<u64>();
        wanted
    }

    /// Refers to the content of files that a snapshot has; for each whether all of it is there and whole, so that the file need not be
    /// read again.
    ///
    /// # Errors
    ///
    /// As [`Access::offer`].
    pub fn keep(&mut self, vault: &mut dyn Access, files: &[&Recipe]) -> Result<Vec<bool>, VaultError> {
        let chunks = |file: &Recipe| file.top().0.iter().filter_map(Span::reference).collect::<Vec<_>>();
        let wanted: Vec<Vec<Reference>> = files.iter().map(|file| chunks(file)).collect();
        let names: Vec<Fingerprint> = wanted.iter().flatten().map(|chunk| chunk.fingerprint).collect();
        let offered = if names.is_empty() { Vec::new() } else { vault.offer(self.put, names.clone())? };
        if offered.len() != names.len() {
            return Err(VaultError::Answer);
        }
        let mut offered = offered.into_iter();
        let is_kept = |chunks: Vec<Reference>| {
            let found: Vec<_> = offered.by_ref().take(chunks.len()).collect();
            chunks.into_iter().map(Some).eq(found)
        };
        Ok(wanted.into_iter().map(is_kept).collect())
    }

    /// Stores a file.
    #[cfg(test)]
    pub(crate) fn file(&mut self, vault: &mut dyn Access, content: &[u8]) -> Result<Recipe, VaultError> {
        let mut file = FileWriter::default();
        file.push(self, vault, content)?;
        file.finish(self, vault)
    }

    /// Stores a folder of entries that are sorted by name.
    ///
    /// # Errors
    ///
    /// [`VaultError::Node`] if an entry is invalid; as [`chunk`](Writer::chunk).
    pub fn folder(&mut self, vault: &mut dyn Access, nodes: &[Node]) -> Result<Recipe, VaultError> {
        let mut folder = FolderBuilder::default();
        let mut store = |bytes: &[u8]| self.chunk(vault, Class::Metadata, bytes);
        nodes.iter().try_for_each(|node| folder.push(node, &mut store))?;
        folder.finish(&mut store)
    }

    /// Notes that the put has stored content that its snapshot will not have: that content is owed when the put ends.
    ///
    /// # Errors
    ///
    /// As [`Access::leave_behind`].
    pub fn leave_behind(&mut self, vault: &mut dyn Access) -> Result<(), VaultError> {
        if !self.leaves {
            vault.leave_behind(self.put)?;
            self.leaves = true;
        }
        Ok(())
    }

    /// Counts an entry that is left out of the snapshot.
    pub fn leave_out(&mut self) {
        self.left_out += 1;
    }

    /// Ends the put with a snapshot.
    ///
    /// # Errors
    ///
    /// As [`Access::commit`].
    pub fn commit(&mut self, vault: &mut dyn Access, snapshot: &Snapshot) -> Result<SnapshotId, VaultError> {
        let root = self.preparer.packer.pack(Class::Metadata, &snapshot.to_bytes());
        vault.commit(self.put, root, self.left_out)
    }

    /// Ends the put by exchanging snapshots, all at once. Each comes with the root chunk that it had when it was read.
    ///
    /// # Errors
    ///
    /// As [`Access::replace`].
    pub fn replace(
        &mut self,
        vault: &mut dyn Access,
        snapshots: &[(SnapshotId, Reference, Snapshot)],
    ) -> Result<Vec<ForgetId>, VaultError> {
        let pack = |(snapshot, old, new): &(SnapshotId, Reference, Snapshot)| {
            (*snapshot, *old, self.preparer.packer.pack(Class::Metadata, &new.to_bytes()))
        };
        let roots = snapshots.iter().map(pack).collect();
        vault.replace(self.put, roots)
    }
}

/// The snapshot's name and folder.
///
/// # Errors
///
/// [`VaultError::NoSnapshot`], and as [`Access::get`].
pub fn read_snapshot(vault: &mut dyn Access, snapshot: SnapshotId) -> Result<Snapshot, VaultError> {
    let root = vault.root(snapshot)?;
    Ok(Snapshot::from_bytes(&vault.get(&root)?)?)
}

/// The path of an entry in the folder of a path.
pub fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() }
}

/// Bytes that are cut at once.
const WINDOW_BYTES: usize = 16 * CHUNK_BYTES_MAX;

/// Stores the content of a file as it comes.
#[derive(Default, Debug)]
pub struct FileWriter {
    recipe: RecipeBuilder,
    /// Bytes that are not cut yet.
    rest: Vec<u8>,
}

impl FileWriter {
    /// Adds content.
    ///
    /// # Errors
    ///
    /// As [`Writer::chunk`].
    pub fn push(
        &mut self,
        writer: &mut Writer,
        vault: &mut dyn Access,
        content: &[u8],
    ) -> Result<(), VaultError> {
        for piece in content.chunks(WINDOW_BYTES) {
            self.rest.extend(piece);
            self.cut(writer, vault, false)?;
        }
        Ok(())
    }

    /// Adds chunks that a [`Preparer`] has cut of the file.
    ///
    /// # Errors
    ///
    /// As [`Writer::chunk`].
    pub fn add(
        &mut self,
        writer: &mut Writer,
        vault: &mut dyn Access,
        chunks: Vec<Chunk<'_>>,
    ) -> Result<(), VaultError> {
        if chunks.is_empty() {
            return Ok(());
        }
        let lengths: Vec<u64> = chunks.iter().map(Chunk::raw_bytes).collect();
        for (chunk, bytes) in writer.together(vault, chunks)?.into_iter().zip(lengths) {
            let mut store = |bytes: &[u8]| writer.chunk(vault, Class::Metadata, bytes);
            self.recipe.push(Span::chunk(chunk, bytes), &mut store)?;
        }
        Ok(())
    }

    /// Adds zeros that take no space.
    ///
    /// # Errors
    ///
    /// As [`Writer::chunk`].
    pub fn hole(
        &mut self,
        writer: &mut Writer,
        vault: &mut dyn Access,
        bytes: u64,
    ) -> Result<(), VaultError> {
        self.cut(writer, vault, true)?;
        let mut store = |bytes: &[u8]| writer.chunk(vault, Class::Metadata, bytes);
        self.recipe.push(Span::hole(bytes), &mut store)
    }

    /// The file's recipe.
    ///
    /// # Errors
    ///
    /// As [`Writer::chunk`].
    pub fn finish(mut self, writer: &mut Writer, vault: &mut dyn Access) -> Result<Recipe, VaultError> {
        self.cut(writer, vault, true)?;
        self.recipe.finish(&mut |bytes| writer.chunk(vault, Class::Metadata, bytes))
    }

    /// Stores the chunks that can be cut: all of the rest at the `end`.
    fn cut(&mut self, writer: &mut Writer, vault: &mut dyn Access, is_end: bool) -> Result<(), VaultError> {
        let chunks = writer.preparer.cut(&mut self.rest, is_end, false);
        self.add(writer, vault, chunks)
    }
}

/// Takes a piece of a file: its length, and its content; `None` for zeros.
pub type Take<'a, E> = dyn FnMut(u64, Option<&[u8]>) -> Result<(), E> + 'a;

/// Calls `take` with each piece of a file's content, in order.
///
/// # Errors
///
/// As [`Access::get`], and the errors of `take`.
pub fn read_file<E: From<VaultError>>(
    vault: &mut dyn Access,
    recipe: &Recipe,
    take: &mut Take<'_, E>,
) -> Result<(), E> {
    let mut at = recipe.cursor().map_err(VaultError::from)?;
    while let Some(span) = at.next(&mut |chunk| get_spans(vault, chunk))? {
        match span.reference() {
            Some(chunk) => take(span.bytes, Some(&vault.get(&chunk)?))?,
            None => take(span.bytes, None)?,
        }
    }
    Ok(())
}

/// A chunk of spans of a file. The vault is told that the content of the spans is read next.
fn get_spans(vault: &mut dyn Access, chunk: &Reference) -> Result<Vec<u8>, VaultError> {
    let bytes = vault.get(chunk)?;
    let content = children(&bytes)?.1.into_iter().filter(|child| child.role == Role::Content);
    vault.expect(&mut content.map(|child| child.chunk));
    Ok(bytes)
}

/// Tells the vault that these files are read next, in this order.
pub fn expect_files<'r>(vault: &mut dyn Access, files: impl DoubleEndedIterator<Item = &'r Recipe>) {
    let content = files.map(Recipe::top).filter(|(_, layer)| *layer == Layer::Content);
    vault.expect(&mut content.flat_map(|(spans, _)| spans).filter_map(Span::reference));
}

/// The entries of a folder.
///
/// # Errors
///
/// As [`Access::get`].
pub fn read_folder(vault: &mut dyn Access, recipe: &Recipe) -> Result<Vec<Node>, VaultError> {
    let (mut found, mut at) = (Vec::new(), recipe.cursor()?);
    while let Some(span) = at.next(&mut |chunk| vault.get(chunk))? {
        if let Some(chunk) = span.reference() {
            found.extend(nodes(&vault.get(&chunk)?)?);
        }
    }
    Ok(found)
}
