//! Parts of the map that are read when something needs them.

use super::waiting::Obstacle;
use super::{Command, IoId, Purpose, Volume, io::IoOp};
use crate::medium::MediumError;
use crate::place::Place;
use crate::request::Buf;
use crate::units::{Addr, Extent};
use std::collections::{HashMap, HashSet};

/// What is being read.
#[derive(Debug, Default)]
pub(super) struct Paging {
    reads: HashMap<IoId, Place>,
    places: HashSet<Place>,
}

impl Volume {
    /// Whether the map for `extent` is in memory; if not, it is being read.
    pub(super) fn has_map(&mut self, extent: Extent<Addr>, out: &mut Vec<Command>) -> bool {
        let Some(place) = self.store.missing(extent) else { return true };
        self.fetch(place, out);
        false
    }

    /// Reads the part of the map that a request waits for, if that is its
    /// `obstacle`.
    pub(super) fn fetch_for(&mut self, obstacle: Obstacle, out: &mut Vec<Command>) {
        if let Obstacle::Page(place) = obstacle {
            self.fetch(place, out);
        }
    }

    fn fetch(&mut self, place: Place, out: &mut Vec<Command>) {
        if self.paging.places.insert(place) {
            let id = self.io(Purpose::Page, place, IoOp::Read, out);
            self.paging.reads.insert(id, place);
        }
    }

    pub(super) fn page_read(&mut self, id: IoId, result: Result<Buf, MediumError>, out: &mut Vec<Command>) {
        let place = self.paging.reads.remove(&id).expect("a part of the map is read once");
        self.paging.places.remove(&place);
        self.waiting.page_loaded(place);
        match result {
            Ok(bytes) => self.store.loaded(place, &bytes),
            Err(error) => self.latch(&format!("the map: {error}"), out),
        }
    }
}
