//! What is asked of a vault's owner. Answers are values in postcard's form.

use crate::vault::record::OwedForget;
use crate::vault::sanitize::Sanitize;
use quietus_vault::catalog::Layout;
use quietus_vault::vault::Status;
use quietus_vault::{Fingerprint, PutId, Reference, SnapshotId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most chunks that a request names or brings to be stored, so that none keeps others waiting for long: a client's megabyte has some 550.
pub(super) const CHUNKS_MAX: usize = 4096;
/// Most chunks that a request gets: their content is in memory at once.
pub(in crate::vault) const GOT_MAX: usize = 64;

/// A request; its chunks are of the kind `P`: on their way, or checked.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::vault) enum Request<P> {
    /// Begin a put: its number.
    BeginPut,
    /// Go on with a put.
    Put(PutId, Write<P>),
    /// The content of each of these chunks, or why there is none.
    Get(Vec<Reference>),
    /// What a snapshot begins with.
    Root(SnapshotId),
    /// The snapshots, and what each begins with.
    Roots,
    /// The holds, and what each keeps.
    Holds,
    /// What only these snapshots have.
    Weigh(Vec<SnapshotId>),
    /// Forget snapshots: the numbers of the forgets.
    Forget(Vec<SnapshotId>),
    /// Hold snapshots, by a name and for a reason.
    Hold(String, Vec<SnapshotId>, String),
    /// Release a hold: the snapshots that it kept.
    Release(String),
    /// How full the vault is, and what it owes.
    Status,
    /// Sanitize the vault: the receipt, as JSON.
    Sanitize(Sanitize),
    /// Be told of the progress of the sanitization under way, and of its receipt, as JSON.
    Watch,
    /// Steer the sanitization under way.
    Control(Control),
}

/// A part of a put.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::vault) enum Write<P> {
    /// Refer to chunks: those that the vault has.
    Offer(Vec<Fingerprint>),
    /// Store chunks: what names them.
    Store(Vec<P>),
    /// Note that it has stored what it will not commit.
    LeaveBehind,
    /// End it with a snapshot, which has left so much out: its number.
    Commit(P, u64),
    /// End it by exchanging snapshots: the numbers of the forgets.
    Replace(Vec<(SnapshotId, Reference, P)>),
    /// End it without a snapshot.
    Drop,
}

/// What can be done with a sanitization under way. In reports it is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum Control {
    /// Do nothing more for it.
    #[serde(rename = "paused")]
    Pause,
    /// Go on with it.
    #[serde(rename = "resumed")]
    Resume,
    /// End it. What it owes is still owed.
    #[serde(rename = "cancelled")]
    Cancel,
}

/// How full a vault is, and what it owes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fill {
    /// The sizes of the vault.
    pub layout: Layout,
    /// The counts.
    pub status: Status,
    /// Content still to be destroyed.
    pub owed: Vec<OwedForget>,
}

impl<P> Request<P> {
    /// Whether the vault is another one afterwards. A put begins before anything else of it.
    pub(super) fn writes(&self) -> bool {
        match self {
            Self::BeginPut | Self::Forget(_) | Self::Hold(..) | Self::Release(_) | Self::Sanitize(_) => true,
            Self::Put(..) | Self::Get(_) | Self::Root(_) | Self::Roots | Self::Holds => false,
            Self::Weigh(_) | Self::Status | Self::Watch | Self::Control(_) => false,
        }
    }

    /// How many chunks it asks for, and how many it may. One that begins a snapshot is not counted.
    pub(super) fn chunks(&self) -> (usize, usize) {
        match self {
            Self::Get(chunks) => (chunks.len(), GOT_MAX),
            Self::Put(_, Write::Offer(names)) => (names.len(), CHUNKS_MAX),
            Self::Put(_, Write::Store(chunks)) => (chunks.len(), CHUNKS_MAX),
            _ => (0, 0),
        }
    }

    /// The same request of chunks of another kind.
    pub(in crate::vault) fn map<Q, E>(
        self,
        check: &mut dyn FnMut(P) -> Result<Q, E>,
    ) -> Result<Request<Q>, E> {
        Ok(match self {
            Self::Put(put, write) => Request::Put(put, write.map(check)?),
            Self::BeginPut => Request::BeginPut,
            Self::Get(chunks) => Request::Get(chunks),
            Self::Root(snapshot) => Request::Root(snapshot),
            Self::Roots => Request::Roots,
            Self::Holds => Request::Holds,
            Self::Weigh(snapshots) => Request::Weigh(snapshots),
            Self::Forget(snapshots) => Request::Forget(snapshots),
            Self::Hold(name, snapshots, why) => Request::Hold(name, snapshots, why),
            Self::Release(name) => Request::Release(name),
            Self::Status => Request::Status,
            Self::Sanitize(how) => Request::Sanitize(how),
            Self::Watch => Request::Watch,
            Self::Control(control) => Request::Control(control),
        })
    }
}

impl<P> Write<P> {
    /// Whether the put ends with it.
    pub(super) fn is_end(&self) -> bool {
        match self {
            Self::Offer(_) | Self::Store(_) | Self::LeaveBehind => false,
            Self::Commit(..) | Self::Replace(_) | Self::Drop => true,
        }
    }

    fn map<Q, E>(self, check: &mut dyn FnMut(P) -> Result<Q, E>) -> Result<Write<Q>, E> {
        Ok(match self {
            Self::Offer(names) => Write::Offer(names),
            Self::Store(chunks) => Write::Store(chunks.into_iter().map(check).collect::<Result<_, _>>()?),
            Self::LeaveBehind => Write::LeaveBehind,
            Self::Commit(root, left_out) => Write::Commit(check(root)?, left_out),
            Self::Replace(roots) => {
                let each = roots.into_iter().map(|(snapshot, old, new)| Ok((snapshot, old, check(new)?)));
                Write::Replace(each.collect::<Result<_, _>>()?)
            }
            Self::Drop => Write::Drop,
        })
    }
}
