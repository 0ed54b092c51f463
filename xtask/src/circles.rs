//! Import circles: modules beside each other that use each other, directly or by way of others.
//!
//! The modules of a crate form a tree of folders. The children of one folder are compared with each other, at every
//! level, from the crate's root down. Child `a` uses its sibling `b` if code in `a`, or anywhere below it, imports or
//! names by path what belongs to `b`, or to anything below that. A circle is a set of siblings each of which uses, by
//! way of the others, every other.
//!
//! - What a name belongs to is found through re-exports: `super::Thing` that the page above has from `b` is `b`'s.
//! - Between a folder's page and its children there is no circle: the page may name its children, which may use what
//!   the page itself defines.
//! - Code under `#[cfg(test)]` does not count.
//! - What needs no import is not seen: methods of one type whose `impl` blocks lie in several files, and what a macro
//!   puts together from parts of names.

#[cfg(test)]
mod tests;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tokens::{Item, items};

/// Names from the crate's root on.
type Names = Vec<String>;

/// Which child of a folder uses which of its siblings, and where, for each once.
type Uses = BTreeMap<String, BTreeMap<String, String>>;

struct Module {
    file: PathBuf,
    /// What each imported name stands for, as it is written.
    imports: BTreeMap<String, Names>,
    /// What is named, as it is written.
    named: Vec<Names>,
}

/// All modules of a crate, by name.
#[derive(Default)]
struct Tree(BTreeMap<Names, Module>);

/// Complains about the import circles in the crate `krate` whose root is `root`.
pub fn check(krate: &str, root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Vec<String> {
    let mut tree = Tree::default();
    let dir = root.parent().unwrap_or(root);
    if let Err(missing) = tree.read_file(Vec::new(), root, dir, read) {
        return vec![format!("{}: cannot be read", missing.display())];
    }
    tree.circles().iter().map(|circle| circle.complaint(krate)).collect()
}

impl Tree {
    fn read_file(
        &mut self,
        names: Names,
        file: &Path,
        dir: &Path,
        read: &dyn Fn(&Path) -> Option<String>,
    ) -> Result<(), PathBuf> {
        let text = read(file).ok_or_else(|| file.to_path_buf())?;
        self.read_items(names, file, dir, items(&text), read)
    }

    /// Reads the module `names`, whose page is `file`, and its children, whose files lie in `dir`.
    fn read_items(
        &mut self,
        names: Names,
        file: &Path,
        dir: &Path,
        items: Vec<Item>,
        read: &dyn Fn(&Path) -> Option<String>,
    ) -> Result<(), PathBuf> {
        let mut module = Module { file: file.to_path_buf(), imports: BTreeMap::new(), named: Vec::new() };
        for item in items {
            match item {
                Item::Import(name, path) => {
                    module.named.push(path.clone());
                    module.imports.insert(name, path);
                }
                Item::Named(path) => module.named.push(path),
                Item::Inline(name, items) => {
                    self.read_items(child(&names, &name), file, &dir.join(&name), items, read)?;
                }
                Item::File(name) => {
                    self.read_file(child(&names, &name), &page(dir, &name, read), &dir.join(&name), read)?;
                }
            }
        }
        self.0.insert(names, module);
        Ok(())
    }

    /// The module that what `at` calls `path` belongs to; `None` if that is another crate's.
    fn owner(&self, at: &[String], path: &[String], fuel: u32) -> Option<Names> {
        let fuel = fuel.checked_sub(1)?;
        let supers = path.iter().take_while(|it| *it == "super").count();
        let (mut found, rest) = match path.first()?.as_str() {
            "crate" => (Vec::new(), &path[1..]),
            "self" => (at.to_vec(), &path[1..]),
            "super" => (at[..at.len().checked_sub(supers)?].to_vec(), &path[supers..]),
            name if self.0.contains_key(&[at, &[name.into()]].concat()) => (at.to_vec(), path),
            name => {
                let import = self.0.get(at)?.imports.get(name).filter(|it| it.first() != path.first())?;
                return self.owner(at, &[import, &path[1..]].concat(), fuel);
            }
        };
        for (n, name) in rest.iter().enumerate() {
            found.push(name.clone());
            if self.0.contains_key(&found) {
                continue;
            }
            found.pop();
            let Some(import) = self.0[&found].imports.get(name) else { break };
            let import = [import, &rest[n + 1..]].concat();
            // What the page has from another crate is the page's own.
            return self.owner(&found, &import, fuel).or(Some(found));
        }
        Some(found)
    }

    /// The uses in each folder.
    fn uses(&self) -> BTreeMap<Names, Uses> {
        let mut uses: BTreeMap<Names, Uses> = BTreeMap::new();
        for (at, module) in &self.0 {
            for path in &module.named {
                let Some(owner) = self.owner(at, path, 16) else { continue };
                let common = at.iter().zip(&owner).take_while(|(a, b)| a == b).count();
                let (Some(from), Some(to)) = (at.get(common), owner.get(common)) else { continue };
                let place = format!("{} names {}", module.file.display(), path.join("::"));
                let folder = uses.entry(at[..common].to_vec()).or_default();
                folder.entry(from.clone()).or_default().entry(to.clone()).or_insert(place);
            }
        }
        uses
    }

    fn circles(&self) -> Vec<Circle> {
        let mut circles = Vec::new();
        for (folder, uses) in self.uses() {
            let reached: BTreeMap<&String, BTreeSet<&String>> =
                uses.keys().map(|from| (from, reach(&uses, from))).collect();
            let mut seen = BTreeSet::new();
            for (from, to) in &reached {
                let back = |it: &&&String| reached.get(**it).is_some_and(|it| it.contains(from));
                let members: BTreeSet<String> = to.iter().filter(back).map(|it| it.to_string()).collect();
                if !members.is_empty() && seen.insert(members.clone()) {
                    circles.push(Circle { folder: folder.clone(), members, uses: uses.clone() });
                }
            }
        }
        circles
    }
}

fn child(names: &Names, name: &str) -> Names {
    [&names[..], &[name.into()]].concat()
}

/// The file of the module `name`, whose parent's children lie in `dir`.
fn page(dir: &Path, name: &str, read: &dyn Fn(&Path) -> Option<String>) -> PathBuf {
    let flat = dir.join(format!("{name}.rs"));
    if read(&flat).is_some() { flat } else { dir.join(name).join("mod.rs") }
}

/// What `from` uses, by way of others too.
fn reach<'a>(uses: &'a Uses, from: &String) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&String> = uses.get(from).into_iter().flat_map(BTreeMap::keys).collect();
    while let Some(it) = next.pop() {
        if found.insert(it) {
            next.extend(uses.get(it).into_iter().flat_map(BTreeMap::keys));
        }
    }
    found
}

struct Circle {
    folder: Names,
    members: BTreeSet<String>,
    uses: Uses,
}

impl Circle {
    fn complaint(&self, krate: &str) -> String {
        let name =
            |it: &String| [&[krate.into()], &self.folder[..], std::slice::from_ref(it)].concat().join("/");
        let names = self.members.iter().map(name).collect::<Vec<_>>().join(", ");
        let mut text = format!("import circle of {names}; move what they share to its owner:");
        for from in &self.members {
            for (to, place) in self.uses[from].iter().filter(|(to, _)| self.members.contains(*to)) {
                text += &format!("\n  {from} uses {to}: {place}");
            }
        }
        text
    }
}
