//! I/O operations as data: decided here, and carried out elsewhere.

use crate::base::buf::Buf;
use crate::base::units::{Extent, Pos};
use crate::erase::policy::{Pattern, Scratch, Seed};
use crate::media::cipher::Keys;
use crate::media::medium::Keep;
use crate::media::places::Places;
use crate::media::sealing::{ContentError, Sealing};
use crate::media::{Media, MediumId};
use std::collections::BTreeMap;

/// The number of one I/O operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IoId(pub u64);

/// One I/O operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Io {
    /// The number, for [`Event::Completed`](crate::volume::Event::Completed).
    pub id: IoId,
    /// The places to work on, in order.
    pub at: Places,
    /// The operation.
    pub op: IoOp,
}

/// An operation on media.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IoOp {
    /// Read all bytes of the places.
    Read,
    /// Write bytes.
    Write {
        /// The bytes, as many as the places have.
        data: Buf,
        /// Make them durable before the operation ends.
        durable: bool,
    },
    /// Write a pass.
    Fill {
        /// The content of the pass.
        pattern: Pattern,
        /// The seed of a random pattern.
        seed: Seed,
    },
    /// Have each medium destroy what lies there, or only what lay there before, and make all else durable.
    Erase(Keep),
    /// Make everything durable that was written to these media before.
    Sync,
    /// Give the space back.
    Punch,
    /// Make zeros, and keep the space.
    Zero,
    /// Take space where there is none.
    Reserve,
    /// Bring into the host's cache.
    Prefetch,
    /// Shorten the medium: it ends where the place begins.
    Shrink,
}

/// The result of an operation that succeeded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Performed {
    /// The bytes of a read, or the payload of a write, which may be ciphertext by now; otherwise empty.
    pub buf: Buf,
    /// How a write sealed each block whose place is sealed, in order.
    pub sealings: Vec<Sealing>,
}

impl From<Buf> for Performed {
    fn from(buf: Buf) -> Self {
        Self { buf, sealings: Vec::new() }
    }
}

impl Io {
    /// Carries the operation out. `keys` are those of a disk whose content is ciphertext; `scratch` is memory to make
    /// a pass in.
    ///
    /// # Errors
    /// The medium's; sealed content that cannot be opened.
    pub fn perform(
        self,
        media: &Media<'_>,
        keys: Option<Keys<'_>>,
        scratch: &mut Scratch,
    ) -> (IoId, Result<Performed, ContentError>) {
        (self.id, perform(media, &self.at, self.op, keys, scratch))
    }
}

fn perform(
    media: &Media<'_>,
    at: &Places,
    op: IoOp,
    keys: Option<Keys<'_>>,
    scratch: &mut Scratch,
) -> Result<Performed, ContentError> {
    // A medium that is only read is never changed, whatever the operation.
    let changes = !matches!(op, IoOp::Read | IoOp::Prefetch);
    let there = at.parts().filter(|(place, _)| !changes || place.on.is_changed());
    let mut there = there.filter_map(|(place, part)| Some((media.get(place.on)?, place.extent, part)));
    match op {
        IoOp::Read => {
            let mut buf = vec![0; at.bytes() as usize];
            at.read(&mut buf, keys, |place, into| match media.get(place.on) {
                Some(medium) => medium.read_vectored(place.extent.start, into).map_err(ContentError::from),
                None => Ok(()),
            })?;
            return Ok(Buf::from(buf).into());
        }
        IoOp::Write { data: mut buf, durable } => {
            let sealings = at.write(&mut buf, keys, |place, from| {
                match media.get(place.on).filter(|_| place.on.is_changed()) {
                    Some(medium) => medium.write(place.extent.start, from, durable),
                    None => Ok(()),
                }
            })?;
            return Ok(Performed { buf, sealings });
        }
        IoOp::Fill { pattern, seed } => {
            let pass = scratch.pass(&pattern, seed, at.bytes() as usize);
            there.try_for_each(|(medium, it, part)| medium.overwrite(it.start, &pass[part]))?;
        }
        IoOp::Erase(keep) => {
            let mut on = BTreeMap::<MediumId, Vec<Extent<Pos>>>::new();
            let changed = at.parts().filter(|(place, _)| place.on.is_changed());
            changed.for_each(|(place, _)| on.entry(place.on).or_default().push(place.extent));
            for (id, extents) in on {
                media.get(id).map_or(Ok(()), |medium| medium.erase(&extents, keep))?;
            }
        }
        IoOp::Sync => there.try_for_each(|(medium, ..)| medium.sync())?,
        IoOp::Punch => there.try_for_each(|(medium, it, _)| medium.punch(it))?,
        IoOp::Zero => there.try_for_each(|(medium, it, _)| medium.zero(it))?,
        IoOp::Reserve => there.try_for_each(|(medium, it, _)| medium.reserve(it))?,
        IoOp::Prefetch => there.for_each(|(medium, it, _)| medium.prefetch(it)),
        IoOp::Shrink => there.try_for_each(|(medium, it, _)| medium.shrink(it.start.0))?,
    }
    Ok(Performed::default())
}
