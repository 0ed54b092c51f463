//! The thread that has the vault.

use super::request::{Fill, Request, Write};
use super::sanitizing::Sanitizing;
use super::share::Turn;
use crate::vault::record::Entry;
use crate::vault::{Error, Session};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use quietus_vault::chunk::{Bytes, Packed};
use quietus_vault::client::Access;
use quietus_vault::{ForgetId, PutId, Reference, SnapshotId, VaultError};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// How often somebody who waits is told of progress.
const TOLD_EVERY: Duration = Duration::from_millis(100);

/// What the owner says while something is done, and at its end.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::vault) enum Event {
    /// What is being done, how much of it is done, and of how much.
    Progress(String, u64, u64),
    /// The answer.
    Done(Result<Vec<u8>, Refusal>),
}

/// Why a request is refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::vault) enum Refusal {
    /// It was interrupted.
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

/// Somebody who waits for an answer. Nobody wants it any more once the receiver is gone.
pub(super) struct Waiting {
    events: Sender<Event>,
    told: Instant,
}

impl Waiting {
    pub(super) fn new(events: Sender<Event>) -> Self {
        Self { events, told: Instant::now() }
    }

    /// Tells of progress, now and then; whether anybody wants to go on.
    pub(super) fn tell(&mut self, what: &str, done: u64, of: u64) -> bool {
        if self.told.elapsed() < TOLD_EVERY {
            return true;
        }
        self.told = Instant::now();
        self.events.send(Event::Progress(what.into(), done, of)).is_ok()
    }

    /// Answers with what was done.
    pub(super) fn done<T: Serialize>(&self, done: T) {
        self.answer::<T, Refusal>(Ok(done));
    }

    /// Answers.
    pub(super) fn answer<T: Serialize, E: Into<Refusal>>(&self, answer: Result<T, E>) {
        let encode = |it| postcard::to_allocvec(&it).map_err(|error| Refusal::Other(error.to_string()));
        let answer = answer.map_err(E::into).and_then(encode);
        // Whoever has gone away wants no answer.
        let _ = self.events.send(Event::Done(answer));
    }
}

/// A request, who asks, and where the answer goes.
pub(in crate::vault) struct Job(pub Request<Packed>, pub String, pub Sender<Event>);

/// The owner of a vault.
pub(super) struct Owner<'d> {
    session: Session<'d>,
    sanitizing: Option<Sanitizing>,
}

impl<'d> Owner<'d> {
    pub(super) fn new(session: Session<'d>) -> Self {
        Self { session, sanitizing: None }
    }

