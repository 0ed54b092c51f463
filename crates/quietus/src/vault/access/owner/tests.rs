//! A client that speaks the protocol, and lies.

use crate::vault::access::job::{Event, Job};
use crate::vault::access::owner::*;
use crate::vault::access::request::{Ask, CHUNKS_MAX, Control, GOT_MAX, Refusal, Reply, Request};
use crate::vault::access::wire::{REQUEST_BYTES_MAX, SOCKET, receive, send};
use crate::vault::upkeep::sanitize::Sanitize;
use crate::vault::{Codec, CreateVault, create};
use crossbeam_channel::unbounded;
use quietus_vault::chunk::{Compression, Packer, Sent};
use quietus_vault::client::Request::{BeginPut, Commit, DropPut, Offer, Replace, Store};
use quietus_vault::client::{self, Access, Answer};
use quietus_vault::container::Class;
use quietus_vault::{Fingerprint, Ordinal, PutId, Reference, SnapshotId};
use std::io::{Read, Write};
use tempfile::TempDir;

/// A vault in a directory of its own, below a path of this length in bytes.
fn vault(bytes: usize) -> (TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d".repeat(bytes)).join("vault");
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    let (size, container) = (Some(64 << 20), Some(128 << 10));
    let options = CreateVault { medium: None, size, container, policy: "zero".into(), compress: Codec::None };
    create(&path, &options, &mut |_, _| true).unwrap();
    (dir, path)
}

/// Asks on a connection of its own; the answer, or why it is refused.
fn ask(stream: &UnixStream, request: &Request<Sent>) -> Result<Reply, String> {
    send(stream, request).unwrap();
    loop {
        match receive(stream).unwrap() {
            Event::Progress(..) => {}
            Event::Done(Ok(answer)) => return Ok(answer),
            Event::Done(Err(Refusal::Other(why) | Refusal::Medium(why))) => return Err(why),
            Event::Done(Err(Refusal::Interrupted)) => return Err("interrupted".into()),
        }
    }
}

fn ask_vault(stream: &UnixStream, request: client::Request<Sent>) -> Result<Reply, String> {
    ask(stream, &Request::Vault(request))
}

fn ask_owner(stream: &UnixStream, request: Ask) -> Result<Reply, String> {
    ask(stream, &Request::Owner(request))
}

fn refused(asked: Result<Reply, String>, because: &str) {
    let refused = asked.expect_err("it is refused");
    assert!(refused.contains(because), "{refused}");
}

fn served(act: impl FnOnce(&Path, &mut Client)) {
    let (_dir, path) = vault(10);
    let act = |client: &mut Client| {
        act(&path, client);
        Ok(())
    };
    with_vault(&path, act, |_| {}).map_err(|error: Error| error).unwrap();
}

fn begin_put(stream: &UnixStream) -> PutId {
    let begun = ask_vault(stream, BeginPut);
    let Ok(Reply::Vault(Answer::BeginPut(put))) = begun else { panic!("{begun:?}") };
    put
}

#[test]
fn a_frame_that_is_too_long_ends_the_connection_before_it_comes() {
    served(|path, _| {
        let mut stream = connect(path).unwrap();
        let begun = Instant::now();
        stream.write_all(&(REQUEST_BYTES_MAX + 1).to_le_bytes()).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        assert!(begun.elapsed() < Duration::from_secs(5), "it waited for the frame");
    });
}

#[test]
fn a_chunk_that_is_not_what_it_says_is_refused_and_others_of_the_connection_are_taken() {
    served(|path, client| {
        let stream = connect(path).unwrap();
        let put = begin_put(&stream);
        let packer = || Packer::new(client.home().key().clone(), Compression::Lz4);
        let content = b"words and words and words and words ".repeat(9);
        // The fields are the chunk's: its class, its codec, its length in varints, its bytes.
        let mut bytes = postcard::to_allocvec(&packer().pack(Class::Data, &content)).unwrap();
        let good: Sent = postcard::from_bytes(&bytes).unwrap();
        bytes[2] ^= 1;
        let bad = postcard::from_bytes(&bytes).unwrap();
        refused(ask_vault(&stream, Store(put, vec![good.clone(), bad])), "does not decompress");
        ask_vault(&stream, Store(put, vec![good.clone()])).unwrap();
        refused(ask_vault(&stream, Commit(put, good, 0)), "not a snapshot");
        let root = postcard::to_allocvec(&packer().pack(Class::Metadata, b"nonsense")).unwrap();
        let root = postcard::from_bytes(&root).unwrap();
        ask_vault(&stream, Commit(put, root, 0)).expect_err("it is refused");
        assert!(client.roots().unwrap().is_empty());
    });
}

#[test]
fn a_put_is_of_its_connection_and_ends_with_it() {
    served(|path, client| {
        let (one, other) = (connect(path).unwrap(), connect(path).unwrap());
        let put = begin_put(&one);
        let name = Fingerprint([7; 32]);
        ask_vault(&one, Offer(put, vec![name])).unwrap();
        for request in [Offer(put, vec![name]), DropPut(put), Replace(put, Vec::new())] {
            refused(ask_vault(&other, request), "put");
        }
        assert!(client.fill().unwrap().owed.is_empty());
        drop(one);
        let begun = Instant::now();
        while client.fill().unwrap().owed.len() != 1 {
            assert!(begun.elapsed() < Duration::from_secs(20), "the put goes on");
        }
    });
}

