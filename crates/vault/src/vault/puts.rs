//! Puts: a client offers the names of chunks, sends the wanted chunks, and commits a snapshot.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use roaring::RoaringTreemap;

use super::Vault;
use super::writing::Bytes;
use crate::catalog::{Change, Owed};
use crate::chunk::{Packed, decompress};
use crate::container::Class;
use crate::mutant::{self, Mutant};
use crate::tree::{Child, Role, children};
use crate::{Fingerprint, ForgetId, Ordinal, PutId, Reference, SnapshotId, VaultError};

/// Most puts at once.
pub const PUTS_MAX: usize = 64;
/// Containers that are written before they are made durable, whether or not a put is committed: a crash costs this much.
const UNSEALED_MAX: usize = 64;
/// References that a put finds again quickly: a chunk of metadata names chunks that were offered just before.
const LATELY_MAX: usize = 8192;

/// The puts that are under way.
#[derive(Default, Debug)]
pub(crate) struct Puts {
    all: BTreeMap<PutId, Put>,
    next: PutId,
    /// Whether a sanitization keeps puts out.
    pub(crate) are_refused: bool,
    /// Chunks that puts refer to while a sanitization listens: it keeps them, marked or not.
    pub(crate) revived: Option<RoaringTreemap>,
}

/// The state that chunks below another one have to be in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Below {
    /// All of them are whole.
    Whole,
    /// They may be damaged.
    Any,
}

/// A put under way: a root for every sanitization.
#[derive(Default, Debug)]
struct Put {
    /// Whether the catalog knows of it.
    is_noted: bool,
    /// Whether the put stored chunks that its snapshot will not reach.
    leaves: bool,
    references: RoaringTreemap,
    /// The chunks of metadata among the references.
    metadata: HashMap<Ordinal, (Role, Fingerprint)>,
    lately: HashMap<Fingerprint, Ordinal>,
}

impl Put {
    /// The role of a chunk if the put is known to refer to it, and so to all below it.
    fn role(&self, chunk: &Reference) -> Option<Role> {
        let metadata = self.metadata.get(&chunk.ordinal);
        let is_known = self.lately.get(&chunk.fingerprint) == Some(&chunk.ordinal)
            || metadata.is_some_and(|it| it.1 == chunk.fingerprint);
        is_known.then(|| metadata.map_or(Role::Content, |it| it.0))
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
    /// No puts, after puts with numbers below `next`.
    pub(crate) fn new(next: PutId) -> Puts {
        Puts { next, ..Puts::default() }
    }

    /// The number of puts under way.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Stops listening for a sanitization, and lets puts begin again.
    pub(crate) fn end_listening(&mut self) {
        self.revived = None;
        self.are_refused = false;
    }

    /// Listens from now on. The references of running puts are kept.
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
        if self.puts.are_refused {
            return Err(VaultError::ReadOnly);
        }
        if self.puts.all.len() >= PUTS_MAX {
            return Err(VaultError::Puts(PUTS_MAX));
        }
        let put = self.puts.next;
        self.puts.next = PutId(put.0 + 1);
        self.puts.all.insert(put, Put::default());
        Ok(put)
    }

    /// For each name, the chunk if the vault has it, and `None` if it is wanted. The put refers to the chunks that are there. A chunk
    /// of metadata is wanted, too, if the vault has no whole copy of something below it. Damage of metadata is found here, and
    /// noted; [`verify`](Vault::verify) finds damage of content.
    ///
    /// # Errors
    ///
    /// [`VaultError::NoPut`], and the errors of reading.
    pub fn offer(
        &mut self,
        put: PutId,
        chunks: &[Fingerprint],
    ) -> Result<Vec<Option<Reference>>, VaultError> {
        self.note_put(put)?;
        self.tend_index()?;
        chunks.iter().map(|fingerprint| self.refer(put, fingerprint, Below::Whole)).collect()
    }

