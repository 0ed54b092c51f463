//! Where a step of an erase task does its work.

use crate::base::units::{Addr, Extent};
use crate::media::MediumId;
use crate::media::place::Place;

/// Where a step of an erase task does its work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::volume) enum Site {
    /// Where the store keeps these bytes of the disk.
    Run(Extent<Addr>),
    /// A place on a medium.
    Place(Place),
}

impl Site {
    /// All of a medium.
    pub(in crate::volume) fn all_of(on: MediumId) -> Self {
        Self::Place(Place::all_of(on))
    }

    /// The medium of these places, which is one.
    pub(in crate::volume) fn medium_of(places: &[Place]) -> Self {
        let on = |place: Option<&Place>| place.map_or(MediumId::Data, |place| place.on);
        assert!(on(places.first()) == on(places.last()), "one sync covers all that a task destroys");
        Self::all_of(on(places.first()))
    }

    /// The place, of a site that is one.
    pub(in crate::volume) fn place(self) -> Option<Place> {
        match self {
            Self::Place(place) => Some(place),
            Self::Run(_) => None,
        }
    }

    pub(in crate::volume) fn runs(runs: &[Extent<Addr>]) -> Vec<Self> {
        runs.iter().copied().map(Self::Run).collect()
    }

    /// Extents of the data medium.
    pub(in crate::volume) fn data(
        extents: impl IntoIterator<Item = Extent<crate::base::units::Pos>>,
    ) -> Vec<Self> {
        extents.into_iter().map(|extent| Self::Place(Place { on: MediumId::Data, extent })).collect()
    }
}
