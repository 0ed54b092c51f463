//! Clients that lie, stop, stall, or come in crowds.

use crate::nbd::client::*;
use crate::nbd::disk::{Disk, begun};
use quietus::front::nbd::{Bound, Config, Listener, Server};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

const SIZE: u64 = 1 << 20;

pub fn serve(disk: &Arc<Disk>, config: Config) -> (Server, SocketAddr) {
    let listener = Listener::tcp("127.0.0.1:0").unwrap();
    let server = Server::start(vec![listener], exports(&[Arc::clone(disk)]), config).unwrap();
    let Bound::Tcp(address) = server.bound()[0] else { panic!("not a port") };
    (server, address)
}

pub fn come(address: SocketAddr) -> Client<TcpStream> {
    Client { stream: TcpStream::connect(address).unwrap(), style: Style::Simple }
}

fn assert_serves(address: SocketAddr) {
    let mut client = come(address);
    client.stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    client.begin(Style::Structured);
    assert_eq!(client.write(0, 7, b"alive"), 0);
    assert_eq!(client.read(0, 7, 5), Ok(b"alive".to_vec()));
    client.say_request(DISC, 0, 0, 0, 0);
    assert!(client.is_closed());
}

#[test]
fn what_is_not_in_the_protocol_ends_the_session() {
    let endless_option = [&b"IHAVEOPT"[..], &99u32.to_be_bytes(), &u32::MAX.to_be_bytes()].concat();
    let no_magic = b"GET / HTTP/1.1\r\nHost: disk\r\n\r\n";
    for (flags, said) in [(3, &no_magic[..]), (3, &endless_option), (1 << 2 | 3, b"")] {
        let (_server, mut client) = connect(&[Disk::new("disk", SIZE)], Config::default());
        client.greet_with(flags);
        client.say(said);
        assert!(client.is_closed(), "flags {flags}, {said:?}");
    }
    for style in STYLES {
        let (_server, mut client) = transmit(&Disk::new("disk", SIZE), style);
        client.say(&[0x25; 64]);
        assert!(client.is_closed(), "{style:?}");
    }
}

#[test]
fn endless_options_end_the_session() {
    let (_server, mut client) = connect(&[Disk::new("disk", SIZE)], Config::default());
    client.greet();
    let mut answered = 0;
    while client.stream.write_all(&option_bytes(OPT_LIST, &[])).is_ok() {
        let mut reply = [0; 20 + 4 + 4 + 13 + 20];
        if client.stream.read_exact(&mut reply).is_err() {
            break;
        }
        answered += 1;
    }
    assert_eq!(answered, 1024);
}

#[test]
fn a_handshake_that_takes_too_long_ends() {
    let config = Config { handshake_timeout: Duration::from_millis(50), ..Config::default() };
    let (server, mut client) = connect(&[Disk::new("disk", SIZE)], config);
    client.greet();
    client.say(b"IHAVE");
    assert!(client.is_closed());
    server.wait_until_idle();
}

#[test]
fn a_payload_of_any_absurd_length_is_refused_and_ends_the_session() {
    let too_long = (32 << 20) + 1;
    let mut all: Vec<_> = DIALECTS.map(|(style, flags)| (style, WRITE, flags, too_long)).into();
    all.push((Style::Simple, WRITE, 0, too_long));
    all.extend([1 << 32, u64::MAX].map(|len| (Style::Extended, WRITE, 0, len)));
    all.extend([READ, WRITE, TRIM, STATUS, 999].map(|it| (Style::Extended, it, PAYLOAD_LEN, u64::MAX)));
    for (style, command, flags, len) in all {
        let (disk, _server, mut client) = begun(style);
        client.say_request(command, flags, 5, 0, len);
        client.say(b"the first of very many bytes");
        assert_eq!(client.outcome(5), EINVAL, "{style:?}, command {command}, {len} bytes");
        assert!(client.is_closed() && disk.seen().is_empty(), "{style:?}, command {command}, {len} bytes");
    }
}

/// The headers of a conversation, and the flags of its writes: by the specification, and as
/// QEMU's client sends them.
const DIALECTS: [(Style, u16); 3] =
    [(Style::Structured, 0), (Style::Extended, PAYLOAD_LEN), (Style::Extended, 0)];