#[test]
fn a_request_that_would_keep_others_waiting_is_refused() {
    served(|path, _| {
        let stream = connect(path).unwrap();
        let put = begin_put(&stream);
        let offer = |count| ask_vault(&stream, Offer(put, vec![Fingerprint([7; 32]); count]));
        refused(offer(CHUNKS_MAX + 1), "at once");
        offer(CHUNKS_MAX).unwrap();
        let unknown = Reference { fingerprint: Fingerprint([7; 32]), ordinal: Ordinal(7) };
        let get = |count| ask_owner(&stream, Ask::Get(vec![unknown; count]));
        refused(get(GOT_MAX + 1), "at once");
        let Ok(Reply::Got(got)) = get(GOT_MAX) else { panic!("they are not got") };
        assert!(got.len() == GOT_MAX && got.iter().all(Result::is_err));
    });
}

#[test]
fn a_hold_has_a_reason_and_a_name_that_the_audit_log_can_take() {
    served(|path, client| {
        let key = client.home().key().clone();
        let mut writer = quietus_vault::client::Writer::begin(client, &key, Compression::None).unwrap();
        let folder = writer.folder(client, &[]).unwrap();
        let name = b"empty".to_vec();
        let snapshot = quietus_vault::tree::Snapshot { name, created_ms: 1, folder, ..Default::default() };
        let snapshot = writer.commit(client, &snapshot).unwrap();
        let stream = connect(path).unwrap();
        let hold = |name: &str, why| Ask::Hold(name.into(), vec![snapshot; 300_000], "w".repeat(why));
        refused(ask_owner(&stream, hold("law", 1 << 20)), "--why");
        refused(ask_owner(&stream, hold(&"n".repeat(1 << 20), 9)), "name");
        ask_owner(&stream, hold("law", 9)).unwrap();
        assert_eq!(client.holds().unwrap(), [("law".to_owned(), snapshot)]);
        let unknown = Ask::Hold("law".into(), vec![SnapshotId(9)], String::new());
        refused(ask_owner(&stream, unknown), "unknown snapshot");
        let lines = std::fs::read_to_string(path.join("audit.jsonl")).unwrap();
        assert!(lines.lines().all(|line| line.len() < 1000), "a line that no reader takes");
    });
}

#[test]
fn a_vault_below_a_long_path_is_served() {
    let (_dir, path) = vault(200);
    let done: Result<usize, Error> = with_vault(
        &path,
        |client| with_vault(&path, |other| Ok(other.roots()?.len() + client.roots()?.len()), |_| {}),
        |_| {},
    );
    assert_eq!(done.unwrap(), 0);
}

#[test]
fn without_a_socket_a_vault_is_used_by_one() {
    let (_dir, path) = vault(10);
    std::fs::create_dir(path.join(SOCKET)).unwrap();
    let done: Result<usize, Error> = with_vault(&path, |client| Ok(client.roots()?.len()), |_| {});
    assert_eq!(done.unwrap(), 0);
    assert!(path.join(SOCKET).is_dir());
}

#[test]
fn who_comes_while_one_has_the_vault_alone_waits_until_it_is_done() {
    let (_dir, path) = vault(10);
    let (path, done) = (&path, &std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|scope| {
        let alone: Result<(), Error> = with_vault_alone(path, |session| {
            scope.spawn(move || {
                let second: Result<usize, Error> = with_vault(path, |it| Ok(it.roots()?.len()), |_| {});
                assert_eq!(second.unwrap(), 0);
                assert!(done.load(std::sync::atomic::Ordering::Acquire));
            });
            // Longer than a process tries that finds no owner.
            std::thread::sleep(REACH_MAX + Duration::from_secs(1));
            assert_eq!(session.vault.status().snapshots, 0);
            done.store(true, std::sync::atomic::Ordering::Release);
            Ok(())
        });
        alone.unwrap();
    });
}

#[test]
fn a_request_that_waits_comes_before_a_sanitization_that_is_ahead_whatever_share_it_asked_for() {
    for share in [50, u32::MAX] {
        let (_dir, path) = vault(10);
        let dir = VaultDir::open(&path).unwrap();
        let (jobs, queue) = bounded(JOBS_MAX);
        let how = Sanitize { is_read_only: false, is_dry_run: false, share };
        let requests = [Ask::Sanitize(how), Ask::Control(Control::Cancel)];
        let answers = requests.map(|request| {
            let (events, answers) = unbounded();
            jobs.send(Job(Request::Owner(request), String::new(), events)).unwrap();
            answers
        });
        drop(jobs);
        Owner::new(Session::open(&dir).unwrap()).run(&queue);
        let [sanitized, cancelled] = answers.map(|answers| answers.iter().last().unwrap());
        assert!(matches!(cancelled, Event::Done(Ok(_))), "{cancelled:?}, {share} percent");
        assert!(matches!(sanitized, Event::Done(Err(_))), "{sanitized:?}, {share} percent");
    }
}
