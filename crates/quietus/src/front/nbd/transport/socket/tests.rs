use super::*;
use std::io::Write;
use std::os::unix::net::UnixStream;

#[test]
fn discarding_ends_in_time_though_there_is_more() {
    let (mut client, server) = UnixStream::pair().unwrap();
    let socket = Socket::new(server.into()).unwrap();
    client.write_all(b"more").unwrap();
    socket.discard_until(Instant::now());
    assert_eq!(socket.recv(&mut [0; 4], Some(Instant::now())).unwrap(), 4);
}

#[test]
fn discarding_ends_with_silence() {
    let (_client, server) = UnixStream::pair().unwrap();
    let socket = Socket::new(server.into()).unwrap();
    socket.discard_until(Instant::now() + Duration::from_secs(1 << 30));
}
