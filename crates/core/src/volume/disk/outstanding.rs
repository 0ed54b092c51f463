//! The I/O operations under way, and the purpose of each.

use crate::base::numbers::Numbered;
use crate::volume::IoId;
use crate::volume::obstacle::Obstacle;
use crate::volume::origin::Origin;
use std::collections::HashSet;

/// The purpose of an [`Io`](crate::volume::Io).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::volume) enum Purpose {
    Request(Origin),
    Commit,
    /// This part of a step of the erase task under way.
    Task(usize),
    /// A checkpoint.
    Checkpoint,
    /// This part of the map is read, or gets space.
    Page(Obstacle),
    /// The notes of what was written over dead bytes are made invalid.
    InvalidateNotes,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(in crate::volume) struct Outstanding {
    next: u64,
    purposes: Numbered<IoId, Purpose>,
    /// The parts of the map that are being read, or are getting space.
    pages: HashSet<Obstacle>,
}

impl Outstanding {
    /// Begins an I/O operation for `purpose`.
    pub(in crate::volume) fn begin(&mut self, purpose: Purpose) -> IoId {
        let id = IoId(self.next);
        self.next += 1;
        assert!(self.purposes.insert(id, purpose).is_none(), "each operation has a number of its own");
        if let Purpose::Page(page) = purpose {
            let is_map = matches!(page, Obstacle::Page(_) | Obstacle::Space(_));
            assert!(is_map, "an I/O operation removes only what the map lacks");
            assert!(self.pages.insert(page), "one I/O operation at a time removes an obstacle");
        }
        id
    }

    /// Ends an I/O operation; returns its purpose.
    pub(in crate::volume) fn end(&mut self, id: IoId) -> Purpose {
        let purpose = self.purposes.remove(&id).expect("each operation completes once");
        if let Purpose::Page(page) = purpose {
            assert!(self.pages.remove(&page), "an obstacle was being removed until its I/O operation ended");
        }
        purpose
    }

    /// Whether `page` is being removed as an obstacle.
    pub(in crate::volume) fn removes(&self, page: Obstacle) -> bool {
        self.pages.contains(&page)
    }

    pub(in crate::volume) fn is_empty(&self) -> bool {
        self.purposes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::Extent;
    use crate::media::MediumId;
    use crate::media::place::Place;

    #[test]
    fn a_page_is_being_read_until_its_read_has_ended() {
        let mut outstanding = Outstanding::default();
        let place = |start| Obstacle::Page(Place { on: MediumId::Map, extent: Extent::new(start, 4096) });
        let (page, commit) = (outstanding.begin(Purpose::Page(place(0))), outstanding.begin(Purpose::Commit));
        assert!(page != commit && outstanding.removes(place(0)) && !outstanding.removes(place(4096)));
        assert_eq!(outstanding.end(page), Purpose::Page(place(0)));
        assert!(!outstanding.removes(place(0)) && !outstanding.is_empty());
        assert_eq!(outstanding.end(commit), Purpose::Commit);
        assert!(outstanding.is_empty());
    }
}
