//! Reads ext2, ext3 and ext4.
//!
//! The structures are those of `fs/ext4` in Linux; `docs/formats/ext.md` and `docs/formats/jbd2.md` describe what is common with the
//! watch. Checksums of metadata are not verified: the values that they protect are checked where they are used.
//!
//! 1. A file system that needs recovery is read as after a replay of its journal: every block of metadata and of content goes
//!    through the map from blocks to copies in the log. The superblock is read again through it.
//! 2. A walk visits each block of pointers once, and no more blocks than the file system has.
//! 3. A folder is read from its first block to its last, also where it has an index.
//! 4. Encrypted names and content are refused, file by file. Names without case are found as they are stored.
//!
//! | question | where |
//! | --- | --- |
//! | layout and features | `superblock` |
//! | the newest copies in the log of a journal | `replay`, `crc` |
//! | blocks, through these copies | `disk` |
//! | attributes; where content begins | `inode` |
//! | the blocks of a file: trees, pointers | `blocks`, `extents`, `indirect`, `walk` |
//! | bytes, runs and links | `content` |
//! | entries of folders | `listing`, `folder` |
//! | extended attributes and access lists | `xattr`, `acl` |
//! | who has which blocks | `owners` |

use crate::ext::disk::{Copies, Disk};
use crate::ext::inode::Inode;
use crate::ext::superblock::{SUPERBLOCK_AT, SUPERBLOCK_BYTES, Superblock};
use crate::ext::units::{FsBlock, Ino};
use crate::{Attributes, Entry, Error, ExtendedAttribute, FileId, Kind, Owners, Run, Source, Volume};

mod acl;
mod blocks;
mod bytes;
mod content;
mod crc;
mod disk;
mod extents;
mod folder;
mod indirect;
mod inode;
mod listing;
mod owners;
mod replay;
mod superblock;
mod units;
mod walk;
mod xattr;

#[cfg(test)]
mod tests;

/// The inode of the root folder.
const EXT4_ROOT_INO: Ino = Ino(2);

/// A file system, as a replay of its journal leaves it.
#[derive(Debug)]
struct Ext {
    superblock: Superblock,
    copies: Copies,
    root: FileId,
}

/// The ext2, ext3 or ext4 from byte 0 of `source` on.
///
/// # Errors
/// If there is no such file system, a feature is not understood, or the superblock or the journal contradicts itself.
pub fn open(source: &mut dyn Source) -> Result<Box<dyn Volume>, Error> {
    let superblock = Superblock::from_bytes(&superblock_bytes(source)?)?;
    let copies = replay::copies(&mut Disk::new(source, &superblock, &Copies::new()))?;
    let superblock = replayed(source, superblock, &copies)?;
    let mut disk = Disk::new(source, &superblock, &copies);
    let generation = inode::generation(&mut disk, EXT4_ROOT_INO).unwrap_or(0);
    let root = FileId { number: EXT4_ROOT_INO.0.into(), generation: generation.into() };
    Ok(Box::new(Ext { superblock, copies, root }))
}

fn superblock_bytes(source: &mut dyn Source) -> Result<Vec<u8>, Error> {
    if source.bytes() < SUPERBLOCK_AT + SUPERBLOCK_BYTES {
        return Err(Error::Unknown(format!(
            "no superblock of ext2, ext3 or ext4 in {} bytes",
            source.bytes()
        )));
    }
    Ok(source.read(quietus_core::base::units::Extent::new(SUPERBLOCK_AT, SUPERBLOCK_BYTES))?)
}

/// The superblock with what the log has of it.
fn replayed(source: &mut dyn Source, superblock: Superblock, copies: &Copies) -> Result<Superblock, Error> {
    let block_bytes = u64::from(superblock.block_bytes());
    let block = FsBlock(SUPERBLOCK_AT / block_bytes);
    if !copies.contains_key(&block) {
        return Ok(superblock);
    }
    let content = Disk::new(source, &superblock, copies).block(block)?;
    let found =
        Superblock::from_bytes(content.get((SUPERBLOCK_AT % block_bytes) as usize..).unwrap_or_default())?;
    if found.s_log_block_size != superblock.s_log_block_size {
        let s_log_block_size = found.s_log_block_size;
        return Err(Error::Damaged(format!(
            "superblock in the journal: s_log_block_size {s_log_block_size}"
        )));
    }
    Ok(found)
}

impl Ext {
    fn disk<'a>(&'a self, source: &'a mut dyn Source) -> Disk<'a> {
        Disk::new(source, &self.superblock, &self.copies)
    }
}

