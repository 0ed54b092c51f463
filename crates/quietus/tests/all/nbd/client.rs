//! A client that can say anything. It knows the protocol by itself, so that
//! client and server do not share an error.

use quietus::engine::export::Export;
use quietus::front::Exports;
use quietus::front::nbd::{Config, Listener, Server};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub const OPT_EXPORT_NAME: u32 = 1;
pub const OPT_ABORT: u32 = 2;
pub const OPT_LIST: u32 = 3;
pub const OPT_STARTTLS: u32 = 5;
pub const OPT_INFO: u32 = 6;
pub const OPT_GO: u32 = 7;
pub const OPT_STRUCTURED: u32 = 8;
pub const OPT_LIST_META: u32 = 9;
pub const OPT_SET_META: u32 = 10;
pub const OPT_EXTENDED: u32 = 11;

pub const ACK: u32 = 1;
pub const SERVER: u32 = 2;
pub const INFO: u32 = 3;
pub const META: u32 = 4;
pub const ERR_UNSUP: u32 = 0x8000_0001;
pub const ERR_POLICY: u32 = 0x8000_0002;
pub const ERR_INVALID: u32 = 0x8000_0003;
pub const ERR_TLS_REQD: u32 = 0x8000_0005;
pub const ERR_UNKNOWN: u32 = 0x8000_0006;
pub const ERR_TOO_BIG: u32 = 0x8000_0009;
pub const ERR_EXT_HEADER_REQD: u32 = 0x8000_000a;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISC: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const CACHE: u16 = 5;
pub const ZERO: u16 = 6;
pub const STATUS: u16 = 7;

pub const FUA: u16 = 1;
pub const NO_HOLE: u16 = 2;
pub const DF: u16 = 4;
pub const REQ_ONE: u16 = 8;
pub const FAST_ZERO: u16 = 16;
pub const PAYLOAD_LEN: u16 = 32;

pub const EPERM: u32 = 1;
pub const EIO: u32 = 5;
pub const EINVAL: u32 = 22;
pub const ENOSPC: u32 = 28;
pub const EOVERFLOW: u32 = 75;
pub const ENOTSUP: u32 = 95;
pub const ESHUTDOWN: u32 = 108;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    Simple,
    Structured,
    Extended,
}

pub const STYLES: [Style; 3] = [Style::Simple, Style::Structured, Style::Extended];

/// A server of `disks` with one client, connected by a pair of sockets.
pub fn connect<E: Export + 'static>(disks: &[Arc<E>], config: Config) -> (Server, Client<UnixStream>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let listener = Listener::inherited(theirs.into()).unwrap();
    let server = Server::start(vec![listener], exports(disks), config).unwrap();
    (server, Client::new(ours))
}

/// A server at a socket in a directory of its own.
pub struct Listening {
    pub server: Server,
    pub path: PathBuf,
    _dir: TempDir,
}

impl Listening {
    pub fn new(exports: Exports, config: Config) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let server = Server::start(vec![Listener::unix(&path).unwrap()], exports, config).unwrap();
        Self { server, path, _dir: dir }
    }

    pub fn connect(&self) -> Client<UnixStream> {
        Client::new(UnixStream::connect(&self.path).unwrap())
    }

    /// A client that has finished its handshake.
    pub fn begin(&self, style: Style) -> Client<UnixStream> {
        let mut client = self.connect();
        client.begin(style);
        client
    }
}

pub fn exports<E: Export + 'static>(disks: &[Arc<E>]) -> Exports {
    Exports::new(disks.iter().map(|disk| Arc::clone(disk) as Arc<dyn Export>).collect())
}

/// A server of one disk and its client, with transmission begun.
pub fn transmit<E: Export + 'static>(disk: &Arc<E>, style: Style) -> (Server, Client<UnixStream>) {
    let (server, mut client) = connect(std::slice::from_ref(disk), Config::default());
    client.begin(style);
    (server, client)
}

pub struct Client<S> {
    pub stream: S,
    pub style: Style,
}

/// A reply to an option.
pub type OptionReply = (u32, Vec<u8>);

/// A context, and its extents: lengths and statuses.
pub type StatusOf = (u32, Vec<(u64, u64)>);

