//! A command's access to a vault, in this process or through the process that has it open.

use crate::vault::access::ahead::Ahead;
use crate::vault::access::job::{Event, Job};
use crate::vault::access::request::{Ask, Control, Fill, Reply, Request};
use crate::vault::access::wire::{connect, receive, send};
use crate::vault::place::record::who;
use crate::vault::{Error, Home, Sanitize, SanitizeReceipt, Step};
use crossbeam_channel::{Receiver, Sender, unbounded};
use quietus_vault::client::{self, Access, Answer};
use quietus_vault::vault::Amount;
use quietus_vault::{Reference, SnapshotId, VaultError};
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

/// Is told what is done, how much of it, and of how much, and says whether to go on.
pub type Tell<'a> = &'a mut dyn FnMut(&str, u64, u64) -> bool;

/// See the module's documentation.
pub struct Client {
    home: Home,
    link: Link,
    ahead: Ahead<Coming>,
}

/// The way to the vault's owner.
enum Link {
    /// A thread of this process.
    Here(Sender<Job>),
    /// Another process.
    There(UnixStream),
}

/// Where a thread of this process replies; `None` for the next reply that another process sends.
type Coming = Option<Receiver<Event>>;

impl Client {
    /// A client of the thread that takes jobs.
    pub(in super::super) fn here(home: Home, jobs: Sender<Job>) -> Self {
        Self { home, link: Link::Here(jobs), ahead: Ahead::default() }
    }

    /// A client of another process.
    pub(in super::super) fn there(home: Home, stream: UnixStream) -> Self {
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
    pub fn fill(&mut self) -> Result<Fill, Error> {
        let Reply::Fill(fill) = self.owner(Ask::Status)? else { return Err(VaultError::Answer.into()) };
        Ok(fill)
    }

    /// The content that only these snapshots have.
    pub fn weigh(&mut self, snapshots: &[SnapshotId], step: Step<'_>) -> Result<Amount, Error> {
        let ask = Request::Owner(Ask::Weigh(snapshots.into()));
        let reply = self.carry_out(ask, &mut |_, done, of| step(done, of))?;
        let Reply::Weight(weight) = reply else { return Err(VaultError::Answer.into()) };
        Ok(weight)
    }

    /// Forgets snapshots: the numbers of the forgets.
    pub fn forget(&mut self, snapshots: &[SnapshotId]) -> Result<Vec<u64>, Error> {
        self.numbers(Ask::Forget(snapshots.into()))
    }

    /// Holds snapshots, for the reason `why`.
    pub fn hold(&mut self, name: &str, snapshots: &[SnapshotId], why: &str) -> Result<(), Error> {
        self.owner(Ask::Hold(name.into(), snapshots.into(), why.into())).map(drop)
    }

    /// Releases the holds of that name; the snapshots that they kept.
    pub fn release(&mut self, name: &str) -> Result<Vec<u64>, Error> {
        self.numbers(Ask::Release(name.into()))
    }

    /// Sanitizes the vault.
    ///
    /// # Errors
    /// [`Error`]. After Ctrl-C, what is condemned is destroyed by the next sanitization.
    pub fn sanitize(&mut self, how: Sanitize, tell: Tell<'_>) -> Result<SanitizeReceipt, Error> {
        self.receipt(Ask::Sanitize(how), tell)
    }

    /// Waits for the end of the sanitization under way.
    ///
    /// # Errors
    /// [`Error`]: no sanitization is under way, or it has failed.
    pub fn watch(&mut self, tell: Tell<'_>) -> Result<SanitizeReceipt, Error> {
        self.receipt(Ask::Watch, tell)
    }

    /// Steers the sanitization under way.
    ///
    /// # Errors
    /// [`Error`]: no sanitization is under way.
    pub fn control(&mut self, control: Control) -> Result<(), Error> {
        self.owner(Ask::Control(control)).map(drop)
    }

    fn owner(&mut self, ask: Ask) -> Result<Reply, Error> {
        Ok(self.carry_out(Request::Owner(ask), &mut |_, _, _| true)?)
    }

    fn numbers(&mut self, ask: Ask) -> Result<Vec<u64>, Error> {
        let Reply::Numbers(numbers) = self.owner(ask)? else { return Err(VaultError::Answer.into()) };
        Ok(numbers)
    }

    fn receipt(&mut self, ask: Ask, tell: Tell<'_>) -> Result<SanitizeReceipt, Error> {
        let reply = self.carry_out(Request::Owner(ask), tell)?;
        let Reply::Receipt(receipt) = reply else { return Err(VaultError::Answer.into()) };
        Ok(*receipt)
    }

    /// Asks, and tells of progress until the reply comes.
    fn carry_out(&mut self, request: Request, tell: Tell<'_>) -> Result<Reply, VaultError> {
        let coming = self.begin(request)?;
        self.wait(&coming, tell)
    }

    /// Asks, and does not wait for the reply. Nothing else may be asked of another process before [`wait`](Self::wait).
    fn begin(&mut self, request: Request) -> Result<Coming, VaultError> {
        match &self.link {
            Link::Here(jobs) => {
                let (events, replies) = unbounded();
                jobs.send(Job(request, who(), events)).map_err(|_| gone())?;
                Ok(Some(replies))
            }
            Link::There(stream) => {
                send(stream, &request).map_err(lost)?;
                Ok(None)
            }
        }
    }

    /// Tells of progress until the reply comes.
    fn wait(&mut self, coming: &Coming, tell: Tell<'_>) -> Result<Reply, VaultError> {
        match (coming, &self.link) {
            (Some(replies), _) => take(&mut || replies.recv().map_err(|_| gone()), tell),
            (None, Link::There(stream)) => {
                let reply = take(&mut || receive(stream).map_err(lost), tell);
                if matches!(reply, Err(VaultError::Interrupted)) {
                    // The owner sees that the client wants no reply any more.
                    let _ = stream.shutdown(Shutdown::Both);
                }
                reply
            }
            (None, Link::Here(_)) => {
                unreachable!("this process's thread has a channel for each answer")
            }
        }
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
        let coming = self.begin(Request::Owner(Ask::Get(chunks.clone())))?;
        self.ahead.asked(chunks, coming);
        Ok(())
    }
}

/// Takes events until the answer.
fn take(next: &mut dyn FnMut() -> Result<Event, VaultError>, tell: Tell<'_>) -> Result<Reply, VaultError> {
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

impl Access for Client {
    fn ask(&mut self, request: client::Request) -> Result<Answer, VaultError> {
        let reply = self.carry_out(Request::Vault(request), &mut |_, _, _| true)?;
        let Reply::Vault(answer) = reply else { return Err(VaultError::Answer) };
        Ok(answer)
    }

    fn get(&mut self, chunk: &Reference) -> Result<Vec<u8>, VaultError> {
        loop {
            if let Some(got) = self.ahead.take(chunk) {
                self.ask_ahead()?;
                return got.map(|bytes| bytes.0).map_err(VaultError::from);
            }
            if let Some((chunks, coming)) = self.ahead.wait_for(chunk) {
                match self.wait(&coming, &mut |_, _, _| true)? {
                    Reply::Got(got) if got.len() == chunks.len() => {
                        self.ahead.arrive(chunks.into_iter().zip(got));
                    }
                    _ => return Err(VaultError::Answer),
                }
            } else {
                let chunks = self.ahead.next_with(chunk);
                self.ask_for_chunks(chunks)?;
            }
        }
    }

    fn expect(&mut self, chunks: &mut dyn DoubleEndedIterator<Item = Reference>) {
        self.ahead.expect(chunks);
    }
}
