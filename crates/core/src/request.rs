//! The requests of front ends to a disk, and the replies.

use crate::base::buf::Buf;
use crate::base::parts::Parts;
use crate::base::units::{Addr, Block, Epoch, EpochRange, Extent, Pos, Scope, Session, Slot};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The number of a request, chosen by the caller, unique among the requests under way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

/// Most epochs in one [`Reply::Epochs`].
pub const EPOCHS_MAX: usize = 256;

/// A state of the disk that others are compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AsOf {
    /// Before the first epoch: all zeros.
    Beginning,
    /// The end of a kept epoch.
    End(Epoch),
    /// The current state.
    Now,
}

/// Where two states differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compared {
    /// The address up to which the states were compared.
    pub end: u64,
    /// The runs before `end` whose blocks differ, in order.
    pub differing: Vec<Extent<Addr>>,
}

/// A kept epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptEpoch {
    /// The number.
    pub epoch: Epoch,
    /// When it closed, in milliseconds since 1970.
    pub closed_ms: u64,
    /// Bytes in blocks that were written or freed in it, and were not as before when it closed.
    pub changed_bytes: u64,
}

/// A question about epochs, stubs or versions, for the owner of the disk. Nothing changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Question {
    /// Which epochs are kept, from this one on: [`Reply::Epochs`].
    Epochs(Epoch),
    /// The same of the kept epochs that still show content which has died since and was not plain, or may: after a crash of the
    /// server, all that had closed before.
    ShowingDead(Epoch),
    /// The amount that a forget would destroy. [`Reply::Weighed`] has the next state of the count: ask with it again until it is
    /// complete.
    Weigh(Weighing),
    /// Which of the stubs in these bytes of the stub medium, whole sectors that begin there, are needed:
    /// [`Reply::Judged`].
    Stubs(Pos, Vec<u8>),
    /// The same of the cells in these bytes of the root, whole sectors.
    Cells(Pos, Vec<u8>),
    /// Whether this page of the index, as it lies there on its medium, is whole: [`Reply::Page`].
    Page(Pos, Vec<u8>),
    /// Which kept epochs change some blocks: [`Reply::Changes`].
    Lives(Lives),
    /// The versions in the order of the index, from this block and epoch on: [`Reply::Versions`].
    Versions(Block, Epoch),
    /// The first bytes from this address on that the epoch does not show any more: [`Reply::Gap`].
    FirstGap(Epoch, u64),
}

/// A question about the lives of versions: in which epochs they begin and end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lives {
    /// The first block, and an epoch before which its versions do not count. [`Changes::next`] goes on.
    pub at: (Block, Epoch),
    /// The block behind the last one.
    pub end: Block,
    /// Changes in this epoch and before do not count.
    pub since: Epoch,
}

/// A kept epoch that shows some blocks otherwise than the one before, as the index says it: a block that got the same bytes again
/// has changed, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ChangingEpoch {
    /// The number.
    pub epoch: Epoch,
    /// When it closed, in milliseconds since 1970.
    pub closed_ms: u64,
    /// The kept epoch before it; 0 if there is none.
    pub before: Epoch,
}

/// The kept epochs that change some blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changes {
    /// The epochs, in order. Of several blocks, each reply has some epochs from the first to the last.
    pub epochs: Vec<ChangingEpoch>,
    /// Where to go on; `None` at the end.
    pub next: Option<(Block, Epoch)>,
}

/// What was found of stubs, or of cells.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Judged {
    /// The slot of each stub whose version an epoch shows; the first slot under each cell that is in use.
    pub live: Vec<Slot>,
    /// How many stubs, or cells, are still to be destroyed.
    pub owed: u64,
    /// The sessions in which the stubs were sealed whose versions an epoch shows, in order.
    pub sessions: Vec<Session>,
    /// Where stubs or cells lie that nothing names; or a sector that is damaged.
    pub residue: Vec<Pos>,
}

/// Versions in the order of the index.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Listed {
    /// The versions: the block, the epoch that wrote it, and where the content lies; nowhere if it was freed then, or if this version was
    /// forgotten.
    pub versions: Vec<(Block, Epoch, Option<Slot>)>,
    /// Where to go on; `None` at the end.
    pub next: Option<(Block, Epoch)>,
}

/// One request of a front end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The operation.
    pub op: Op,
    /// The bytes of the disk; empty for those of the [whole disk](Op::is_of_whole_disk).
    pub extent: Extent<Addr>,
    /// Reply only when the effect is durable (NBD's FUA).
    pub fua: bool,
}

