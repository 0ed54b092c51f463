//! Histories: what happens to a disk, and when. A seed makes one; shrinking
//! takes parts of it away.

mod listing;
mod make;

use crate::content::Tag;
use crate::medium::FaultKind;
use quietus_core::media::MediumId;
use quietus_core::store::overlay::Mode;
use quietus_core::units::{Addr, Extent};

/// A disk, and what happens to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History {
    /// The seed that it was made from.
    pub seed: u64,
    /// The disk.
    pub setup: Setup,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// A disk and the machine around it. Sizes are bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    /// Of the disk; whole sectors.
    pub disk_bytes: u64,
    /// The passes that destroy content.
    pub policy: &'static str,
    /// The medium can make holes.
    pub punch: bool,
    /// See [`Config::run_bytes_max`](quietus_core::volume::Config).
    pub run_bytes_max: u64,
    /// See [`Config::batch_bytes_max`](quietus_core::volume::Config).
    pub batch_bytes_max: u64,
    /// See [`Config::idle_after_ms`](quietus_core::volume::Config).
    pub idle_after_ms: u64,
    /// See [`Config::deadline_ms`](quietus_core::volume::Config).
    pub deadline_ms: u64,
    /// See [`Config::detect_zeroes`](quietus_core::volume::Config).
    pub detect_zeroes: bool,
    /// Of each half of the journal.
    pub half_bytes: u64,
    /// Slots of the journal (a number).
    pub slots: u32,
    /// Most requests under way (a number).
    pub in_flight_max: usize,
    /// How often, of 100 turns, the caches write something back by themselves.
    pub destage_percent: u64,
    /// After a crash the disk is told of the holes in its medium.
    pub tells_holes: bool,
    /// What is on the medium at first.
    pub origin: Origin,
    /// It is an overlay that gives space back so, above a base with that content.
    pub overlay: Option<Mode>,
    /// Of that base.
    pub base_bytes: u64,
}

impl Setup {
    /// The simplest disk.
    #[must_use]
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
            overlay: None,
            base_bytes: 0,
        }
    }
}

/// What a medium holds when a disk is created on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Nothing.
    Empty,
    /// The disk's content: an image that is adopted.
    Adopted,
    /// Content that belongs to nobody, and is to be destroyed.
    Foreign,
}

/// One thing that happens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Names the request, if it is one; larger than those before.
    pub tag: Tag,
    /// So many acts of input or output are done, or told to be done, before.
    pub turns: u8,
    /// Decides chance from here to the next step.
    pub salt: u64,
    /// What happens.
    pub deed: Deed,
}

/// The kinds of things that happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// A request is sent.
    Send {
        /// What it asks for.
        ask: Ask,
        /// With which bytes.
        extent: Extent<Addr>,
        /// With FUA.
        fua: bool,
    },
    /// Time passes.
    Wait {
        /// How much.
        ms: u64,
    },
    /// What is queued is due.
    ShredNow,
    /// Nothing more is asked until the disk has met all obligations.
    Drain,
    /// The server stops cleanly and starts again.
    Restart,
    /// The server is killed and starts again.
    Kill,
    /// The power is cut.
    PowerCut {
        /// And cut again after so many changes by the start after it.
        again_after: Option<u32>,
    },
    /// The host of an overlay has no space left.
    Full,
    /// The host has space again.
    Room,
    /// An act of input or output will fail.
    Fault {
        /// On which medium.
        target: MediumId,
        /// Of which kind.
        kind: FaultKind,
        /// After so many others of this kind.
        after: u32,
    },
}

/// What is asked for; [`Op`](quietus_core::request::Op) without the payload,
/// which follows from the tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Read.
    Read,
    /// Write tagged content.
    Write,
    /// Write zeros, as a payload.
    WriteZeros,
    /// TRIM.
    Trim,
    /// WRITE_ZEROES.
    Zero {
        /// NO_HOLE.
        no_hole: bool,
        /// FAST_ZERO.
        fast: bool,
    },
    /// The direct call.
    Purge,
    /// A conservative overwrite.
    Scour,
    /// Bring into the cache.
    Cache,
    /// Flush.
    Flush,
}
