//! Input and output as data: what to do with a medium, decided here and done
//! elsewhere.

use crate::medium::{Medium, MediumError};
use crate::policy::{Pattern, Scratch, Seed};
use crate::request::Buf;
use crate::units::{Extent, Pos};

/// Names one act of input or output.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IoId(pub u64);

/// Which medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The one that holds the disk's content.
    Data,
    /// The one that holds the journal.
    Journal,
}

/// One act of input or output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Io {
    /// Its name, for the event that tells of its end.
    pub id: IoId,
    /// Which medium.
    pub target: Target,
    /// Where; nothing for a sync.
    pub pos: Pos,
    /// What.
    pub op: IoOp,
}

/// What to do with a medium.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IoOp {
    /// Read that many bytes.
    Read {
        /// How many.
        len: u64,
    },
    /// Write these.
    Write {
        /// They.
        data: Buf,
        /// And make them durable.
        durable: bool,
    },
    /// Write a pass.
    Fill {
        /// Over how many bytes.
        len: u64,
        /// With what.
        pattern: Pattern,
        /// For a random pattern.
        seed: Seed,
    },
    /// Make everything durable that was written before.
    Sync,
    /// Give space back.
    Punch {
        /// How many bytes.
        len: u64,
    },
    /// Make zeros, and keep the space.
    Zero {
        /// How many bytes.
        len: u64,
    },
    /// Bring into the host's cache.
    Prefetch {
        /// How many bytes.
        len: u64,
    },
}

impl Io {
    /// Does it. `scratch` is memory to make a pass in.
    ///
    /// # Errors
    /// The medium's.
    pub fn perform(
        self,
        data: &dyn Medium,
        journal: &dyn Medium,
        scratch: &mut Scratch,
    ) -> (IoId, Result<Buf, MediumError>) {
        let medium = match self.target {
            Target::Data => data,
            Target::Journal => journal,
        };
        (self.id, perform(medium, self.pos, self.op, scratch))
    }
}

fn perform(medium: &dyn Medium, pos: Pos, op: IoOp, scratch: &mut Scratch) -> Result<Buf, MediumError> {
    let extent = |len| Extent::new(pos.0, len);
    match op {
        IoOp::Read { len } => {
            let mut buf = vec![0; len as usize];
            medium.read(pos, &mut buf)?;
            return Ok(buf);
        }
        IoOp::Write { data, durable } => {
            medium.write(pos, &data, durable)?;
            return Ok(data);
        }
        IoOp::Fill { len, pattern, seed } => {
            medium.overwrite(pos, scratch.pass(&pattern, seed, len as usize))?;
        }
        IoOp::Sync => medium.sync()?,
        IoOp::Punch { len } => medium.punch(extent(len))?,
        IoOp::Zero { len } => medium.zero(extent(len))?,
        IoOp::Prefetch { len } => medium.prefetch(extent(len)),
    }
    Ok(Buf::new())
}
