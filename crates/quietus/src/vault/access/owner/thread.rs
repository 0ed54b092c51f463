//! The thread that has the vault.

use crate::vault::access::job::{Job, Waiting};
use crate::vault::access::owner::sanitizing::Sanitizing;
use crate::vault::access::owner::share::{Side, Turn};
use crate::vault::access::request::{Ask, Fill, Refusal, Reply, Request};
use crate::vault::place::record::Entry;
use crate::vault::{Error, Session};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use quietus_vault::VaultError;
use quietus_vault::chunk::Bytes;
use quietus_vault::client::{self, Access, Answer};
use std::time::Instant;

/// The owner of a vault.
pub(super) struct Owner<'d> {
    session: Session<'d>,
    sanitizing: Option<Sanitizing>,
}

impl<'d> Owner<'d> {
    pub(super) fn new(session: Session<'d>) -> Self {
        Self { session, sanitizing: None }
    }

    /// Works until no requests can come any more.
    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            let job = match &self.sanitizing {
                Some(it) if it.due <= Instant::now() && !it.share.is_ahead() => {
                    Err(RecvTimeoutError::Timeout)
                }
                // A request that waits is taken even if the time is over.
                Some(it) => jobs.recv_deadline(it.due),
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

    fn step(&mut self) {
        self.sanitizing = self.sanitizing.take().and_then(|it| it.step(&mut self.session));
    }

    fn answer(&mut self, job: Job) {
        let turn = self.sanitizing.is_some().then(|| Turn::begin(&self.session));
        self.carry_out(job);
        if let (Some(turn), Some(sanitizing)) = (turn, &mut self.sanitizing) {
            sanitizing.share.charge(Side::Others, &turn, &self.session);
        }
    }

    fn carry_out(&mut self, Job(request, who, events): Job) {
        let (session, mut waiting) = (&mut self.session, Waiting::new(events));
        if request.writes()
            && let Err(error) = session.dir.guard_write()
        {
            return waiting.answer(Err(error));
        }
        let ask = match request {
            Request::Vault(request) => {
                return waiting.answer(carry_out(session, request, &who).map(Reply::Vault));
            }
            Request::Owner(ask) => ask,
        };
        let answer = match ask {
            Ask::Get(chunks) => {
                let got = |chunk| session.vault.get(chunk).map(Bytes).map_err(Refusal::from);
                Ok(Reply::Got(chunks.iter().map(got).collect()))
            }
            Ask::Weigh(snapshots) => {
                let mut step = |done, of| waiting.tell("chunks", done, of);
                session.vault.weigh(&snapshots, &mut step).map(Reply::Weight).map_err(Error::from)
            }
            Ask::Forget(snapshots) => session.forget(&snapshots, &who).map(Reply::Numbers),
            Ask::Hold(name, snapshots, why) => {
                session.hold(&name, &snapshots, (&why, &who)).map(|()| Reply::Done)
            }
            Ask::Release(name) => session.release(&name, &who).map(Reply::Numbers),
            Ask::Status => Ok(Reply::Fill(fill(session))),
            Ask::Sanitize(how) => match self.sanitizing {
                Some(_) => Err(VaultError::Running.into()),
                None => return self.sanitizing = Sanitizing::begin(session, how, waiting),
            },
            Ask::Watch => match &mut self.sanitizing {
                Some(sanitizing) => return sanitizing.watchers.push(waiting),
                None => Err(VaultError::NotRunning.into()),
            },
            Ask::Control(control) => match self.sanitizing.take() {
                Some(it) => return self.sanitizing = it.control(session, control, waiting),
                None => Err(VaultError::NotRunning.into()),
            },
        };
        waiting.answer(answer);
    }
}

/// Carries out a request of the vault. The end of a put is on record then.
fn carry_out(session: &mut Session<'_>, request: client::Request, who: &str) -> Result<Answer, Error> {
    let left_out = if let client::Request::Commit(_, _, left_out) = request { left_out } else { 0 };
    let answer = session.vault.ask(request)?;
    match &answer {
        Answer::Commit(snapshot) => {
            let totals = session.vault.snapshot(*snapshot)?.totals;
            let (files, bytes) = (totals.files, totals.bytes);
            session.note(&[Entry::Put { snapshot: snapshot.0, files, bytes, left_out }])?;
        }
        Answer::Replace(forgets) => session.note_forgets(forgets, who)?,
        _ => {}
    }
    Ok(answer)
}

fn fill(session: &Session<'_>) -> Fill {
    let owed = session.vault.owed().map(Into::into).collect();
    Fill { layout: session.vault.layout(), status: session.vault.status(), owed }
}