/// A reply to a request, or a chunk of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chunk {
    pub cookie: u64,
    pub done: bool,
    pub kind: u16,
    pub error: u32,
    pub payload: Vec<u8>,
}

impl Client<UnixStream> {
    pub fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(30))).unwrap();
        Self { stream, style: Style::Simple }
    }
}

impl<S: Read + Write> Client<S> {
    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    pub fn take_u16(&mut self) -> u16 {
        u16::from_be_bytes(self.take())
    }

    pub fn take_u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take())
    }

    pub fn take_u64(&mut self) -> u64 {
        u64::from_be_bytes(self.take())
    }

    pub fn take_bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    pub fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Whether the server has closed the connection, once what it sent is read.
    pub fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }

    pub fn greet(&mut self) {
        self.greet_with(3);
    }

    pub fn greet_with(&mut self, flags: u32) {
        assert_eq!(&self.take::<8>(), b"NBDMAGIC");
        assert_eq!(&self.take::<8>(), b"IHAVEOPT");
        assert_eq!(self.take_u16(), 3);
        self.say(&flags.to_be_bytes());
    }

    pub fn say_option(&mut self, option: u32, data: &[u8]) {
        self.say(&option_bytes(option, data));
    }

    /// All replies to an option, the last of which is final.
    pub fn option(&mut self, option: u32, data: &[u8]) -> Vec<OptionReply> {
        self.say_option(option, data);
        let mut replies = Vec::new();
        loop {
            assert_eq!(self.take_u64(), 0x0003_e889_0455_65a9);
            assert_eq!(self.take_u32(), option);
            let kind = self.take_u32();
            let len = self.take_u32() as usize;
            replies.push((kind, self.take_bytes(len)));
            if ![SERVER, INFO, META].contains(&kind) {
                return replies;
            }
        }
    }

    /// The final reply to an option.
    pub fn verdict(&mut self, option: u32, data: &[u8]) -> u32 {
        self.option(option, data).last().unwrap().0
    }

    /// From the greeting to transmission, with both contexts where they can be.
    pub fn begin(&mut self, style: Style) {
        self.greet();
        self.agree(style);
    }

    pub fn agree_on_headers(&mut self, style: Style) {
        self.style = style;
        match style {
            Style::Simple => {}
            Style::Structured => assert_eq!(self.verdict(OPT_STRUCTURED, &[]), ACK),
            Style::Extended => assert_eq!(self.verdict(OPT_EXTENDED, &[]), ACK),
        }
    }

    pub fn agree(&mut self, style: Style) {
        self.agree_on_headers(style);
        if style != Style::Simple {
            let set = meta("", &["base:allocation", "quietus:liveness"]);
            assert_eq!(self.verdict(OPT_SET_META, &set), ACK);
        }
        assert_eq!(self.verdict(OPT_GO, &info_request("", &[])), ACK);
    }

    pub fn say_request(&mut self, command: u16, flags: u16, cookie: u64, offset: u64, len: u64) {
        let bytes = request_bytes(self.style, command, flags, cookie, offset, len);
        self.say(&bytes);
    }

    pub fn say_write(&mut self, flags: u16, cookie: u64, offset: u64, payload: &[u8]) {
        let flags = if self.style == Style::Extended { flags | PAYLOAD_LEN } else { flags };
        self.say_request(WRITE, flags, cookie, offset, payload.len() as u64);
        self.say(payload);
    }

    /// The next reply or chunk; `read` bytes of data follow a simple success.
    pub fn chunk(&mut self, read: usize) -> Chunk {
        match (self.take_u32(), self.style) {
            (0x6744_6698, Style::Simple) => self.simple(read),
            (0x668e_33ef, Style::Structured) | (0x6e8a_278c, Style::Extended) => self.structured(),
            (magic, style) => panic!("{magic:#x} in style {style:?}"),
        }
    }

    fn simple(&mut self, read: usize) -> Chunk {
        let (error, cookie) = (self.take_u32(), self.take_u64());
        let payload = if error == 0 { self.take_bytes(read) } else { Vec::new() };
        Chunk { cookie, done: true, kind: 0, error, payload }
    }

    fn structured(&mut self) -> Chunk {
        let (flags, kind, cookie) = (self.take_u16(), self.take_u16(), self.take_u64());
        let len = if self.style == Style::Extended {
            self.take_u64();
            self.take_u64() as usize
        } else {
            self.take_u32() as usize
        };
        let payload = self.take_bytes(len);
        let is_error = kind & 0x8000 != 0;
        let error = if is_error { u32::from_be_bytes(payload[..4].try_into().unwrap()) } else { 0 };
        Chunk { cookie, done: flags & 1 != 0, kind, error, payload }
    }

    /// Does a request without payload or data, and returns its error.
    pub fn request(&mut self, command: u16, flags: u16, offset: u64, len: u64) -> u32 {
        self.say_request(command, flags, 77, offset, len);
        self.outcome(77)
    }

    /// The error of the next reply, which must be a single chunk for `cookie`.
    pub fn outcome(&mut self, cookie: u64) -> u32 {
        let chunk = self.chunk(0);
        assert_eq!((chunk.cookie, chunk.done), (cookie, true));
        chunk.error
    }

    pub fn write(&mut self, flags: u16, offset: u64, payload: &[u8]) -> u32 {
        self.say_write(flags, 78, offset, payload);
        self.outcome(78)
    }

    pub fn read(&mut self, flags: u16, offset: u64, len: usize) -> Result<Vec<u8>, u32> {
        self.say_request(READ, flags, 79, offset, len as u64);
        self.read_reply(79, offset, len)
    }

    pub fn read_reply(&mut self, cookie: u64, offset: u64, len: usize) -> Result<Vec<u8>, u32> {
        let chunk = self.chunk(len);
        assert_eq!((chunk.cookie, chunk.done), (cookie, true));
        if chunk.error != 0 {
            return Err(chunk.error);
        }
        if self.style == Style::Simple {
            return Ok(chunk.payload);
        }
        assert_eq!(chunk.kind, 1);
        assert_eq!(chunk.payload[..8], offset.to_be_bytes());
        Ok(chunk.payload[8..].to_vec())
    }

    /// The extents of each context of a block status reply.
    pub fn status_reply(&mut self, cookie: u64) -> Result<Vec<StatusOf>, u32> {
        let mut contexts = Vec::new();
        loop {
            let chunk = self.chunk(0);
            assert_eq!(chunk.cookie, cookie);
            if chunk.error != 0 {
                return Err(chunk.error);
            }
            contexts.push(extents(&chunk, self.style));
            if chunk.done {
                return Ok(contexts);
            }
        }
    }

    pub fn status(&mut self, flags: u16, offset: u64, len: u64) -> Result<Vec<StatusOf>, u32> {
        self.say_request(STATUS, flags, 80, offset, len);
        self.status_reply(80)
    }
}

