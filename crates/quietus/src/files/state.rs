//! A state of a disk, as a source of files: what a command asks the disk for, and keeps for a while.

use super::Target;
use super::past::{KEPT_READ_BYTES_MAX, Past};
use crate::disk::Step;
use crate::disk::keys::Source as Credential;
use crate::front::control::{Answer, Asked, Call, EpochsKept, RangesRead, Refused, StatusAnswer};
use quietus_core::base::extents::ExtentMap;
use quietus_core::base::units::{Addr, Extent};
use quietus_files::{Source, Unread};
use rustix::fs::MemfdFlags;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// What is read and kept at once.
const CHUNK_BYTES: u64 = 32 << 10;
/// Most chunks that are kept.
const CHUNKS_MAX: usize = 1024;
/// Most bytes that are asked for at once.
const ASK_BYTES_MAX: u64 = 8 << 20;
/// Most bytes of a file that two states are compared in.
const COMPARE_BYTES_MAX: u64 = 64 << 20;

/// A disk whose states are read.
pub struct Disk {
    asked: Asked,
    /// What an answer is read from.
    answers: File,
}

impl Disk {
    /// Opens the disk of `target`, or finds its server.
    pub fn open(target: &Target, credential: &Credential, step: Step<'_>) -> Result<Rc<Self>, Refused> {
        let asked = Asked::open(&target.disk, true, Some(credential), step)?;
        let answers = rustix::fs::memfd_create("quietus-read", MemfdFlags::CLOEXEC);
        let answers = answers.map_err(|error| format!("cannot make a file in memory: {error}"))?;
        Ok(Rc::new(Self { asked, answers: answers.into() }))
    }

    /// The answer to `call`.
    pub fn ask<T: Answer>(&self, call: &Call) -> Result<T, Refused> {
        self.asked.ask(call, None, &mut |_, _| true)
    }

    /// Whether a server runs it: a guest may change its current state then.
    pub fn is_served(&self) -> bool {
        self.asked.is_served()
    }

    /// The epochs that it keeps; `None` if it keeps no past.
    pub fn epochs_kept(&self) -> Result<Option<EpochsKept>, Refused> {
        let status: StatusAnswer = self.ask(&Call::Status)?;
        Ok(status.epochs)
    }

    /// Its size in bytes.
    pub fn size_bytes(&self) -> Result<u64, Refused> {
        Ok(self.read(None, None)?.0.size_bytes)
    }

    /// The bytes of `extent` as `epoch` shows them; `None` for the current state.
    pub fn content(&self, epoch: Option<u64>, extent: Extent<Addr>) -> Result<Vec<u8>, Unread> {
        let answer = self.read(epoch.map(|it| it.to_string()), Some(extent));
        answer.map(|(_, bytes)| bytes).map_err(|refused| Unread(refused.to_string()))
    }

    /// Whether two states have the same bytes in `parts`. Of many bytes that is not asked: they count as changed, as do bytes that
    /// are forgotten in one of the states.
    pub fn is_same(&self, parts: &[Extent<Addr>], one: u64, other: Option<u64>) -> Result<bool, Refused> {
        if parts.iter().map(|part| part.len).sum::<u64>() > COMPARE_BYTES_MAX {
            return Ok(false);
        }
        for part in parts.iter().flat_map(|part| part.pieces(ASK_BYTES_MAX)) {
            let read = |epoch: Option<u64>| self.read(epoch.map(|it| it.to_string()), Some(part));
            match (read(Some(one)), read(other)) {
                (Ok((_, one)), Ok((_, other))) if one == other => {}
                (Ok(_), Ok(_)) | (Err(Refused::Forgotten(_)), _) | (_, Err(Refused::Forgotten(_))) => {
                    return Ok(false);
                }
                (Err(refused), _) | (_, Err(refused)) => return Err(refused),
            }
        }
        Ok(true)
    }

