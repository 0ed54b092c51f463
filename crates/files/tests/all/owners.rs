//! Who has which clusters, of volumes whose truth is known in another way.

mod exfat;
mod fat;
mod ntfs;

use crate::image::Image;
use quietus_core::base::units::{Addr, Extent};
use quietus_files::{Error, FileId, Owner, Volume};
use std::collections::{BTreeMap, BTreeSet};

/// Who has each piece, by its number.
type Said = BTreeMap<u64, BTreeSet<Owner>>;

/// The numbers of the pieces of `piece_bytes` that an extent touches.
fn pieces(extent: Extent<Addr>, piece_bytes: u64) -> impl Iterator<Item = u64> {
    extent.start.0 / piece_bytes..extent.end().div_ceil(piece_bytes)
}

/// What all rolls say of pieces of `piece_bytes`.
fn said(volume: &mut dyn Volume, image: &mut Image, piece_bytes: u64) -> Result<Said, Error> {
    let owners = volume.owners().expect("it says who has what");
    let rolls = owners.rolls(image)?;
    assert_eq!(rolls.iter().collect::<BTreeSet<_>>().len(), rolls.len(), "each roll once");
    let mut all = Said::new();
    for roll in rolls {
        owners.roll(image, roll, &mut |owner, extent| {
            pieces(extent, piece_bytes).for_each(|n| {
                all.entry(n).or_default().insert(owner);
            });
        })?;
    }
    assert_eq!(owners.moved(), [], "there is no log that is replayed");
    Ok(all)
}

/// The pieces of `piece_bytes` that a file has.
fn owned(
    volume: &mut dyn Volume,
    image: &mut Image,
    file: FileId,
    piece_bytes: u64,
) -> Result<BTreeSet<u64>, Error> {
    let mut own = BTreeSet::new();
    let owners = volume.owners().expect("it says who has what");
    owners.owned(image, file, &mut |extent| own.extend(pieces(extent, piece_bytes)))?;
    Ok(own)
}

/// What all rolls say, once they were asked in any order: each question reads the same again, and of each file the same is said alone.
fn checked(volume: &mut dyn Volume, image: &mut Image, piece_bytes: u64) -> Said {
    let reads = |volume: &mut dyn Volume, image: &mut Image| {
        image.read_bytes = 0;
        (said(volume, image, piece_bytes).unwrap(), image.read_bytes)
    };
    let first = reads(volume, image);
    let mut by_file = BTreeMap::<FileId, BTreeSet<u64>>::new();
    for (piece, owners) in &first.0 {
        for owner in owners {
            if let Owner::File(file) = owner {
                by_file.entry(*file).or_default().insert(*piece);
            }
        }
    }
    for (file, expected) in by_file {
        assert_eq!(owned(volume, image, file, piece_bytes), Ok(expected), "{file:?}");
        let _ = volume.read(image, file, 0, 1000);
    }
    let root = volume.root();
    assert_eq!(owned(volume, image, root, piece_bytes), Ok(BTreeSet::new()), "folders are metadata");
    assert!(reads(volume, image) == first, "what an answer depends on is read again");
    first.0
}