/// The operation of a [`Request`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Read the bytes.
    Read,
    /// Read the bytes for the owner of the disk, who copies it: the guest is as idle
    /// as before, and has not seen them.
    Copy,
    /// Write these bytes, as many as the extent has.
    Write(Buf),
    /// The bytes are dead (TRIM). They read as zeros from now on.
    Trim,
    /// The bytes are dead and are to read as zeros.
    Zero {
        /// Keep the space allocated (NBD's NO_HOLE).
        no_hole: bool,
        /// Refuse with [`Refusal::NotSupported`] rather than be slow.
        fast: bool,
    },
    /// Bring the bytes into the cache.
    Cache,
    /// Make every write that was replied to durable.
    Flush,
    /// The owner of the disk declares the bytes dead (the direct call).
    Purge,
    /// Read the bytes for the disk's own watcher, in order with writes.
    ReadForInference,
    /// Destroy what lies below the bytes' present content, and keep that
    /// (a conservative overwrite, "Life or Death at Block-Level", section 7.2.1).
    ConservativeOverwrite,
    /// Read the bytes as the disk had them at the end of this epoch, for the owner of the disk.
    ReadPast(Epoch),
    /// Tell where two states of the disk differ, as the index says it, for the owner of the disk: blocks that were
    /// written in between differ, also if they got the same bytes again. [`Reply::Compared`] may end before the extent does, but
    /// not at its start.
    Compare([AsOf; 2]),
    /// Close the open epoch: it has all changes that arrived before this request, and none that arrives later. While
    /// another close is under way, the end of that one counts, not the arrival of the request.
    /// Without such a change no epoch is made, unless that is asked for. After a crash before the reply, the epoch is kept as a whole or not at
    /// all: [`Reply::Closed`].
    CloseEpoch {
        /// The wall clock's time, in milliseconds since 1970; 0 counts as 1.
        when: u64,
        /// Make an epoch of the current state even if nothing has changed: the last one may be forgotten.
        anew: bool,
    },
    /// Answer a question about epochs, stubs or versions, for the owner of the disk.
    Ask(Question),
    /// Forget epochs that have closed: they are not shown any more, and what only they show is destroyed. Or forget
    /// blocks in all epochs up to the last of these: no epoch shows them any more, and what they had is destroyed;
    /// [refused](Refusal::Current) if the current state shows some of that. Or forget what these epochs show of some blocks, and nothing
    /// else; refused also if [another epoch](Refusal::Shared) shows some of it. The reply comes when the intent is durable.
    Forget(Scope),
    /// Forget what some epochs show of some blocks, and others of others, as one: all of it or, if the request is refused, nothing. The
    /// parts are whole blocks, with epochs that have closed, [in order](Parts::are_sorted), 1 to
    /// [`PARTS_MAX`](crate::base::parts::PARTS_MAX); each is refused as a [`Op::Forget`] of it is, and the request
    /// [also](Refusal::NoSpace) where the journal has no room for them.
    ForgetSet(Arc<Parts>),
}

/// A count of what dies with some epochs, as far as it has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weighing {
    /// The epochs that would be forgotten.
    pub epochs: EpochRange,
    /// Where the count goes on: list, run, birth and block of the last version looked at; `None` at the end.
    pub at: Option<[u64; 4]>,
    /// How many versions only these epochs show: they would die.
    pub dies: u64,
    /// How many versions the epoch before them shows, too, and no later one: they would stay.
    pub stays: u64,
    /// The kept epoch before them; 0 if there is none.
    pub before: Epoch,
    /// The kept epoch after them, which also has all else that they show; the open one if there is none.
    pub after: Epoch,
}

impl Weighing {
    /// The beginning of a count.
    #[must_use]
    pub fn new(epochs: EpochRange) -> Self {
        let none = Epoch(0);
        Self { epochs, at: Some([0; 4]), dies: 0, stays: 0, before: none, after: none }
    }
}

impl Op {
    /// Whether the operation changes the disk.
    #[must_use]
    pub fn is_write(&self) -> bool {
        let reads =
            matches!(self, Self::Read | Self::Copy | Self::ReadForInference | Self::Cache | Self::Flush);
        !reads && !matches!(self, Self::ReadPast(_) | Self::Compare(_) | Self::Ask(_))
    }

    /// Whether the operation has no bytes.
    #[must_use]
    pub fn is_of_whole_disk(&self) -> bool {
        matches!(self, Self::Flush | Self::CloseEpoch { .. } | Self::Ask(_)) || self.is_forget()
    }

    /// Whether the operation is about epochs, which some stores keep.
    #[must_use]
    pub fn is_about_epochs(&self) -> bool {
        let past = matches!(self, Self::ReadPast(_) | Self::Compare(_) | Self::Ask(_));
        past || matches!(self, Self::CloseEpoch { .. }) || self.is_forget()
    }

