//! What a part of a place is under: the seal of its block, or the block's cell.

use crate::base::units::{BLOCK_BYTES, Block, Extent, Pos};
use crate::media::cipher::{Keyed, SECTOR_BYTES};
use crate::media::place::Place;
use crate::media::sealing::Sealed;

/// What makes content of the bytes of a part of a place. A place is under seals as a whole, or under cells, or plain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Under {
    Sealed(Sealed),
    Keyed(Keyed),
}

impl Under {
    /// # Panics
    /// If the place is empty, leaves its slot or its block, or is not as long as the part that it holds.
    pub(super) fn assert_takes(&self, place: Place) {
        let is_one = match self {
            Self::Sealed(_) => whole_blocks(place.extent).len == BLOCK_BYTES,
            Self::Keyed(Keyed { part, .. }) => {
                part.len == place.extent.len && part.start.0 % BLOCK_BYTES + part.len <= BLOCK_BYTES
            }
        };
        let begins_on_medium = self.before(place) <= place.extent.start.0;
        assert!(
            is_one && begins_on_medium && !place.extent.is_empty(),
            "{place:?} lies in one slot, or one block"
        );
    }

    /// Whether `next`, whose place follows at `start`, can lie in one place with `self`: what is opened at once belongs to one of them.
    pub(super) fn joins(&self, next: &Self, start: Pos) -> bool {
        match (self, next) {
            (Self::Sealed(_), Self::Sealed(_)) => start.0.is_multiple_of(BLOCK_BYTES),
            (Self::Keyed(one), Self::Keyed(next)) => {
                one.part.end().is_multiple_of(SECTOR_BYTES) && next.part.start.0.is_multiple_of(SECTOR_BYTES)
            }
            _ => false,
        }
    }

    /// Bytes before `place` that are opened with its first ones.
    fn before(&self, place: Place) -> u64 {
        match self {
            Self::Sealed(_) => place.extent.start.0 % BLOCK_BYTES,
            Self::Keyed(keyed) => keyed.part.start.0 % SECTOR_BYTES,
        }
    }

    /// Bytes behind `place` that are opened with its last ones.
    fn behind(&self, place: Place) -> u64 {
        let (end, unit) = match self {
            Self::Sealed(_) => (place.extent.end(), BLOCK_BYTES),
            Self::Keyed(keyed) => (keyed.part.end(), SECTOR_BYTES),
        };
        end.next_multiple_of(unit) - end
    }

    /// How many bytes are opened at once.
    fn whole_bytes(&self) -> u64 {
        match self {
            Self::Sealed(_) => BLOCK_BYTES,
            Self::Keyed(Keyed { part, .. }) => {
                part.end().next_multiple_of(SECTOR_BYTES) - part.start.0 / SECTOR_BYTES * SECTOR_BYTES
            }
        }
    }
}

/// The bytes that are read to open those of `place`: whole blocks or sectors, where it is under something.
pub(super) fn whole(place: Place, under: &[(usize, Under)]) -> Extent<Pos> {
    let (Some((_, first)), Some((_, last))) = (under.first(), under.last()) else { return place.extent };
    Extent::between(place.extent.start.0 - first.before(place), place.extent.end() + last.behind(place))
}

/// What each of these is over, of the bytes of a [whole] place.
pub(super) fn cut<'a>(
    under: &'a [(usize, Under)],
    bytes: &'a mut [u8],
) -> impl Iterator<Item = (&'a Under, &'a mut [u8])> {
    let total: u64 = under.iter().map(|(_, it)| it.whole_bytes()).sum();
    assert!(under.is_empty() || bytes.len() as u64 == total, "each block of a place is opened");
    let mut rest = bytes;
    under.iter().map(move |(_, it)| {
        let (own, others) = std::mem::take(&mut rest).split_at_mut(it.whole_bytes() as usize);
        rest = others;
        (it, own)
    })
}

/// The block of a keyed part, and the first of its sectors there.
pub(super) fn sector(keyed: &Keyed) -> (Block, usize) {
    let start = keyed.part.start.0;
    (Block(start / BLOCK_BYTES), (start % BLOCK_BYTES / SECTOR_BYTES) as usize)
}

/// The blocks of a medium that `extent` touches.
fn whole_blocks(extent: Extent<Pos>) -> Extent<Pos> {
    let start = extent.start.0;
    Extent::between(start - start % BLOCK_BYTES, extent.end().next_multiple_of(BLOCK_BYTES))
}
