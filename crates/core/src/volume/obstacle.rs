//! What a request waits for.

use crate::media::place::Place;

/// Why a request cannot begin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::volume) enum Obstacle {
    /// An earlier request changes the same bytes.
    Order,
    /// The erase task under way works on the same bytes.
    Task,
    /// An obligation has to be completed first.
    Ledger,
    /// The ledger has no room for the obligation that has to be completed first.
    Room,
    /// This part of the map is not in memory.
    Page(Place),
    /// This part of the map has no space on the host yet.
    Space(Place),
    /// The medium is being shortened, or the log of stubs is full: nothing gets a place meanwhile.
    Closed,
}

impl Obstacle {
    /// Whether an erase task has to end first.
    pub(in crate::volume) fn needs_task(self) -> bool {
        matches!(self, Self::Task | Self::Ledger | Self::Room)
    }
}
