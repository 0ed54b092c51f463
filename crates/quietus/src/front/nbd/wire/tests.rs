use super::option::{InfoRequest, MetaRequest};
use super::reply::{Errno, ReplyFor};
use super::request::{Command, RequestHeader, Style, status_payload};
use super::*;

const STYLES: [Style; 3] = [Style::Simple, Style::Structured, Style::Extended];

/// `doc/proto.md`, "Request message": a write of 4096 bytes at 1 MiB with FUA.
const COMPACT: [u8; 28] =
    [0x25, 0x60, 0x95, 0x13, 0, 1, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0x10, 0];

/// "Extended request": a trim of 1 TiB at 1 MiB.
const EXTENDED: [u8; 32] = [
    0x21, 0xe4, 0x1c, 0x71, 0, 0, 0, 4, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 1, 0, 0, 0,
    0, 0,
];

fn compact() -> RequestHeader {
    RequestHeader::from_bytes(&COMPACT, Style::Simple).unwrap().unwrap()
}

#[test]
fn a_compact_request_is_understood() {
    let expected = RequestHeader {
        flags: cmd_flag::FUA,
        command: Command::Write,
        cookie: 0x0102_0304_0506_0708,
        offset: 1 << 20,
        len: 4096,
    };
    assert_eq!(compact(), expected);
    assert_eq!(RequestHeader::from_bytes(&COMPACT, Style::Structured), Ok(Some(expected)));
    assert_eq!(expected.payload_bytes(Style::Structured), 4096);
}

#[test]
fn an_extended_request_is_understood() {
    let header = RequestHeader::from_bytes(&EXTENDED, Style::Extended).unwrap().unwrap();
    assert_eq!((header.command, header.offset, header.len), (Command::Trim, 1 << 20, 1 << 40));
    assert_eq!(header.payload_bytes(Style::Extended), 0);
}

#[test]
fn the_magic_of_another_style_is_refused() {
    let padded = [&COMPACT[..], &[0; 4]].concat();
    assert!(RequestHeader::from_bytes(&padded, Style::Extended).is_err());
    assert!(RequestHeader::from_bytes(&EXTENDED, Style::Structured).is_err());
}

#[test]
fn flags_fit_only_the_commands_that_document_them() {
    let fits = |command, flags, style| RequestHeader { flags, command, ..compact() }.flags_fit(style);
    for style in STYLES {
        assert!(fits(Command::Trim, cmd_flag::FUA, style));
        assert!(fits(Command::WriteZeroes, cmd_flag::NO_HOLE | cmd_flag::FAST_ZERO, style));
        assert!(!fits(Command::Write, cmd_flag::NO_HOLE | cmd_flag::PAYLOAD_LEN, style));
        assert!(!fits(Command::Read, cmd_flag::PAYLOAD_LEN, style));
        assert_eq!(fits(Command::Write, cmd_flag::PAYLOAD_LEN, style), style == Style::Extended);
        assert!(fits(Command::Write, 0, style));
        assert_eq!(fits(Command::Read, cmd_flag::DF, style), style != Style::Simple);
    }
}

#[test]
fn a_write_is_followed_by_its_payload_and_any_other_request_only_if_it_says_so() {
    let follows =
        |command, flags, style| RequestHeader { flags, command, ..compact() }.payload_bytes(style) == 4096;
    for style in STYLES {
        assert!(follows(Command::Write, 0, style));
        assert!(follows(Command::Write, cmd_flag::PAYLOAD_LEN, style));
        for command in [Command::Read, Command::Trim, Command::BlockStatus, Command::Unknown(8)] {
            assert!(!follows(command, 0, style));
            assert_eq!(follows(command, cmd_flag::PAYLOAD_LEN, style), style == Style::Extended);
        }
    }
}

#[test]
fn an_info_request_names_what_it_wants() {
    let request = InfoRequest::from_bytes(b"\0\0\0\x04disk\0\x02\0\x03\xff\xff").unwrap();
    assert_eq!(request.name, "disk");
    assert!(request.wants(info::BLOCK_SIZE) && !request.wants(info::NAME) && !request.wants(0xffff));
}

#[test]
fn a_string_of_more_than_4096_bytes_is_refused() {
    let of = |len: u32| [&len.to_be_bytes()[..], &vec![b'a'; len as usize], &[0; 4]].concat();
    assert!(MetaRequest::from_bytes(&of(4096)).is_ok());
    assert!(MetaRequest::from_bytes(&of(4097)).is_err());
}

#[test]
fn a_status_payload_is_a_length_and_contexts() {
    let payload = b"\0\0\0\0\0\0\x10\0\0\0\0\x02\0\0\0\x01";
    assert_eq!(status_payload(payload), Ok((4096, vec![2, 1])));
    for len in [0, 7, 8, 9, 11, 13] {
        assert!(status_payload(&payload[..len]).is_err(), "{len} bytes");
    }
}

const TO: ReplyFor = ReplyFor { style: Style::Simple, cookie: 0x0102_0304_0506_0708, offset: 0x10 };

#[test]
fn replies_are_those_of_the_specification() {
    assert_eq!(TO.done().bytes(), b"\x67\x44\x66\x98\0\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08");
    let structured = ReplyFor { style: Style::Structured, ..TO };
    let expected = b"\x66\x8e\x33\xef\0\x01\0\0\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\0";
    assert_eq!(structured.done().bytes(), expected);
    let expected =
        b"\x66\x8e\x33\xef\0\x01\0\x01\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\x0b\0\0\0\0\0\0\0\x10";
    assert_eq!(structured.data(3).bytes(), expected);
    let extended = ReplyFor { style: Style::Extended, ..TO };
    let expected =
        b"\x6e\x8a\x27\x8c\0\x01\0\0\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\0";
    assert_eq!(extended.done().bytes(), expected);
    let (head, data) = extended.error(Errno::ENOSPC, "full");
    assert_eq!(head.bytes()[4..8], [0, 1, 0x80, 1]);
    assert_eq!(data, *b"\0\0\0\x1c\0\x04full");
}

/// Does what a fuzz target does, on bytes of one linear congruence: nothing panics, and no result
/// is longer than the input.
#[test]
fn noise_is_parsed_or_refused() {
    let mut seed = 1_u64;
    for round in 0..20_000_usize {
        let noise: Vec<u8> = (0..round % 97)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                if seed >> 62 == 0 { (seed >> 40) as u8 } else { (seed >> 40) as u8 & 7 }
            })
            .collect();
        for style in STYLES {
            assert_eq!(
                RequestHeader::from_bytes(&noise, style) == Ok(None),
                noise.len() < style.request_bytes()
            );
        }
        if let Ok(request) = MetaRequest::from_bytes(&noise) {
            assert!(
                8 + request.name.len() + request.queries.iter().map(|query| 4 + query.len()).sum::<usize>()
                    == noise.len()
            );
        }
        if let Ok(request) = InfoRequest::from_bytes(&noise) {
            assert!(request.name.len() + 6 <= noise.len());
        }
        assert_eq!(status_payload(&noise).is_ok(), noise.len() >= 12 && noise.len().is_multiple_of(4));
    }
}
