//! The requests of clients to a vault, in whichever process it is open. Requests and answers are values, encoded only for another process.

use serde::{Deserialize, Serialize};

use crate::chunk::{BadChunk, Packed, Sent, VaultKey};
use crate::{Fingerprint, ForgetId, PutId, Reference, SnapshotId, Vault, VaultError};

/// The chunks of a method's request. Within [`Request`], `P` is its parameter.
type P = Packed;

/// Declares requests: the method, the request with its arguments, and its answer.
macro_rules! requests {
    ($($(#[$doc:meta])* $ask:ident: $kind:ident$(($($arg:ident: $type:ty),*))? -> $answer:ty,)*) => {
        /// A request of a client. Its chunks are of the kind `P`: named, or [`Sent`] by another process.
        #[derive(Debug, Serialize, Deserialize)]
        pub enum Request<P = Packed> {
            $($(#[$doc])* $kind$(($($type),*))?,)*
        }

        /// The answer to the request of the same name.
        #[derive(Debug, Serialize, Deserialize)]
        pub enum Answer {
            $($(#[$doc])* $kind($answer),)*
        }

        /// A vault as a client sees it. The errors are those of the methods of [`Vault`] of these names, and [`VaultError::Lost`] of
        /// one that is open elsewhere.
        pub trait Access {
            /// Carries out a request.
            ///
            /// # Errors
            ///
            /// As the method of [`Vault`] of the same name.
            fn ask(&mut self, request: Request) -> Result<Answer, VaultError>;

            /// The content of a chunk, wherever it has moved.
            ///
            /// # Errors
            ///
            /// As [`Vault::get`].
            fn get(&mut self, chunk: &Reference) -> Result<Vec<u8>, VaultError>;

            /// Announces which chunks are read next, in this order, before those announced earlier. A vault that answers each
            /// request from far away can ask for several at once.
            fn expect(&mut self, _chunks: &mut dyn DoubleEndedIterator<Item = Reference>) {}

            $($(#[$doc])*
            fn $ask(&mut self, $($($arg: $type),*)?) -> Result<$answer, VaultError> {
                match self.ask(Request::$kind$(($($arg),*))?)? {
                    Answer::$kind(answer) => Ok(answer),
                    _ => Err(VaultError::Answer),
                }
            })*
        }
    };
}

requests! {
    /// Begins a put.
    begin_put: BeginPut -> PutId,
    /// For each name, the chunk if the vault has it with all below, whole, and `None` if it is wanted. The put refers to those that
    /// are there.
    offer: Offer(put: PutId, names: Vec<Fingerprint>) -> Vec<Option<Reference>>,
    /// Stores chunks, unless they are there by now. The put refers to them.
    store: Store(put: PutId, chunks: Vec<P>) -> Vec<Reference>,
    /// Notes that the put has stored content that it will not commit.
    leave_behind: LeaveBehind(put: PutId) -> (),
    /// Ends a put with a snapshot, which is durable then. What the put stored of the `left_out` is owed.
    commit: Commit(put: PutId, root: P, left_out: u64) -> SnapshotId,
    /// Ends a put by giving snapshots other chunks to begin with, all at once.
    replace: Replace(put: PutId, roots: Vec<(SnapshotId, Reference, P)>) -> Vec<ForgetId>,
    /// Ends a put without a snapshot.
    drop_put: DropPut(put: PutId) -> (),
    /// The root chunk of a snapshot.
    root: Root(snapshot: SnapshotId) -> Reference,
    /// The snapshots in the order of their numbers, and the root chunk of each.
    roots: Roots -> Vec<(SnapshotId, Reference)>,
    /// The name of each hold, and a snapshot that it keeps.
    holds: Holds -> Vec<(String, SnapshotId)>,
}

impl<P> Request<P> {
    /// The put that the request belongs to.
    pub fn put(&self) -> Option<PutId> {
        match self {
            Self::Offer(put, _) | Self::Store(put, _) | Self::LeaveBehind(put) => Some(*put),
            Self::Commit(put, ..) | Self::Replace(put, _) | Self::DropPut(put) => Some(*put),
            Self::BeginPut | Self::Root(_) | Self::Roots | Self::Holds => None,
        }
    }
}

impl Request<Sent> {
    /// The request with its chunks named.
    ///
    /// # Errors
    ///
    /// [`VaultError::Sent`] if a chunk does not match its description.
    pub fn check(self, key: &VaultKey) -> Result<Request, VaultError> {
        let check = |chunk: Sent| chunk.check(key).map_err(|_: BadChunk| VaultError::Sent);
        Ok(match self {
            Self::BeginPut => Request::BeginPut,
            Self::Offer(put, names) => Request::Offer(put, names),
            Self::Store(put, chunks) => {
                Request::Store(put, chunks.into_iter().map(check).collect::<Result<_, _>>()?)
            }
            Self::LeaveBehind(put) => Request::LeaveBehind(put),
            Self::Commit(put, root, left_out) => Request::Commit(put, check(root)?, left_out),
            Self::Replace(put, roots) => {
                let checked = roots.into_iter().map(|(snapshot, old, new)| Ok((snapshot, old, check(new)?)));
                Request::Replace(put, checked.collect::<Result<_, VaultError>>()?)
            }
            Self::DropPut(put) => Request::DropPut(put),
            Self::Root(snapshot) => Request::Root(snapshot),
            Self::Roots => Request::Roots,
            Self::Holds => Request::Holds,
        })
    }
}

impl Access for Vault<'_> {
    fn ask(&mut self, request: Request) -> Result<Answer, VaultError> {
        Ok(match request {
            Request::BeginPut => Answer::BeginPut(self.begin_put()?),
            Request::Offer(put, names) => Answer::Offer(self.offer(put, &names)?),
            Request::Store(put, chunks) => {
                let stored = chunks.iter().map(|chunk| self.store(put, chunk));
                Answer::Store(stored.collect::<Result<_, _>>()?)
            }
            Request::LeaveBehind(put) => Answer::LeaveBehind(self.leave_behind(put)?),
            Request::Commit(put, root, left_out) => {
                if left_out > 0 {
                    self.leave_behind(put)?;
                }
                Answer::Commit(self.commit(put, &root)?)
            }
            Request::Replace(put, roots) => Answer::Replace(self.replace(put, &roots)?),
            Request::DropPut(put) => Answer::DropPut(self.drop_put(put)?),
            Request::Root(snapshot) => Answer::Root(Vault::root(self, snapshot)?),
            Request::Roots => Answer::Roots(self.snapshots().collect()),
            Request::Holds => {
                let holds = Vault::holds(self).map(|(name, snapshot)| (name.into(), snapshot));
                Answer::Holds(holds.collect())
            }
        })
    }

    fn get(&mut self, chunk: &Reference) -> Result<Vec<u8>, VaultError> {
        Vault::get(self, chunk)
    }
}
