//! Incremental backups: clients learn what changed since an epoch, and read only that.

use crate::nbd::client::*;
use crate::nbd::watched::past::*;
use crate::program::{Disk, Server, text, tool};
use serde_json::Value;
use std::os::unix::net::UnixStream;

const SINCE_1: &str = "quietus:changed-since:1";

/// A client of the export `name` that has selected `context`.
fn with_context(served: &Server, name: &str, context: &str) -> Client<UnixStream> {
    let mut client = served.connect();
    client.agree_on_headers(Style::Structured);
    assert_eq!(contexts(&client.option(OPT_SET_META, &meta(name, &[context]))), [context]);
    assert_eq!(client.verdict(OPT_GO, &info_request(name, &[])), ACK);
    client
}

/// The names of contexts in replies.
fn contexts(replies: &[OptionReply]) -> Vec<String> {
    let (last, named) = replies.split_last().unwrap();
    assert_eq!(last.0, ACK);
    named.iter().map(|(_, data)| String::from_utf8(data[4..].to_vec()).unwrap()).collect()
}

/// The ranges that a client is told have changed, by questions of `bytes` each.
fn changed(client: &mut Client<UnixStream>, flags: u16, size: u64, bytes: u64) -> Vec<(u64, u64)> {
    let (mut ranges, mut at) = (Vec::<(u64, u64)>::new(), 0);
    while at < size {
        let told = client.status(flags, at, bytes.min(size - at)).unwrap();
        for (len, status) in &told[0].1 {
            match ranges.last_mut() {
                Some((start, known)) if *status == 1 && *start + *known == at => *known += len,
                _ if *status == 1 => ranges.push((at, *len)),
                _ => assert_eq!(*status, 0),
            }
            at += len;
        }
    }
    ranges
}

