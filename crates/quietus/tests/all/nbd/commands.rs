//! Commands, one by one, in every style of header.

use crate::nbd::client::*;
use crate::nbd::disk::{BLOCK, Disk, begun};
use quietus_core::request::{Liveness, Op, Refusal};
use std::os::unix::net::UnixStream;

const SIZE: u64 = 1 << 20;
const MIB: u64 = 1 << 20;

/// A new disk for each style of header.
fn in_each_style(check: impl Fn(Style, &Disk, Client<UnixStream>)) {
    for style in STYLES {
        let (disk, _server, client) = begun(style);
        check(style, &disk, client);
    }
}

#[test]
fn what_is_written_is_read_at_any_alignment() {
    in_each_style(|_, disk, mut client| {
        for (offset, len) in
            [(0, 1), (1, 4096), (4095, 3), (SIZE - 7, 7), (100_000, 300_001), (0, SIZE as usize)]
        {
            let payload: Vec<u8> = (0..len).map(|n| (n * 31 + offset as usize) as u8).collect();
            assert_eq!(client.write(0, offset, &payload), 0);
            assert_eq!(disk.bytes(offset as usize, len), payload);
            assert_eq!(client.read(0, offset, len), Ok(payload));
        }
    });
}

#[test]
fn requests_of_32_mib_are_taken() {
    let disk = Disk::new("disk", 32 * MIB);
    let (_server, mut client) = transmit(&disk, Style::Structured);
    let payload: Vec<u8> = (0..32 * MIB).map(|n| (n >> 8) as u8).collect();
    assert_eq!(client.write(0, 0, &payload), 0);
    assert!(client.read(DF, 0, payload.len()) == Ok(payload));
}

#[test]
fn each_command_reaches_the_disk_with_its_flags() {
    in_each_style(|_, disk, mut client| {
        assert_eq!(client.write(FUA, 10, b"abc"), 0);
        assert_eq!(client.request(TRIM, FUA, 4096, 8192), 0);
        assert_eq!(client.request(ZERO, 0, 1, 2), 0);
        assert_eq!(client.request(ZERO, FUA | NO_HOLE | FAST_ZERO, 3, 4), 0);
        assert_eq!(client.request(CACHE, 0, 5, 6), 0);
        assert_eq!(client.request(FLUSH, FUA, 0, 0), 0);
        assert!(client.read(FUA, 7, 8).is_ok());
        let seen: Vec<_> = disk
            .seen()
            .into_iter()
            .map(|seen| (seen.op, seen.extent.start.0, seen.extent.len, seen.fua))
            .collect();
        let expected = [
            (Op::Write(b"abc".to_vec().into()), 10, 3, true),
            (Op::Trim, 4096, 8192, true),
            (Op::Zero { no_hole: false, fast: false }, 1, 2, false),
            (Op::Zero { no_hole: true, fast: true }, 3, 4, true),
            (Op::Cache, 5, 6, false),
            (Op::Flush, 0, 0, false),
            (Op::Read, 7, 8, false),
        ];
        assert_eq!(seen, expected);
    });
}

#[test]
fn an_empty_request_succeeds_without_the_disk() {
    in_each_style(|_, disk, mut client| {
        for command in [READ, TRIM, ZERO, CACHE] {
            assert_eq!(client.request(command, 0, SIZE, 0), 0, "command {command}");
        }
        assert_eq!(client.write(0, 5, b""), 0);
        assert_eq!(disk.seen(), []);
    });
}

#[test]
fn beyond_the_end_is_invalid_or_no_space() {
    in_each_style(|_, disk, mut client| {
        for (offset, len) in [(SIZE, 1), (SIZE - 1, 2), (u64::MAX, 1), (u64::MAX, 2), (0, SIZE + 1)] {
            assert_eq!(client.read(0, offset, len as usize), Err(EINVAL));
            assert_eq!(client.request(TRIM, 0, offset, len), EINVAL);
            assert_eq!(client.request(CACHE, 0, offset, len), EINVAL);
            assert_eq!(client.request(ZERO, 0, offset, len), ENOSPC);
            assert_eq!(client.write(0, offset, &vec![1; len as usize]), ENOSPC);
        }
        assert_eq!(disk.seen(), []);
    });
}

#[test]
fn a_read_of_more_than_32_mib_is_too_long() {
    for (style, error) in
        [(Style::Simple, EINVAL), (Style::Structured, EOVERFLOW), (Style::Extended, EOVERFLOW)]
    {
        let disk = Disk::new("disk", 1 << 40);
        let (_server, mut client) = transmit(&disk, style);
        assert_eq!(client.read(0, 0, (32 << 20) + 1), Err(error));
    }
}