fn extents(chunk: &Chunk, style: Style) -> StatusOf {
    let (kind, head, number) = if style == Style::Extended { (6, 8, 8) } else { (5, 4, 4) };
    assert_eq!(chunk.kind, kind);
    let pairs = chunk.payload[head..].chunks_exact(2 * number).map(|pair| pair.split_at(number));
    let pairs: Vec<_> = pairs.map(|(len, status)| (long(len), long(status))).collect();
    assert!(style != Style::Extended || long(&chunk.payload[4..8]) == pairs.len() as u64);
    (long(&chunk.payload[..4]) as u32, pairs)
}

fn long(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

pub fn option_bytes(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

pub fn request_bytes(style: Style, command: u16, flags: u16, cookie: u64, offset: u64, len: u64) -> Vec<u8> {
    let extended = style == Style::Extended;
    let magic: u32 = if extended { 0x21e4_1c71 } else { 0x2560_9513 };
    let mut bytes = magic.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    if extended {
        bytes.extend(len.to_be_bytes())
    } else {
        bytes.extend((len as u32).to_be_bytes())
    }
    bytes
}

pub fn info_request(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((wanted.len() as u16).to_be_bytes());
    wanted.iter().for_each(|kind| data.extend(kind.to_be_bytes()));
    data
}

pub fn meta(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend((query.len() as u32).to_be_bytes());
        data.extend(query.as_bytes());
    }
    data
}
