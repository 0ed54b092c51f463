//! Which states of files the second witness has to confirm, and what it says of them.

use super::part::{Moving, Part};
use super::witness::confirm;
use crate::disk::Step;
use crate::files::find::{Wanted, find};
use crate::files::{Disk, Error, Look, State, Target};
use quietus_core::base::extents::ExtentMap;
use quietus_core::base::units::{Addr, BLOCK_BYTES};
use quietus_files::{Attributes, FileId};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// What is to be confirmed.
pub(super) struct Confirming<'a> {
    pub(super) disk: &'a Rc<Disk>,
    pub(super) target: &'a Target,
    /// What dies.
    pub(super) parts: &'a [Part],
    /// Where files lie, from epoch to epoch.
    pub(super) moving: &'a [Moving],
}

/// Notes the names of some files, and wants nothing.
struct Names<'a> {
    files: &'a HashSet<FileId>,
    found: RefCell<HashMap<FileId, Vec<u8>>>,
}

impl Wanted for Names<'_> {
    fn wants(&self, path: &[u8], file: FileId, _: &Attributes) -> bool {
        if self.files.contains(&file) {
            self.found.borrow_mut().entry(file).or_insert_with(|| path.to_vec());
        }
        false
    }
}

impl Confirming<'_> {
    /// Asks the second witness. Returns which blocks of the parts it does not speak of: they have no place in the content of a file.
    pub(super) fn run(&self, step: Step<'_>) -> Result<Vec<Part>, Error> {
        let meets = |it: &Moving, part: &Part| part.epochs.0 <= it.epochs.1 && it.epochs.0 <= part.epochs.1;
        let mut named: Vec<ExtentMap<Addr, ()>> = self.parts.iter().map(|_| ExtentMap::default()).collect();
        for (n, moving) in self.moving.iter().enumerate() {
            if !step(n as u64, self.moving.len() as u64) {
                return Err(Error::Interrupted);
            }
            if moving.files.is_empty() || !self.parts.iter().any(|part| meets(moving, part)) {
                continue;
            }
            for places in self.confirmed(moving, step)? {
                for (part, named) in self.parts.iter().zip(&mut named).filter(|(part, _)| meets(moving, part))
                {
                    places.within(part.blocks).for_each(|(place, ())| named.insert(place, ()));
                }
            }
        }
        let unnamed = self.parts.iter().zip(&named).flat_map(|(part, named)| {
            let blocks = part.blocks.pieces(BLOCK_BYTES).filter(|block| !named.overlaps(*block));
            blocks.map(|blocks| Part { blocks, ..*part })
        });
        Ok(unnamed.collect())
    }

    /// Where the content of each file lies in the first epoch of `moving`, as both witnesses say.
    fn confirmed(&self, moving: &Moving, step: Step<'_>) -> Result<Vec<ExtentMap<Addr, ()>>, Error> {
        let at = moving.epochs.0.to_string();
        let mut look = Look::new(self.disk, self.target, Some(&at))?;
        let mut all = Vec::new();
        for (file, path) in self.names(&mut look, moving, step)? {
            let state = State::new(self.disk, Some(&at))?;
            all.push(confirm(&mut look, state, (file, &path))?);
        }
        Ok(all)
    }

    /// A name of each file that has one.
    fn names(
        &self,
        look: &mut Look,
        moving: &Moving,
        step: Step<'_>,
    ) -> Result<HashMap<FileId, Vec<u8>>, Error> {
        let (mut names, path) = (HashMap::new(), self.target.path.as_bytes());
        if path.starts_with(b"/")
            && let Some(file) = look.find(path)?.filter(|file| moving.files.contains(file))
        {
            names.insert(file, path.to_vec());
        }
        if names.len() == moving.files.len() {
            return Ok(names);
        }
        let wanted = Names { files: &moving.files, found: RefCell::new(names) };
        let root = look.root();
        find(look, (root, b"/"), &wanted, &mut |_| {}, step)?;
        let names = wanted.found.into_inner();
        let has_name = |look: &mut Look, file| {
            look.attributes(file).is_ok_and(|it| it.links.is_none_or(|links| links > 0))
        };
        for file in moving.files.iter().filter(|file| !names.contains_key(file)) {
            if has_name(look, *file) {
                let (target, number, epoch) = (self.target, file.number, moving.epochs.0);
                let why = format!(
                    "{target}: no name of inode {number} is found in epoch {epoch}, so that no second reader confirms its content; \
                     nothing was changed. --one-witness trusts the first one alone"
                );
                return Err(Error::Refused(why.into()));
            }
        }
        Ok(names)
    }
}
