//! Content of which some is sealed: how it is opened when it is read, and sealed before it is written.

use crate::base::units::{BLOCK_BYTES, Extent, Pos, Session};
use crate::media::medium::{MediumError, MediumErrorKind};
use crate::media::places::{Place, Places, gather, whole_blocks};
use crate::media::sealing::{
    ContentError, Context, Sealed, Sealer, Sealing, SealingAt, Unauthentic, parse_home,
};
use std::borrow::Cow;
use std::io::IoSliceMut;
use std::ops::Range;

/// Most bytes by which the next home makes a read of homes longer. Such a home lies on the same page of the host's
/// cache, or on the next one.
const HOME_DISTANCE_MAX: u64 = 4096;

impl Places {
    /// Reads all places, and opens those that are sealed.
    pub(super) fn open<E: From<ContentError>>(
        &self,
        into: &mut [u8],
        sealer: Option<&dyn Sealer>,
        read: &mut impl FnMut(Place, &mut [IoSliceMut<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let sealer = with_keys(sealer).map_err(ContentError::from)?;
        let opener = Opener::new(sealer, &self.sealed, read)?;
        let is_part =
            |place: Place, blocks: &[_]| !blocks.is_empty() && whole_blocks(place.extent) != place.extent;
        let parts =
            self.runs().zip(self.parts_of(into)).filter(|((place, blocks, _), _)| !is_part(*place, blocks));
        gather::read_all(parts.map(|(_, part)| part).collect(), read)?;
        for (place, blocks, part) in self.runs() {
            let into = &mut into[part];
            if is_part(place, blocks) {
                let whole = whole_blocks(place.extent);
                let mut bytes = vec![0; whole.len as usize];
                read(Place { extent: whole, ..place }, &mut [IoSliceMut::new(&mut bytes)])?;
                opener.open(blocks, &mut bytes)?;
                let from = (place.extent.start.0 - whole.start.0) as usize;
                into.copy_from_slice(&bytes[from..][..into.len()]);
            } else {
                opener.open(blocks, into)?;
            }
        }
        Ok(())
    }

    /// Seals the blocks of `content`, in place; returns how, in order.
    pub(super) fn close(
        &self,
        content: &mut [u8],
        sealer: Option<&dyn Sealer>,
    ) -> Result<Vec<Sealing>, MediumError> {
        let sealer = with_keys(sealer)?;
        let mut sealings = Vec::with_capacity(self.sealed.len());
        for (place, blocks, part) in self.runs() {
            let is_whole = place.extent == whole_blocks(place.extent);
            for ((_, sealed), bytes) in blocks.iter().zip(content[part].chunks_mut(BLOCK_BYTES as usize)) {
                if !is_whole {
                    return Err(cannot("seal", &sealed.context, "a part of a block is not sealed alone"));
                }
                if sealed.sealing != SealingAt::ToCome {
                    return Err(cannot("seal", &sealed.context, "its slot was written before"));
                }
                let sealing = sealer.close(&sealed.context, bytes);
                sealings.push(sealing.map_err(|reason| cannot("seal", &sealed.context, &reason))?);
            }
        }
        assert!(sealings.len() == self.sealed.len(), "each block that is to be sealed has its sealing");
        Ok(sealings)
    }

    /// All places, each with its sealed blocks, and with the part of the bytes that lies there.
    pub(super) fn runs(&self) -> impl Iterator<Item = (Place, &[(usize, Sealed)], Range<usize>)> {
        let mut rest = &self.sealed[..];
        self.parts().enumerate().map(move |(n, (place, part))| {
            let (own, others) = rest.split_at(rest.iter().take_while(|(of, _)| *of == n).count());
            rest = others;
            (place, own, part)
        })
    }
}

/// Opens blocks.
struct Opener<'a> {
    sealer: &'a dyn Sealer,
    /// Runs of homes, in order, and their bytes.
    homes: Vec<(Place, Vec<u8>)>,
}

impl<'a> Opener<'a> {
    /// Reads the homes of the sealings of `blocks`. Homes near each other are one run.
    fn new<E>(
        sealer: &'a dyn Sealer,
        blocks: &[(usize, Sealed)],
        read: &mut impl FnMut(Place, &mut [IoSliceMut<'_>]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let home = |(_, block): &(usize, Sealed)| match block.sealing {
            SealingAt::Home(home, _) if sealer.needs_sealing() => Some(home),
            _ => None,
        };
        let mut all: Vec<Place> = blocks.iter().filter_map(home).collect();
        all.sort_unstable_by_key(|home| (home.on, home.extent.start));
        let mut runs: Vec<Place> = Vec::new();
        for home in all {
            match runs.last_mut().and_then(|run| Some((joined(*run, home)?, run))) {
                Some((joined, run)) => *run = joined,
                None => runs.push(home),
            }
        }
        let mut homes: Vec<_> = runs.into_iter().map(|run| (run, vec![0; run.extent.len as usize])).collect();
        gather::read_all(homes.iter_mut().map(|(run, bytes)| (*run, &mut bytes[..])).collect(), read)?;
        Ok(Self { sealer, homes })
    }

    /// Opens `blocks`, whose ciphertext is `bytes`.
    fn open(&self, blocks: &[(usize, Sealed)], bytes: &mut [u8]) -> Result<(), ContentError> {
        let has_all = blocks.is_empty() || bytes.len() as u64 == blocks.len() as u64 * BLOCK_BYTES;
        assert!(has_all, "each block of a place is opened");
        for ((_, sealed), bytes) in blocks.iter().zip(bytes.chunks_exact_mut(BLOCK_BYTES as usize)) {
            self.sealer.open(&sealed.context, &*self.sealing(sealed)?, bytes)?;
        }
        Ok(())
    }

    /// How `block` was sealed.
    fn sealing<'b>(&self, block: &'b Sealed) -> Result<Cow<'b, Sealing>, ContentError> {
        let (home, cell) = match &block.sealing {
            SealingAt::Known(sealing) => return Ok(Cow::Borrowed(sealing)),
            SealingAt::ToCome => return Err(cannot("open", &block.context, "its write has not ended").into()),
            SealingAt::Home(..) if !self.sealer.needs_sealing() => {
                return Ok(Cow::Owned(Sealing { session: Session(0), number: 0, stub: [].into() }));
            }
            SealingAt::Home(home, cell) => (*home, cell),
        };
        let key = |place: Place| (place.on, place.extent.start);
        let before = self.homes.partition_point(|(run, _)| key(*run) <= key(home));
        assert!(before > 0, "the home of each block was read");
        let (run, bytes) = &self.homes[before - 1];
        let part = part_of(*run, home).expect("each home lies in a run of homes");
        let context = &block.context;
        let found =
            parse_home(&bytes[part]).filter(|(at, born, _)| (*at, *born) == (context.block, context.born));
        let (.., sealing) = found.ok_or(Unauthentic(*context))?;
        Ok(Cow::Owned(match cell {
            Some(cell) => sealing.masked(cell),
            None => sealing,
        }))
    }
}

