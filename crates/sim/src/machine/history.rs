//! Histories: the events of a disk, in order. A seed makes one; shrinking takes parts of it away.

mod make;

pub use make::BUSY_TIMES;

use crate::machine::content::Tag;
use crate::machine::medium::FaultKind;
use quietus_core::base::units::{Addr, Extent};
use quietus_core::media::MediumId;
use quietus_core::store::overlay::Mode;
use quietus_seal::Seal;
use std::fmt;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History {
    pub seed: u64,
    pub setup: Setup,
    pub steps: Vec<Step>,
}

/// A disk and the machine around it. Sizes are bytes. Fields that [`Config`](quietus_core::volume::Config) has too mean
/// the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    /// Size of the disk; whole sectors.
    pub disk_bytes: u64,
    pub policy: &'static str,
    /// The medium can make holes.
    pub punch: bool,
    pub run_bytes_max: u64,
    pub batch_bytes_max: u64,
    pub idle_after_ms: u64,
    pub deadline_ms: u64,
    pub detect_zeroes: bool,
    /// Size of each half of the journal.
    pub half_bytes: u64,
    /// Slots of the journal (a number).
    pub slots: u32,
    /// Most requests under way (a number).
    pub in_flight_max: usize,
    /// How often, of 100 turns, the caches write something back by themselves.
    pub destage_percent: u64,
    /// After a crash the disk is told of the holes in its medium.
    pub tells_holes: bool,
    pub origin: Origin,
    pub store: Store,
    /// Some places of the media will not be erased.
    pub remains: bool,
    /// The medium of the content leaves what is written over elsewhere, until it erases that.
    pub erases: bool,
    /// Size of an overlay's base, which has the initial content.
    pub base_bytes: u64,
}

impl Setup {
    /// Whether content lies where the guest put it.
    pub fn is_in_place(&self) -> bool {
        self.store == Store::InPlace
    }

    pub fn keeps_versions(&self) -> bool {
        matches!(self.store, Store::Versions { .. })
    }

    /// Whether all new content goes where nothing lies below.
    pub fn has_nothing_below(&self) -> bool {
        self.keeps_versions() || self.store == Store::Spent
    }

    /// The simplest disk.
    pub fn plain(disk_bytes: u64) -> Self {
        Self {
            disk_bytes,
            policy: "clear",
            punch: false,
            run_bytes_max: 65536,
            batch_bytes_max: 1 << 20,
            idle_after_ms: 250,
            deadline_ms: 600_000,
            detect_zeroes: false,
            half_bytes: 16384,
            slots: 8,
            in_flight_max: 1,
            destage_percent: 0,
            tells_holes: false,
            origin: Origin::Empty,
            store: Store::InPlace,
            remains: false,
            erases: false,
            base_bytes: 0,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Store {
    /// In place: where the guest put it.
    InPlace,
    /// Slots above a base.
    Overlay(Mode),
    /// Slots, sealed; closed epochs are kept.
    Versions {
        seal: Seal,
        /// Size of each half of the log of stubs.
        log_bytes: u64,
    },
    /// Slots that are written once, and erased in units: see [`crate::spent`].
    Spent,
    /// In place, under keys that content dies with.
    Sealed,
}

/// Initial content of a medium on which a disk is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    Empty,
    /// The disk's content: an image that is adopted.
    Adopted,
    /// Content of no owner, which is to be destroyed.
    Foreign,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Number of the request, if it is one; larger than those before.
    pub tag: Tag,
    /// Acts of input or output that are done, or reported, before.
    pub turns: u8,
    /// Seed of chance from here to the next step.
    pub salt: u64,
    pub action: Action,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    Send {
        ask: Ask,
        extent: Extent<Addr>,
        fua: bool,
    },
    Wait {
        ms: u64,
    },
    /// Queued content becomes due.
    ShredNow,
    /// The guest sends no request until the disk has completed all obligations.
    Drain,
    /// The server stops cleanly and starts again.
    Restart,
    /// The same, and what is owed is left to the next start.
    Halt,
    Kill,
    PowerCut {
        /// Changes by the next start after which the power is cut again.
        again_after: Option<u32>,
    },
    /// The host of an overlay has no space left.
    Full,
    Room,
    /// An act of input or output will fail.
    Fault {
        target: MediumId,
        kind: FaultKind,
        /// Number of acts of this kind before it.
        after: u32,
    },
    /// The root takes no write or pass for a while.
    Busy {
        /// Number of writes and passes before that.
        after: u32,
        /// Number of writes and passes that it refuses.
        times: u32,
    },
}

/// Request of a guest; [`Op`](quietus_core::request::Op) without the payload, which follows from
/// the tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    Read,
    Write,
    /// Write zeros, as a payload.
    WriteZeros,
    Trim,
    Zero {
        no_hole: bool,
        fast: bool,
    },
    /// The direct call.
    Purge,
    ConservativeOverwrite,
    Cache,
    Flush,
    CloseEpoch,
    /// Read what an epoch showed, counted back from the open one.
    ReadPast {
        back: u8,
    },
    /// List the epochs from this one on.
    ListEpochs {
        back: u8,
    },
    /// Forget epochs up to this one.
    Forget {
        back: u8,
        count: u8,
    },
    /// Forget the blocks in all epochs that have closed.
    ForgetBlocks,
    /// Forget what epochs up to this one show of the blocks.
    ForgetShown {
        back: u8,
        count: u8,
    },
    /// The same, in several parts that are forgotten as one.
    ForgetSet {
        back: u8,
        count: u8,
    },
}

impl Ask {
    /// Whether the request is about epochs, which some stores keep.
    pub fn is_about_epochs(self) -> bool {
        matches!(
            self,
            Self::CloseEpoch
                | Self::ReadPast { .. }
                | Self::ListEpochs { .. }
                | Self::Forget { .. }
                | Self::ForgetBlocks
                | Self::ForgetShown { .. }
                | Self::ForgetSet { .. }
        )
    }

    /// Whether the request forgets some blocks.
    pub fn forgets_blocks(self) -> bool {
        self == Self::ForgetBlocks || self.forgets_shown()
    }

    /// Whether the request forgets what single epochs show of some blocks.
    pub fn forgets_shown(self) -> bool {
        matches!(self, Self::ForgetShown { .. } | Self::ForgetSet { .. })
    }

    /// Whether the request reads, and nothing else.
    pub fn is_read(self) -> bool {
        matches!(self, Self::Read | Self::ReadPast { .. } | Self::ListEpochs { .. })
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "// seed {}", self.seed)?;
        writeln!(f, "let setup = {:#?};", self.setup)?;
        writeln!(f, "let steps = [")?;
        self.steps.iter().try_for_each(|step| writeln!(f, "    {step},"))?;
        write!(f, "];")
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after({:3}, {:#018x}, ", self.turns, self.salt)?;
        match self.action {
            Action::Send { ask, extent, fua } => {
                let fua = if fua { ".fua()" } else { "" };
                write!(f, "{:?}.sends({ask:?}, {}, {}){fua}", self.tag, extent.start.0, extent.len)?;
            }
            action => write!(f, "{action:?}")?,
        }
        write!(f, ")")
    }
}
