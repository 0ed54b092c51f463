//! The media of a disk, as a table by name.

pub mod cipher;
pub mod medium;
#[cfg(test)]
pub(crate) mod memory;
pub mod place;
pub mod places;
pub mod sealing;
use crate::media::medium::Medium;

/// The name of a medium of a disk. A new medium is a line here, and one where the disk is opened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MediumId {
    /// The disk's content.
    Data,
    /// The journal.
    Journal,
    /// The map, which says where content lies, if no fixed rule does.
    Map,
    /// The stubs of versions: what makes their content readable.
    Stubs,
    /// The root: the keys without which stubs cannot be read.
    Root,
    /// The image that shows through where the disk was not changed; only read.
    Base,
    /// No medium, and the last name: reads as zeros, and discards all writes.
    Nowhere,
}

impl MediumId {
    /// The number of names that a table has an entry for.
    const COUNT: usize = Self::Nowhere as usize;

    /// Whether the disk ever changes this medium.
    #[must_use]
    pub fn is_changed(self) -> bool {
        !matches!(self, Self::Base | Self::Nowhere)
    }
}

/// A value for each medium that a disk has: always one for [`MediumId::Data`] and one for
/// [`MediumId::Journal`].
#[derive(Clone, Copy, Debug)]
pub struct MediaTable<T>([Option<T>; MediumId::COUNT]);

/// The media themselves.
pub type Media<'a> = MediaTable<&'a dyn Medium>;

impl<T> MediaTable<T> {
    /// The values for the media that every disk has.
    #[must_use]
    pub fn new(data: T, journal: T) -> Self {
        Self([const { None }; MediumId::COUNT]).with(MediumId::Data, data).with(MediumId::Journal, journal)
    }

    /// The same table with `value` for `id`.
    ///
    /// # Panics
    /// For [`MediumId::Nowhere`], which is no medium.
    #[must_use]
    pub fn with(mut self, id: MediumId, value: T) -> Self {
        assert!(id != MediumId::Nowhere, "no medium is nowhere");
        self.0[id as usize] = Some(value);
        self
    }

    /// The value for `id`, if the disk has that medium.
    pub fn get(&self, id: MediumId) -> Option<&T> {
        self.0.get(id as usize)?.as_ref()
    }

    /// The value for [`MediumId::Data`].
    pub fn data(&self) -> &T {
        self.get(MediumId::Data).expect("a table is made with a value for the data")
    }

    /// The value for [`MediumId::Journal`].
    pub fn journal(&self) -> &T {
        self.get(MediumId::Journal).expect("a table is made with a value for the journal")
    }

    /// The values for all media that the disk has.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }

    /// A table of the results of `view` for each value.
    pub fn view<'a, U>(&'a self, view: impl Fn(&'a T) -> U) -> MediaTable<U> {
        MediaTable(self.0.each_ref().map(|value| value.as_ref().map(&view)))
    }
}