/// One place for both, if `home` is near.
fn joined(span: Place, home: Place) -> Option<Place> {
    let (a, b) = (span.extent, home.extent);
    let extent: Extent<Pos> = Extent::between(a.start.0.min(b.start.0), a.end().max(b.end()));
    (span.on == home.on && extent.len <= a.len + HOME_DISTANCE_MAX).then_some(Place { extent, ..span })
}

/// The part of the bytes of `span` that is `home`.
fn part_of(span: Place, home: Place) -> Option<Range<usize>> {
    let part = home.extent.inside(span.extent).filter(|part| part.len == home.extent.len)?;
    (span.on == home.on).then(|| part.start.0 as usize..part.end() as usize)
}

fn with_keys(sealer: Option<&dyn Sealer>) -> Result<&dyn Sealer, MediumError> {
    sealer.ok_or_else(|| MediumError {
        kind: MediumErrorKind::Io,
        message: "cannot read or write sealed blocks: the disk was opened without its keys; serve it, and \
                  run the command again"
            .into(),
    })
}

fn cannot(what: &str, context: &Context, reason: &str) -> MediumError {
    let (block, slot) = (context.block.0, context.slot.0);
    MediumError {
        kind: MediumErrorKind::Io,
        message: format!("cannot {what} block {block} in slot {slot}: {reason}"),
    }
}
