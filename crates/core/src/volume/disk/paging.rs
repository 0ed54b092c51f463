//! Parts of the map are read, or given space on the host, when something needs them.

use crate::base::buf::Buf;
use crate::base::units::{Addr, Extent};
use crate::media::medium::{MediumError, MediumErrorKind};
use crate::volume::disk::Disk;
use crate::volume::obstacle::Obstacle;
use crate::volume::{Command, Purpose, Volume, io::IoOp};

impl Disk {
    /// Whether the map of `extent` is in memory. If not, begins to read it.
    pub(in crate::volume) fn has_map(&mut self, extent: Extent<Addr>, out: &mut Vec<Command>) -> bool {
        let Some(place) = self.store.missing(extent) else { return true };
        self.fetch_for(Obstacle::Page(place), out);
        false
    }

    /// Whether the map has space on the host for the death of `extent`. If not, begins to take some.
    pub(in crate::volume) fn has_map_space(&mut self, extent: Extent<Addr>, out: &mut Vec<Command>) -> bool {
        let Some(place) = self.store.lacks_space(extent, true) else { return true };
        self.fetch_for(Obstacle::Space(place), out);
        false
    }

    /// Removes `obstacle` if that is a part of the map: begins to read it, or to take space for it.
    pub(in crate::volume) fn fetch_for(&mut self, obstacle: Obstacle, out: &mut Vec<Command>) {
        let (place, op) = match obstacle {
            Obstacle::Page(place) => (place, IoOp::Read),
            Obstacle::Space(place) => (place, IoOp::Reserve),
            _ => return,
        };
        if !self.outstanding.removes(obstacle) {
            self.io(Purpose::Page(obstacle), place, op, out);
        }
    }

    /// Takes a part of the map, or its space.
    fn map_came(&mut self, obstacle: Obstacle, bytes: &[u8]) -> Result<(), String> {
        match (obstacle, self.store.mapped_mut()) {
            (Obstacle::Space(place), Some(mapped)) => mapped.reserved(place),
            (Obstacle::Page(place), Some(mapped)) => {
                assert!(bytes.len() as u64 == place.extent.len, "a page is read as a whole");
                mapped.loaded(place, bytes)?;
            }
            _ => {}
        }
        Ok(())
    }
}

impl Volume {
    /// Refuses what needs a damaged page. Nothing is written any more, and what needs other pages is read.
    fn map_damaged(&mut self, page: Obstacle, damage: &str, out: &mut Vec<Command>) {
        if !self.disk.config.read_only {
            self.disk.latch(&format!("the map: {damage}"), out);
        }
        let error = MediumError { kind: MediumErrorKind::Io, message: format!("the map: {damage}") };
        for waiting in self.requests.waiting.take_behind(page) {
            self.on_requests(out, |requests, others| requests.refuse_waiting(others, &waiting, &error));
        }
    }

    pub(in crate::volume) fn page_done(
        &mut self,
        page: Obstacle,
        result: Result<Buf, MediumError>,
        out: &mut Vec<Command>,
    ) {
        assert!(
            !self.disk.outstanding.removes(page),
            "an obstacle is dealt with once its I/O operation ended"
        );
        match (page, result) {
            (Obstacle::Space(_), Err(error)) if error.kind == MediumErrorKind::NoSpace => {
                for waiting in self.requests.waiting.take_behind(page) {
                    self.on_requests(out, |requests, others| {
                        requests.refuse_waiting(others, &waiting, &error)
                    });
                }
                return self.task_lacks_map(&error, out);
            }
            (_, Err(error)) => self.disk.latch(&format!("the map: {error}"), out),
            (_, Ok(bytes)) => {
                if let Err(damage) = self.disk.map_came(page, &bytes) {
                    self.map_damaged(page, &damage, out);
                }
            }
        }
        self.requests.waiting.page_ready(page);
    }
}
