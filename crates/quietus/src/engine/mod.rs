//! Runs a volume: hands it requests in order of arrival, does the input and
//! output that it wants, and tells it of the end.
//!
//! The volume has one owner at a time: the thread that holds its lock. No thread does input or
//! output under the lock. A thread that brings a request does the request's own input and output
//! where that does not block, so that a reply needs no other thread; the workers do the rest. See
//! `docs/decisions/0002-one-owner.md`.

mod attached;
mod change;
mod defect;
mod error;
pub mod export;
mod exported;
mod media;
mod patience;
mod recording;
mod routing;
#[cfg(test)]
mod tests;
mod thread_pool;
mod watching;
mod worker;

pub use change::{Follower, Hold};
pub use error::StartError;
pub use recording::{Completion, Death, Entry, RecordStatus, Recorder};

use crate::base::buffers;
use crate::disk::keys::content::ContentKeys;
use crate::disk::{DiskDir, Step};
use crate::engine::export::ReplyTo;
use crate::host::attached::Attachment;
use crate::host::media::{DiskMedium, FileMedium, SharedMedium};
use patience::Patience;
use quietus_core::base::blocks::BlockSet;
use quietus_core::base::buf::Buf;
use quietus_core::base::numbers::Numbered;
use quietus_core::base::units::{Addr, Epoch, Extent, Millis, Pos, Scope};
use quietus_core::erase::policy::Scratch;
use quietus_core::media::cipher::Keys;
use quietus_core::media::medium::{Medium, MediumError};
use quietus_core::media::place::Place;
use quietus_core::media::{Media, MediaTable, MediumId};
use quietus_core::owed::ledger::Obligation;
use quietus_core::request::{Op, Outcome, Request, RequestId};
use quietus_core::volume::{Command, Config, Event, Io, IoOp, Status, Volume};
use quietus_core::watch::{Attached, Watcher};
use routing::{is_pass, may_be_done_here};
use std::io::{self, IoSliceMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thread_pool::ThreadPool;

/// Threads that do the input and output that may block.
const WORKERS: usize = 8;
/// Threads that make passes and holes: as many as a volume has under way.
const PASS_WORKERS: usize = 4;
/// Niceness of the threads that make passes: passes need processor time, and a client that waits
/// for a reply comes first.
const PASS_NICENESS: i32 = 10;
/// Most requests under way at once; a thread that brings more waits.
const REQUESTS_MAX: usize = 2048;
/// How often the timekeeper looks while events come. Each event may change what is next, and to
/// wake the timekeeper each time would cost more.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A disk being served.
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    size: u64,
    read_only: bool,
    multi_connection: bool,
    disk: [u8; 16],
    data: Arc<DiskMedium>,
    /// The media that the disk has for itself.
    own: MediaTable<Arc<DiskMedium>>,
    media: MediaTable<Arc<dyn SharedMedium>>,
    /// The keys of a disk whose content is ciphertext, and their file.
    content_keys: Option<ContentKeys>,
    keys: Option<Arc<FileMedium>>,
    started: Instant,
    inner: Mutex<Inner>,
    /// Signalled whenever a request has ended or the volume may have come to rest.
    changed: Condvar,
    /// Signalled when the timekeeper is to look again, and when the engine is closed.
    clock: Condvar,
    jobs: ThreadPool,
    passes: ThreadPool,
    recorder: Recorder,
    /// How guests are attached; only of a disk that is watched.
    attachment: OnceLock<Attachment>,
    /// The attachment that the watcher was told last.
    told: Mutex<Attached>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Inner {
    volume: Volume,
    replies: Numbered<RequestId, ReplyTo>,
    next_request: u64,
    commands: Vec<Command>,
    changes: change::Changes,
    /// Number of threads that wait for a change.
    waiters: usize,
    /// An event came since the timekeeper last looked.
    is_stirred: bool,
    /// The timekeeper waits for an event, or for the time that was next when it looked.
    timekeeper_rests: bool,
    closed: bool,
    /// The next change panics half way.
    #[cfg(test)]
    panics: bool,
}

/// Action that follows from an event, once the volume's lock is released.
enum Action {
    Io(Io),
    Reply(ReplyTo, Outcome),
}

impl Engine {
    /// Opens the disk in `dir` and begins to run it, watched by `watcher`. Waits for a medium that is busy, while `step` says so.
    pub fn start(
        name: &str,
        dir: &DiskDir,
        mut config: Config,
        watcher: Option<Box<dyn Watcher>>,
        step: Step<'_>,
    ) -> Result<Self, StartError> {
        config.read_only |= dir.is_read_only();
        let started = Patience::default().start(dir.path(), step, || media::start(dir, &config))?;
        let media::Started { media: media::Opened { own, all: media }, mut volume, disk } = started;
        let (size, read_only) = (volume.status().size_bytes, config.read_only);
        if !read_only {
            dir.remove_stamp()?;
        }
        // A watcher reads an order into the arrival of requests.
        let multi_connection = watcher.is_none();
        if let Some(watcher) = watcher {
            volume.watch(watcher);
        }
        let holes_unknown = volume.status().holes_unknown;
        let (recorder, found) = recording::open(dir, &volume.log_head(), read_only)?;
        let owed: Vec<_> = volume.obligations().map(|(extent, it)| (it.cause, extent)).collect();
        let inner = Inner {
            volume,
            replies: Numbered::default(),
            next_request: 0,
            commands: Vec::new(),
            changes: change::Changes::default(),
            waiters: 0,
            is_stirred: true,
            timekeeper_rests: false,
            closed: false,
            #[cfg(test)]
            panics: false,
        };
        let shared = Arc::new(Shared {
            name: name.to_string(),
            size,
            read_only,
            multi_connection,
            disk,
            data: Arc::clone(own.data()),
            own,
            media,
            content_keys: dir.content_keys(),
            keys: dir.keys(),
            started: Instant::now(),
            inner: Mutex::new(inner),
            changed: Condvar::new(),
            clock: Condvar::new(),
            jobs: ThreadPool::new("worker", WORKERS, 0, |shared| &shared.jobs),
            passes: ThreadPool::new("pass", PASS_WORKERS, PASS_NICENESS, |shared| &shared.passes),
            recorder,
            attachment: OnceLock::new(),
            told: Mutex::default(),
            threads: Mutex::default(),
        });
        let engine = Self { shared };
        engine.shared.begin_record(&found, owed);
        engine.shared.start_threads(holes_unknown).map_err(StartError::Thread)?;
        Ok(engine)
    }

    /// The status of the volume.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.lock().volume.status()
    }

    /// The epoch that takes the changes that arrive; `None` if the disk keeps no epochs.
    #[must_use]
    pub fn open_epoch(&self) -> Option<Epoch> {
        self.status().store.versions().map(|it| Epoch(it.open_epoch))
    }

    /// The answer to `question`, all of one moment: nothing else goes on meanwhile.
    pub fn ask<T>(&self, question: impl FnOnce(&Volume) -> T) -> T {
        question(&self.shared.lock().volume)
    }

    /// The present time, in the clock of obligations.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.shared.now()
    }

    /// The disk's name as an export.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The medium, for a proof to read.
    #[must_use]
    pub fn data(&self) -> &DiskMedium {
        &self.shared.data
    }

    /// A medium that the disk has for itself, to be read as it is.
    #[must_use]
    pub fn medium(&self, id: MediumId) -> Option<&DiskMedium> {
        self.shared.own.get(id).map(|medium| &**medium)
    }

    /// Checks that every file of the disk still is the one that was opened. If not, the volume latches.
    ///
    /// # Errors
    /// The first file that has changed, and how.
    pub fn check_media(&self) -> Result<(), MediumError> {
        self.shared.look_at_files()
    }

    /// Unallocated slots of the medium that have been erased; `None` for a disk in place.
    #[must_use]
    pub fn unallocated(&self) -> Option<BlockSet<Pos>> {
        self.shared.lock().volume.unallocated()
    }

    /// Changes the configuration of the volume.
    pub fn reconfigure(&self, change: impl FnOnce(&mut Config)) {
        let mut inner = self.shared.lock();
        let mut config = inner.volume.config().clone();
        change(&mut config);
        inner.volume.reconfigure(config);
        self.shared.stir(&mut inner);
    }

    /// Makes everything queued due now.
    pub fn shred_now(&self) {
        self.shared.tell(Event::ShredNow);
    }

    /// The obligations by address, at most `most`, and the number of the others.
    #[must_use]
    pub fn obligations(&self, most: usize) -> (Vec<(Extent<Addr>, Obligation)>, usize) {
        let inner = self.shared.lock();
        let all = inner.volume.obligations();
        let some: Vec<_> = all.take(most).collect();
        let more = inner.volume.status().owed.entries.saturating_sub(some.len());
        (some, more)
    }

    /// Waits until everything due has been destroyed, destruction pauses, or `step` says false.
    pub fn wait_until_destroyed(&self, step: impl FnMut(&Status) -> bool) -> bool {
        self.wait_while_erasing(|volume| volume.owes_nothing_due(), step)
    }

    /// Waits until everything due has been destroyed and compacted, destruction pauses, or `step` says false.
    pub fn wait_until_compact(&self, step: impl FnMut(&Status) -> bool) -> bool {
        self.wait_while_erasing(|volume| volume.owes_nothing_due() && volume.is_compact(), step)
    }

    /// Waits until nothing is owed any more, destruction pauses, or `step` says false; `step` is
    /// called with the status now and then.
    pub fn wait_until_drained(&self, step: impl FnMut(&Status) -> bool) -> bool {
        self.wait_while_erasing(Volume::is_drained, step)
    }

    fn wait_while_erasing(
        &self,
        reached: impl Fn(&Volume) -> bool,
        mut step: impl FnMut(&Status) -> bool,
    ) -> bool {
        self.wait_until(reached, |status| step(status) && status.owed.pauses.is_none())
    }

    /// Waits until `scope` is forgotten, or `step` says false.
    pub fn wait_until_forgotten(&self, scope: &Scope, step: impl FnMut(&Status) -> bool) -> bool {
        self.wait_until(|volume| !volume.is_forgetting(scope), step)
    }

    /// Guests go on while `step` runs: it may write to a client that does not read.
    fn wait_until(&self, reached: impl Fn(&Volume) -> bool, mut step: impl FnMut(&Status) -> bool) -> bool {
        let mut inner = self.shared.lock();
        while !reached(&inner.volume) {
            let status = inner.volume.status();
            drop(inner);
            if !step(&status) {
                return false;
            }
            inner = self.shared.lock();
            if !reached(&inner.volume) {
                inner = self.shared.wait_for_change(inner);
            }
        }
        true
    }

    /// Waits until the blocks that hold no data are known, or `step` says false.
    pub fn wait_until_known(&self, step: impl FnMut(&Status) -> bool) -> bool {
        self.wait_until(|volume| !volume.holes_unknown(), step)
    }

    /// Stops the engine: no new requests. With `drain`, queued content is destroyed first, unless
    /// `step` says false before the end. Returns the checkpoint, if the disk is well.
    pub fn stop(&self, drain: bool, mut step: impl FnMut(&Status) -> bool) -> Option<Vec<u8>> {
        if drain {
            self.shared.tell(Event::Stop { drain });
            // A latched disk destroys nothing any more.
            self.wait_until_drained(|status| status.latched.is_none() && step(status));
        }
        self.shared.tell(Event::Stop { drain: false });
        let settled = |volume: &Volume| volume.is_at_rest() && !volume.holes_unknown();
        self.wait_until(settled, |status| status.latched.is_none());
        self.shared.recorder.note(Entry::Stopped);
        if let Err(error) = self.shared.recorder.flush() {
            tracing::warn!("{error}; receipts stay in the journal until the next start");
        }
        self.wait_until(settled, |status| status.latched.is_none());
        let mut inner = self.shared.lock();
        inner.closed = true;
        let checkpoint = inner.volume.checkpoint().map(|it| it.to_bytes(self.shared.disk));
        drop(inner);
        self.shared.wake_all();
        self.shared.recorder.close();
        while let Some(thread) = self.shared.any_thread() {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
        checkpoint
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.wake_all();
        self.shared.recorder.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|_| defect::abort(&self.name))
    }

    fn wait_for_change<'a>(&self, mut inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        inner.waiters += 1;
        let wait = self.changed.wait_timeout(inner, Duration::from_millis(100));
        let mut inner = wait.unwrap_or_else(|_| defect::abort(&self.name)).0;
        inner.waiters -= 1;
        inner
    }

    fn now(&self) -> Millis {
        Millis(self.started.elapsed().as_millis() as u64)
    }

    fn submit(&self, request: Request, reply: ReplyTo) {
        let (own_read, now) = (matches!(request.op, Op::Read | Op::Copy), self.now());
        if request.op == Op::Flush {
            // The volume refuses the flush then.
            let _ = self.look_at_files();
        }
        self.data.be_gentle(true);
        let mut inner = self.lock();
        while (inner.replies.len() >= REQUESTS_MAX || inner.changes.hold_back(&request)) && !inner.closed {
            inner = self.wait_for_change(inner);
        }
        inner.changes.begins(&request, self.size);
        let id = RequestId(inner.next_request);
        inner.next_request += 1;
        inner.replies.insert(id, reply);
        let mut actions = inner.apply(now, Event::Request(id, request), self);
        self.stir(&mut inner);
        drop(inner);
        while !actions.is_empty() {
            for action in std::mem::take(&mut actions) {
                match action {
                    Action::Io(io) if may_be_done_here(&io, own_read) => {
                        actions.extend(self.perform_here(io));
                    }
                    action => self.dispatch(action),
                }
            }
        }
    }

    fn start_threads(self: &Arc<Self>, holes_unknown: bool) -> io::Result<()> {
        self.jobs.spawn(self)?;
        self.passes.spawn(self)?;
        self.start_thread("audit", |shared| shared.recorder.write(|it| shared.tell_record(it)))?;
        self.start_thread("time", |shared| worker::keep_time(shared))?;
        if holes_unknown {
            self.start_thread("holes", |shared| worker::find_holes(shared))?;
        } else if self.data.capabilities().punch {
            self.start_thread("space", |shared| worker::find_space(shared))?;
        }
        Ok(())
    }

    fn start_thread(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) -> io::Result<()> {
        let shared = Arc::clone(self);
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || body(&shared))?;
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
        Ok(())
    }

    /// A thread that may still be at work, taken off the list.
    fn any_thread(&self) -> Option<JoinHandle<()>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn media(&self) -> Media<'_> {
        self.media.view(|it| &**it as &dyn Medium)
    }

    fn content_keys(&self) -> Option<Keys<'_>> {
        self.content_keys.as_ref().map(ContentKeys::keys)
    }

    /// Checks every file. Of the first change that is found the volume learns, and latches.
    fn look_at_files(&self) -> Result<(), MediumError> {
        let keys = || self.keys.as_ref().map_or(Ok(()), |it| it.check_whole());
        let looked = self.media.iter().try_for_each(|it| it.check_whole()).and_then(|()| keys());
        if let Err(error) = &looked {
            self.tell(Event::Failed(error.clone()));
        }
        looked
    }

    /// Reads, if no wait for the device is needed; else nothing.
    fn read_cached(&self, place: Place, into: &mut [IoSliceMut<'_>]) -> Option<Result<(), MediumError>> {
        let Some(medium) = self.media.get(place.on) else {
            into.iter_mut().for_each(|part| part.fill(0));
            return Some(Ok(()));
        };
        medium.read_cached(place.extent.start, into)
    }

    fn dispatch(&self, action: Action) {
        match action {
            Action::Reply(reply, outcome) => reply.send(outcome),
            Action::Io(io) => {
                let pool = if is_pass(&io) { &self.passes } else { &self.jobs };
                pool.queue(io);
            }
        }
    }

    /// Does `io` if it does not block, else leaves it to a worker. Returns the actions that follow.
    fn perform_here(&self, io: Io) -> Vec<Action> {
        if io.op != IoOp::Read {
            let (id, result) = io.perform(&self.media(), self.content_keys(), &mut Scratch::default());
            return self.apply(Event::Completed(id, result));
        }
        let mut buf = buffers::take(io.at.bytes() as usize);
        let read =
            io.at.read(&mut buf, self.content_keys(), |place, into| match self.read_cached(place, into) {
                Some(read) => read.map_err(|error| Some(error.into())),
                None => Err(None),
            });
        match read {
            Ok(()) => self.apply(Event::Completed(io.id, Ok(Buf::from(buf).into()))),
            Err(Some(error)) => self.apply(Event::Completed(io.id, Err(error))),
            Err(None) => {
                buffers::give(buf);
                self.dispatch(Action::Io(io));
                Vec::new()
            }
        }
    }

    /// Does `io`, and then what follows from it and is of its kind, one after the other, so that no
    /// other thread is needed.
    fn work_through(&self, io: Io, scratch: &mut Scratch) {
        let kind = is_pass(&io);
        let mut next = Some(io);
        while let Some(io) = next {
            if kind {
                let at_work = self.lock().volume.is_at_work();
                self.data.be_gentle(at_work);
            }
            let (id, result) = io.perform(&self.media(), self.content_keys(), scratch);
            let mut actions = self.apply(Event::Completed(id, result));
            let own =
                actions.iter().position(|action| matches!(action, Action::Io(io) if is_pass(io) == kind));
            let own = own.map(|index| actions.remove(index));
            actions.into_iter().for_each(|action| self.dispatch(action));
            next = match own {
                Some(Action::Io(io)) => Some(io),
                _ => None,
            };
        }
    }

    fn tell(&self, event: Event) {
        self.apply(event).into_iter().for_each(|action| self.dispatch(action));
    }

    fn apply(&self, event: Event) -> Vec<Action> {
        let now = self.now();
        let mut inner = self.lock();
        let actions = inner.apply(now, event, self);
        self.stir(&mut inner);
        if inner.waiters > 0 {
            self.changed.notify_all();
        }
        actions
    }

    /// Notes an event, after which another time may be next.
    fn stir(&self, inner: &mut Inner) {
        inner.is_stirred = true;
        // Work that goes on in steps would else wait for the next look.
        if std::mem::take(&mut inner.timekeeper_rests) || inner.volume.forgets_go_on() {
            self.clock.notify_all();
        }
    }

    /// Wakes every thread of the engine, to look whether it is closed.
    fn wake_all(&self) {
        self.clock.notify_all();
        self.changed.notify_all();
        self.jobs.shut_down();
        self.passes.shut_down();
    }
}

impl Inner {
    fn apply(&mut self, now: Millis, event: Event, shared: &Shared) -> Vec<Action> {
        let _change = defect::WholeOrNothing::new(&shared.name);
        let mut commands = std::mem::take(&mut self.commands);
        self.volume.apply(now, event, &mut commands);
        #[cfg(test)]
        assert!(!self.panics, "on purpose");
        let mut actions = Vec::with_capacity(commands.len());
        for command in commands.drain(..) {
            match command {
                Command::Io(io) => actions.push(Action::Io(io)),
                Command::Reply(id, outcome) => {
                    let reply = self.replies.remove(&id).expect("each request is replied to once");
                    actions.push(Action::Reply(reply, outcome));
                }
                Command::Receipt(number, receipt) => shared.record_receipt(number, receipt),
                Command::Died(cause, extent, class) => {
                    self.changes.mark(extent);
                    shared.recorder.died(Death { cause, class }, extent.start.0, extent.len);
                }
                Command::Latched(reason) => shared.record_latch(reason),
            }
        }
        self.commands = commands;
        // Threads that wait for a reply come first: to hand input and output to a worker wakes a thread that
        // may take this one's processor.
        actions.sort_by_key(|action| matches!(action, Action::Io(_)));
        actions
    }
}
