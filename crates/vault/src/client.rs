//! A client of a vault that lives in the same process: what is read is cut, named, offered, and stored where it is wanted.

use crate::chunk::{CHUNK_BYTES_MAX, Compression, Cutter, Packer, VaultKey};
use crate::container::Class;
use crate::tree::{BadNode, FolderBuilder, Layer, Node, Recipe, RecipeBuilder, Snapshot, Span, nodes};
use crate::{PutId, Reference, SnapshotId, Vault, VaultError};

/// A put, as its client has it.
#[derive(Debug)]
pub struct Writer {
    put: PutId,
    packer: Packer,
    cutter: Cutter,
}

impl Writer {
    /// Begins a put.
    ///
    /// # Errors
    ///
    /// [`VaultError::Puts`] if too many are under way.
    pub fn begin(
        vault: &mut Vault<'_>,
        key: &VaultKey,
        compression: Compression,
    ) -> Result<Writer, VaultError> {
        let packer = Packer::new(key.clone(), compression);
        Ok(Writer { put: vault.begin_put()?, packer, cutter: Cutter::new(key) })
    }

    /// The put.
    pub fn put(&self) -> PutId {
        self.put
    }

    /// Stores one chunk, unless the vault has it.
    ///
    /// # Errors
    ///
    /// As [`Vault::offer`] and [`Vault::store`].
    pub fn chunk(
        &mut self,
        vault: &mut Vault<'_>,
        class: Class,
        content: &[u8],
    ) -> Result<Reference, VaultError> {
        let fingerprint = self.packer.fingerprint(class, content);
        match vault.offer(self.put, &[fingerprint])?[..] {
            [Some(found)] => Ok(found),
            _ => vault.store(self.put, &self.packer.pack(class, content)),
        }
    }

    /// Stores a file.
    ///
    /// # Errors
    ///
    /// As [`chunk`](Writer::chunk).
    pub fn file(&mut self, vault: &mut Vault<'_>, content: &[u8]) -> Result<Recipe, VaultError> {
        let mut rest = content;
        let mut chunks = Vec::new();
        while !rest.is_empty() {
            let length = self.cutter.cut(&rest[..rest.len().min(CHUNK_BYTES_MAX)]);
            let (chunk, behind) = rest.split_at(length);
            chunks.push(chunk);
            rest = behind;
        }
        self.chunks(vault, &chunks)
    }

    /// Stores a file that is cut already.
    ///
    /// # Errors
    ///
    /// As [`chunk`](Writer::chunk).
    pub fn chunks(&mut self, vault: &mut Vault<'_>, chunks: &[&[u8]]) -> Result<Recipe, VaultError> {
        let mut recipe = RecipeBuilder::default();
        for content in chunks {
            let chunk = self.chunk(vault, Class::Data, content)?;
            recipe.push(Span::chunk(chunk, content.len() as u64), &mut |bytes| {
                self.chunk(vault, Class::Metadata, bytes)
            })?;
        }
        recipe.finish(&mut |bytes| self.chunk(vault, Class::Metadata, bytes))
    }

    /// Stores a folder of entries that are sorted by name.
    ///
    /// # Errors
    ///
    /// [`VaultError::Node`] if an entry cannot be; as [`chunk`](Writer::chunk).
    pub fn folder(&mut self, vault: &mut Vault<'_>, nodes: &[Node]) -> Result<Recipe, VaultError> {
        let mut folder = FolderBuilder::default();
        let mut store = |bytes: &[u8]| self.chunk(vault, Class::Metadata, bytes);
        nodes.iter().try_for_each(|node| folder.push(node, &mut store))?;
        folder.finish(&mut store)
    }

    /// Ends the put with a snapshot.
    ///
    /// # Errors
    ///
    /// As [`Vault::commit`].
    pub fn commit(&mut self, vault: &mut Vault<'_>, snapshot: &Snapshot) -> Result<SnapshotId, VaultError> {
        vault.commit(self.put, &self.packer.pack(Class::Metadata, &snapshot.to_bytes()))
    }
}

impl From<BadNode> for VaultError {
    fn from(error: BadNode) -> VaultError {
        VaultError::Node(error)
    }
}

/// Takes a piece of a file: its length, and its content; None for zeros.
pub type Take<'a, E> = dyn FnMut(u64, Option<&[u8]>) -> Result<(), E> + 'a;

/// Calls `take` with each piece of a file's content, in order.
///
/// # Errors
///
/// As [`Vault::get`], and those of `take`.
pub fn read_file<E: From<VaultError>>(
    vault: &mut Vault<'_>,
    recipe: &Recipe,
    take: &mut Take<'_, E>,
) -> Result<(), E> {
    for span in content(vault, recipe)? {
        match span.reference() {
            Some(chunk) => take(span.bytes, Some(&vault.get(&chunk)?))?,
            None => take(span.bytes, None)?,
        }
    }
    Ok(())
}

/// The entries of a folder.
///
/// # Errors
///
/// As [`Vault::get`].
pub fn read_folder(vault: &mut Vault<'_>, recipe: &Recipe) -> Result<Vec<Node>, VaultError> {
    let mut found = Vec::new();
    for chunk in content(vault, recipe)?.iter().filter_map(Span::reference) {
        found.extend(nodes(&vault.get(&chunk)?)?);
    }
    Ok(found)
}

/// The spans of the content.
fn content(vault: &mut Vault<'_>, recipe: &Recipe) -> Result<Vec<Span>, VaultError> {
    let mut spans = Vec::new();
    recipe.walk(&mut |chunk| vault.get(chunk), &mut |span, layer| {
        if layer == Layer::Content {
            spans.push(*span);
        }
        true
    })?;
    Ok(spans)
}
