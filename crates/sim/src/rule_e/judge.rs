//! Everything that was ever on the medium, its owners, and the acts that are allowed on it.

use crate::rule_e::guest::{IS_POINTERS, Mark, Owner, Stay};
use crate::rule_e::toy::{BLOCK_BYTES, Bytes, INODE_BYTES, Inode, MAP, POINTERS, TABLE, Toy};
use quietus_detect::format::{Block, Kind};
use std::collections::{BTreeMap, BTreeSet};

/// Content that was on the medium at some place.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Layer {
    mark: Mark,
    /// The place's [`Place::epoch`] when it was written.
    epoch: u32,
    /// The server has crashed since: its marks are gone.
    is_excused: bool,
}

/// One place of the medium.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Place {
    /// Content below the present one, which nothing has destroyed.
    below: Vec<Layer>,
    /// The present content, if it is some file's.
    top: Option<Layer>,
    /// Counts what was seen of its owners: changes of who names it, and maps
    /// that show it free.
    epoch: u32,
    /// Owners that name the block, by what lies on the medium.
    namers: BTreeSet<Owner>,
}

/// How often the rules could not have known, in layers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Excuses {
    /// The same pointers were there at both observations (rule 8 of the design).
    pub not_observable: u64,
    /// A crash of the guest gave a file a block that it had not written yet.
    pub exposed: u64,
    /// A crash of the server forgot what was suspicious.
    pub forgotten: u64,
}

/// Knows what lies where.
#[derive(Clone, Debug)]
pub struct Judge {
    toy: Toy,
    places: Vec<Place>,
    /// The owner of each stay, and whether it lasts.
    stays: Vec<(Block, Owner, bool)>,
    /// Contents of metadata since the last that is durable for certain.
    versions: BTreeMap<Block, Vec<Bytes>>,
    /// How many of them came before the cut.
    cut: BTreeMap<Block, usize>,
}

impl Judge {
    /// A disk as it lies there.
    #[must_use]
    pub fn new(toy: Toy, disk: &[Bytes]) -> Self {
        let versions = disk.iter().enumerate().map(|(n, bytes)| (n as Block, vec![*bytes])).collect();
        let places = vec![Place::default(); disk.len()];
        Self { toy, places, stays: Vec::new(), versions, cut: BTreeMap::new() }
    }

