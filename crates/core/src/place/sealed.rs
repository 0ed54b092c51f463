//! Content of which some is sealed: how it is opened when it is read, and sealed before it is written.

use super::{Place, Places, whole_blocks};
use crate::medium::{MediumError, MediumErrorKind};
use crate::sealing::{Context, Sealed, Sealer, Sealing, SealingAt, Unauthentic, parse_home};
use crate::units::{BLOCK_BYTES, Extent, Pos};
use std::borrow::Cow;
use std::ops::Range;

/// Most bytes by which the next home makes a read of homes longer. Such a home lies on the same page of the host's
/// cache, or on the next one.
const HOME_DISTANCE_MAX: u64 = 4096;

impl Places {
    /// Reads all places, and opens those that are sealed. Slots that follow each other are read at once.
    pub(super) fn open<E: From<MediumError>>(
        &self,
        into: &mut [u8],
        sealer: Option<&dyn Sealer>,
        read: &mut impl FnMut(Place, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut opener = Opener::new(with_keys(sealer)?, &self.sealed);
        for (place, blocks, part) in self.runs() {
            let (into, whole) = (&mut into[part], whole_blocks(place.extent));
            if blocks.is_empty() || whole == place.extent {
                read(place, into)?;
                opener.open(blocks, into, read)?;
            } else {
                let mut bytes = vec![0; whole.len as usize];
                read(Place { extent: whole, ..place }, &mut bytes)?;
                opener.open(blocks, &mut bytes, read)?;
                let from = (place.extent.start.0 - whole.start.0) as usize;
                into.copy_from_slice(&bytes[from..][..into.len()]);
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

/// Opens blocks in their order. Homes near each other are read at once.
struct Opener<'a> {
    sealer: &'a dyn Sealer,
    /// Runs of homes that are still to be read.
    spans: std::vec::IntoIter<Place>,
    /// The run that was read last, and its bytes.
    last: Option<(Place, Vec<u8>)>,
}

impl<'a> Opener<'a> {
    fn new(sealer: &'a dyn Sealer, blocks: &[(usize, Sealed)]) -> Self {
        let mut spans: Vec<Place> = Vec::new();
        for (_, block) in blocks {
            let SealingAt::Home(home, _) = block.sealing else { continue };
            match spans.last_mut().and_then(|span| Some((joined(*span, home)?, span))) {
                Some((joined, span)) => *span = joined,
                None => spans.push(home),
            }
        }
        Self { sealer, spans: spans.into_iter(), last: None }
    }

    /// Opens the next `blocks`, whose ciphertext is `bytes`.
    fn open<E: From<MediumError>>(
        &mut self,
        blocks: &[(usize, Sealed)],
        bytes: &mut [u8],
        read: &mut impl FnMut(Place, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for ((_, sealed), bytes) in blocks.iter().zip(bytes.chunks_exact_mut(BLOCK_BYTES as usize)) {
            let sealing = self.sealing(sealed, read)?;
            self.sealer.open(&sealed.context, &sealing, bytes).map_err(MediumError::from)?;
        }
        Ok(())
    }

    /// How `block` was sealed.
    fn sealing<'b, E: From<MediumError>>(
        &mut self,
        block: &'b Sealed,
        read: &mut impl FnMut(Place, &mut [u8]) -> Result<(), E>,
    ) -> Result<Cow<'b, Sealing>, E> {
        let (home, cell) = match &block.sealing {
            SealingAt::Known(sealing) => return Ok(Cow::Borrowed(sealing)),
            SealingAt::ToCome => return Err(cannot("open", &block.context, "its write has not ended").into()),
            SealingAt::Home(home, cell) => (*home, *cell),
        };
        loop {
            if let Some((span, bytes)) = &self.last
                && let Some(part) = part_of(*span, home)
            {
                let context = &block.context;
                let found = parse_home(&bytes[part])
                    .filter(|(at, born, _)| (*at, *born) == (context.block, context.born));
                let (.., sealing) = found.ok_or_else(|| MediumError::from(Unauthentic(block.context)))?;
                return Ok(Cow::Owned(match cell {
                    Some(cell) => sealing.masked(cell),
                    None => sealing,
                }));
            }
            let span = self.spans.next().expect("each home lies in a run of homes");
            let mut bytes = vec![0; span.extent.len as usize];
            read(span, &mut bytes)?;
            self.last = Some((span, bytes));
        }
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

impl From<Unauthentic> for MediumError {
    fn from(error: Unauthentic) -> Self {
        Self { kind: MediumErrorKind::Unauthentic, message: error.to_string() }
    }
}
