//! A whole conversation: whatever a client sends, the server ends it in order.
#![no_main]
use libfuzzer_sys::fuzz_target;
use quietus::engine::export::{Export, ExportInfo, ReplyTo};
use quietus::front::Exports;
use quietus::front::nbd::{Config, Listener, Server};
use quietus_core::request::{Liveness, Op, Request};
use quietus_core::base::units::{Addr, Extent};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SIZE: u64 = 1 << 20;

struct Zeros;

impl Export for Zeros {
    fn info(&self) -> ExportInfo {
        ExportInfo {
            name: "z".into(),
            description: String::new(),
            size: SIZE,
            read_only: false,
            multi_connection: true,
        }
    }

    fn size(&self) -> u64 {
        SIZE
    }

    fn submit(&self, request: Request, reply: ReplyTo) {
        reply.send(Ok(match request.op {
            Op::Read => vec![0; request.extent.len as usize].into(),
            Op::Write(data) => data.into(),
            _ => Vec::new().into(),
        }));
    }

    fn liveness(&self, extent: Extent<Addr>, _: usize) -> Vec<(u64, Liveness)> {
        vec![(extent.len, Liveness::Live)]
    }
}

fuzz_target!(|data: &[u8]| {
    let (mut client, server) = UnixStream::pair().expect("a pair of sockets");
    let listener = Listener::inherited(server.into()).expect("a connection");
    let server = Server::start(vec![listener], Exports::new(vec![Arc::new(Zeros)]), Config::default());
    let server = server.expect("a server");
    let mut drain = client.try_clone().expect("a descriptor");
    let reader = std::thread::spawn(move || {
        let mut waste = [0; 65536];
        while drain.read(&mut waste).is_ok_and(|read| read > 0) {}
    });
    // The server may hang up in the middle.
    let _ = client.write_all(data);
    let _ = client.shutdown(std::net::Shutdown::Write);
    assert!(server.shutdown(Instant::now() + Duration::from_secs(10)), "the server hangs");
    drop((server, client));
    reader.join().expect("it only reads");
});