    /// Stores a chunk, unless it is there by now. The put refers to it.
    ///
    /// # Errors
    ///
    /// [`VaultError::Dangling`] if the chunk is metadata and names a missing chunk; [`VaultError::Full`]; the errors of the media.
    pub fn store(&mut self, put: PutId, chunk: &Packed) -> Result<Reference, VaultError> {
        self.note_put(put)?;
        self.tend_index()?;
        // Metadata is stored also above damaged chunks: a forget of paths does that.
        if let Some(found) = self.refer(put, &chunk.fingerprint, Below::Any)? {
            return Ok(found);
        }
        let role = match chunk.sent.class() {
            Class::Metadata => self.refer_to_children(put, chunk)?,
            Class::Data | Class::Index | Class::Spill => Role::Content,
        };
        let known = self.damaged(&chunk.fingerprint)?;
        let ordinal = known.unwrap_or(self.next_ordinal);
        let reference = Reference { fingerprint: chunk.fingerprint, ordinal };
        let (codec, raw_bytes) = (chunk.sent.codec, chunk.sent.raw_bytes);
        let bytes = Bytes { codec, stored: chunk.stored(), raw_bytes };
        self.append(chunk.sent.class(), reference, bytes, self.reserved())?;
        self.next_ordinal = self.next_ordinal.max(Ordinal(ordinal.0 + 1));
        self.puts.refer(put, &[(reference, role)])?;
        if self.writing.unsealed() >= UNSEALED_MAX {
            self.seal(Vec::new())?;
        }
        Ok(reference)
    }

    /// Ends a put with a snapshot, which is durable when this returns.
    ///
    /// # Errors
    ///
    /// [`VaultError::NoRoot`] if `root` is not a snapshot; the errors of [`store`](Vault::store). The put goes on then.
    pub fn commit(&mut self, put: PutId, root: &Packed) -> Result<SnapshotId, VaultError> {
        self.guard_room(0)?;
        let root = self.store_root(put, root)?;
        let (snapshot, forget) = (self.catalog.state().next.snapshot, self.catalog.state().next.forget);
        let end = match self.puts.get(put)?.leaves {
            true => Change::Forget(forget, Owed::Put(put)),
            false => Change::EndPut(put),
        };
        self.seal(vec![Change::Commit(snapshot, root), end])?;
        self.puts.all.remove(&put);
        Ok(snapshot)
    }

    /// Notes that the put has stored chunks that it will not commit: these are owed when the put ends.
    ///
    /// # Errors
    ///
    /// [`VaultError::NoPut`].
    pub fn leave_behind(&mut self, put: PutId) -> Result<(), VaultError> {
        self.puts.get(put)?.leaves = !mutant::is(Mutant::ForgiveReplaced);
        Ok(())
    }

    /// Ends a put by giving snapshots other root chunks, all at once: chunks that they lose by that are owed.
    /// Each snapshot must still have the root chunk that its replacement was made from.
    ///
    /// # Errors
    ///
    /// As [`commit`](Vault::commit); [`VaultError::NoSnapshot`], [`VaultError::Held`], and [`VaultError::Changed`].
    pub fn replace(
        &mut self,
        put: PutId,
        roots: &[(SnapshotId, Reference, Packed)],
    ) -> Result<Vec<ForgetId>, VaultError> {
        self.guard_room(0)?;
        let mut seen = BTreeSet::new();
        for (snapshot, old, _) in roots {
            self.guard_snapshot(*snapshot)?;
            let is_same = seen.insert(*snapshot) && self.root(*snapshot)? == *old;
            if !is_same && !mutant::is(Mutant::ReplaceChanged) {
                return Err(VaultError::Changed(*snapshot));
            }
        }
        let (mut changes, mut forgets) = (Vec::new(), Vec::new());
        for (snapshot, _, root) in roots {
            let root = self.store_root(put, root)?;
            let forget = ForgetId(self.catalog.state().next.forget.0 + forgets.len() as u64);
            changes.push(Change::Replace(*snapshot, root));
            if !mutant::is(Mutant::ForgivePaths) {
                changes.push(Change::Forget(forget, Owed::Paths(*snapshot)));
            }
            forgets.push(forget);
        }
        changes.push(Change::EndPut(put));
        self.seal(changes)?;
        self.puts.all.remove(&put);
        Ok(forgets)
    }

    /// Ends a put without a snapshot. Chunks that it alone stored or kept are owed.
    ///
    /// # Errors
    ///
    /// [`VaultError::NoPut`]; the errors of the catalog.
    pub fn drop_put(&mut self, put: PutId) -> Result<(), VaultError> {
        let dropped = self.puts.all.remove(&put).ok_or(VaultError::NoPut(put))?;
        if dropped.is_noted {
            let forget = self.catalog.state().next.forget;
            self.catalog.commit(&[Change::Forget(forget, Owed::Put(put))])?;
        }
        Ok(())
    }

