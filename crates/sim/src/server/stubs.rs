//! The findings of a laboratory on a disk that seals its content: with all keys, a block can be opened as long as its
//! stub can be had.

use super::keys::number_of;
use super::{Made, Server, found};
use crate::content::marks;
use crate::history::Store;
use crate::violation::Violation;
use quietus_core::media::MediumId;
use quietus_core::medium::Medium;
use quietus_core::units::Extent;
use std::collections::BTreeSet;

impl Server {
    /// Whether the content of the disk is sealed, with stubs.
    pub fn has_stubs(&self) -> bool {
        matches!(self.setup.store, Store::Versions { seal, .. } if seal.stub_bytes() > 0)
    }

    /// The sealings that could be opened: their stubs can be read, or lack passes.
    pub fn openable(&self) -> Vec<(u32, Made)> {
        let stubs = self.media.on(MediumId::Stubs);
        let traces =
            |it: &crate::remanence::Remains| it.iter().filter_map(|(_, it)| number_of(it.tag)).collect();
        let mut numbers: BTreeSet<u32> = stubs.inspect(traces);
        let readable = |bytes: &[u8]| numbers.extend(marks(bytes).filter_map(|it| number_of(it.tag)));
        stubs.peek(Extent::new(0, stubs.size()), readable);
        self.keys.made(&numbers)
    }

    /// The numbers of the sealings that were opened since this was last called.
    pub fn take_opened(&self) -> BTreeSet<u32> {
        self.keys.take_opened()
    }

    /// Checks that nothing lies where it could not be destroyed: stubs on the medium of stubs, and content nowhere but
    /// sealed.
    pub(super) fn judge_sealed(&self) -> Result<(), Violation> {
        for id in [MediumId::Data, MediumId::Map, MediumId::Journal] {
            if id == MediumId::Data && !self.has_stubs() {
                continue;
            }
            let trace = self.media.on(id).inspect(|it| it.iter().next().map(|(_, trace)| trace.clone()));
            if let Some(trace) = trace {
                return Err(found(format!("all obligations are completed, {trace:?} on the medium {id:?}")));
            }
        }
        Ok(())
    }
}
