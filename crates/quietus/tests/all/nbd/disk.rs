//! A disk in memory that does as the test says.

use crate::nbd::client::{Client, Style, transmit};
use quietus::engine::export::{Export, ExportInfo, ReplyTo};
use quietus::front::nbd::Server;
use quietus_core::base::units::{Addr, Extent};
use quietus_core::request::{Liveness, Op, Outcome, Refusal, Reply, Request};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

pub const BLOCK: u64 = 4096;

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    /// Of each block.
    liveness: Vec<Liveness>,
    seen: Vec<Request>,
    refusal: Option<Refusal>,
    holding: bool,
    held: Vec<(Request, ReplyTo)>,
    panics: bool,
    clients: usize,
}

pub struct Disk {
    info: ExportInfo,
    state: Mutex<State>,
    changed: Condvar,
}

/// A disk of 1 MiB, its server, and a client with transmission begun.
pub fn begun(style: Style) -> (Arc<Disk>, Server, Client<UnixStream>) {
    let disk = Disk::new("disk", 1 << 20);
    let (server, client) = transmit(&disk, style);
    (disk, server, client)
}

impl Disk {
    pub fn new(name: &str, size: u64) -> Arc<Self> {
        Self::with(name, size, |_| {})
    }

    pub fn with(name: &str, size: u64, change: impl FnOnce(&mut ExportInfo)) -> Arc<Self> {
        let description = format!("the disk {name}");
        let mut info =
            ExportInfo { name: name.into(), description, size, read_only: false, multi_connection: true };
        change(&mut info);
        let liveness = vec![Liveness::Dead; size.min(64 << 20).div_ceil(BLOCK) as usize];
        let bytes = vec![0; size.min(64 << 20) as usize];
        let state = State { bytes, liveness, ..State::default() };
        Arc::new(Self { info, state: Mutex::new(state), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Every request from now on ends so.
    pub fn refuse(&self, refusal: Refusal) {
        self.lock().refusal = Some(refusal);
    }

    /// No request from now on ends before it is released.
    pub fn hold(&self) {
        self.lock().holding = true;
    }

    pub fn panic(&self) {
        self.lock().panics = true;
    }

    fn wait(&self, what: &str, is_so: impl Fn(&State) -> bool) {
        let wait = self.changed.wait_timeout_while(self.lock(), Duration::from_secs(30), |it| !is_so(it));
        assert!(!wait.unwrap().1.timed_out(), "{what} did not come");
    }

    /// Waits for `count` requests to be held.
    pub fn await_held(&self, count: usize) {
        self.wait(&format!("{count} requests"), |state| state.held.len() >= count);
    }

    /// Waits until `count` clients are connected.
    pub fn await_clients(&self, count: usize) {
        self.wait(&format!("{count} clients"), |state| state.clients == count);
    }

    pub fn held(&self) -> usize {
        self.lock().held.len()
    }

    /// Lets the held request `index` end, on this thread.
    pub fn release(&self, index: usize) {
        let (request, reply) = self.lock().held.remove(index);
        let outcome = self.perform(request);
        reply.send(outcome);
    }

    /// Requests end at once again, but for those that are held.
    pub fn hold_no_more(&self) {
        self.lock().holding = false;
    }

    pub fn release_all(&self) {
        self.hold_no_more();
        while self.held() > 0 {
            self.release(0);
        }
    }

    pub fn seen(&self) -> Vec<Request> {
        self.lock().seen.clone()
    }

    pub fn bytes(&self, start: usize, len: usize) -> Vec<u8> {
        self.lock().bytes[start..start + len].to_vec()
    }

    pub fn fill(&self, pattern: impl Fn(usize) -> u8) {
        self.lock().bytes.iter_mut().enumerate().for_each(|(n, byte)| *byte = pattern(n));
    }

    pub fn set_liveness(&self, blocks: &[Liveness]) {
        self.lock().liveness[..blocks.len()].copy_from_slice(blocks);
    }

    fn perform(&self, request: Request) -> Outcome {
        let mut state = self.lock();
        if let Some(refusal) = &state.refusal {
            return Err(refusal.clone());
        }
        let range = request.extent.start.0 as usize..request.extent.end() as usize;
        if let Op::Read = request.op {
            return Ok(state.bytes[range].to_vec().into());
        }
        let blocks = range.start / BLOCK as usize..range.end.div_ceil(BLOCK as usize);
        match request.op {
            Op::Write(payload) => {
                state.bytes[range].copy_from_slice(&payload);
                state.liveness[blocks].fill(Liveness::Live);
                Ok(payload.into())
            }
            Op::Trim | Op::Zero { .. } if range.end <= state.bytes.len() => {
                state.bytes[range].fill(0);
                state.liveness[blocks].fill(Liveness::Queued);
                Ok(Reply::default())
            }
            _ => Ok(Reply::default()),
        }
    }
}

impl Export for Disk {
    fn info(&self) -> ExportInfo {
        self.info.clone()
    }

    fn size(&self) -> u64 {
        self.info.size
    }

    fn connected(&self, _: Option<u32>) -> u64 {
        self.lock().clients += 1;
        self.changed.notify_all();
        0
    }

    fn disconnected(&self, _: u64) {
        self.lock().clients -= 1;
        self.changed.notify_all();
    }

    fn submit(&self, request: Request, reply: ReplyTo) {
        assert!(!self.lock().panics, "a defect, as the test wants it");
        let mut state = self.lock();
        state.seen.push(request.clone());
        if state.holding {
            state.held.push((request, reply));
            drop(state);
            self.changed.notify_all();
            return;
        }
        drop(state);
        let outcome = self.perform(request);
        reply.send(outcome);
    }

    fn liveness(&self, extent: Extent<Addr>, runs_max: usize) -> Vec<(u64, Liveness)> {
        let state = self.lock();
        let mut runs: Vec<(u64, Liveness)> = Vec::new();
        let mut at = extent.start.0;
        while at < extent.end() {
            let liveness = state.liveness.get((at / BLOCK) as usize).copied();
            let end = liveness.map_or(extent.end(), |_| extent.end().min((at / BLOCK + 1) * BLOCK));
            let liveness = liveness.unwrap_or(Liveness::Dead);
            let count = runs.len();
            match runs.last_mut() {
                Some(last) if last.1 == liveness => last.0 += end - at,
                _ if count == runs_max => break,
                _ => runs.push((end - at, liveness)),
            }
            at = end;
        }
        runs
    }
}
