//! The media of a simulated disk, together.

use crate::machine::medium::{Host, Power, SimMedium};
use quietus_core::erase::policy::Scratch;
use quietus_core::media::cipher::Keys;
use quietus_core::media::medium::MediumError;
use quietus_core::media::{Media, MediumId};
use quietus_core::volume::{Io, IoOp};

#[derive(Debug)]
pub struct SimMedia {
    pub data: SimMedium,
    pub journal: SimMedium,
    /// Media that not every disk has.
    pub others: Vec<(MediumId, SimMedium)>,
    pub power: Power,
    /// Host of an overlay's media, but for the base.
    pub host: Host,
}

impl SimMedia {
    /// The media in the form that a volume wants.
    pub fn get(&self) -> Media<'_> {
        let media = Media::new(&self.data, &self.journal);
        self.others.iter().fold(media, |media, (id, medium)| media.with(*id, medium))
    }

    /// Medium `id`; the data where the disk has no such medium.
    pub fn on(&self, id: MediumId) -> &SimMedium {
        let other = self.others.iter().find(|(other, _)| *other == id);
        match id {
            MediumId::Journal => &self.journal,
            _ => other.map_or(&self.data, |(_, medium)| medium),
        }
    }

    pub fn all(&self) -> impl Iterator<Item = &SimMedium> {
        [&self.data, &self.journal].into_iter().chain(self.others.iter().map(|(_, medium)| medium))
    }

    /// Cuts the power, which comes back.
    pub fn cut_power(&self) {
        self.all().for_each(SimMedium::cut_power);
        self.power.restore();
    }

    /// Leaves `io` torn, as the power or the process went: it may be done in part.
    pub fn tear(&self, mut io: Io, keys: Option<Keys<'_>>, scratch: &mut Scratch) {
        let each = |act: &dyn Fn(&SimMedium, quietus_core::base::units::Pos, std::ops::Range<usize>)| {
            for (place, part) in io.at.parts().filter(|(place, _)| place.on.is_changed()) {
                act(self.on(place.on), place.extent.start, part);
            }
        };
        match &mut io.op {
            IoOp::Write { data, .. } => {
                let torn = io.at.write::<MediumError>(data, keys, |place, part| {
                    if place.on.is_changed() {
                        self.on(place.on).tear(place.extent.start, part);
                    }
                    Ok(())
                });
                assert!(torn.is_ok(), "tearing never fails");
            }
            IoOp::Fill { pattern, seed } => {
                let mut bytes = vec![0; io.at.bytes() as usize];
                pattern.fill(*seed, &mut bytes);
                each(&|medium, pos, part| medium.tear(pos, &bytes[part]));
            }
            IoOp::Sync => each(&|medium, _, _| medium.destage(8)),
            IoOp::Erase(_) | IoOp::Punch | IoOp::Zero | IoOp::Reserve | IoOp::Shrink => {
                drop(io.perform(&self.get(), keys, scratch));
            }
            IoOp::Read | IoOp::Prefetch => {}
        }
    }
}
