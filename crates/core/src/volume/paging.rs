//! Parts of the map that are read when something needs them.

use super::{Command, IoId, Purpose, Volume, io::IoOp};
use crate::medium::MediumError;
use crate::request::Buf;
use crate::store::Place;
use crate::units::{Addr, Extent};
use std::collections::HashMap;

/// What is being read.
#[derive(Debug, Default)]
pub(super) struct Paging(HashMap<IoId, Place>);

impl Volume {
    /// Whether the map for `extent` is in memory; if not, it is being read.
    pub(super) fn has_map(&mut self, extent: Extent<Addr>, out: &mut Vec<Command>) -> bool {
        let Some(place) = self.store.absent(extent) else { return true };
        if !self.paging.0.values().any(|it| *it == place) {
            let id = self.io(Purpose::Page, place, IoOp::Read, out);
            self.paging.0.insert(id, place);
        }
        false
    }

    pub(super) fn page_read(&mut self, id: IoId, result: Result<Buf, MediumError>, out: &mut Vec<Command>) {
        let place = self.paging.0.remove(&id).expect("a part of the map is read once");
        match result {
            Ok(bytes) => self.store.loaded(place, &bytes),
            Err(error) => self.latch(&format!("the map: {error}"), out),
        }
    }

    /// Has read what requests wait for.
    pub(super) fn drive_paging(&mut self, out: &mut Vec<Command>) {
        for extent in self.extents_without_map() {
            self.has_map(extent, out);
        }
    }
}
