//! A vault as a command has it, whichever process has it open.

use super::ahead::Ahead;
use super::owner::{Control, Event, Fill, Job, Refusal, Request, Write, connect, receive, send};
use super::record::who;
use super::{Error, Home, Sanitize, SanitizeReceipt, Step};
use crossbeam_channel::{Receiver, Sender, unbounded};
use quietus_vault::chunk::{Bytes, Packed, Sent};
use quietus_vault::client::Access;
use quietus_vault::vault::Amount;
use quietus_vault::{Fingerprint, ForgetId, PutId, Reference, SnapshotId, VaultError};
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

/// Is told what is done, how much of it, and of how much, and says whether to go on.
pub type Tell<'a> = &'a mut dyn FnMut(&str, u64, u64) -> bool;

/// See the module's documentation.
pub struct Client {
    home: Home,
    link: Link,
    ahead: Ahead<Answer>,
}

/// The way to the vault's owner.
enum Link {
    /// A thread of this process.
    Here(Sender<Job>),
    /// Another process.
    There(UnixStream),
}

/// An answer to wait for.
enum Answer {
    /// Of a thread of this process.
    Here(Receiver<Event>),
    /// The next one that the other process sends.
    There,
}

impl Client {
    /// A client of the thread that takes jobs.
    pub(super) fn here(home: Home, jobs: Sender<Job>) -> Self {
        Self { home, link: Link::Here(jobs), ahead: Ahead::default() }
    }

    /// A client of another process.
    pub(super) fn there(home: Home, stream: UnixStream) -> Self {
        Self { home, link: Link::There(stream), ahead: Ahead::default() }
    }

    /// Another client of the same vault, for another thread. Puts are each client's own.
    ///
    /// # Errors
    /// [`Error`]: the process that has the vault open serves too many already.
    pub fn another(&self) -> Result<Self, Error> {
        let home = self.home.clone();
        match &self.link {
            Link::Here(jobs) => Ok(Self::here(home, jobs.clone())),
            Link::There(_) => {
                let stream = connect(home.path());
                let act = "reach the process that has the vault open once more";
                let stream = stream.map_err(|error| Error::io(act, home.path(), error))?;
                Ok(Self::there(home, stream))
            }
        }
    }

    /// What is known of the vault without its owner.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// How full the vault is, and what it owes.
    ///
    /// # Errors
    /// [`Error`].
    pub fn fill(&mut self) -> Result<Fill, Error> {
        Ok(self.ask(Request::Status)?)
    }

    /// What only these snapshots have.
    ///
    /// # Errors
    /// [`Error`].
    pub fn weigh(&mut self, snapshots: &[SnapshotId], step: Step<'_>) -> Result<Amount, Error> {
        Ok(self.ask_for_long(Request::Weigh(snapshots.into()), &mut |_, done, of| step(done, of))?)
    }

    /// Forgets snapshots: the numbers of the forgets.
    ///
    /// # Errors
    /// [`Error`].
    pub fn forget(&mut self, snapshots: &[SnapshotId]) -> Result<Vec<u64>, Error> {
        Ok(self.ask(Request::Forget(snapshots.into()))?)
    }

    /// Holds snapshots, for the reason `why`.
    ///
    /// # Errors
    /// [`Error`].
    pub fn hold(&mut self, name: &str, snapshots: &[SnapshotId], why: &str) -> Result<(), Error> {
        Ok(self.ask(Request::Hold(name.into(), snapshots.into(), why.into()))?)
    }

    /// Releases the holds of that name; the snapshots that they kept.
    ///
    /// # Errors
    /// [`Error`].
    pub fn release(&mut self, name: &str) -> Result<Vec<u64>, Error> {
        Ok(self.ask(Request::Release(name.into()))?)
    }

    /// Sanitizes the vault.
    ///
    /// # Errors
    /// [`Error`]. After Ctrl-C, what is condemned is destroyed by the next sanitization.
    pub fn sanitize(&mut self, how: Sanitize, tell: Tell<'_>) -> Result<SanitizeReceipt, Error> {
        receipt(&self.ask_for_long::<String>(Request::Sanitize(how), tell)?)
    }

    /// Waits for the end of the sanitization under way.
    ///
    /// # Errors
    /// [`Error`]: none is under way, or it has failed.
    pub fn watch(&mut self, tell: Tell<'_>) -> Result<SanitizeReceipt, Error> {
        receipt(&self.ask_for_long::<String>(Request::Watch, tell)?)
    }

    /// Steers the sanitization under way.
    ///
    /// # Errors
    /// [`Error`]: none is under way.
    pub fn control(&mut self, control: Control) -> Result<(), Error> {
        Ok(self.ask(Request::Control(control))?)
    }

    fn ask<T: DeserializeOwned>(&mut self, request: Request<Packed>) -> Result<T, VaultError> {
        self.ask_for_long(request, &mut |_, _, _| true)
    }

    /// Asks, and tells of progress until the answer comes.
    fn ask_for_long<T: DeserializeOwned>(
        &mut self,
        request: Request<Packed>,
        tell: Tell<'_>,
    ) -> Result<T, VaultError> {
        let answer = self.begin(request)?;
        self.wait(&answer, tell)
    }