    /// Works until nobody can ask for anything any more.
    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            let due = self.sanitizing.as_ref().map(Sanitizing::due);
            let job = match due {
                Some(due) if due <= Instant::now() && !self.is_ahead() => Err(RecvTimeoutError::Timeout),
                // A request that waits is taken even if the time is over.
                Some(due) => jobs.recv_deadline(due),
                None => jobs.recv().map_err(RecvTimeoutError::from),
            };
            match job {
                Ok(job) => self.answer(job),
                Err(RecvTimeoutError::Timeout) => self.step(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if let Some(sanitizing) = self.sanitizing.take() {
            sanitizing.cancel(&mut self.session, Error::Interrupted);
        }
    }

    fn is_ahead(&self) -> bool {
        self.sanitizing.as_ref().is_some_and(Sanitizing::is_ahead)
    }

    fn step(&mut self) {
        self.sanitizing = self.sanitizing.take().and_then(|it| it.step(&mut self.session));
    }

    fn answer(&mut self, job: Job) {
        let turn = self.sanitizing.is_some().then(|| Turn::begin(&self.session));
        self.carry_out(job);
        if let (Some(turn), Some(sanitizing)) = (turn, &mut self.sanitizing) {
            sanitizing.note_request(&turn, &self.session);
        }
    }

    fn carry_out(&mut self, Job(request, who, events): Job) {
        let (session, who, mut waiting) = (&mut self.session, who.as_str(), Waiting::new(events));
        if request.writes()
            && let Err(error) = session.dir.guard_write()
        {
            return waiting.answer::<(), _>(Err(error));
        }
        match request {
            Request::BeginPut => waiting.answer(session.vault.begin_put()),
            Request::Put(put, write) => self.write(put, write, who, &waiting),
            Request::Get(chunks) => {
                let got = |chunk| session.vault.get(chunk).map(Bytes).map_err(Refusal::from);
                waiting.done(chunks.iter().map(got).collect::<Vec<_>>());
            }
            Request::Root(snapshot) => waiting.answer(session.vault.root(snapshot)),
            Request::Roots => waiting.answer(session.vault.roots()),
            Request::Holds => waiting.answer(Access::holds(&mut session.vault)),
            Request::Weigh(snapshots) => {
                let mut step = |done, of| waiting.tell("chunks", done, of);
                let weight = session.vault.weigh(&snapshots, &mut step);
                waiting.answer(weight);
            }
            Request::Forget(snapshots) => waiting.answer(session.forget(&snapshots, who)),
            Request::Hold(name, snapshots, why) => {
                waiting.answer(session.hold(&name, &snapshots, (&why, who)));
            }
            Request::Release(name) => waiting.answer(session.release(&name, who)),
            Request::Status => waiting.done(fill(session)),
            Request::Sanitize(_) if self.sanitizing.is_some() => {
                waiting.answer::<(), _>(Err(VaultError::Running));
            }
            Request::Sanitize(how) => self.sanitizing = Sanitizing::begin(session, how, waiting),
            Request::Watch => match &mut self.sanitizing {
                Some(sanitizing) => sanitizing.watched_by(waiting),
                None => waiting.answer::<(), _>(Err(VaultError::NotRunning)),
            },
            Request::Control(control) => match self.sanitizing.take() {
                Some(sanitizing) => self.sanitizing = sanitizing.control(session, control, waiting),
                None => waiting.answer::<(), _>(Err(VaultError::NotRunning)),
            },
        }
    }

    fn write(&mut self, put: PutId, write: Write<Packed>, who: &str, waiting: &Waiting) {
        let session = &mut self.session;
        match write {
            Write::Offer(names) => waiting.answer(session.vault.offer(put, &names)),
            Write::Store(chunks) => waiting.answer(Access::store(&mut session.vault, put, chunks)),
            Write::LeaveBehind => waiting.answer(session.vault.leave_behind(put)),
            Write::Commit(root, left_out) => waiting.answer(commit(session, put, root, left_out)),
            Write::Replace(roots) => waiting.answer(replace(session, put, &roots, who)),
            Write::Drop => waiting.answer(session.vault.drop_put(put)),
        }
    }
}

/// Ends a put with a snapshot, which is on record then.
fn commit(session: &mut Session<'_>, put: PutId, root: Packed, left_out: u64) -> Result<SnapshotId, Error> {
    let snapshot = Access::commit(&mut session.vault, put, root, left_out)?;
    let totals = session.vault.snapshot(snapshot)?.totals;
    let (files, bytes) = (totals.files, totals.bytes);
    session.note(&[Entry::Put { snapshot: snapshot.0, files, bytes, left_out }])?;
    Ok(snapshot)
}

/// Ends a put by exchanging snapshots, which is on record then.
fn replace(
    session: &mut Session<'_>,
    put: PutId,
    roots: &[(SnapshotId, Reference, Packed)],
    who: &str,
) -> Result<Vec<ForgetId>, Error> {
    let forgets = session.vault.replace(put, roots)?;
    session.note_forgets(&forgets, who)?;
    Ok(forgets)
}

fn fill(session: &Session<'_>) -> Fill {
    let owed = session.vault.owed().map(Into::into).collect();
    Fill { layout: session.vault.layout(), status: session.vault.status(), owed }
}
