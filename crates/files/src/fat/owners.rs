//! Who has which clusters of FAT: the entries of folders that are in use.
//!
//! An entry counts also if it has no name that can be listed.

use crate::clusters::owners::{ALL, Claim, Folders, walk};
use crate::clusters::slots::Slots;
use crate::clusters::walk::{Node, Place, Stream};
use crate::clusters::{Clusters, read};
use crate::fat::entry::Slot;
use crate::fat::{FOLDER_BYTES_MAX, Fat, SLOTS_MAX};
use crate::{Error, FileId, Kind, Moved, Owner, Owners, Roll, Source};
use quietus_core::base::units::{Addr, Extent};
use quietus_detect::formats::fat::HEAD_BYTES;

/// Reads what decides where all lies, so that it is known that what follows depends on it.
fn touch_head(source: &mut dyn Source) -> Result<(), Error> {
    let bytes = HEAD_BYTES.min(source.bytes());
    read(source, Extent::new(0, bytes)).map(drop)
}

/// What the entry of `file` says; an empty file has no first cluster.
fn claim(file: FileId, node: &Node) -> Option<Claim> {
    let is_folder = node.attributes.kind == Kind::Folder;
    let owner = if is_folder { Owner::System } else { Owner::File(file) };
    let is_empty = !is_folder && node.stream.bytes == 0 && node.stream.place == Place::Chain(0);
    (!is_empty).then_some(Claim { owner, stream: node.stream, is_folder })
}

impl Folders for Fat {
    fn clusters(&mut self) -> &mut Clusters {
        &mut self.clusters
    }

    fn top(&self) -> Stream {
        self.root
    }

    fn claims(
        &mut self,
        source: &mut dyn Source,
        folder: Stream,
        found: &mut dyn FnMut(Claim) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut slots = Slots::new(&self.clusters, folder, 0, SLOTS_MAX)?;
        while let Some(slot) = slots.next(&mut self.clusters, source)? {
            match Slot::from_bytes(&slot.bytes) {
                Slot::End => break,
                Slot::Long(_) | Slot::Other => {}
                Slot::Short(entry) => {
                    let file = FileId { number: slot.at, generation: 0 };
                    let node = entry.node(self.width, FOLDER_BYTES_MAX);
                    claim(file, &node).map_or(Ok(()), &mut *found)?;
                }
            }
        }
        Ok(())
    }
}

impl Owners for Fat {
    fn rolls(&mut self, _: &mut dyn Source) -> Result<Vec<Roll>, Error> {
        Ok(vec![ALL])
    }

    /// All folders, and all chains. The file system itself has what lies before the clusters, and the clusters of folders.
    fn roll(
        &mut self,
        source: &mut dyn Source,
        _: Roll,
        found: &mut dyn FnMut(Owner, Extent<Addr>),
    ) -> Result<(), Error> {
        touch_head(source)?;
        found(Owner::System, Extent::new(0, self.clusters.layout.heap));
        walk(self, source, None, found)
    }

    /// All folders up to the file's are read: a place where its entry would lie may be of any content.
    fn owned(
        &mut self,
        source: &mut dyn Source,
        file: FileId,
        found: &mut dyn FnMut(Extent<Addr>),
    ) -> Result<(), Error> {
        touch_head(source)?;
        walk(self, source, Some(file), &mut |_, extent| found(extent))
    }

    fn moved(&self) -> Vec<Moved> {
        Vec::new()
    }
}
