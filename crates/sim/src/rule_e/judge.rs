//! Everything that was ever on the medium, and the acts that are allowed on it. Its owners are the
//! [`Truth`]'s.

use crate::content::Tag;
use crate::files::system::System;
use crate::files::truth::Truth;
use crate::rule_e::guest::{Mark, Owner};
use crate::rule_e::toy::{BLOCK_BYTES, Bytes};
use crate::rule_j::judge::Holds;
use quietus_detect::format::Block;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// One place of the medium: the writes whose content lies there.
#[derive(Clone, Debug, Default)]
struct Place {
    /// Content below the present one, which nothing has destroyed.
    below: Vec<Tag>,
    /// The present content, if it is some file's.
    top: Option<Tag>,
}

/// Knows what lies where.
#[derive(Clone, Debug)]
pub struct Judge {
    /// Who owns what.
    pub truth: Truth,
    places: Vec<Place>,
    /// Contents of each block since the last that is durable for certain.
    versions: Vec<Vec<Bytes>>,
    /// How many of them came before the cut, if there was one.
    cut: Vec<usize>,
}

impl Judge {
    /// A disk as it lies there.
    pub fn new(disk: Vec<Bytes>) -> Self {
        let versions = disk.iter().map(|bytes| vec![*bytes]).collect();
        let places = vec![Place::default(); disk.len()];
        let mut truth = Truth::new(disk);
        truth.is_exact = true;
        Self { truth, places, versions, cut: Vec::new() }
    }

    /// Adds the facts that tell two situations apart.
    pub fn digest(&self, hasher: &mut impl Hasher) {
        for place in &self.places {
            let record = |tag: &Tag| self.truth.record(*tag);
            (place.below.iter().map(record).collect::<Vec<_>>(), place.top.as_ref().map(record)).hash(hasher);
        }
        (&self.versions, &self.cut).hash(hasher);
        self.truth.digest(hasher);
    }

    /// The guest has crashed, or a mount has begun: who has what follows from what lies there. Above a
    /// cache the guest reads what is `seen`: of two stays of one owner in one block that one lasts whose
    /// content is.
    pub fn recovered(&mut self, named: &BTreeMap<Block, Owner>, seen: Option<&[Bytes]>) {
        let read = |disk: &[Bytes]| -> Holds {
            let marks =
                named.iter().filter_map(|(block, it)| Some((*block, it, Mark::of(&disk[*block as usize])?)));
            marks
                .filter(|(_, owner, mark)| mark.owner == **owner)
                .map(|(block, _, mark)| (block, mark.stay))
                .collect()
        };
        self.truth.recovered(named, seen.map(read));
    }

    /// `bytes` have gone to `block`.
    pub fn written(&mut self, system: &dyn System, block: Block, bytes: &Bytes) {
        self.versions[block as usize].push(*bytes);
        let tag = Mark::of(bytes).map(|_| self.truth.tag(bytes));
        let place = &mut self.places[block as usize];
        place.below.extend(std::mem::replace(&mut place.top, tag));
        self.truth.arrived(system, block, bytes, tag);
    }

    /// Everything in `block` is destroyed, which only data may be.
    ///
    /// # Errors
    /// It is metadata.
    pub fn destroyed(&mut self, system: &dyn System, block: Block) -> Result<(), String> {
        if !system.is_data(block) {
            return Err(format!("safety: block {block} is metadata"));
        }
        self.places[block as usize] = Place::default();
        self.versions[block as usize] = vec![[0; BLOCK_BYTES]];
        self.cut.get_mut(block as usize).into_iter().for_each(|it| *it = 0);
        Ok(())
    }

    /// All but the present content of `block` is destroyed.
    pub fn rewritten(&mut self, block: Block) {
        self.places[block as usize].below.clear();
    }

    /// Evidence begins to be made durable.
    pub fn cut(&mut self) {
        self.cut = self.versions.iter().map(Vec::len).collect();
    }

    /// It is.
    pub fn proven(&mut self) {
        for (versions, count) in self.versions.iter_mut().zip(std::mem::take(&mut self.cut)) {
            versions.drain(..count.saturating_sub(1));
        }
    }

    /// The server was killed: its marks are gone, and so is its proof.
    pub fn forgotten(&mut self) {
        self.cut.clear();
        self.truth.forget();
    }

    /// Safety: whether the content of `block` may be destroyed; it is.
    ///
    /// # Errors
    /// It is owned: by whom.
    pub fn dies(
        &mut self,
        system: &mut dyn System,
        block: Block,
        named: &BTreeMap<Block, Owner>,
    ) -> Result<(), String> {
        self.truth.dies(system, block, named, &self.versions)?;
        self.destroyed(system, block)
    }

    /// Forensic, at grade content: nothing that was overwritten is left.
    ///
    /// # Errors
    /// Something is: what.
    pub fn is_bare(&self) -> Result<(), String> {
        let records = self.places.iter().flat_map(|it| &it.below).map(|tag| self.truth.record(*tag));
        match records.into_iter().find(|it| !it.is_excused) {
            Some(record) => Err(format!("forensic: {:?} is only overwritten", record.mark)),
            None => Ok(()),
        }
    }

    /// Forensic: nothing dead is left, once everything has settled, but for what a crash of the guest
    /// gave to a file that had not written it yet. Layers below content count if the rules see all that
    /// names them: `knows_layers`.
    ///
    /// # Errors
    /// Something is: what.
    pub fn is_clean(&self, named: &BTreeMap<Block, Owner>, knows_layers: bool) -> Result<(), String> {
        let is_dead = |it: &&Tag| self.truth.is_dead(self.truth.record(**it).mark);
        for (block, place) in (0..).zip(&self.places) {
            let (exposed, is_named) = (place.top.as_ref().filter(is_dead), named.contains_key(&block));
            if let Some(top) = exposed.filter(|_| !is_named) {
                let mark = self.truth.record(*top).mark;
                return Err(format!("forensic: what {mark:?} had in block {block} lies there"));
            }
            let mut below = place.below.iter().filter(|_| exposed.is_none() && knows_layers).filter(is_dead);
            if let Some(layer) = below.find(|it| !self.is_excused(block, **it)) {
                let mark = self.truth.record(*layer).mark;
                return Err(format!("forensic: what {mark:?} had in block {block} is only overwritten"));
            }
        }
        Ok(())
    }

    /// Whether the layer of `tag` in `block` could be left: a crash of the server forgot it, or the same
    /// pointers were there at both observations (rule 8 of the design).
    fn is_excused(&self, block: Block, tag: Tag) -> bool {
        let record = self.truth.record(tag);
        record.is_excused || self.truth.is_hidden(block, record)
    }
}