#[test]
fn unknown_commands_and_flags_are_invalid_and_the_stream_stays_in_step() {
    in_each_style(|style, _, mut client| {
        for (command, flags) in
            [(8, 0), (999, 0), (READ, NO_HOLE), (TRIM, DF), (FLUSH, REQ_ONE), (CACHE, 0x8000)]
        {
            assert_eq!(client.request(command, flags, 0, 0), EINVAL, "command {command} flags {flags}");
        }
        assert_eq!(client.write(FAST_ZERO, 0, b"payload that is thrown away"), EINVAL);
        assert_eq!(client.request(FLUSH, 0, 1, 0), EINVAL);
        assert_eq!(client.request(FLUSH, 0, 0, 1), EINVAL);
        if style == Style::Structured {
            assert_eq!(client.request(TRIM, PAYLOAD_LEN, 0, 4096), EINVAL);
            assert_eq!(client.write(PAYLOAD_LEN, 0, b"in step"), EINVAL);
        }
        assert_eq!(client.read(DF, 0, 1).is_ok(), style != Style::Simple);
        assert!(client.read(0, 0, 5).is_ok());
    });
}

#[test]
fn a_payload_that_no_command_expects_is_thrown_away() {
    let (disk, _server, mut client) = begun(Style::Extended);
    for command in [READ, FLUSH, TRIM, CACHE, ZERO, 999] {
        client.say_request(command, PAYLOAD_LEN, 5, 0, 100_000);
        client.say(&vec![9; 100_000]);
        assert_eq!(client.outcome(5), EINVAL, "command {command}");
    }
    assert!(client.read(0, 0, 5).is_ok());
    assert_eq!(disk.seen().len(), 1);
}

/// As QEMU's client sends it, which never sets `PAYLOAD_LEN`.
fn say_bare_write(client: &mut Client<UnixStream>, flags: u16, cookie: u64, offset: u64, payload: &[u8]) {
    client.say_request(WRITE, flags, cookie, offset, payload.len() as u64);
    client.say(payload);
}

#[test]
fn an_extended_write_that_does_not_announce_its_payload_is_served() {
    let (disk, _server, mut client) = begun(Style::Extended);
    let large = vec![0x77; 300_000];
    say_bare_write(&mut client, 0, 1, 10, b"abc");
    say_bare_write(&mut client, FUA, 2, 4096, &large);
    say_bare_write(&mut client, 0, 3, 5, b"");
    client.say_write(0, 4, 20, b"announced");
    assert_eq!([1, 2, 3, 4].map(|cookie| client.outcome(cookie)), [0; 4]);
    assert_eq!(client.read(0, 10, 3), Ok(b"abc".to_vec()));
    assert_eq!(client.read(0, 20, 9), Ok(b"announced".to_vec()));
    assert!(client.read(0, 4096, large.len()) == Ok(large));
    let durable: Vec<_> =
        disk.seen().into_iter().map(|seen| (seen.extent.start.0, seen.fua)).take(3).collect();
    assert_eq!(durable, [(10, false), (4096, true), (20, false)]);
}

#[test]
fn an_extended_write_that_is_refused_takes_its_payload_along_announced_or_not() {
    let disk = Disk::new("disk", SIZE);
    let read_only = Disk::with("disk", SIZE, |info| info.read_only = true);
    let payload = vec![9; 300_000];
    for announced in [0, PAYLOAD_LEN] {
        for (disk, flags, offset, error) in
            [(&disk, 0, SIZE - 1, ENOSPC), (&disk, NO_HOLE, 0, EINVAL), (&read_only, 0, 0, EPERM)]
        {
            let (_server, mut client) = transmit(disk, Style::Extended);
            say_bare_write(&mut client, flags | announced, 5, offset, &payload);
            assert_eq!(client.outcome(5), error);
            assert_eq!(client.read(0, 0, 5), Ok(vec![0; 5]));
        }
    }
}

#[test]
fn a_read_only_disk_refuses_writes_and_takes_their_payload() {
    for style in STYLES {
        let disk = Disk::with("disk", SIZE, |info| info.read_only = true);
        let (_server, mut client) = transmit(&disk, style);
        assert_eq!(client.write(0, 0, &vec![1; 500_000]), EPERM);
        assert_eq!(client.request(TRIM, 0, 0, 1), EPERM);
        assert_eq!(client.request(ZERO, 0, 0, 1), EPERM);
        assert_eq!(client.read(0, 0, 4), Ok(vec![0; 4]));
    }
}

#[test]
fn each_refusal_has_its_error_and_its_text() {
    let cases = [
        (Refusal::ReadOnly, EPERM),
        (Refusal::Latched("the cable".into()), EIO),
        (Refusal::Invalid("odd"), EINVAL),
        (Refusal::NoSpace("full".into()), ENOSPC),
        (Refusal::Io("bad sector".into()), EIO),
        (Refusal::Unauthentic("block 7 of epoch 2 cannot be opened".into()), EIO),
        (Refusal::NotSupported("slow"), ENOTSUP),
        (Refusal::ShuttingDown, ESHUTDOWN),
    ];
    in_each_style(|style, disk, mut client| {
        for (refusal, error) in &cases {
            disk.refuse(refusal.clone());
            assert_eq!(client.read(0, 0, 1), Err(*error));
            client.say_write(0, 6, 0, b"abc");
            let chunk = client.chunk(0);
            assert_eq!(chunk.error, *error);
            if style != Style::Simple {
                assert_eq!(chunk.payload[6..], *refusal.to_string().as_bytes());
            }
        }
    });
}

