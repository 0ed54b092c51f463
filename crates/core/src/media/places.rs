//! Where the bytes of a request lie: reading, writing, sealing and opening them there.

mod gather;
mod sealed;
#[cfg(test)]
mod tests;

use crate::base::buf::Buf;
use crate::base::units::{BLOCK_BYTES, Extent, Pos};
use crate::media::MediumId;
use crate::media::medium::MediumError;
use crate::media::place::Place;
use crate::media::sealing::{ContentError, Sealed, Sealer, Sealing};
use std::io::IoSliceMut;
use std::ops::Range;

/// The places where some bytes lie, in their order: one or several. Slots of sealed blocks that follow each other are
/// one place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    first: Place,
    rest: Vec<Place>,
    /// The sealed blocks, in order, each with the index of its place. A place has one for each block that it
    /// touches, or none.
    sealed: Vec<(usize, Sealed)>,
}

impl From<Place> for Places {
    fn from(first: Place) -> Self {
        Self { first, rest: Vec::new(), sealed: Vec::new() }
    }
}

impl From<(Place, Sealed)> for Places {
    /// A place within one slot, as [`Places::push_sealed`] takes it.
    fn from((first, sealed): (Place, Sealed)) -> Self {
        assert_in_one_slot(first);
        Self { first, rest: Vec::new(), sealed: vec![(0, sealed)] }
    }
}

impl<T: Into<Self>> FromIterator<T> for Places {
    /// # Panics
    /// If there is no place.
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        let mut all = all.into_iter().map(Into::into);
        let mut places = all.next().expect("some bytes lie in some place");
        all.for_each(|more| places.append(more));
        places
    }
}

impl Places {
    /// The places of some bytes, in order, of which those within one slot may be sealed.
    ///
    /// # Panics
    /// If there is no place; as [`Places::push_sealed`].
    pub fn of(parts: impl IntoIterator<Item = (Place, Option<Sealed>)>) -> Self {
        let mut parts = parts.into_iter();
        let (first, sealed) = parts.next().expect("some bytes lie in some place");
        let mut places =
            Self { sealed: Vec::with_capacity(parts.size_hint().1.unwrap_or(0) + 1), ..first.into() };
        if let Some(sealed) = sealed {
            assert_in_one_slot(first);
            places.sealed.push((0, sealed));
        }
        for (place, sealed) in parts {
            match sealed {
                Some(sealed) => places.push_sealed(place, sealed),
                None => places.push(place),
            }
        }
        assert!(places.are_seals_in_order(), "each seal is of its place, in order");
        places
    }

    /// Appends a place, or extends the last one if `place` follows it.
    pub fn push(&mut self, place: Place) {
        self.join(place, false);
    }

    /// Appends a place within the slot of a sealed block: the whole slot, or a part of it to be read. A slot begins at
    /// a multiple of [`BLOCK_BYTES`].
    ///
    /// # Panics
    /// If the place is empty, or leaves its slot.
    pub fn push_sealed(&mut self, place: Place, sealed: Sealed) {
        assert_in_one_slot(place);
        self.join(place, true);
        self.sealed.push((self.rest.len(), sealed));
        assert!(self.are_seals_in_order(), "each seal is of its place, in order");
    }

    /// Appends all places of `more`.
    pub fn append(&mut self, more: Self) {
        self.join(more.first, more.sealed.first().is_some_and(|(of, _)| *of == 0));
        let first = self.rest.len();
        self.rest.extend(more.rest);
        self.sealed.extend(more.sealed.into_iter().map(|(of, it)| (first + of, it)));
        assert!(self.are_seals_in_order(), "each seal is of its place, in order");
    }

    /// Whether the last sealed blocks belong to places that there are, and follow each other.
    fn are_seals_in_order(&self) -> bool {
        match &self.sealed[..] {
            [.., (before, _), (last, _)] => before <= last && *last <= self.rest.len(),
            [(last, _)] => *last <= self.rest.len(),
            [] => true,
        }
    }