    /// The facts that tell two situations apart.
    #[must_use]
    pub fn essence(&self) -> impl std::hash::Hash + '_ {
        let stays: Vec<_> = self.stays.iter().map(|it| it.2).collect();
        (&self.places, &self.versions, &self.cut, stays)
    }

    /// `owner` gets `block`.
    pub fn begin(&mut self, block: Block, owner: Owner) -> Stay {
        self.stays.push((block, owner, true));
        Stay((self.stays.len() - 1) as u16)
    }

    /// Whoever has `block` gives it up.
    pub fn end(&mut self, block: Block) {
        self.stays.iter_mut().filter(|it| it.0 == block).for_each(|it| it.2 = false);
    }

    /// The guest has crashed: who has what follows from what lies there. Above a cache the guest
    /// reads what is `seen`: of two stays of one owner in one block that one lasts whose content is.
    pub fn recovered(&mut self, named: &BTreeMap<Block, Owner>, seen: Option<&[Bytes]>) {
        let is_of = |n, bytes: &Bytes| Mark::of(bytes).is_some_and(|it| usize::from(it.stay.0) == n);
        for (n, (block, owner, lasts)) in self.stays.iter_mut().enumerate() {
            let is_read = seen.is_none_or(|disk| is_of(n, &disk[*block as usize]));
            *lasts = is_read && named.get(block) == Some(owner);
        }
    }

    /// `bytes` have gone to `block`.
    pub fn written(&mut self, block: Block, bytes: &Bytes, disk: &[Bytes]) {
        self.versions.entry(block).or_default().push(*bytes);
        let place = &mut self.places[block as usize];
        place.below.extend(place.top.take());
        let epoch = place.epoch;
        place.top = Mark::of(bytes).map(|mark| Layer { mark, epoch, is_excused: false });
        if block == MAP {
            for (place, _) in self.places.iter_mut().zip(bytes).filter(|(_, byte)| **byte == 0) {
                place.epoch += 1;
            }
        }
        self.observe(disk);
    }

    /// Notes the owners that name each block, by what lies on the medium.
    fn observe(&mut self, disk: &[Bytes]) {
        for (place, namers) in self.places.iter_mut().zip(namers(self.toy, disk)) {
            place.epoch += u32::from(place.namers != namers);
            place.namers = namers;
        }
    }

    /// Everything in `block` is destroyed.
    pub fn destroyed(&mut self, block: Block) {
        let place = &mut self.places[block as usize];
        (place.top, place.below) = (None, Vec::new());
        self.versions.insert(block, vec![[0; BLOCK_BYTES]]);
        self.cut.remove(&block);
    }

    /// The guest has freed `block`, and it reads as zeros.
    pub fn freed(&mut self, block: Block, disk: &[Bytes]) {
        self.destroyed(block);
        self.versions.entry(block).or_default().push(disk[block as usize]);
        self.observe(disk);
    }

    /// All but the present content of `block` is destroyed.
    pub fn rewritten(&mut self, block: Block) {
        self.places[block as usize].below.clear();
    }

    /// Evidence begins to be made durable.
    pub fn cut(&mut self) {
        self.cut = self.versions.iter().map(|(block, it)| (*block, it.len())).collect();
    }

    /// It is.
    pub fn proven(&mut self) {
        for (block, count) in std::mem::take(&mut self.cut) {
            self.versions.get_mut(&block).expect("it was counted").drain(..count - 1);
        }
    }

    /// The server was killed: its marks are gone, and so is its proof.
    pub fn forgotten(&mut self) {
        self.cut.clear();
        for place in &mut self.places {
            place.below.iter_mut().chain(&mut place.top).for_each(|it| it.is_excused = true);
        }
    }

    /// Safety: whether the content of `block` may be destroyed.
    ///
    /// # Errors
    /// It is owned: by whom.
    pub fn dies(&self, block: Block, named: &BTreeMap<Block, Owner>, eager: bool) -> Result<(), String> {
        let Some(top) = &self.places[block as usize].top else { return Ok(()) };
        let (_, owner, lasts) = self.stays[top.mark.stay.0 as usize];
        if lasts && named.get(&block) == Some(&owner) {
            return Err(format!("safety: {owner:?} has block {block} and what lies there is its own"));
        }
        if !eager && self.may_be_recovered(block, owner) {
            return Err(format!("safety: after a crash {owner:?} may have block {block} again"));
        }
        Ok(())
    }

    /// Whether some mixture of what lies on the medium and may come back to it
    /// gives `block` to `owner`.
    fn may_be_recovered(&self, block: Block, owner: Owner) -> bool {
        let tables = self.versions[&TABLE].iter().flat_map(inodes);
        tables.filter(|it| it.0 == owner).any(|(_, inode)| {
            inode.owns().iter().any(|(it, kind)| {
                Block::from(*it) == block || (*kind != Kind::Data && self.may_name(Block::from(*it), block))
            })
        })
    }

    /// Whether a version of `pointers` that was written as such names `block`.
    /// Data that looks as if it did gives nobody anything.
    fn may_name(&self, pointers: Block, block: Block) -> bool {
        let versions = self.versions.get(&pointers).into_iter().flatten();
        versions
            .filter(|it| it[IS_POINTERS] != 0)
            .any(|it| it[..POINTERS].iter().any(|it| Block::from(*it) == block))
    }

    /// Forensic, at grade content: nothing that was overwritten is left.
    ///
    /// # Errors
    /// Something is: what.
    pub fn is_bare(&self) -> Result<(), String> {
        match self.places.iter().flat_map(|it| &it.below).find(|it| !it.is_excused) {
            Some(layer) => Err(format!("forensic: {:?} is only overwritten", layer.mark)),
            None => Ok(()),
        }
    }

    /// Forensic: nothing dead is left, once everything has settled.
    ///
    /// # Errors
    /// Something is: what.
    pub fn is_clean(&self, named: &BTreeMap<Block, Owner>) -> Result<Excuses, String> {
        let mut excuses = Excuses::default();
        for (block, place) in self.places.iter().enumerate() {
            let is_dead = |it: &&Layer| !self.stays[it.mark.stay.0 as usize].2;
            let exposed = place.top.as_ref().filter(is_dead);
            if let Some(top) = exposed {
                if !named.contains_key(&(block as Block)) {
                    return Err(format!("forensic: what {:?} had in block {block} lies there", top.mark));
                }
                excuses.exposed += 1;
            }
            for layer in place.below.iter().filter(is_dead).filter(|_| exposed.is_none()) {
                place.excuse(layer, &mut excuses).ok_or_else(|| {
                    format!("forensic: what {:?} had in block {block} is only overwritten", layer.mark)
                })?;
            }
        }
        Ok(excuses)
    }
}

impl Place {
    /// Why `layer` could be left, if it could.
    fn excuse(&self, layer: &Layer, excuses: &mut Excuses) -> Option<()> {
        if layer.is_excused {
            excuses.forgotten += 1;
        } else if layer.epoch == self.epoch && !self.namers.is_empty() {
            excuses.not_observable += 1;
        } else {
            return None;
        }
        Some(())
    }
}

/// The owners that name each block of `disk`, by what lies there.
pub(crate) fn namers(toy: Toy, disk: &[Bytes]) -> Vec<BTreeSet<Owner>> {
    let mut namers = vec![BTreeSet::new(); disk.len()];
    for (owner, inode) in inodes(&disk[TABLE as usize]) {
        for (block, kind) in inode.owns() {
            let below = disk.get(block as usize).filter(|_| kind != Kind::Data);
            let below = below.into_iter().flat_map(|it| it[..POINTERS].to_vec());
            for it in below.chain([block]).filter(|it| toy.data().contains(&Block::from(*it))) {
                namers[it as usize].insert(owner);
            }
        }
    }
    namers
}

/// The files in a block of inodes.
pub(crate) fn inodes(bytes: &Bytes) -> Vec<(Owner, Inode)> {
    let inodes = bytes.chunks_exact(INODE_BYTES).map(Inode::from_bytes).enumerate();
    let inodes = inodes.filter(|(_, inode)| inode.links > 0);
    let owner = |file: usize, inode: &Inode| Owner { file: file as u8, generation: inode.generation };
    inodes.map(|(file, inode)| (owner(file, &inode), inode)).collect()
}
