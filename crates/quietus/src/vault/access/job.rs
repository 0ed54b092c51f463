//! A request on its way to the vault's owner, and what its client is told.

use crate::vault::access::request::{Refusal, Reply, Request};
use crossbeam_channel::Sender;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// How often a waiting command is told of progress.
const TOLD_EVERY: Duration = Duration::from_millis(100);

/// The owner's messages while a request is carried out, and at its end.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::vault) enum Event {
    /// The present phase, and how many of how many steps of it are done.
    Progress(String, u64, u64),
    /// The answer.
    Done(Result<Reply, Refusal>),
}

/// A command that waits for an answer. The answer is not wanted any more once the receiver is gone.
pub(super) struct Waiting {
    events: Sender<Event>,
    told: Instant,
}

impl Waiting {
    pub(super) fn new(events: Sender<Event>) -> Self {
        Self { events, told: Instant::now() }
    }

    /// Tells of progress, now and then; whether a client wants to go on.
    pub(super) fn tell(&mut self, what: &str, done: u64, of: u64) -> bool {
        if self.told.elapsed() < TOLD_EVERY {
            return true;
        }
        self.told = Instant::now();
        self.events.send(Event::Progress(what.into(), done, of)).is_ok()
    }

    /// Answers.
    pub(super) fn answer(&self, answer: Result<Reply, impl Into<Refusal>>) {
        // A client that has gone away wants no answer.
        let _ = self.events.send(Event::Done(answer.map_err(Into::into)));
    }
}

/// A request, its client, and where the answer goes.
pub(in crate::vault) struct Job(pub Request, pub String, pub Sender<Event>);
