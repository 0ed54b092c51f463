//! Reads of places near each other, in whatever order their bytes are wanted, as few reads of their medium.

use crate::base::units::Extent;
use crate::media::MediumId;
use crate::media::places::Place;
use std::io::IoSliceMut;

/// Longest gap between two places that is read along: as dear as another read.
const GAP_BYTES_MAX: u64 = 16 << 10;
/// Most places in one read. There may be as many gaps, and Linux takes 1,024 buffers.
const PLACES_MAX: usize = 512;

/// A part of what is read: where it lies, and what it is read into.
pub(super) type Part<'a> = (Place, &'a mut [u8]);

/// Fills all parts by `read`, which gets those near each other at once, and what lies between them.
pub(super) fn read_all<E>(
    mut parts: Vec<Part<'_>>,
    read: &mut impl FnMut(Place, &mut [IoSliceMut<'_>]) -> Result<(), E>,
) -> Result<(), E> {
    parts.sort_unstable_by_key(|(place, _)| (place.on, place.extent.start));
    let near = parts.chunk_by_mut(|(one, _), (next, _)| are_near(*one, *next));
    near.flat_map(|near| near.chunks_mut(PLACES_MAX)).try_for_each(|near| read_near(near, read))
}

fn are_near(one: Place, next: Place) -> bool {
    let gap = next.extent.start.0.checked_sub(one.extent.end());
    one.on == next.on && one.on != MediumId::Nowhere && gap.is_some_and(|gap| gap <= GAP_BYTES_MAX)
}

fn read_near<E>(
    near: &mut [Part<'_>],
    read: &mut impl FnMut(Place, &mut [IoSliceMut<'_>]) -> Result<(), E>,
) -> Result<(), E> {
    let [(first, _), .., (last, _)] = near else { return read_each(near, read) };
    let span = Place { extent: Extent::between(first.extent.start.0, last.extent.end()), ..*first };
    let wanted: u64 = near.iter().map(|(place, _)| place.extent.len).sum();
    assert!(wanted <= span.extent.len, "places that are read at once do not overlap");
    let mut between = vec![0; (span.extent.len - wanted) as usize];
    match read(span, &mut buffers(near, &mut between)) {
        // Perhaps what cannot be read was not asked for.
        Err(_) if !between.is_empty() => read_each(near, read),
        done => done,
    }
}

fn read_each<E>(
    parts: &mut [Part<'_>],
    read: &mut impl FnMut(Place, &mut [IoSliceMut<'_>]) -> Result<(), E>,
) -> Result<(), E> {
    parts.iter_mut().try_for_each(|(place, into)| read(*place, &mut [IoSliceMut::new(into)]))
}

/// The buffers for one read of all these parts, in order: the parts, and parts of `between` for the gaps.
fn buffers<'a>(near: &'a mut [Part<'_>], between: &'a mut [u8]) -> Vec<IoSliceMut<'a>> {
    let (mut all, mut between) = (Vec::with_capacity(2 * near.len()), between);
    let mut at = near.first().map_or(0, |(first, _)| first.extent.start.0);
    for (place, into) in near {
        let (gap, rest) = between.split_at_mut((place.extent.start.0 - at) as usize);
        (between, at) = (rest, place.extent.end());
        all.extend([gap, into].into_iter().filter(|part| !part.is_empty()).map(IoSliceMut::new));
    }
    assert!(between.is_empty(), "all that lies between the places is read");
    assert!(all.len() <= 2 * PLACES_MAX, "one read has no more buffers than Linux takes");
    all
}
