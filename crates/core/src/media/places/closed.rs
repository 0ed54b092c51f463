//! Content of which some is sealed or keyed: how it is opened when it is read, and made ciphertext before it is written.

use crate::base::cell::CELL_BYTES;
use crate::base::units::{Extent, Pos, Session};
use crate::media::MediumId;
use crate::media::cipher::{Keyed, Keys};
use crate::media::medium::{MediumError, MediumErrorKind};
use crate::media::places::under::{Under, cut, sector, whole};
use crate::media::places::{Place, Places, gather};
use crate::media::sealing::{
    ContentError, Context, Sealed, Sealer, Sealing, SealingAt, Unauthentic, parse_home,
};
use crate::mutant::{self, Mutant};
use std::borrow::Cow;
use std::io::IoSliceMut;
use std::ops::Range;

/// Most bytes by which the next home makes a read of homes longer. Such a home lies on the same page of the host's
/// cache, or on the next one.
const HOME_DISTANCE_MAX: u64 = 4096;

impl Places {
    /// Reads all places, and opens those that are sealed or keyed.
    pub(super) fn open<E: From<ContentError>>(
        &self,
        into: &mut [u8],
        keys: Option<Keys<'_>>,
        read: &mut impl FnMut(Place, &mut [IoSliceMut<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let keys = keys.ok_or_else(|| ContentError::from(without_keys()))?;
        let opener = Opener::new(keys, &self.under, read)?;
        let is_part = |place: Place, under: &[_]| whole(place, under) != place.extent;
        let parts =
            self.runs().zip(self.parts_of(into)).filter(|((place, under, _), _)| !is_part(*place, under));
        gather::read_all(parts.map(|(_, part)| part).collect(), read)?;
        for (place, under, part) in self.runs() {
            let into = &mut into[part];
            if is_part(place, under) {
                let whole = whole(place, under);
                let mut bytes = vec![0; whole.len as usize];
                read(Place { extent: whole, ..place }, &mut [IoSliceMut::new(&mut bytes)])?;
                opener.open(under, &mut bytes)?;
                let from = (place.extent.start.0 - whole.start.0) as usize;
                into.copy_from_slice(&bytes[from..][..into.len()]);
            } else {
                opener.open(under, into)?;
            }
        }
        Ok(())
    }

    /// Seals or encrypts the blocks of `content`, in place; returns how each sealed one was sealed, in order.
    pub(super) fn close(
        &self,
        content: &mut [u8],
        keys: Option<Keys<'_>>,
    ) -> Result<Vec<Sealing>, MediumError> {
        let keys = keys.ok_or_else(without_keys)?;
        let sealings_max = if matches!(keys, Keys::Sealer(_)) { self.under.len() } else { 0 };
        let mut sealings = Vec::with_capacity(sealings_max);
        for (place, under, part) in self.runs() {
            if let Some((_, first)) = under.first().filter(|_| whole(place, under) != place.extent) {
                return Err(cannot_alone(first));
            }
            for (under, bytes) in cut(under, &mut content[part]) {
                if place.on == MediumId::Journal && is_staged_amiss(under, bytes) {
                    continue;
                }
                sealings.extend(close_one(keys, under, bytes)?);
            }
        }
        assert!(sealings.len() == sealings_max, "each block that is to be sealed has its sealing");
        Ok(sealings)
    }

    /// All places, each with what it is under, and with the part of the bytes that lies there.
    pub(super) fn runs(&self) -> impl Iterator<Item = (Place, &[(usize, Under)], Range<usize>)> {
        let mut rest = &self.under[..];
        self.parts().enumerate().map(move |(n, (place, part))| {
            let (own, others) = rest.split_at(rest.iter().take_while(|(of, _)| *of == n).count());
            rest = others;
            (place, own, part)
        })
    }
}

/// The defects of what goes to the journal under a cell.
fn is_staged_amiss(under: &Under, bytes: &mut [u8]) -> bool {
    match under {
        Under::Keyed(keyed) if mutant::is(Mutant::CellInJournal) => {
            bytes.fill(0);
            bytes[..CELL_BYTES].copy_from_slice(keyed.cell.bytes());
            true
        }
        _ => mutant::is(Mutant::PlainStaging),
    }
}

/// Opens blocks.
struct Opener<'a> {
    keys: Keys<'a>,
    /// Runs of homes, in order, and their bytes.
    homes: Vec<(Place, Vec<u8>)>,
}

impl<'a> Opener<'a> {
    /// Reads the homes of the sealings of `blocks`. Homes near each other are one run.
    fn new<E>(
        keys: Keys<'a>,
        blocks: &[(usize, Under)],
        read: &mut impl FnMut(Place, &mut [IoSliceMut<'_>]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let home = |(_, block): &(usize, Under)| match (block, keys) {
            (Under::Sealed(Sealed { sealing: SealingAt::Home(home, _), .. }), Keys::Sealer(sealer)) => {
                sealer.needs_sealing().then_some(*home)
            }
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
        Ok(Self { keys, homes })
    }

    /// Opens `blocks`, whose ciphertext is `bytes`.
    fn open(&self, blocks: &[(usize, Under)], bytes: &mut [u8]) -> Result<(), ContentError> {
        for (block, bytes) in cut(blocks, bytes) {
            match (block, self.keys) {
                (Under::Sealed(sealed), Keys::Sealer(sealer)) => {
                    sealer.open(&sealed.context, &*self.sealing(sealer, sealed)?, bytes)?;
                }
                (Under::Keyed(keyed), Keys::Cipher(cipher)) => {
                    let (block, from) = sector(keyed);
                    cipher.decrypt(block, &keyed.cell, from, bytes);
                }
                (Under::Sealed(_), Keys::Cipher(_)) | (Under::Keyed(_), Keys::Sealer(_)) => {
                    return Err(without_keys().into());
                }
            }
        }
        Ok(())
    }

    /// How `block` was sealed.
    fn sealing<'b>(&self, sealer: &dyn Sealer, block: &'b Sealed) -> Result<Cow<'b, Sealing>, ContentError> {
        let (home, cell) = match &block.sealing {
            SealingAt::Known(sealing) => return Ok(Cow::Borrowed(sealing)),
            SealingAt::ToCome => return Err(cannot("open", &block.context, "its write has not ended").into()),
            SealingAt::Home(..) if !sealer.needs_sealing() => {
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

/// Makes ciphertext of the content of a whole block, or of whole sectors of one; returns how it was sealed, if it was.
fn close_one(keys: Keys<'_>, under: &Under, content: &mut [u8]) -> Result<Option<Sealing>, MediumError> {
    match (under, keys) {
        (Under::Sealed(Sealed { context, sealing }), Keys::Sealer(sealer)) => {
            if *sealing != SealingAt::ToCome {
                return Err(cannot("seal", context, "its slot was written before"));
            }
            sealer.close(context, content).map(Some).map_err(|reason| cannot("seal", context, &reason))
        }
        (Under::Keyed(keyed), Keys::Cipher(cipher)) => {
            let (block, from) = sector(keyed);
            cipher.encrypt(block, &keyed.cell, from, content);
            Ok(None)
        }
        (Under::Sealed(_), Keys::Cipher(_)) | (Under::Keyed(_), Keys::Sealer(_)) => Err(without_keys()),
    }
}

fn without_keys() -> MediumError {
    failed(
        "cannot read or write sealed blocks: the disk was opened without its keys; serve it, and run the command again".into(),
    )
}

/// A place that does not hold all that is sealed or encrypted at once.
fn cannot_alone(under: &Under) -> MediumError {
    match under {
        Under::Sealed(sealed) => cannot("seal", &sealed.context, "a part of a block is not sealed alone"),
        Under::Keyed(Keyed { part, .. }) => failed(format!(
            "cannot encrypt bytes {} to {} of the disk: a part of a sector is not encrypted alone",
            part.start.0,
            part.end()
        )),
    }
}

fn cannot(what: &str, context: &Context, reason: &str) -> MediumError {
    failed(format!("cannot {what} block {} in slot {}: {reason}", context.block.0, context.slot.0))
}

fn failed(message: String) -> MediumError {
    MediumError { kind: MediumErrorKind::Io, message }
}
