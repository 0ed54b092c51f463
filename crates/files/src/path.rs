//! The file that a path leads to.
//!
//! 1. A path never leads above the root: `..` there is the root, as in a chroot, and a link with an absolute target begins there.
//! 2. `..` leads to the folder by which the walk came, whatever the entry `..` on the disk says: FAT's may be damaged, and exFAT has none.
//! 3. A walk ends: it follows [`LINKS_MAX`] symbolic links at most, and each adds no more than its target.

use crate::{Entry, Error, FileId, Kind, Source, Volume};
use std::borrow::Cow;

/// Most symbolic links of a walk, as in Linux.
const LINKS_MAX: u32 = 40;

/// A walk from the root.
struct Walk<'a> {
    volume: &'a mut dyn Volume,
    source: &'a mut dyn Source,
    /// The folders and the file by which the walk came, with their names, without the root.
    trail: Vec<Entry>,
    /// The components that are still to be walked; the next one is the last.
    rest: Vec<Vec<u8>>,
    links: u32,
}

/// The file at `path`, such as `/a/b`, or `#900` for the file of that number. Symbolic links are followed, but for one in the last component.
///
/// # Errors
/// [`Error::Missing`] names the path up to the component that is not there, or the number. [`Error::NotA`] if another component than the last
/// one is a file. [`Error::Damaged`] if the walk follows more than [`LINKS_MAX`] symbolic links. Others if a folder or a link cannot be read.
pub fn walk(volume: &mut dyn Volume, source: &mut dyn Source, path: &[u8]) -> Result<FileId, Error> {
    if let Some(number) = path.strip_prefix(b"#") {
        return numbered(volume, source, number);
    }
    let mut walk = Walk { volume, source, trail: Vec::new(), rest: components(path), links: 0 };
    while let Some(name) = walk.rest.pop() {
        walk.enter(name)?;
    }
    Ok(walk.here())
}

/// The file of this number, in digits, if it exists.
fn numbered(volume: &mut dyn Volume, source: &mut dyn Source, number: &[u8]) -> Result<FileId, Error> {
    let parsed = str::from_utf8(number).ok().and_then(|it| it.parse().ok());
    let number = parsed.ok_or_else(|| Error::Missing(format!("file number {:?}", shown(number))))?;
    let file = volume.file(source, number)?;
    volume.attributes(source, file).map(|_| file)
}

/// The components of a path, the last one first. Those of two slashes, and of one at the end, are empty, and left out.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    path.rsplit(|it| *it == b'/').filter(|it| !it.is_empty()).map(<[u8]>::to_vec).collect()
}

fn shown(name: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(name)
}

impl Walk<'_> {
    fn here(&self) -> FileId {
        self.trail.last().map_or_else(|| self.volume.root(), |it| it.file)
    }

    fn enter(&mut self, name: Vec<u8>) -> Result<(), Error> {
        match &*name {
            b"." => return Ok(()),
            b".." => {
                self.trail.pop();
                return Ok(());
            }
            _ => {}
        }
        let here = self.here();
        let entry = self.volume.find(self.source, here, &name)?.ok_or_else(|| self.missing(&name))?;
        let file = entry.file;
        self.trail.push(entry);
        if self.rest.is_empty() {
            return Ok(());
        }
        match self.volume.attributes(self.source, file)?.kind {
            Kind::Folder => Ok(()),
            Kind::Link => self.follow(file),
            _ => Err(Error::NotA("folder")),
        }
    }

    /// Goes on where the link `file`, the last of the trail, leads.
    fn follow(&mut self, file: FileId) -> Result<(), Error> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Error::Damaged(format!(
                "the path leads through more than {LINKS_MAX} symbolic links"
            )));
        }
        let target = self.volume.link(self.source, file)?;
        self.trail.pop();
        if target.starts_with(b"/") {
            self.trail.clear();
        }
        self.rest.extend(components(&target));
        Ok(())
    }

    /// The error for a component that is not in the folder reached.
    fn missing(&self, name: &[u8]) -> Error {
        let names = self.trail.iter().map(|it| &*it.name).chain([name]);
        Error::Missing(names.flat_map(|it| ["/".into(), shown(it)]).collect())
    }
}

#[cfg(test)]
mod tests;
