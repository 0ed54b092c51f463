//! A state of a disk, as a source of files: what was read of it is kept for a while.

use super::disk::{ASK_BYTES_MAX, Disk};
use super::past::{KEPT_READ_BYTES_MAX, Past};
use crate::front::control::Refused;
use quietus_core::base::extents::ExtentMap;
use quietus_core::base::units::{Addr, BLOCK_BYTES, Extent};
use quietus_files::{Source, Unread};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// What is read and kept at once.
const CHUNK_BYTES: u64 = 32 << 10;
/// Chunks that are read at once where chunks are read in order: a call takes longer than its bytes.
const CHUNKS_AHEAD: u64 = 8;
/// Most chunks that are kept.
const CHUNKS_MAX: usize = 1024;

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

    /// Reads what can be read of `at`; the rest is zeros. Returns how many bytes that is.
    pub(super) fn read_around(&mut self, at: Extent<Addr>, to: &mut [u8]) -> u64 {
        if let Ok(bytes) = self.read(at) {
            to.copy_from_slice(&bytes);
            return 0;
        }
        let (mut unread, mut from) = (0, at.start.0);
        while from < at.end() {
            let end = at.end().min((from / BLOCK_BYTES + 1) * BLOCK_BYTES);
            let to = &mut to[(from - at.start.0) as usize..][..(end - from) as usize];
            match self.read(Extent::between(from, end)) {
                Ok(bytes) => to.copy_from_slice(&bytes),
                Err(_) => {
                    to.fill(0);
                    unread += end - from;
                }
            }
            from = end;
        }
        unread
    }

    fn ask(&self, extent: Extent<Addr>) -> Result<Vec<u8>, Unread> {
        self.disk.content(self.epoch, extent)
    }

    /// The chunk of that number.
    fn chunk(&mut self, number: u64) -> Result<&[u8], Unread> {
        if !self.chunks.contains_key(&number) {
            let is_in_order = number.checked_sub(1).is_some_and(|before| self.chunks.contains_key(&before));
            let most = if is_in_order { CHUNKS_AHEAD } else { 1 };
            let count = (number..number + most).take_while(|it| !self.chunks.contains_key(it)).count() as u64;
            // So may what lies behind the chunk.
            let bytes = self.ask_chunks(number, count).or_else(|_| self.ask_chunks(number, 1))?;
            for (number, bytes) in (number..).zip(bytes.chunks(CHUNK_BYTES as usize)) {
                self.keep(number, bytes.to_vec());
            }
        }
        Ok(self.chunks.get(&number).map_or(&[], Vec::as_slice))
    }

    fn ask_chunks(&self, number: u64, count: u64) -> Result<Vec<u8>, Unread> {
        let end = ((number + count) * CHUNK_BYTES).min(self.size_bytes);
        self.ask(Extent::between(number * CHUNK_BYTES, end))
    }

    /// Keeps a chunk in place of the one that was read first.
    fn keep(&mut self, number: u64, bytes: Vec<u8>) {
        if self.kept.len() == CHUNKS_MAX
            && let Some(oldest) = self.kept.pop_front()
        {
            self.chunks.remove(&oldest);
        }
        self.chunks.insert(number, bytes);
        self.kept.push_back(number);
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
            // Other bytes of the chunk may be forgotten, or damaged.
            let Ok(chunk) = self.chunk(number) else { return self.ask(at) };
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
