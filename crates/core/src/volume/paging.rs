//! Parts of the map that are read, or given space on the host, when something needs them.

use super::waiting::Obstacle;
use super::{Command, IoId, Purpose, Volume, io::IoOp};
use crate::medium::{MediumError, MediumErrorKind};
use crate::request::Buf;
use crate::units::{Addr, Extent};
use std::collections::{HashMap, HashSet};

/// What is under way, by what it is to remove.
#[derive(Debug, Default)]
pub(super) struct Paging {
    ios: HashMap<IoId, Obstacle>,
    under_way: HashSet<Obstacle>,
}

impl Volume {
    /// Whether the map for `extent` is in memory; if not, it is being read.
    pub(super) fn has_map(&mut self, extent: Extent<Addr>, out: &mut Vec<Command>) -> bool {
        let Some(place) = self.store.absent(extent) else { return true };
        self.fetch_for(Obstacle::Page(place), out);
        false
    }

    /// Reads the part of the map that a request waits for, or takes space for it, if that
    /// is its `obstacle`.
    pub(super) fn fetch_for(&mut self, obstacle: Obstacle, out: &mut Vec<Command>) {
        let (place, op) = match obstacle {
            Obstacle::Page(place) => (place, IoOp::Read),
            Obstacle::Space(place) => (place, IoOp::Reserve),
            _ => return,
        };
        if self.paging.under_way.insert(obstacle) {
            let id = self.io(Purpose::Page, place, op, out);
            self.paging.ios.insert(id, obstacle);
        }
    }

    pub(super) fn page_done(&mut self, id: IoId, result: Result<Buf, MediumError>, out: &mut Vec<Command>) {
        let page = self.paging.ios.remove(&id).expect("an act on a part of the map ends once");
        self.paging.under_way.remove(&page);
        match (page, result) {
            (Obstacle::Space(_), Err(error)) if error.kind == MediumErrorKind::NoSpace => {
                for waiting in self.waiting.take_behind(page) {
                    self.refuse_waiting(&waiting, &error, out);
                }
                return;
            }
            (_, Err(error)) => self.latch(&format!("the map: {error}"), out),
            (Obstacle::Space(place), Ok(_)) => self.store.reserved(place),
            (Obstacle::Page(place), Ok(bytes)) => self.store.loaded(place, &bytes),
            _ => {}
        }
        self.waiting.page_ready(page);
    }
}