#[test]
fn changes_are_offered_for_each_epoch_and_selected_by_number_name_and_time() {
    let past = past("64M");
    history(&past);
    let served = serve(&past);
    past.disk.json("epoch", &["--name", "tuesday"]);
    let mut client = served.connect();
    assert_eq!(client.verdict(OPT_STRUCTURED, &[]), ACK);
    let mut ask = |option: u32, queries: &[&str]| contexts(&client.option(option, &meta("disk", queries)));
    let all = ["base:allocation", "quietus:liveness", "quietus:changed-since:"];
    assert_eq!(ask(OPT_LIST_META, &[]), all);
    assert_eq!(ask(OPT_LIST_META, &["quietus:"]), all[1..]);
    assert_eq!(ask(OPT_LIST_META, &["base:"]), all[..1]);
    let each = [1, 2, 3].map(|epoch| format!("quietus:changed-since:{epoch}"));
    assert_eq!(ask(OPT_LIST_META, &["quietus:changed-since:"]), [&[all[2].to_string()][..], &each].concat());
    let known = ["quietus:changed-since:tuesday", "quietus:changed-since:2999-01-01", SINCE_1];
    let unknown =
        ["quietus:changed-since:4", "quietus:changed-since:wednesday", "quietus:changed-since:1970-01-01"];
    assert_eq!(ask(OPT_LIST_META, &[&known[..], &unknown].concat()), known);
    assert_eq!(
        ask(OPT_SET_META, &[&unknown[..], &known, &known, &["quietus:changed-since:"]].concat()),
        known
    );
    assert_eq!(ask(OPT_SET_META, &["quietus:changed-since:", "quietus:"]), [""; 0]);
    let many: Vec<String> = (0..20).map(|n| format!("quietus:changed-since:2999-01-{:02}", n + 1)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!((1..=10).contains(&ask(OPT_SET_META, &many).len()), "bounded");

    let plain = Disk::new(&["--size", "1M"]);
    let served = plain.serve(&[]);
    let mut client = served.connect();
    assert_eq!(client.verdict(OPT_STRUCTURED, &[]), ACK);
    assert_eq!(contexts(&client.option(OPT_LIST_META, &meta("", &[]))), all[..2]);
    assert_eq!(contexts(&client.option(OPT_SET_META, &meta("", &[SINCE_1]))), [""; 0]);
}

#[test]
fn what_changed_is_what_diff_says_on_the_current_export_and_on_the_past() {
    let past = past("64M");
    history(&past);
    let served = serve(&past);
    for (name, other) in [("disk", None), ("disk@2", Some("2")), ("disk@1", Some("1"))] {
        let wanted = ranges(&diff(&past, "1", other));
        let mut client = with_context(&served, name, SINCE_1);
        for (flags, bytes) in [(0, 64 << 20), (0, 1_000_000), (REQ_ONE, 64 << 20)] {
            assert_eq!(changed(&mut client, flags, 64 << 20, bytes), wanted, "{name}, {flags}, {bytes}");
        }
    }
    // Backwards is the same, and holes of the past are known.
    let mut client = with_context(&served, "disk@1", "quietus:changed-since:2");
    let there = changed(&mut client, 0, 64 << 20, 64 << 20);
    assert_eq!(there, ranges(&diff(&past, "2", Some("1"))));
    let mut client = with_context(&served, "disk@2", "base:allocation");
    let told = client.status(0, 0, 64 << 20).unwrap();
    assert_eq!(told[0].1[..3], [(600 * BLOCK, 0), (8400 * BLOCK, 3), (10 * BLOCK, 0)]);
}

#[test]
fn a_client_that_asks_for_changes_since_an_epoch_that_is_forgotten_is_told() {
    let past = past("64M");
    history(&past);
    let served = serve(&past);
    let mut client = with_context(&served, "disk", SINCE_1);
    assert!(client.status(0, 0, 1 << 20).is_ok());
    past.forget("1");
    client.say_request(STATUS, 0, 80, 0, 1 << 20);
    let chunk = client.chunk(0);
    assert_eq!((chunk.error, chunk.done), (EIO, true));
    let text = String::from_utf8_lossy(&chunk.payload[6..]).into_owned();
    assert!(text.contains("epoch 1"), "{text}");
    assert_eq!(client.read(0, 0, 1), Ok(vec![1]), "the session goes on");
}

/// Copies all of an export, or the given ranges of it, to `image`.
fn copy(client: &mut Client<UnixStream>, ranges: &[(u64, u64)], image: &mut [u8]) {
    for (start, len) in ranges {
        for at in (*start..start + len).step_by(1 << 20) {
            let bytes = client.read(0, at, (1 << 20).min(start + len - at) as usize).unwrap();
            image[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
        }
    }
}

#[test]
fn a_full_copy_and_the_changes_since_then_are_the_later_epoch_bit_for_bit() {
    let past = past("64M");
    let shown = history(&past);
    let served = serve(&past);
    let mut backup = vec![0; 64 << 20];
    let mut full = with_context(&served, "disk@1", "base:allocation");
    copy(&mut full, &[(0, 64 << 20)], &mut backup);
    assert!(backup == shown[0]);
    let mut next = with_context(&served, "disk@2", SINCE_1);
    let ranges = changed(&mut next, 0, 64 << 20, 64 << 20);
    assert_eq!(ranges.iter().map(|it| it.1).sum::<u64>(), 350 * BLOCK, "only what changed is read");
    copy(&mut next, &ranges, &mut backup);
    assert!(backup == shown[1]);
}

#[test]
fn clients_of_others_see_the_changes() {
    let past = past("64M");
    history(&past);
    let _served = serve(&past);
    let socket = past.disk.path().join("nbd.sock");
    let socket = text(&socket);
    let wanted = ranges(&diff(&past, "1", Some("2")));
    let found = |map: String, is_dirty: fn(&Value) -> bool, start: &str| -> Vec<_> {
        let map: Vec<Value> = serde_json::from_str(&map).unwrap();
        let number = |it: &Value, name: &str| it[name].as_u64().unwrap();
        map.iter().filter(|it| is_dirty(it)).map(|it| (number(it, start), number(it, "length"))).collect()
    };
    let uri = format!("nbd+unix:///disk@2?socket={socket}");
    if let Some(map) = tool("nbdinfo", &["--json", &format!("--map={SINCE_1}"), &uri]) {
        assert_eq!(found(map, |it| it["type"] == 1, "offset"), wanted);
    }
    let options =
        format!("driver=nbd,server.type=unix,server.path={socket},export=disk@2,x-dirty-bitmap={SINCE_1}");
    if let Some(map) = tool("qemu-img", &["map", "--output=json", "--image-opts", &options]) {
        // QEMU shows what is dirty as a place without data.
        assert_eq!(found(map, |it| it["data"] == false, "start"), wanted);
    }
}