/// The inode of `file`, if it still is of that file.
fn inode(disk: &mut Disk, file: FileId) -> Result<Inode, Error> {
    let beyond = |_| Error::Damaged(format!("inode {}: number beyond 2^32", file.number));
    let inode = Inode::read(disk, Ino(u32::try_from(file.number).map_err(beyond)?))?;
    let i_generation = inode.i_generation();
    if u64::from(i_generation) != file.generation {
        return Err(inode.ino.damaged(&format!("i_generation {i_generation}, not {}", file.generation)));
    }
    Ok(inode)
}

/// The inode of `file`, if it is of that kind, and not encrypted.
fn readable(disk: &mut Disk, file: FileId, kind: Kind, name: &'static str) -> Result<Inode, Error> {
    let inode = inode(disk, file)?;
    if inode.kind != kind {
        return Err(Error::NotA(name));
    }
    if inode.is_encrypted() {
        return Err(inode.ino.unsupported(&format!("the {name} is encrypted (EXT4_ENCRYPT_FL)")));
    }
    Ok(inode)
}

fn folder(disk: &mut Disk, file: FileId) -> Result<Inode, Error> {
    readable(disk, file, Kind::Folder, "folder")
}

fn regular(disk: &mut Disk, file: FileId) -> Result<Inode, Error> {
    readable(disk, file, Kind::Regular, "regular file")
}

impl Volume for Ext {
    fn name(&self) -> &'static str {
        self.superblock.name
    }

    fn root(&self) -> FileId {
        self.root
    }

    fn attributes(&mut self, source: &mut dyn Source, file: FileId) -> Result<Attributes, Error> {
        Ok(inode(&mut self.disk(source), file)?.attributes(&self.superblock))
    }

    fn file(&mut self, source: &mut dyn Source, number: u64) -> Result<FileId, Error> {
        let missing = || Error::Missing(format!("inode {number}"));
        let ino = u32::try_from(number).map_err(|_| missing())?;
        let generation = inode::generation(&mut self.disk(source), Ino(ino)).ok_or_else(missing)?;
        Ok(FileId { number, generation: generation.into() })
    }

    fn find(&mut self, source: &mut dyn Source, folder: FileId, name: &[u8]) -> Result<Option<Entry>, Error> {
        let disk = &mut self.disk(source);
        let (folder, mut entry) = (self::folder(disk, folder)?, None);
        let listed = listing::entries(disk, &folder, &mut |disk, ino, it| {
            if it == name {
                entry = Some(listing::entry(disk, ino, it));
            }
            entry.is_none()
        });
        if entry.is_none() {
            listed?;
            if folder.is_casefolded() {
                let what =
                    "names are compared without case (EXT4_CASEFOLD_FL); give the name as it is stored";
                return Err(folder.ino.unsupported(what));
            }
        }
        Ok(entry)
    }

    fn list(
        &mut self,
        source: &mut dyn Source,
        folder: FileId,
        found: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<(), Error> {
        let disk = &mut self.disk(source);
        let folder = self::folder(disk, folder)?;
        listing::entries(disk, &folder, &mut |disk, ino, name| found(listing::entry(disk, ino, name)))
    }

    fn runs(
        &mut self,
        source: &mut dyn Source,
        file: FileId,
        found: &mut dyn FnMut(Run) -> bool,
    ) -> Result<(), Error> {
        let disk = &mut self.disk(source);
        let file = regular(disk, file)?;
        content::runs(disk, &file, found)
    }

    fn read(
        &mut self,
        source: &mut dyn Source,
        file: FileId,
        at: u64,
        bytes: usize,
    ) -> Result<Vec<u8>, Error> {
        let disk = &mut self.disk(source);
        let file = regular(disk, file)?;
        content::read(disk, &file, at, bytes)
    }

    fn link(&mut self, source: &mut dyn Source, file: FileId) -> Result<Vec<u8>, Error> {
        let disk = &mut self.disk(source);
        let link = readable(disk, file, Kind::Link, "symbolic link")?;
        content::link(disk, &link)
    }

    fn extended(&mut self, source: &mut dyn Source, file: FileId) -> Result<Vec<ExtendedAttribute>, Error> {
        let disk = &mut self.disk(source);
        let file = inode(disk, file)?;
        xattr::all(disk, &file, &mut content::attribute_value)
    }

    fn owners(&mut self) -> Option<&mut dyn Owners> {
        Some(self)
    }
}
