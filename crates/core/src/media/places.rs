//! Where the bytes of a request lie: reading, writing, sealing or encrypting and opening them there.

mod closed;
mod gather;
#[cfg(test)]
mod tests;
mod under;

use crate::base::buf::Buf;
use crate::media::MediumId;
use crate::media::cipher::{Keyed, Keys};
use crate::media::medium::MediumError;
use crate::media::place::Place;
use crate::media::places::under::Under;
use crate::media::sealing::{ContentError, Sealed, Sealing};
use std::io::IoSliceMut;
use std::ops::Range;

/// The places where some bytes lie, in their order: one or several. Slots of sealed blocks that follow each other are
/// one place, and so are keyed parts of blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    first: Place,
    rest: Vec<Place>,
    /// The sealed blocks and keyed parts of blocks, in order, each with the index of its place. A plain place has none. Another has one
    /// for each block that it touches, or for each part of one.
    under: Vec<(usize, Under)>,
}

impl From<Place> for Places {
    fn from(first: Place) -> Self {
        Self { first, rest: Vec::new(), under: Vec::new() }
    }
}

impl From<(Place, Sealed)> for Places {
    /// A place within one slot, as [`Places::push_sealed`] takes it.
    fn from((first, sealed): (Place, Sealed)) -> Self {
        Self::under(first, Under::Sealed(sealed))
    }
}

impl From<(Place, Keyed)> for Places {
    /// A place of a part of one block, as [`Places::push_keyed`] takes it.
    fn from((first, keyed): (Place, Keyed)) -> Self {
        Self::under(first, Under::Keyed(keyed))
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
            Self { under: Vec::with_capacity(parts.size_hint().1.unwrap_or(0) + 1), ..first.into() };
        if let Some(sealed) = sealed.map(Under::Sealed) {
            sealed.assert_takes(first);
            places.under.push((0, sealed));
        }
        for (place, sealed) in parts {
            match sealed {
                Some(sealed) => places.push_sealed(place, sealed),
                None => places.push(place),
            }
        }
        assert!(places.are_in_order(), "each seal is of its place, in order");
        places
    }

    fn under(first: Place, under: Under) -> Self {
        under.assert_takes(first);
        Self { first, rest: Vec::new(), under: vec![(0, under)] }
    }

    /// Appends a place, or extends the last one if `place` follows it.
    pub fn push(&mut self, place: Place) {
        self.join(place, None);
    }

    /// Appends a place within the slot of a sealed block: the whole slot, or a part of it to be read. A slot begins at
    /// a multiple of [`BLOCK_BYTES`](crate::base::units::BLOCK_BYTES).
    ///
    /// # Panics
    /// If the place is empty, or leaves its slot.
    pub fn push_sealed(&mut self, place: Place, sealed: Sealed) {
        self.push_under(place, Under::Sealed(sealed));
    }

    /// Appends a place that holds a part of a block under its cell. What is written has whole sectors; to be read, it may have any bytes.
    ///
    /// # Panics
    /// If the place is empty, or is not as long as the part, or the part leaves its block.
    pub fn push_keyed(&mut self, place: Place, keyed: Keyed) {
        self.push_under(place, Under::Keyed(keyed));
    }

    fn push_under(&mut self, place: Place, under: Under) {
        under.assert_takes(place);
        self.join(place, Some(&under));
        self.under.push((self.rest.len(), under));
        assert!(self.are_in_order(), "each seal or cell is of its place, in order");
    }

    /// Appends all places of `more`.
    pub fn append(&mut self, more: Self) {
        self.join(more.first, more.under.first().filter(|(of, _)| *of == 0).map(|(_, it)| it));
        let first = self.rest.len();
        self.rest.extend(more.rest);
        self.under.extend(more.under.into_iter().map(|(of, it)| (first + of, it)));
        assert!(self.are_in_order(), "each seal or cell is of its place, in order");
    }

    /// Whether the last seals or cells belong to places that there are, and follow each other.
    fn are_in_order(&self) -> bool {
        match &self.under[..] {
            [.., (before, _), (last, _)] => before <= last && *last <= self.rest.len(),
            [(last, _)] => *last <= self.rest.len(),
            [] => true,
        }
    }

    /// Appends `place`, or extends the last one if `place` follows it and both are sealed, or keyed, or neither.
    fn join(&mut self, place: Place, under: Option<&Under>) {
        let before = self.under.last().filter(|(of, _)| *of == self.rest.len()).map(|(_, it)| it);
        let last = self.rest.last_mut().unwrap_or(&mut self.first);
        let is_next = last.on == MediumId::Nowhere || last.extent.end() == place.extent.start.0;
        let can_share = match (before, under) {
            (None, None) => true,
            (Some(before), Some(under)) => before.joins(under, place.extent.start),
            _ => false,
        };
        if last.on == place.on && is_next && can_share {
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
    /// what is sealed or keyed. All content that is read comes through here, outside the volume's lock.
    ///
    /// # Errors
    /// The first of `read`; a sealed block that cannot be opened; a disk that was opened without its keys.
    pub fn read<E: From<ContentError>>(
        &self,
        into: &mut [u8],
        keys: Option<Keys<'_>>,
        mut read: impl FnMut(Place, &mut [IoSliceMut<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        assert!(into.len() as u64 == self.bytes(), "a read takes as many bytes as its places have");
        if !self.under.is_empty() {
            return self.open(into, keys, &mut read);
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

    /// Seals or encrypts what has to be of the content `data`, in place unless it is shared, and writes the content, each
    /// place's part of it by `write`. All content that is written goes through here, outside the volume's lock. Returns
    /// how each sealed block was sealed, in order.
    ///
    /// # Errors
    /// The first of `write`; a block that cannot be sealed, or a part of a sector that is to be encrypted,
    /// and then nothing was written.
    pub fn write<E: From<MediumError>>(
        &self,
        data: &mut Buf,
        keys: Option<Keys<'_>>,
        mut write: impl FnMut(Place, &[u8]) -> Result<(), E>,
    ) -> Result<Vec<Sealing>, E> {
        assert!(data.len() as u64 == self.bytes(), "a write has as many bytes as its places");
        let is_plain = self.under.is_empty();
        let sealings = if is_plain { Vec::new() } else { self.close(data.to_mut(), keys)? };
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
