//! What is asked of a vault's owner: requests and replies are values, encoded only for another process.

use crate::vault::Error;
use crate::vault::place::record::OwedForget;
use crate::vault::upkeep::sanitize::{Sanitize, SanitizeReceipt};
use quietus_vault::catalog::Layout;
use quietus_vault::chunk::{Bytes, Packed, Sent, VaultKey};
use quietus_vault::client::{self, Answer};
use quietus_vault::vault::{Amount, Status};
use quietus_vault::{PutId, Reference, SnapshotId, VaultError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most chunks that a request names or brings to be stored, so that no request keeps others waiting for long: a client's megabyte has some 550.
pub(super) const CHUNKS_MAX: usize = 4096;
/// Most chunks that a request gets: their content is in memory at once.
pub(in crate::vault) const GOT_MAX: usize = 64;

/// A request; its chunks are of the kind `P`: named, or sent by another process.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::vault) enum Request<P = Packed> {
    /// What the vault answers itself: [`Reply::Vault`].
    Vault(client::Request<P>),
    /// What takes its audit log, or its owner's thread.
    Owner(Ask),
}

/// A request to the owner of a vault.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::vault) enum Ask {
    /// The content of each of these chunks: [`Reply::Got`].
    Get(Vec<Reference>),
    /// What only these snapshots have: [`Reply::Weight`].
    Weigh(Vec<SnapshotId>),
    /// Forget snapshots: [`Reply::Numbers`] of the forgets.
    Forget(Vec<SnapshotId>),
    /// Hold snapshots, by a name and for a reason.
    Hold(String, Vec<SnapshotId>, String),
    /// Release a hold: [`Reply::Numbers`] of the snapshots that it kept.
    Release(String),
    /// How full the vault is, and what it owes: [`Reply::Fill`].
    Status,
    /// Sanitize the vault: [`Reply::Receipt`].
    Sanitize(Sanitize),
    /// Tell of the progress of the sanitization under way: [`Reply::Receipt`].
    Watch,
    /// Steer the sanitization under way.
    Control(Control),
}

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::vault) enum Reply {
    /// The request is carried out.
    Done,
    /// Of the vault itself.
    Vault(Answer),
    /// The content of each chunk, or why it cannot be had.
    Got(Vec<Result<Bytes, Refusal>>),
    /// Chunks, and their bytes.
    Weight(Amount),
    /// The numbers of forgets or snapshots.
    Numbers(Vec<u64>),
    /// How full the vault is.
    Fill(Fill),
    /// The receipt of a sanitization.
    Receipt(#[serde(with = "json")] Box<SanitizeReceipt>),
}

/// Why a request is refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::vault) enum Refusal {
    /// The command was interrupted.
    Interrupted,
    /// A medium of the vault has failed.
    Medium(String),
    /// Another reason.
    Other(String),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match &error {
            Error::Interrupted => Self::Interrupted,
            Error::Vault(VaultError::Pool(_) | VaultError::Catalog(_)) => Self::Medium(error.to_string()),
            _ => Self::Other(error.to_string()),
        }
    }
}

impl From<VaultError> for Refusal {
    fn from(error: VaultError) -> Self {
        Error::from(error).into()
    }
}

impl From<Refusal> for VaultError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Interrupted => Self::Interrupted,
            Refusal::Medium(why) => Self::Lost(why),
            Refusal::Other(why) => Self::Refused(why),
        }
    }
}

/// A receipt on its way is JSON, as its part about the host may have any form.
mod json {
    use serde::de::{DeserializeOwned, Deserializer, Error as _};
    use serde::ser::{Error as _, Serializer};
    use serde::{Deserialize, Serialize};

    pub(super) fn serialize<T: Serialize, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&serde_json::to_string(value).map_err(S::Error::custom)?)
    }

    pub(super) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        serde_json::from_str(&String::deserialize(from)?).map_err(D::Error::custom)
    }
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
            Self::Vault(request) => matches!(request, client::Request::BeginPut),
            Self::Owner(Ask::Forget(_) | Ask::Hold(..) | Ask::Release(_) | Ask::Sanitize(_)) => true,
            Self::Owner(Ask::Get(_) | Ask::Weigh(_) | Ask::Status | Ask::Watch | Ask::Control(_)) => false,
        }
    }

    /// How many chunks it asks for, and how many it may. One that begins a snapshot is not counted.
    pub(super) fn chunks(&self) -> (usize, usize) {
        match self {
            Self::Owner(Ask::Get(chunks)) => (chunks.len(), GOT_MAX),
            Self::Vault(client::Request::Offer(_, names)) => (names.len(), CHUNKS_MAX),
            Self::Vault(client::Request::Store(_, chunks)) => (chunks.len(), CHUNKS_MAX),
            _ => (0, 0),
        }
    }
}

impl Request<Sent> {
    /// The put that it belongs to.
    pub(super) fn put(&self) -> Option<PutId> {
        if let Self::Vault(request) = self { request.put() } else { None }
    }

    /// The request with its chunks named.
    pub(super) fn check(self, key: &VaultKey) -> Result<Request, VaultError> {
        Ok(match self {
            Self::Vault(request) => Request::Vault(request.check(key)?),
            Self::Owner(ask) => Request::Owner(ask),
        })
    }
}
