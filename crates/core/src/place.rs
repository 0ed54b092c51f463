//! Where bytes lie.

use crate::media::MediumId;
use crate::units::{Extent, Pos};
use std::ops::Range;

/// A run of bytes on one medium.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place {
    /// The medium.
    pub on: MediumId,
    /// The bytes of the medium.
    pub extent: Extent<Pos>,
}

impl Place {
    /// The beginning of `on`: the place of an operation on the whole medium.
    #[must_use]
    pub fn all_of(on: MediumId) -> Self {
        Self { on, extent: Extent::new(0, 0) }
    }
}

/// The places where some bytes lie, in their order: one or several.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    first: Place,
    rest: Vec<Place>,
}

impl From<Place> for Places {
    fn from(first: Place) -> Self {
        Self { first, rest: Vec::new() }
    }
}

impl FromIterator<Place> for Places {
    /// # Panics
    /// If there is no place.
    fn from_iter<I: IntoIterator<Item = Place>>(all: I) -> Self {
        let mut all = all.into_iter();
        let mut places = Self::from(all.next().expect("some bytes lie in some place"));
        all.for_each(|place| places.push(place));
        places
    }
}

impl Places {
    /// Appends a place, or extends the last one if `place` follows it.
    pub fn push(&mut self, place: Place) {
        let last = self.rest.last_mut().unwrap_or(&mut self.first);
        if last.on == place.on && (last.on == MediumId::Nowhere || last.extent.end() == place.extent.start.0)
        {
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

    /// Fills `into` with the content, each place's part of it by `read`. All content that is read comes
    /// through here, outside the volume's lock: a store that codes what it writes is decoded here.
    ///
    /// # Errors
    /// The first of `read`.
    pub fn read<E>(
        &self,
        into: &mut [u8],
        mut read: impl FnMut(Place, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.parts().try_for_each(|(place, part)| read(place, &mut into[part]))
    }

    /// Writes the content `from`, each place's part of it by `write`. All content that is written goes
    /// through here, outside the volume's lock: a store that codes what it writes is encoded here.
    ///
    /// # Errors
    /// The first of `write`.
    pub fn write<E>(
        &self,
        from: &[u8],
        mut write: impl FnMut(Place, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.parts().try_for_each(|(place, part)| write(place, &from[part]))
    }

    /// The number of bytes in all places together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.iter().map(|place| place.extent.len).sum()
    }
}