#[test]
fn a_refusal_with_a_long_text_is_cut_to_what_the_protocol_allows() {
    let (disk, _server, mut client) = begun(Style::Structured);
    disk.refuse(Refusal::Io("é".repeat(5000)));
    client.say_request(TRIM, 0, 6, 0, 1);
    let chunk = client.chunk(0);
    let text = std::str::from_utf8(&chunk.payload[6..]).unwrap();
    assert!(text.len() <= 4096 && text.ends_with('é'));
}

const MIXED: [Liveness; 6] =
    [Liveness::Live, Liveness::Suspicious, Liveness::Dead, Liveness::Dead, Liveness::Queued, Liveness::Live];

#[test]
fn block_status_tells_both_contexts() {
    for style in [Style::Structured, Style::Extended] {
        let disk = Disk::new("disk", SIZE);
        disk.set_liveness(&MIXED);
        let (_server, mut client) = transmit(&disk, style);
        let status = client.status(0, 0, 6 * BLOCK).unwrap();
        let allocation = vec![(2 * BLOCK, 0), (2 * BLOCK, 3), (BLOCK, 2), (BLOCK, 0)];
        let liveness = vec![(BLOCK, 0), (BLOCK, 3), (2 * BLOCK, 1), (BLOCK, 2), (BLOCK, 0)];
        assert_eq!(status, [(1, allocation), (2, liveness)]);
        // One extent is one within the request.
        let status = client.status(REQ_ONE, 100, 5000).unwrap();
        assert_eq!(status, [(1, vec![(5000, 0)]), (2, vec![(BLOCK - 100, 0)])]);
    }
}

#[test]
fn block_status_of_nothing_or_beyond_the_end_is_invalid() {
    for style in [Style::Structured, Style::Extended] {
        let (_server, mut client) = transmit(&Disk::new("disk", SIZE), style);
        assert_eq!(client.status(0, 0, 0), Err(EINVAL));
        assert_eq!(client.status(0, SIZE - 1, 2), Err(EINVAL));
        assert_eq!(client.status(DF, 0, 1), Err(EINVAL));
        assert!(client.status(0, SIZE - 1, 1).is_ok());
    }
    let (_server, mut client) = transmit(&Disk::new("disk", SIZE), Style::Simple);
    assert_eq!(client.request(STATUS, 0, 0, 1), EINVAL);
}

#[test]
fn extended_requests_reach_as_far_as_the_disk_and_compact_ones_four_gib() {
    for (style, size, most) in
        [(Style::Extended, 16 << 40, 16 << 40), (Style::Structured, 1 << 40, u64::from(u32::MAX))]
    {
        let (_server, mut client) = transmit(&Disk::new("disk", size), style);
        assert_eq!(client.request(TRIM, 0, 1 << 30, most.min(size - (1 << 30))), 0);
        assert_eq!(client.request(CACHE, 0, 0, most), 0);
        assert_eq!(client.status(0, 0, most).unwrap(), [(1, vec![(most, 3)]), (2, vec![(most, 1)])]);
    }
}

fn ask(client: &mut Client<UnixStream>, len: u64, ids: &[u32]) -> Result<Vec<u32>, u32> {
    let mut payload = len.to_be_bytes().to_vec();
    ids.iter().for_each(|id| payload.extend(id.to_be_bytes()));
    client.say_request(STATUS, PAYLOAD_LEN, 8, 0, payload.len() as u64);
    client.say(&payload);
    Ok(client.status_reply(8)?.into_iter().map(|context| context.0).collect())
}

#[test]
fn block_status_can_be_asked_for_some_contexts() {
    let (_server, mut client) = transmit(&Disk::new("disk", SIZE), Style::Extended);
    assert_eq!(ask(&mut client, SIZE, &[2]), Ok(vec![2]));
    assert_eq!(ask(&mut client, SIZE, &[2, 1]), Ok(vec![2, 1]));
    for (len, ids) in [(SIZE, &[][..]), (SIZE, &[3]), (SIZE, &[1, 1]), (SIZE + 1, &[1]), (SIZE, &[1; 5000])] {
        assert_eq!(ask(&mut client, len, ids), Err(EINVAL));
    }
    client.say_request(STATUS, PAYLOAD_LEN, 8, 0, 7);
    client.say(b"7 bytes");
    assert_eq!(client.status_reply(8), Err(EINVAL));
    assert_eq!(ask(&mut client, SIZE, &[1]), Ok(vec![1]));
}

#[test]
fn extended_replies_repeat_the_offset_of_the_request() {
    let (_server, mut client) = transmit(&Disk::new("disk", SIZE), Style::Extended);
    client.say_request(READ, 0, 9, 12345, 2);
    let head = client.take_bytes(32);
    assert_eq!(head[16..24], 12345u64.to_be_bytes());
    assert_eq!(head[24..32], 10u64.to_be_bytes());
}
