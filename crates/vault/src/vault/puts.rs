//! Puts: a client offers the names of chunks, sends those that are wanted, and commits a snapshot.

use std::collections::{BTreeMap, HashMap};

use roaring::RoaringTreemap;

use super::Vault;
use super::writing::Bytes;
use crate::catalog::Change;
use crate::chunk::{Packed, decompress};
use crate::container::Class;
use crate::mutant::{self, Mutant};
use crate::tree::{Child, Role, children};
use crate::{Fingerprint, Ordinal, PutId, Reference, SnapshotId, VaultError};

/// Most puts at once.
pub const PUTS_MAX: usize = 64;
/// References that a put is quick to find again: a chunk of metadata names what was offered just before.
const LATELY_MAX: usize = 8192;

/// The puts that are under way.
#[derive(Default, Debug)]
pub(crate) struct Puts {
    all: BTreeMap<PutId, Put>,
    next: PutId,
    /// What puts refer to while a sanitization listens: it keeps these chunks, whatever it marks.
    pub(crate) revived: Option<RoaringTreemap>,
}

/// A put under way: a root for every sanitization.
#[derive(Default, Debug)]
struct Put {
    references: RoaringTreemap,
    /// The chunks of metadata among them.
    metadata: HashMap<Ordinal, (Role, Fingerprint)>,
    lately: HashMap<Fingerprint, Ordinal>,
}

impl Put {
    /// Whether the put is known to refer to the chunk, and so to all below it.
    fn has(&self, chunk: &Reference) -> bool {
        let is_metadata = || self.metadata.get(&chunk.ordinal).is_some_and(|it| it.1 == chunk.fingerprint);
        self.lately.get(&chunk.fingerprint) == Some(&chunk.ordinal) || is_metadata()
    }

    /// Whether the chunk that the put refers to has another role than `wanted`.
    fn is_other(&self, chunk: &Reference, wanted: Role) -> bool {
        self.metadata.get(&chunk.ordinal).map_or(Role::Content, |it| it.0) != wanted
    }

    fn insert(&mut self, chunk: Reference, role: Role) {
        self.references.insert(chunk.ordinal.0);
        if role != Role::Content {
            self.metadata.insert(chunk.ordinal, (role, chunk.fingerprint));
        }
        if self.lately.len() >= LATELY_MAX {
            self.lately.clear();
        }
        self.lately.insert(chunk.fingerprint, chunk.ordinal);
    }
}

impl Puts {
    /// Listens from now on. What running puts refer to already is kept.
    pub(crate) fn listen(&mut self) {
        let mut revived = self.revived.take().unwrap_or_default();
        if !mutant::is(Mutant::PutIsNoRoot) {
            self.all.values().for_each(|put| revived |= &put.references);
        }
        self.revived = Some(revived);
    }

    fn get(&mut self, put: PutId) -> Result<&mut Put, VaultError> {
        self.all.get_mut(&put).ok_or(VaultError::NoPut(put))
    }

    fn refer(&mut self, put: PutId, reached: &[(Reference, Role)]) -> Result<(), VaultError> {
        let found = self.all.get_mut(&put).ok_or(VaultError::NoPut(put))?;
        for (chunk, role) in reached {
            found.insert(*chunk, *role);
            if let Some(revived) = &mut self.revived {
                revived.insert(chunk.ordinal.0);
            }
        }
        Ok(())
    }
}

