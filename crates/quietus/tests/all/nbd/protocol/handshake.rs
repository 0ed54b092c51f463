//! Options, one by one.

use crate::nbd::client::*;
use crate::nbd::disk::Disk;
use quietus::front::nbd::{Config, Server};
use std::os::unix::net::UnixStream;

const SIZE: u64 = 1 << 20;

fn greeted() -> (Server, Client<UnixStream>) {
    let (server, mut client) =
        connect(&[Disk::new("first", SIZE), Disk::new("second", 2 * SIZE)], Config::default());
    client.greet();
    (server, client)
}

/// The same, with structured replies agreed upon.
fn structured() -> (Server, Client<UnixStream>) {
    let (server, mut client) = greeted();
    client.agree_on_headers(Style::Structured);
    (server, client)
}

fn info_reply(kind: u16, rest: &[&[u8]]) -> OptionReply {
    (INFO, [&kind.to_be_bytes()[..], &rest.concat()].concat())
}

#[test]
fn export_name_begins_transmission_with_the_zeros_or_without() {
    for (flags, zeros) in [(1, 124), (3, 0), (0, 124)] {
        let (_server, mut client) = connect(&[Disk::new("only", SIZE)], Config::default());
        client.greet_with(flags);
        client.say_option(OPT_EXPORT_NAME, b"only");
        assert_eq!(client.take_u64(), SIZE);
        assert_eq!(client.take_u16() & 1, 1);
        assert_eq!(client.take_bytes(zeros), vec![0; zeros]);
        assert_eq!(client.request(FLUSH, 0, 0, 0), 0);
    }
}

#[test]
fn an_export_name_that_is_unknown_or_comes_after_extended_headers_ends_the_session() {
    for (agreed, name) in [(OPT_STRUCTURED, "third"), (OPT_EXTENDED, "first")] {
        let (_server, mut client) = greeted();
        assert_eq!(client.verdict(agreed, &[]), ACK);
        client.say_option(OPT_EXPORT_NAME, name.as_bytes());
        assert!(client.is_closed(), "{name}");
    }
}

#[test]
fn abort_is_acknowledged_and_ends_the_session() {
    let (_server, mut client) = greeted();
    assert_eq!(client.verdict(OPT_ABORT, b"data is ignored"), ACK);
    assert!(client.is_closed());
}

#[test]
fn list_names_every_export_with_its_description() {
    let (_server, mut client) = greeted();
    let replies = client.option(OPT_LIST, &[]);
    assert_eq!(replies[0], (SERVER, b"\0\0\0\x05firstthe disk first".to_vec()));
    assert_eq!(replies[1], (SERVER, b"\0\0\0\x06secondthe disk second".to_vec()));
    assert_eq!(replies[2], (ACK, Vec::new()));
}

#[test]
fn an_option_that_is_unknown_or_too_long_or_has_data_where_none_may_be_is_refused_and_skipped() {
    let (_server, mut client) = greeted();
    let without_data = [OPT_LIST, OPT_STARTTLS, OPT_STRUCTURED, OPT_EXTENDED].map(|it| (it, 1, ERR_INVALID));
    let others = [(4, 4, ERR_UNSUP), (0x1234_5678, 300_000, ERR_UNSUP), (OPT_GO, 65_537, ERR_TOO_BIG)];
    for (option, len, error) in without_data.into_iter().chain(others) {
        assert_eq!(client.verdict(option, &vec![7; len]), error, "option {option}, {len} bytes");
        assert_eq!(client.verdict(OPT_LIST, &[]), ACK);
    }
}

#[test]
fn info_tells_what_is_asked_for_and_stays_in_the_handshake() {
    let (_server, mut client) = greeted();
    let flags: u16 = 0b1101_0110_1101;
    let replies = client.option(OPT_INFO, &info_request("", &[1, 2, 3, 999, 16, 3]));
    let expected = [
        info_reply(0, &[&SIZE.to_be_bytes(), &flags.to_be_bytes()]),
        info_reply(1, &[b"first"]),
        info_reply(2, &[b"the disk first"]),
        info_reply(3, &[&1u32.to_be_bytes(), &4096u32.to_be_bytes(), &(32u32 << 20).to_be_bytes()]),
        (ACK, Vec::new()),
    ];
    assert_eq!(replies, expected);
    assert_eq!(client.verdict(OPT_INFO, &info_request("second", &[])), ACK);
}