/// A whole conversation, as a client sends it that needs no answers.
fn conversation((style, payload_len): (Style, u16)) -> Vec<u8> {
    let mut said = 3u32.to_be_bytes().to_vec();
    let header = if style == Style::Extended { OPT_EXTENDED } else { OPT_STRUCTURED };
    said.extend(option_bytes(header, &[]));
    said.extend(option_bytes(OPT_LIST, &[]));
    said.extend(option_bytes(OPT_SET_META, &meta("", &["base:allocation"])));
    said.extend(option_bytes(OPT_GO, &info_request("disk", &[1, 2, 3])));
    said.extend(request_bytes(style, WRITE, payload_len, 1, 0, 50));
    said.extend([b'w'; 50]);
    said.extend(request_bytes(style, READ, 0, 2, 0, 10));
    said.extend(request_bytes(style, STATUS, 0, 3, 0, 8192));
    said.extend(request_bytes(style, WRITE, payload_len, 4, SIZE, 30));
    said.extend([b'x'; 30]);
    said.extend(request_bytes(style, FLUSH, 0, 5, 0, 0));
    said.extend(request_bytes(style, DISC, 0, 6, 0, 0));
    said
}

#[test]
fn a_client_may_disconnect_at_every_byte() {
    let disk = Disk::new("disk", SIZE);
    let (server, address) = serve(&disk, Config::default());
    for dialect in DIALECTS {
        let said = conversation(dialect);
        for len in 0..=said.len() {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&said[..len]).unwrap();
            match len % 3 {
                0 => drop(stream),
                1 => stream.shutdown(Shutdown::Both).unwrap(),
                _ => {
                    stream.shutdown(Shutdown::Write).unwrap();
                    stream.read_to_end(&mut Vec::new()).unwrap();
                }
            }
        }
    }
    assert_serves(address);
    server.wait_until_idle();
    assert_eq!(disk.bytes(0, 7), b"wwwwwww");
}

#[test]
fn bytes_that_come_one_by_one_are_understood() {
    for dialect in DIALECTS {
        let (_server, mut client) = connect(&[Disk::new("disk", SIZE)], Config::default());
        let said = conversation(dialect);
        let reader = {
            let mut stream = client.stream.try_clone().unwrap();
            std::thread::spawn(move || {
                let mut heard = Vec::new();
                stream.read_to_end(&mut heard).map(|_| heard)
            })
        };
        said.chunks(1).for_each(|byte| client.say(byte));
        let heard = reader.join().unwrap().unwrap();
        let data = [b'w'; 10];
        assert!(heard.windows(10).any(|bytes| bytes == data));
    }
}

#[test]
fn noise_harms_no_client() {
    let (server, address) = serve(&Disk::new("disk", SIZE), Config::default());
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as u8
    };
    for round in 0..200 {
        let mut said = conversation(DIALECTS[round % DIALECTS.len()]);
        for _ in 0..1 + round % 7 {
            let at = (usize::from(noise()) << 8 | usize::from(noise())) % said.len();
            said[at] = noise();
        }
        let mut stream = TcpStream::connect(address).unwrap();
        // The server may hang up on it in the middle.
        let _ = stream.write_all(&said);
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_serves(address);
    server.wait_until_idle();
}

#[test]
fn a_client_that_goes_away_in_a_payload_takes_nothing_with_it() {
    for (style, payload_len) in DIALECTS {
        let (disk, server, mut client) = begun(style);
        client.say_request(WRITE, payload_len, 1, 0, 1 << 20);
        client.say(&[1; 1000]);
        drop(client);
        server.wait_until_idle();
        assert_eq!(disk.seen(), []);
    }
}

#[test]
fn outcomes_for_a_client_that_is_gone_are_dropped() {
    let disk = Disk::new("disk", SIZE);
    disk.hold();
    let (server, mut client) = transmit(&disk, Style::Structured);
    for cookie in 0..10 {
        client.say_request(READ, 0, cookie, 0, 4096);
    }
    disk.await_held(10);
    drop(client);
    disk.release_all();
    server.wait_until_idle();
}

#[test]
fn a_client_that_reads_no_reply_holds_up_no_other() {
    let disk = Disk::new("disk", 16 << 20);
    let (_server, address) = serve(&disk, Config { in_flight_bytes_max: 64 << 20, ..Config::default() });
    let mut greedy = come(address);
    greedy.begin(Style::Extended);
    for cookie in 0..100 {
        greedy.say_request(READ, 0, cookie, 0, 8 << 20);
    }
    for _ in 0..20 {
        assert_serves(address);
    }
}

#[test]
fn a_client_that_reads_no_reply_is_dropped_in_the_end() {
    let disk = Disk::new("disk", 16 << 20);
    let config = Config { stall_timeout: Duration::from_millis(50), ..Config::default() };
    let (server, mut client) = connect(std::slice::from_ref(&disk), config);
    client.begin(Style::Simple);
    for cookie in 0..20 {
        client.say_request(READ, 0, cookie, 0, 8 << 20);
    }
    server.wait_until_idle();
}