    /// Asks, and does not wait for the answer. Nothing else may be asked of another process before [`wait`](Self::wait).
    fn begin(&mut self, request: Request<Packed>) -> Result<Answer, VaultError> {
        match &self.link {
            Link::Here(jobs) => {
                let (events, answers) = unbounded();
                jobs.send(Job(request, who(), events)).map_err(|_| gone())?;
                Ok(Answer::Here(answers))
            }
            Link::There(stream) => {
                let sent: Result<Request<Sent>, Infallible> = request.map(&mut |chunk| Ok(chunk.into()));
                let Ok(request) = sent;
                send(stream, &request).map_err(lost)?;
                Ok(Answer::There)
            }
        }
    }

    /// Tells of progress until the answer comes.
    fn wait<T: DeserializeOwned>(&mut self, answer: &Answer, tell: Tell<'_>) -> Result<T, VaultError> {
        let answer = match (answer, &self.link) {
            (Answer::Here(answers), _) => take(&mut || answers.recv().map_err(|_| gone()), tell),
            (Answer::There, Link::There(stream)) => {
                let answer = take(&mut || receive(stream).map_err(lost), tell);
                if answer == Err(VaultError::Interrupted) {
                    // The owner sees that nobody wants the answer any more.
                    let _ = stream.shutdown(Shutdown::Both);
                }
                answer
            }
            (Answer::There, Link::Here(_)) => {
                unreachable!("this process's thread has a channel for each answer")
            }
        };
        postcard::from_bytes(&answer?).map_err(|_| VaultError::Answer)
    }

    /// Asks for the next chunks that are expected. Another process is asked for what is got at once only: it would not wait for a
    /// client that takes its time before it reads the answer.
    fn ask_ahead(&mut self) -> Result<(), VaultError> {
        while let Link::Here(_) = self.link
            && let Some(chunks) = self.ahead.next()
        {
            self.ask_for_chunks(chunks)?;
        }
        Ok(())
    }

    fn ask_for_chunks(&mut self, chunks: Vec<Reference>) -> Result<(), VaultError> {
        let answer = self.begin(Request::Get(chunks.clone()))?;
        self.ahead.asked(chunks, answer);
        Ok(())
    }
}

/// Takes events until the answer.
fn take(next: &mut dyn FnMut() -> Result<Event, VaultError>, tell: Tell<'_>) -> Result<Vec<u8>, VaultError> {
    loop {
        match next()? {
            Event::Done(answer) => return answer.map_err(VaultError::from),
            Event::Progress(what, done, of) if tell(&what, done, of) => {}
            Event::Progress(..) => return Err(VaultError::Interrupted),
        }
    }
}

fn gone() -> VaultError {
    VaultError::Lost("the thread of the vault has ended; see the log".into())
}

fn lost(error: io::Error) -> VaultError {
    VaultError::Lost(format!("the process that had the vault open is gone ({error}); repeat the command"))
}

fn receipt(text: &str) -> Result<SanitizeReceipt, Error> {
    serde_json::from_str(text).map_err(|_| VaultError::Answer.into())
}

impl Access for Client {
    fn begin_put(&mut self) -> Result<PutId, VaultError> {
        self.ask(Request::BeginPut)
    }

    fn offer(&mut self, put: PutId, chunks: &[Fingerprint]) -> Result<Vec<Option<Reference>>, VaultError> {
        self.ask(Request::Put(put, Write::Offer(chunks.into())))
    }

    fn store(&mut self, put: PutId, chunks: Vec<Packed>) -> Result<Vec<Reference>, VaultError> {
        self.ask(Request::Put(put, Write::Store(chunks)))
    }

    fn leave_behind(&mut self, put: PutId) -> Result<(), VaultError> {
        self.ask(Request::Put(put, Write::LeaveBehind))
    }

    fn commit(&mut self, put: PutId, root: Packed, left_out: u64) -> Result<SnapshotId, VaultError> {
        self.ask(Request::Put(put, Write::Commit(root, left_out)))
    }

    fn replace(
        &mut self,
        put: PutId,
        roots: Vec<(SnapshotId, Reference, Packed)>,
    ) -> Result<Vec<ForgetId>, VaultError> {
        self.ask(Request::Put(put, Write::Replace(roots)))
    }

    fn drop_put(&mut self, put: PutId) -> Result<(), VaultError> {
        self.ask(Request::Put(put, Write::Drop))
    }

    fn get(&mut self, chunk: &Reference) -> Result<Vec<u8>, VaultError> {
        loop {
            if let Some(got) = self.ahead.take(chunk) {
                self.ask_ahead()?;
                return got.map(|bytes| bytes.0).map_err(VaultError::from);
            }
            if let Some((chunks, answer)) = self.ahead.wait_for(chunk) {
                let got: Vec<Result<Bytes, Refusal>> = self.wait(&answer, &mut |_, _, _| true)?;
                if got.len() != chunks.len() {
                    return Err(VaultError::Answer);
                }
                self.ahead.arrive(chunks.into_iter().zip(got));
            } else {
                let chunks = self.ahead.next_with(chunk);
                self.ask_for_chunks(chunks)?;
            }
        }
    }

    fn expect(&mut self, chunks: &mut dyn DoubleEndedIterator<Item = Reference>) {
        self.ahead.expect(chunks);
    }

    fn root(&mut self, snapshot: SnapshotId) -> Result<Reference, VaultError> {
        self.ask(Request::Root(snapshot))
    }

    fn roots(&mut self) -> Result<Vec<(SnapshotId, Reference)>, VaultError> {
        self.ask(Request::Roots)
    }

    fn holds(&mut self) -> Result<Vec<(String, SnapshotId)>, VaultError> {
        self.ask(Request::Holds)
    }
}