    fn read(
        &self,
        at: Option<String>,
        extent: Option<Extent<Addr>>,
    ) -> Result<(RangesRead, Vec<u8>), Refused> {
        let ranges = extent.iter().map(|it| (it.start.0, it.len)).collect();
        let read: RangesRead =
            self.asked.ask(&Call::Read { at, ranges }, Some(&self.answers), &mut |_, _| true)?;
        let mut bytes = vec![0; extent.map_or(0, |it| it.len as usize)];
        let filled = self.answers.read_exact_at(&mut bytes, 0);
        filled.map_err(|error| format!("cannot read a file in memory: {error}"))?;
        Ok((read, bytes))
    }
}

/// One state of a disk.
pub struct State {
    disk: Rc<Disk>,
    /// The epoch; `None` for the current state, which a guest may change at any time.
    pub epoch: Option<u64>,
    size_bytes: u64,
    chunks: HashMap<u64, Vec<u8>>,
    /// The chunks that are kept, the one that was read first in front.
    kept: VecDeque<u64>,
    /// What is known of the past, if many epochs are looked at.
    past: Option<Rc<RefCell<Past>>>,
    seen: Seen,
}

/// All that was read of a state.
pub type Seen = Rc<RefCell<ExtentMap<Addr, ()>>>;

impl State {
    /// The state of `disk` that people call `at`.
    pub fn new(disk: &Rc<Disk>, at: Option<&str>) -> Result<Self, Refused> {
        let (read, _) = disk.read(at.map(Into::into), None)?;
        let (disk, chunks, kept) = (Rc::clone(disk), HashMap::new(), VecDeque::new());
        let seen = Seen::default();
        Ok(Self { disk, epoch: read.epoch, size_bytes: read.size_bytes, chunks, kept, past: None, seen })
    }

    /// The state at the end of `epoch`, one of many of `disk`, whose size in bytes is given.
    pub fn of_many(disk: &Rc<Disk>, epoch: u64, size_bytes: u64, past: &Rc<RefCell<Past>>) -> Self {
        let (disk, past) = (Rc::clone(disk), Some(Rc::clone(past)));
        let (chunks, kept) = (HashMap::new(), VecDeque::new());
        Self { disk, epoch: Some(epoch), size_bytes, chunks, kept, past, seen: Seen::default() }
    }

    /// What was read, and will be.
    pub fn seen(&self) -> Seen {
        Rc::clone(&self.seen)
    }

    fn ask(&self, extent: Extent<Addr>) -> Result<Vec<u8>, Unread> {
        self.disk.content(self.epoch, extent)
    }

    /// The chunk of that number.
    fn chunk(&mut self, number: u64) -> Result<&[u8], Unread> {
        if !self.chunks.contains_key(&number) {
            let start = number * CHUNK_BYTES;
            let bytes = self.ask(Extent::between(start, (start + CHUNK_BYTES).min(self.size_bytes)))?;
            if self.kept.len() == CHUNKS_MAX
                && let Some(oldest) = self.kept.pop_front()
            {
                self.chunks.remove(&oldest);
            }
            self.chunks.insert(number, bytes);
            self.kept.push_back(number);
        }
        Ok(&self.chunks[&number])
    }
}

impl Source for State {
    fn bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read(&mut self, at: Extent<Addr>) -> Result<Vec<u8>, Unread> {
        self.seen.borrow_mut().insert(at, ());
        if at.len <= KEPT_READ_BYTES_MAX
            && let (Some(past), Some(epoch)) = (&self.past, self.epoch)
        {
            return past.borrow_mut().read(&self.disk, (epoch, self.size_bytes), at);
        }
        let mut bytes = Vec::with_capacity(at.len as usize);
        if at.len > CHUNK_BYTES {
            for piece in at.pieces(ASK_BYTES_MAX) {
                bytes.extend(self.ask(piece)?);
            }
            return Ok(bytes);
        }
        let mut from = at.start.0;
        while from < at.end() {
            let (number, skip) = (from / CHUNK_BYTES, (from % CHUNK_BYTES) as usize);
            let chunk = self.chunk(number)?;
            let len = ((at.end() - from) as usize).min(chunk.len().saturating_sub(skip));
            if len == 0 {
                return Err(Unread(format!("byte {from} lies behind the end of the disk")));
            }
            bytes.extend(&chunk[skip..skip + len]);
            from += len as u64;
        }
        Ok(bytes)
    }
}
