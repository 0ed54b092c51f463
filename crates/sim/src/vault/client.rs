//! A client of a vault that puts a snapshot, a chunk at a time; or one that relies on a folder which the vault had.

use quietus_vault::chunk::{Compression, Packer, VaultKey};
use quietus_vault::container::Class;
use quietus_vault::tree::{FolderBuilder, Kind, Metadata, Node, Recipe, RecipeBuilder, Snapshot, Span};
use quietus_vault::{PutId, Reference, SnapshotId, Vault, VaultError};

use super::items::{Item, Shot};

/// See the module's documentation.
pub struct Client {
    pub put: PutId,
    pub shot: Shot,
    /// Chunks that are replaced before the put ends.
    pub drafts: Vec<u32>,
    /// How many of them the vault has.
    drafted: usize,
    key: VaultKey,
    /// The next chunk of the next file.
    at: (usize, usize),
    recipe: RecipeBuilder,
    nodes: Vec<Node>,
    /// The folder of another snapshot, of which nothing but its topmost chunks is offered.
    pub folder: Option<Recipe>,
    /// Chunks that were there.
    pub shared: u64,
    /// Whether the vault has told of any chunk.
    pub is_noted: bool,
}

impl Client {
    pub fn new(put: PutId, shot: Shot, key: VaultKey) -> Client {
        Client {
            put,
            shot,
            drafts: Vec::new(),
            drafted: 0,
            key,
            at: (0, 0),
            recipe: RecipeBuilder::default(),
            nodes: Vec::new(),
            folder: None,
            shared: 0,
            is_noted: false,
        }
    }

    /// Offers a folder of the vault, and puts nothing but a snapshot of it. `None` if the vault does not have all of it any more.
    pub fn lazy(
        vault: &mut Vault<'_>,
        put: PutId,
        (shot, folder): (Shot, Recipe),
        key: VaultKey,
    ) -> Result<Option<Client>, VaultError> {
        let top: Vec<_> = folder.top().0.iter().filter_map(|span| span.reference()).collect();
        let names: Vec<_> = top.iter().map(|chunk| chunk.fingerprint).collect();
        let offered = vault.offer(put, &names)?;
        let has_all = offered.iter().zip(&top).all(|(found, chunk)| found.as_ref() == Some(chunk));
        let at = (shot.files.len(), 0);
        let client = Client { at, folder: Some(folder), is_noted: true, ..Client::new(put, shot, key) };
        Ok(has_all.then_some(client))
    }

    /// Puts the next chunk, or ends a file; true if only the commit is left.
    pub fn step(&mut self, vault: &mut Vault<'_>) -> Result<bool, VaultError> {
        if let Some(number) = self.drafts.get(self.drafted) {
            let item = Item::Content(*number);
            self.chunk(vault, Class::Data, &item.bytes(), item.compression())?;
            self.drafted += 1;
            return vault.leave_behind(self.put).map(|()| false);
        }
        let (file, chunk) = self.at;
        let Some((name, chunks)) = self.shot.files.get(file).cloned() else { return Ok(true) };
        match chunks.get(chunk) {
            Some(number) => {
                let item = Item::Content(*number);
                let content = item.bytes();
                let reference = self.chunk(vault, Class::Data, &content, item.compression())?;
                let mut recipe = std::mem::take(&mut self.recipe);
                let span = Span::chunk(reference, content.len() as u64);
                recipe.push(span, &mut |bytes| self.metadata(vault, bytes))?;
                (self.recipe, self.at) = (recipe, (file, chunk + 1));
            }
            None => {
                let recipe = std::mem::take(&mut self.recipe);
                let recipe = recipe.finish(&mut |bytes| self.metadata(vault, bytes))?;
                let (name, metadata) = (Item::Name(name).bytes(), Metadata::default());
                self.nodes.push(Node { name, metadata, kind: Kind::File(recipe) });
                self.at = (file + 1, 0);
            }
        }
        Ok(false)
    }

    /// Puts all of it, and commits.
    pub fn put_all(&mut self, vault: &mut Vault<'_>) -> Result<SnapshotId, VaultError> {
        while !self.step(vault)? {}
        self.commit(vault)
    }

    /// Puts the folder, and commits.
    pub fn commit(&mut self, vault: &mut Vault<'_>) -> Result<SnapshotId, VaultError> {
        let folder = match self.folder.take() {
            Some(folder) => folder,
            None => self.put_folder(vault)?,
        };
        let snapshot = Snapshot {
            name: Item::Name(self.shot.name).bytes(),
            created_ms: 1,
            folder,
            ..Snapshot::default()
        };
        let mut packer = Packer::new(self.key.clone(), Compression::None);
        vault.commit(self.put, &packer.pack(Class::Metadata, &snapshot.to_bytes()))
    }

    fn put_folder(&mut self, vault: &mut Vault<'_>) -> Result<Recipe, VaultError> {
        let mut folder = FolderBuilder::default();
        for node in std::mem::take(&mut self.nodes) {
            folder.push(&node, &mut |bytes| self.metadata(vault, bytes))?;
        }
        folder.finish(&mut |bytes| self.metadata(vault, bytes))
    }

    fn metadata(&mut self, vault: &mut Vault<'_>, bytes: &[u8]) -> Result<Reference, VaultError> {
        self.chunk(vault, Class::Metadata, bytes, Compression::None)
    }

    fn chunk(
        &mut self,
        vault: &mut Vault<'_>,
        class: Class,
        content: &[u8],
        compression: Compression,
    ) -> Result<Reference, VaultError> {
        let mut packer = Packer::new(self.key.clone(), compression);
        let fingerprint = packer.fingerprint(class, content);
        if let [Some(found)] = vault.offer(self.put, &[fingerprint])?[..] {
            self.shared += 1;
            self.is_noted = true;
            return Ok(found);
        }
        self.is_noted = true;
        vault.store(self.put, &packer.pack(class, content))
    }
}
