//! Input and output as data: what to do with which media, decided here and done
//! elsewhere.

use crate::medium::{Medium, MediumError};
use crate::policy::{Pattern, Scratch, Seed};
use crate::request::Buf;
use crate::store::{Places, Target};

/// Names one act of input or output.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IoId(pub u64);

/// One act of input or output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Io {
    /// Its name, for the event that tells of its end.
    pub id: IoId,
    /// Where.
    pub at: Places,
    /// What.
    pub op: IoOp,
}

/// What to do with a medium.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IoOp {
    /// Read all bytes of the places.
    Read,
    /// Write these, as many as the places have.
    Write {
        /// They.
        data: Buf,
        /// And make them durable.
        durable: bool,
    },
    /// Write a pass.
    Fill {
        /// With what.
        pattern: Pattern,
        /// For a random pattern.
        seed: Seed,
    },
    /// Make everything durable that was written before.
    Sync,
    /// Give the space back.
    Punch,
    /// Make zeros, and keep the space.
    Zero,
    /// Take space where there is none.
    Reserve,
    /// Bring into the host's cache.
    Prefetch,
    /// Cut off the medium where the place begins.
    Shrink,
}

/// The media of a disk.
#[derive(Clone, Copy)]
pub struct Media<'a> {
    /// See [`Target::Data`].
    pub data: &'a dyn Medium,
    /// See [`Target::Journal`].
    pub journal: &'a dyn Medium,
    /// See [`Target::Map`]; none where content has a fixed place.
    pub map: Option<&'a dyn Medium>,
    /// See [`Target::Base`]; likewise.
    pub base: Option<&'a dyn Medium>,
}

impl<'a> Media<'a> {
    /// Those of a disk whose content has a fixed place.
    #[must_use]
    pub fn fixed(data: &'a dyn Medium, journal: &'a dyn Medium) -> Self {
        Self { data, journal, map: None, base: None }
    }

    fn on(&self, target: Target) -> Option<&'a dyn Medium> {
        match target {
            Target::Data => Some(self.data),
            Target::Journal => Some(self.journal),
            Target::Map => self.map,
            Target::Base => self.base,
            Target::Nowhere => None,
        }
    }
}

impl Io {
    /// Does it. `scratch` is memory to make a pass in.
    ///
    /// # Errors
    /// The medium's.
    pub fn perform(self, media: &Media<'_>, scratch: &mut Scratch) -> (IoId, Result<Buf, MediumError>) {
        (self.id, perform(media, &self.at, self.op, scratch))
    }
}

fn perform(media: &Media<'_>, at: &Places, op: IoOp, scratch: &mut Scratch) -> Result<Buf, MediumError> {
    // The base is never changed, whatever is asked for.
    let changes = !matches!(op, IoOp::Read | IoOp::Prefetch);
    let there = at.parts().filter(|(place, _)| !(changes && place.on == Target::Base));
    let mut there = there.filter_map(|(place, part)| Some((media.on(place.on)?, place.extent, part)));
    match op {
        IoOp::Read => {
            let mut buf = vec![0; at.bytes() as usize];
            there.try_for_each(|(medium, it, part)| medium.read(it.start, &mut buf[part]))?;
            return Ok(buf);
        }
        IoOp::Write { data, durable } => {
            there.try_for_each(|(medium, it, part)| medium.write(it.start, &data[part], durable))?;
            return Ok(data);
        }
        IoOp::Fill { pattern, seed } => {
            let pass = scratch.pass(&pattern, seed, at.bytes() as usize);
            there.try_for_each(|(medium, it, part)| medium.overwrite(it.start, &pass[part]))?;
        }
        IoOp::Sync => there.try_for_each(|(medium, ..)| medium.sync())?,
        IoOp::Punch => there.try_for_each(|(medium, it, _)| medium.punch(it))?,
        IoOp::Zero => there.try_for_each(|(medium, it, _)| medium.zero(it))?,
        IoOp::Reserve => there.try_for_each(|(medium, it, _)| medium.reserve(it))?,
        IoOp::Prefetch => there.for_each(|(medium, it, _)| medium.prefetch(it)),
        IoOp::Shrink => there.try_for_each(|(medium, it, _)| medium.shrink(it.start.0))?,
    }
    Ok(Buf::new())
}