impl Vault<'_> {
    /// Begins a put.
    ///
    /// # Errors
    ///
    /// [`VaultError::Puts`] if too many are under way.
    pub fn begin_put(&mut self) -> Result<PutId, VaultError> {
        if self.puts.all.len() >= PUTS_MAX {
            return Err(VaultError::Puts(PUTS_MAX));
        }
        let put = self.puts.next;
        self.puts.next = PutId(put.0 + 1);
        self.puts.all.insert(put, Put::default());
        Ok(put)
    }

    /// For each name, the chunk if the vault has it, and None if it is wanted. The put refers to those that are there.
    ///
    /// # Errors
    ///
    /// [`VaultError::NoPut`], and those of reading.
    pub fn offer(
        &mut self,
        put: PutId,
        chunks: &[Fingerprint],
    ) -> Result<Vec<Option<Reference>>, VaultError> {
        self.tend_index()?;
        chunks.iter().map(|fingerprint| self.refer(put, fingerprint)).collect()
    }

    /// Stores a chunk, unless it is there by now. The put refers to it.
    ///
    /// # Errors
    ///
    /// [`VaultError::Dangling`] if the chunk is metadata and names what is not there; [`VaultError::Full`]; those of the media.
    pub fn store(&mut self, put: PutId, chunk: &Packed) -> Result<Reference, VaultError> {
        self.tend_index()?;
        if let Some(found) = self.refer(put, &chunk.fingerprint)? {
            return Ok(found);
        }
        let role = match chunk.class {
            Class::Metadata => self.refer_to_children(put, chunk)?,
            Class::Data | Class::Index | Class::Spill => Role::Content,
        };
        let reference = Reference { fingerprint: chunk.fingerprint, ordinal: self.next_ordinal };
        let bytes = Bytes { codec: chunk.codec, stored: &chunk.stored, raw_bytes: chunk.raw_bytes };
        self.append(chunk.class, reference, bytes, self.reserved())?;
        self.next_ordinal = Ordinal(reference.ordinal.0 + 1);
        self.puts.refer(put, &[(reference, role)])?;
        Ok(reference)
    }

    /// Ends a put with a snapshot, which is durable when this returns.
    ///
    /// # Errors
    ///
    /// [`VaultError::NoRoot`] if `root` is no snapshot; those of [`store`](Vault::store). The put goes on then.
    pub fn commit(&mut self, put: PutId, root: &Packed) -> Result<SnapshotId, VaultError> {
        let count = self.catalog.state().roots.len();
        if !self.catalog.has_room() {
            return Err(VaultError::Snapshots(count));
        }
        let root = self.store(put, root)?;
        if self.puts.get(put)?.is_other(&root, Role::Snapshot) {
            return Err(VaultError::NoRoot);
        }
        let snapshot = self.catalog.state().next.snapshot;
        self.seal(vec![Change::Commit(snapshot, root)])?;
        self.puts.all.remove(&put);
        Ok(snapshot)
    }

    /// Ends a put without a snapshot. What it alone stored is dead.
    ///
    /// # Errors
    ///
    /// [`VaultError::NoPut`].
    pub fn drop_put(&mut self, put: PutId) -> Result<(), VaultError> {
        self.puts.all.remove(&put).map(|_| ()).ok_or(VaultError::NoPut(put))
    }

    /// Refers to a chunk and all below it, if all of that is there.
    fn refer(&mut self, put: PutId, fingerprint: &Fingerprint) -> Result<Option<Reference>, VaultError> {
        self.puts.get(put)?;
        let Some(location) = self.find(fingerprint)? else { return Ok(None) };
        let chunk = Reference { fingerprint: *fingerprint, ordinal: location.ordinal };
        let Some(reached) = self.reach(put, vec![(chunk, None)])? else { return Ok(None) };
        self.puts.refer(put, &reached)?;
        Ok(Some(chunk))
    }

    /// Refers to what a chunk of metadata names; the chunk's role.
    fn refer_to_children(&mut self, put: PutId, chunk: &Packed) -> Result<Role, VaultError> {
        let damaged = VaultError::Dangling(chunk.fingerprint);
        let content = decompress(chunk.codec, &chunk.stored, chunk.raw_bytes).map_err(|_| damaged)?;
        let (role, named) = children(&content)?;
        for Child { chunk, role } in named {
            let reached = self.reach(put, vec![(chunk, Some(role))])?;
            self.puts.refer(put, &reached.ok_or(VaultError::Dangling(chunk.fingerprint))?)?;
        }
        Ok(role)
    }

    /// The chunks that are reached from some, as far as the put does not refer to them yet; None if one of them is not there, or
    /// is something else than the chunk above it says.
    fn reach(
        &mut self,
        put: PutId,
        mut pending: Vec<(Reference, Option<Role>)>,
    ) -> Result<Option<Vec<(Reference, Role)>>, VaultError> {
        let (mut reached, mut seen) = (Vec::new(), HashMap::new());
        while let Some((chunk, wanted)) = pending.pop() {
            let known = self.puts.get(put)?;
            if known.has(&chunk) {
                if wanted.is_some_and(|role| known.is_other(&chunk, role)) {
                    return Ok(None);
                }
                continue;
            }
            if let Some(role) = seen.get(&chunk.fingerprint) {
                if wanted.is_some_and(|wanted| wanted != *role) {
                    return Ok(None);
                }
                continue;
            }
            let Some(location) = self.find(&chunk.fingerprint)? else { return Ok(None) };
            let Some(class) = self.catalog.table().class(location.container) else { return Ok(None) };
            let (role, named) = match class {
                Class::Metadata => children(&self.get(&chunk)?)?,
                Class::Data | Class::Index | Class::Spill => (Role::Content, Vec::new()),
            };
            if location.ordinal != chunk.ordinal || wanted.is_some_and(|wanted| wanted != role) {
                return Ok(None);
            }
            seen.insert(chunk.fingerprint, role);
            reached.push((chunk, role));
            if !mutant::is(Mutant::ReferShallow) {
                pending.extend(named.into_iter().map(|child| (child.chunk, Some(child.role))));
            }
        }
        Ok(Some(reached))
    }
}
