//! The media of a simulated disk, together.

use crate::medium::{Host, Power, SimMedium};
use quietus_core::medium::Medium;
use quietus_core::policy::Scratch;
use quietus_core::store::Target;
use quietus_core::volume::{Io, IoOp, Media};

/// See the module's documentation.
#[derive(Debug)]
pub struct SimMedia {
    /// See [`Target::Data`].
    pub data: SimMedium,
    /// See [`Target::Journal`].
    pub journal: SimMedium,
    /// Of an overlay: its map and its base.
    pub overlay: Option<(SimMedium, SimMedium)>,
    /// What they hang on.
    pub power: Power,
    /// Where an overlay's media lie, but for the base.
    pub host: Host,
}

impl SimMedia {
    /// As a volume wants them.
    #[must_use]
    pub fn get(&self) -> Media<'_> {
        let overlay = self.overlay.as_ref();
        Media {
            map: overlay.map(|(map, _)| map as &dyn Medium),
            base: overlay.map(|(_, base)| base as &dyn Medium),
            ..Media::fixed(&self.data, &self.journal)
        }
    }

    /// The one that `target` names; the data where there is none.
    #[must_use]
    pub fn on(&self, target: Target) -> &SimMedium {
        match (target, &self.overlay) {
            (Target::Journal, _) => &self.journal,
            (Target::Map, Some((map, _))) => map,
            (Target::Base, Some((_, base))) => base,
            _ => &self.data,
        }
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &SimMedium> {
        let overlay = self.overlay.iter().flat_map(|(map, base)| [map, base]);
        [&self.data, &self.journal].into_iter().chain(overlay)
    }

    /// The power is lost, and comes back.
    pub fn cut_power(&self) {
        self.all().for_each(SimMedium::cut_power);
        self.power.restore();
    }

    /// `io` was under way when the power or the process went: it may be done in
    /// part.
    pub fn tear(&self, io: Io, scratch: &mut Scratch) {
        let each = |act: &dyn Fn(&SimMedium, quietus_core::units::Pos, std::ops::Range<usize>)| {
            let changed = |on| !matches!(on, Target::Base | Target::Nowhere);
            for (place, part) in io.at.parts().filter(|(place, _)| changed(place.on)) {
                act(self.on(place.on), place.extent.start, part);
            }
        };
        match &io.op {
            IoOp::Write { data, .. } => each(&|medium, pos, part| medium.tear(pos, &data[part])),
            IoOp::Fill { pattern, seed } => {
                let mut bytes = vec![0; io.at.bytes() as usize];
                pattern.fill(*seed, &mut bytes);
                each(&|medium, pos, part| medium.tear(pos, &bytes[part]));
            }
            IoOp::Sync => each(&|medium, _, _| medium.destage(8)),
            IoOp::Punch | IoOp::Zero | IoOp::Reserve | IoOp::Shrink => {
                drop(io.perform(&self.get(), scratch));
            }
            IoOp::Read | IoOp::Prefetch => {}
        }
    }
}
