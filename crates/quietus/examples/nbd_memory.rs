//! Serves a file by NBD with no more between socket and file than must be: what
//! the server costs, and the most that a disk above it can reach.
//!
//! ```sh
//! cargo run --release --example nbd_memory -- unix:/tmp/nbd.sock /dev/shm/disk 1073741824
//! ```

use quietus::base::buffers;
use quietus::engine::export::{Export, ExportInfo, ReplyTo};
use quietus::front::Exports;
use quietus::front::nbd::{Config, Listener, Server};
use quietus_core::request::{Liveness, Op, Outcome, Refusal, Reply, Request};
use quietus_core::units::{Addr, BLOCK_BYTES, Extent};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// A file, read and written where the guest says.
struct Plain {
    file: File,
    size: u64,
}

impl Plain {
    fn perform(&self, request: Request) -> Outcome {
        let Extent { start: Addr(start), len } = request.extent;
        Extent::<Addr>::within(start, len, self.size).ok_or(Refusal::Invalid("beyond the end"))?;
        let outcome = match request.op {
            Op::Read | Op::Copy => self.read(start, len),
            Op::Write(payload) => self.file.write_all_at(&payload, start).map(|()| payload.into_memory()),
            Op::Trim | Op::Zero { .. } => self.zero(start, len),
            Op::Cache => Ok(Vec::new()),
            Op::Flush => self.file.sync_data().map(|()| Vec::new()),
            Op::Purge
            | Op::ConservativeOverwrite
            | Op::ReadForInference
            | Op::ReadPast(_)
            | Op::Compare(_)
            | Op::Ask(_)
            | Op::CloseEpoch { .. }
            | Op::Forget(_) => {
                return Err(Refusal::NotSupported("a plain file"));
            }
        };
        let outcome =
            outcome.and_then(|buf| if request.fua { self.file.sync_data().map(|()| buf) } else { Ok(buf) });
        outcome.map(Reply::from).map_err(|error| Refusal::Io(error.to_string()))
    }

    fn read(&self, start: u64, len: u64) -> io::Result<Vec<u8>> {
        let mut buf = buffers::take(len as usize);
        self.file.read_exact_at(&mut buf, start)?;
        Ok(buf)
    }

    fn zero(&self, start: u64, len: u64) -> io::Result<Vec<u8>> {
        use rustix::fs::{FallocateFlags, fallocate};
        fallocate(self.file.as_fd(), FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start, len)?;
        Ok(Vec::new())
    }
}

impl Export for Plain {
    fn info(&self) -> ExportInfo {
        ExportInfo {
            name: "plain".into(),
            description: "a plain file".into(),
            size: self.size,
            read_only: false,
            multi_connection: true,
        }
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn submit(&self, request: Request, reply: ReplyTo) {
        reply.send(self.perform(request));
    }

    fn liveness(&self, extent: Extent<Addr>, runs_max: usize) -> Vec<(u64, Liveness)> {
        let mut runs: Vec<(u64, Liveness)> = Vec::new();
        let mut at = extent.start.0;
        while at < extent.end() && runs.len() < runs_max {
            let (end, liveness) = self.run_at(at);
            let end = end.min(extent.end());
            runs.push((end - at, liveness));
            at = end;
        }
        runs
    }
}

impl Plain {
    /// Up to where the bytes at `at` are data, or a hole.
    fn run_at(&self, at: u64) -> (u64, Liveness) {
        use rustix::fs::{SeekFrom, seek};
        let next_data = seek(&self.file, SeekFrom::Data(at)).unwrap_or(self.size);
        if next_data > at {
            return (next_data, Liveness::Dead);
        }
        let next_hole = seek(&self.file, SeekFrom::Hole(at)).unwrap_or(self.size);
        (next_hole.max(at + BLOCK_BYTES), Liveness::Live)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, address, path, size] = &args[..] else { return Err("usage: ADDRESS FILE SIZE".into()) };
    let listener = match address.split_once(':') {
        Some(("unix", path)) => Listener::unix(Path::new(path))?,
        Some(("tcp", address)) => Listener::tcp(address)?,
        _ => return Err("an address is unix:PATH or tcp:HOST:PORT".into()),
    };
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    let size = size.parse()?;
    file.set_len(size)?;
    let exports = Exports::new(vec![Arc::new(Plain { file, size }) as Arc<dyn Export>]);
    let server = Server::start(vec![listener], exports, Config::default())?;
    println!("{}", server.bound()[0]);
    loop {
        std::thread::park();
    }
}