#[test]
fn go_begins_transmission_with_the_disk_that_was_named() {
    let (_server, mut client) = greeted();
    let replies = client.option(OPT_GO, &info_request("second", &[]));
    assert_eq!(replies[0].1[2..10], (2 * SIZE).to_be_bytes());
    assert_eq!(client.read(0, 2 * SIZE - 1, 1), Ok(vec![0]));
}

#[test]
fn an_unknown_export_is_unknown_to_info_go_and_both_meta_options() {
    let (_server, mut client) = structured();
    assert_eq!(client.verdict(OPT_INFO, &info_request("third", &[])), ERR_UNKNOWN);
    assert_eq!(client.verdict(OPT_GO, &info_request("third", &[])), ERR_UNKNOWN);
    assert_eq!(client.verdict(OPT_LIST_META, &meta("third", &[])), ERR_UNKNOWN);
    assert_eq!(client.verdict(OPT_SET_META, &meta("third", &["base:allocation"])), ERR_UNKNOWN);
    assert_eq!(client.verdict(OPT_GO, &info_request("", &[])), ACK);
}

#[test]
fn info_that_lies_about_its_lengths_is_invalid() {
    let (_server, mut client) = greeted();
    let whole = info_request("first", &[3]);
    for len in 0..whole.len() {
        assert_eq!(client.verdict(OPT_INFO, &whole[..len]), ERR_INVALID, "cut to {len}");
    }
    assert_eq!(client.verdict(OPT_INFO, &[&whole[..], b"x"].concat()), ERR_INVALID);
    assert_eq!(client.verdict(OPT_INFO, &[0xff; 64]), ERR_INVALID);
    assert_eq!(client.verdict(OPT_INFO, b"\0\0\0\x02\xff\xff\0\0"), ERR_INVALID);
    assert_eq!(client.verdict(OPT_INFO, &whole), ACK);
}

#[test]
fn meta_that_lies_about_its_lengths_is_invalid() {
    let (_server, mut client) = structured();
    let whole = meta("first", &["base:allocation", "quietus:"]);
    for len in 0..whole.len() {
        assert_eq!(client.verdict(OPT_SET_META, &whole[..len]), ERR_INVALID, "cut to {len}");
    }
    assert_eq!(client.verdict(OPT_LIST_META, b"\0\0\0\0\xff\xff\xff\xff"), ERR_INVALID);
    assert_eq!(client.verdict(OPT_SET_META, &whole), ACK);
}

#[test]
fn metadata_contexts_need_structured_replies() {
    let (_server, mut client) = greeted();
    assert_eq!(client.verdict(OPT_LIST_META, &meta("", &[])), ERR_INVALID);
    assert_eq!(client.verdict(OPT_SET_META, &meta("", &["base:allocation"])), ERR_INVALID);
}

#[test]
fn metadata_contexts_are_listed_by_name_and_name_space() {
    let (_server, mut client) = structured();
    let both = ["base:allocation", "quietus:liveness"];
    let cases: [(&[&str], &[&str]); 6] = [
        (&[], &both),
        (&["base:"], &both[..1]),
        (&["quietus:"], &both[1..]),
        (&["quietus:liveness"], &both[1..]),
        (&["base:allocation", "base:", "x-other:thing"], &both[..1]),
        (&["qemu:dirty-bitmap:a", "base", "base:alloc", ":"], &[]),
    ];
    for (queries, found) in cases {
        let replies = client.option(OPT_LIST_META, &meta("", queries));
        let names: Vec<_> = replies[..replies.len() - 1].iter().map(|reply| reply.1[4..].to_vec()).collect();
        assert!(names.iter().eq(found.iter().map(|name| name.as_bytes())), "{queries:?}: {names:?}");
    }
}

