//! Who has which clusters of FAT: the entries of folders that are in use.
//!
//! An entry counts also if it has no name that can be listed.

use crate::clusters::owners::{Claim, Folders};
use crate::clusters::slots::Slots;
use crate::clusters::walk::{Node, Place, Stream};
use crate::clusters::{Clusters, read};
use crate::fat::entry::Slot;
use crate::fat::{FOLDER_BYTES_MAX, Fat, SLOTS_MAX};
use crate::{Error, FileId, Kind, Owner, Source};
use quietus_core::base::units::Extent;
use quietus_detect::formats::fat::HEAD_BYTES;

/// What the entry of `file` says; an empty file has no first cluster.
fn claim(file: FileId, node: &Node) -> Option<Claim> {
    let is_folder = node.attributes.kind == Kind::Folder;
    let owner = if is_folder { Owner::System } else { Owner::File(file) };
    let is_empty = !is_folder && node.stream.bytes == 0 && node.stream.place == Place::Chain(0);
    (!is_empty).then_some(Claim { owner, stream: node.stream, is_folder })
}

impl Folders for Fat {
    fn touch(&self, source: &mut dyn Source) -> Result<(), Error> {
        let bytes = HEAD_BYTES.min(source.bytes());
        read(source, Extent::new(0, bytes)).map(drop)
    }

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