    /// Whether the operation forgets something in epochs.
    #[must_use]
    pub fn is_forget(&self) -> bool {
        matches!(self, Self::Forget(_) | Self::ForgetSet(_))
    }

    /// Whether the operation is the guest's: the disk is not idle then.
    #[must_use]
    pub fn is_of_guest(&self) -> bool {
        !self.is_about_epochs() && *self != Self::Copy
    }

    /// Whether the operation waits for earlier writes to the same bytes, and later writes wait for it.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        self.is_write() && !self.is_of_whole_disk() || *self == Self::ReadForInference
    }
}

/// The reply to a request that was carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// The bytes of a read, or the payload of a write, handed back to be used again; otherwise empty.
    Bytes(Buf),
    /// The last epoch that has closed; 0 if there is none.
    Closed(Epoch),
    /// Where two states differ.
    Compared(Compared),
    /// Kept epochs, at most [`EPOCHS_MAX`].
    Epochs(Vec<KeptEpoch>),
    /// A count, as far as it has come.
    Weighed(Box<Weighing>),
    /// What was found of stubs, or of cells.
    Judged(Box<Judged>),
    /// What is wrong with a page; `None` if nothing is, or if the page is not in use.
    Page(Option<String>),
    /// The epochs that change some blocks.
    Changes(Box<Changes>),
    /// Versions in the order of the index.
    Versions(Box<Listed>),
    /// The first bytes that were forgotten, if any were found; and where to go on, if there may be some.
    Gap(Option<Extent<Addr>>, Option<u64>),
}

impl Default for Reply {
    fn default() -> Self {
        Self::Bytes(Buf::new())
    }
}

impl<T: Into<Buf>> From<T> for Reply {
    fn from(bytes: T) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl Reply {
    /// The bytes; empty if the reply is of another kind.
    #[must_use]
    pub fn into_buf(self) -> Buf {
        if let Self::Bytes(buf) = self { buf } else { Buf::new() }
    }
}

/// How a request has ended.
pub type Outcome = Result<Reply, Refusal>;

/// Why a request was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The disk is served read-only.
    #[error("the disk is read-only")]
    ReadOnly,
    /// The medium failed earlier, and nothing is written since.
    #[error("the disk is read-only since a failure: {0}")]
    Latched(String),
    /// The extent is not within the disk, or the payload has another length.
    #[error("out of range: {0}")]
    Invalid(&'static str),
    /// The host has no space left.
    #[error("no space left: {0}")]
    NoSpace(String),
    /// The medium failed.
    #[error("input/output error: {0}")]
    Io(String),
    /// Sealed content cannot be opened. Other requests go on.
    #[error("{0}")]
    Unauthentic(String),
    /// The disk cannot do this, or not fast.
    #[error("not supported: {0}")]
    NotSupported(&'static str),
    /// The epoch was forgotten.
    #[error("epoch {} is forgotten and cannot be read again; `quietus versions` lists those that are kept", .0.0)]
    Forgotten(Epoch),
    /// These bytes were forgotten, in the epoch and perhaps in others.
    #[error(
        "the {} bytes at {} are forgotten in epoch {}: they cannot be read again; read around them",
        .1.len, .1.start.0, .0.0
    )]
    ForgottenBlocks(Epoch, Extent<Addr>),
    /// The current state shows content in this block that was to be forgotten in all epochs up to this one.
    #[error(
        "the current state, or an epoch that is closing, shows at {} what epoch {} shows, too: that would be destroyed; \
         purge these bytes first (`forget --current` does), or let the guest delete or overwrite them",
        .1.start.0, .0.0
    )]
    Current(Epoch, Extent<Addr>),
    /// Another epoch shows content in this block that was to be forgotten in the first one.
    #[error(
        "epoch {} shows at {} what was to be forgotten in epoch {}: that would be destroyed; name that epoch, too, or leave these bytes out",
        .1.0, .2.start.0, .0.0
    )]
    Shared(Epoch, Epoch, Extent<Addr>),
    /// The current state is being replaced by that of an epoch.
    #[error("the disk is being restored; try again when that is done")]
    Restoring,
    /// The disk is being stopped.
    #[error("the disk is shutting down")]
    ShuttingDown,
}

/// The state of some bytes of the disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Liveness {
    /// The bytes have data.
    Live,
    /// The bytes have no data: never written, or destroyed.
    Dead,
    /// The bytes are dead, read as zeros, and wait for their destruction.
    Queued,
    /// The bytes have data that may be dead content, or lie above some. All of it is destroyed before the
    /// next write.
    Suspicious,
}