    /// Appends `place`, or extends the last one if `place` follows it and both are sealed, or neither is.
    fn join(&mut self, place: Place, is_sealed: bool) {
        let was_sealed = self.sealed.last().is_some_and(|(of, _)| *of == self.rest.len());
        let last = self.rest.last_mut().unwrap_or(&mut self.first);
        let start = place.extent.start.0;
        let is_next = last.on == MediumId::Nowhere || last.extent.end() == start;
        // A place has one seal for each slot, so that another part of the same slot is another place.
        let can_share = !is_sealed || start.is_multiple_of(BLOCK_BYTES);
        if last.on == place.on && was_sealed == is_sealed && is_next && can_share {
            last.extent.len += place.extent.len;
        } else {
            self.rest.push(place);
        }
    }

    /// The first place.
    #[must_use]
    pub fn first(&self) -> Place {
        self.first
    }

    /// All places, in order.
    pub fn iter(&self) -> impl Iterator<Item = Place> + '_ {
        std::iter::once(self.first).chain(self.rest.iter().copied())
    }

    /// All places, each with the part of the bytes that lies there.
    pub fn parts(&self) -> impl Iterator<Item = (Place, Range<usize>)> + '_ {
        let mut from = 0;
        self.iter().map(move |place| {
            let part = from..from + place.extent.len as usize;
            from = part.end;
            (place, part)
        })
    }

    /// Fills `into` with the content by `read`, which gets places near each other at once, in several buffers, and opens
    /// what is sealed. All content that is read comes through here, outside the volume's lock.
    ///
    /// # Errors
    /// The first of `read`; a sealed block that cannot be opened.
    pub fn read<E: From<ContentError>>(
        &self,
        into: &mut [u8],
        sealer: Option<&dyn Sealer>,
        mut read: impl FnMut(Place, &mut [IoSliceMut<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        assert!(into.len() as u64 == self.bytes(), "a read takes as many bytes as its places have");
        if !self.sealed.is_empty() {
            return self.open(into, sealer, &mut read);
        }
        gather::read_all(self.parts_of(into).collect(), &mut read)
    }

    /// All places, each with its part of `bytes`.
    fn parts_of<'a>(&self, bytes: &'a mut [u8]) -> impl Iterator<Item = gather::Part<'a>> {
        let mut rest = bytes;
        self.iter().map(move |place| {
            let (part, others) = std::mem::take(&mut rest).split_at_mut(place.extent.len as usize);
            rest = others;
            (place, part)
        })
    }

    /// Seals what is to be sealed of the content `data`, in place unless it is shared, and writes the content, each
    /// place's part of it by `write`. All content that is written goes through here, outside the volume's lock. Returns
    /// how each block was sealed, in order.
    ///
    /// # Errors
    /// The first of `write`; a block that cannot be sealed, and then nothing was written.
    pub fn write<E: From<MediumError>>(
        &self,
        data: &mut Buf,
        sealer: Option<&dyn Sealer>,
        mut write: impl FnMut(Place, &[u8]) -> Result<(), E>,
    ) -> Result<Vec<Sealing>, E> {
        assert!(data.len() as u64 == self.bytes(), "a write has as many bytes as its places");
        let is_plain = self.sealed.is_empty();
        let sealings = if is_plain { Vec::new() } else { self.close(data.to_mut(), sealer)? };
        let data: &[u8] = data;
        self.parts().try_for_each(|(place, part)| write(place, &data[part]))?;
        Ok(sealings)
    }

    /// The number of bytes in all places together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.iter().map(|place| place.extent.len).sum()
    }
}

/// The blocks of a medium that `extent` touches.
fn whole_blocks(extent: Extent<Pos>) -> Extent<Pos> {
    let start = extent.start.0;
    Extent::between(start - start % BLOCK_BYTES, extent.end().next_multiple_of(BLOCK_BYTES))
}

fn assert_in_one_slot(place: Place) {
    let is_one = !place.extent.is_empty() && whole_blocks(place.extent).len == BLOCK_BYTES;
    assert!(is_one, "{place:?} lies in one slot");
}