    /// Owes the chunks of puts that a crash has cut short.
    pub(super) fn owe_interrupted(&mut self) -> Result<(), VaultError> {
        let state = self.catalog.state();
        let owed = (state.next.forget.0..).zip(&state.puts);
        let owed = owed.map(|(forget, put)| Change::Forget(ForgetId(forget), Owed::Put(*put)));
        let owed: Vec<Change> = owed.collect();
        if owed.is_empty() || mutant::is(Mutant::ForgivePut) {
            Ok(())
        } else {
            Ok(self.catalog.commit(&owed)?)
        }
    }

    /// Lets the catalog know of the put before it stores or refers to anything.
    fn note_put(&mut self, put: PutId) -> Result<(), VaultError> {
        if !self.puts.get(put)?.is_noted {
            self.guard_room(0)?;
            self.catalog.commit(&[Change::BeginPut(put)])?;
            self.puts.get(put)?.is_noted = true;
        }
        Ok(())
    }

    /// Stores the root chunk of a snapshot.
    fn store_root(&mut self, put: PutId, root: &Packed) -> Result<Reference, VaultError> {
        let root = self.store(put, root)?;
        match self.puts.get(put)?.role(&root) {
            Some(Role::Snapshot) => Ok(root),
            _ => Err(VaultError::NoRoot),
        }
    }

    /// Refers to a chunk and all below it, if all of these chunks are there.
    fn refer(
        &mut self,
        put: PutId,
        fingerprint: &Fingerprint,
        below: Below,
    ) -> Result<Option<Reference>, VaultError> {
        self.puts.get(put)?;
        let Some(location) = self.find(fingerprint)? else { return Ok(None) };
        let chunk = Reference { fingerprint: *fingerprint, ordinal: location.ordinal };
        if self.is_lost(&chunk, location.container)? {
            return Ok(None);
        }
        let Some(reached) = self.reach(put, vec![(chunk, None)], below)? else { return Ok(None) };
        self.puts.refer(put, &reached)?;
        Ok(Some(chunk))
    }

    /// Refers to the chunks that a chunk of metadata names; returns its role.
    fn refer_to_children(&mut self, put: PutId, chunk: &Packed) -> Result<Role, VaultError> {
        let damaged = VaultError::Dangling(chunk.fingerprint);
        let content =
            decompress(chunk.sent.codec, chunk.stored(), chunk.sent.raw_bytes).map_err(|_| damaged)?;
        let (role, named) = children(&content)?;
        for Child { chunk, role } in named {
            let reached = self.reach(put, vec![(chunk, Some(role))], Below::Any)?;
            self.puts.refer(put, &reached.ok_or(VaultError::Dangling(chunk.fingerprint))?)?;
        }
        Ok(role)
    }

    /// The chunks that are reached from some chunks, as far as the put does not refer to them yet; `None` if a chunk is missing, or
    /// has another role than the chunk above it says.
    fn reach(
        &mut self,
        put: PutId,
        mut pending: Vec<(Reference, Option<Role>)>,
        below: Below,
    ) -> Result<Option<Vec<(Reference, Role)>>, VaultError> {
        let (mut reached, mut seen) = (Vec::new(), HashMap::<Fingerprint, Role>::new());
        while let Some((chunk, wanted)) = pending.pop() {
            let known = self.puts.get(put)?.role(&chunk).or_else(|| seen.get(&chunk.fingerprint).copied());
            if let Some(role) = known {
                if wanted.is_some_and(|wanted| wanted != role) {
                    return Ok(None);
                }
                continue;
            }
            let Some(location) = self.find(&chunk.fingerprint)? else { return Ok(None) };
            if below == Below::Whole && self.is_lost(&chunk, location.container)? {
                return Ok(None);
            }
            let Some(class) = self.catalog.table().class(location.container) else { return Ok(None) };
            let (role, named) = match class {
                Class::Metadata => match self.get(&chunk) {
                    Err(error) if below == Below::Whole && !error.is_of_media() => {
                        self.note_damage(location.container)?;
                        return Ok(None);
                    }
                    read => children(&read?)?,
                },
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