/// Everything that stops in the middle of a request.
fn halves(style: Style) -> Vec<Vec<u8>> {
    let flags = if style == Style::Extended { PAYLOAD_LEN } else { 0 };
    let write = |offset| request_bytes(style, WRITE, flags, 1, offset, 1 << 20);
    let mut halves = vec![
        write(0)[..1].to_vec(),
        write(0)[..20].to_vec(),
        write(0),
        [write(0), vec![1; 300_000]].concat(),
        // Refused, and its payload skipped.
        [write(SIZE), vec![1; 300_000]].concat(),
    ];
    if style == Style::Extended {
        halves.push([request_bytes(style, STATUS, PAYLOAD_LEN, 1, 0, 12), vec![0; 5]].concat());
    }
    halves
}

fn soon_stalled() -> Config {
    Config { stall_timeout: Duration::from_millis(50), ..Config::default() }
}

#[test]
fn a_client_that_stops_in_the_middle_of_a_request_is_dropped() {
    for style in STYLES {
        for (which, half) in halves(style).into_iter().enumerate() {
            let (server, mut client) = connect(&[Disk::new("disk", SIZE)], soon_stalled());
            client.begin(style);
            client.say(&half);
            assert!(client.is_closed(), "half {which} in style {style:?}");
            server.wait_until_idle();
        }
    }
}

#[test]
fn a_client_may_rest_between_requests() {
    for style in STYLES {
        let (_server, mut client) = connect(&[Disk::new("disk", SIZE)], soon_stalled());
        client.begin(style);
        std::thread::sleep(Duration::from_millis(200));
        let flags = if style == Style::Extended { PAYLOAD_LEN } else { 0 };
        client.say(&[&request_bytes(style, WRITE, flags, 1, 0, 6)[..], b"rested"].concat());
        assert_eq!(client.outcome(1), 0);
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(client.read(0, 0, 6), Ok(b"rested".to_vec()));
    }
}

#[test]
fn a_client_that_reads_late_gets_every_reply_whole() {
    let disk = Disk::new("disk", 8 << 20);
    disk.fill(|n| (n / 1000) as u8);
    let (_server, mut client) = transmit(&disk, Style::Structured);
    for cookie in 0..60 {
        client.say_request(READ, 0, cookie, cookie * 1000, 3 << 20);
    }
    std::thread::sleep(Duration::from_millis(50));
    let expected = disk.bytes(0, 8 << 20);
    for cookie in 0..60 {
        let read = client.read_reply(cookie, cookie * 1000, 3 << 20).unwrap();
        assert!(read == expected[cookie as usize * 1000..][..3 << 20], "reply {cookie}");
    }
}

#[test]
fn a_panic_ends_only_its_own_connection() {
    let disk = Disk::new("disk", SIZE);
    let (server, address) = serve(&Disk::new("other", SIZE), Config::default());
    let (broken, mut client) = transmit(&disk, Style::Structured);
    disk.panic();
    client.say_request(READ, 0, 1, 0, 1);
    assert!(client.is_closed());
    broken.wait_until_idle();
    assert_serves(address);
    server.wait_until_idle();
}

#[test]
fn ten_thousand_connections_leave_nothing_behind() {
    let (server, address) = serve(&Disk::new("disk", SIZE), Config::default());
    let mut crowd = std::collections::VecDeque::new();
    for n in 0..10_000 {
        crowd.push_back(TcpStream::connect(address).unwrap());
        if crowd.len() > 300 {
            crowd.pop_front();
        }
        if n % 2500 == 0 {
            assert_serves(address);
        }
    }
    assert!(server.connections().len() <= 256);
    assert_serves(address);
    drop(crowd);
    server.wait_until_idle();
}

#[test]
fn a_connection_in_transmission_is_not_pushed_out() {
    let disk = Disk::new("disk", SIZE);
    let (server, address) = serve(&disk, Config { connections_max: 2, ..Config::default() });
    let (mut first, mut second) = (come(address), come(address));
    first.begin(Style::Simple);
    second.greet();
    let mut third = come(address);
    third.begin(Style::Simple);
    assert!(second.is_closed());
    assert!(come(address).is_closed());
    assert_eq!(first.read(0, 0, 1), Ok(vec![0]));
    assert_eq!(third.read(0, 0, 1), Ok(vec![0]));
    assert_eq!(server.connections().len(), 2);
}

#[test]
fn a_socket_that_is_no_stream_of_ours_is_refused() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(ours);
    assert!(Listener::inherited(theirs.into()).is_ok(), "a hung-up client is a client");
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(Listener::inherited(file.into()).is_err());
}