#[test]
fn wildcards_choose_no_context() {
    let (_server, mut client) = structured();
    for queries in [&[][..], &["base:"], &["quietus:", "x-other:thing"]] {
        assert_eq!(client.option(OPT_SET_META, &meta("", queries)).len(), 1, "{queries:?}");
    }
    assert_eq!(client.option(OPT_SET_META, &meta("", &["base:allocation", "base:allocation"])).len(), 2);
}

#[test]
fn contexts_of_another_disk_and_of_before_a_failed_choice_do_not_serve() {
    for (chosen, fails) in [("second", false), ("first", true)] {
        let (_server, mut client) = structured();
        assert_eq!(client.verdict(OPT_SET_META, &meta(chosen, &["base:allocation"])), ACK);
        if fails {
            assert_eq!(client.verdict(OPT_SET_META, b"nonsense"), ERR_INVALID);
        }
        assert_eq!(client.verdict(OPT_GO, &info_request("first", &[])), ACK);
        assert_eq!(client.status(0, 0, 4096), Err(EINVAL), "{chosen}, {fails}");
    }
}

#[test]
fn extended_headers_take_precedence_over_structured_replies() {
    let (_server, mut client) = structured();
    assert_eq!(client.verdict(OPT_EXTENDED, &[]), ACK);
    assert_eq!(client.verdict(OPT_STRUCTURED, &[]), ERR_EXT_HEADER_REQD);
    assert_eq!(client.verdict(OPT_GO, &info_request("", &[])), ACK);
    client.style = Style::Extended;
    assert_eq!(client.read(0, 0, 3), Ok(vec![0; 3]));
}

#[test]
fn a_client_that_is_refused_extended_headers_turns_to_structured_replies() {
    let config = Config { extended_headers: false, ..Config::default() };
    let (_server, mut client) = connect(&[Disk::new("only", SIZE)], config);
    client.greet();
    let refused = client.option(OPT_EXTENDED, &[]);
    assert_eq!(refused, [(ERR_UNSUP, b"extended headers are turned off".to_vec())]);
    assert_eq!(client.verdict(OPT_EXTENDED, &[]), ERR_UNSUP);
    client.agree(Style::Structured);
    assert_eq!(client.write(0, 0, b"abc"), 0);
    assert_eq!(client.read(0, 0, 3), Ok(b"abc".to_vec()));
    assert!(client.status(0, 0, 4096).is_ok());
}

fn transmission_flags(
    style: Style,
    meta_chosen: bool,
    change: impl FnOnce(&mut quietus::engine::export::ExportInfo),
) -> u16 {
    let (_server, mut client) = connect(&[Disk::with("only", SIZE, change)], Config::default());
    client.greet();
    client.agree_on_headers(style);
    if meta_chosen {
        assert_eq!(client.verdict(OPT_SET_META, &meta("", &["base:allocation"])), ACK);
    }
    let info = client.option(OPT_GO, &info_request("", &[])).remove(0).1;
    u16::from_be_bytes([info[10], info[11]])
}

#[test]
fn transmission_flags_tell_what_may_be_used() {
    const WRITES: u16 = 1 << 5 | 1 << 6 | 1 << 11;
    const ALWAYS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 10;
    let (read_only, multi, df, payload) = (1 << 1, 1 << 8, 1 << 7, 1 << 12);
    for (style, meta_chosen, flags) in [
        (Style::Simple, false, 0),
        (Style::Structured, true, df),
        (Style::Extended, false, df),
        (Style::Extended, true, df | payload),
    ] {
        let told = transmission_flags(style, meta_chosen, |_| {});
        assert_eq!(told, ALWAYS | WRITES | multi | flags, "{style:?}, {meta_chosen}");
    }
    let alone = transmission_flags(Style::Simple, false, |info| info.multi_connection = false);
    assert_eq!(alone, ALWAYS | WRITES);
    let unchanging = transmission_flags(Style::Simple, false, |info| info.read_only = true);
    assert_eq!(unchanging, ALWAYS | multi | read_only);
}
