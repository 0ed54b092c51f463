//! The program serves a disk that keeps versions: epochs, and forgetting them, as a user sees them.

use crate::nbd::client::{ACK, Client, EIO, FLUSH, OPT_GO, READ, Style, TRIM, info_request};
use crate::program::{Disk, Server, error, private, quietus, signal, text};
use quietus_core::base::zeros::is_zeros;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant, UNIX_EPOCH};

pub(crate) const BLOCK: usize = 4096;

/// A disk, and the key that opens it.
pub(crate) struct Bench {
    pub(crate) disk: Disk,
    pub(crate) key: String,
}

impl Bench {
    pub(crate) fn new(args: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let key = dir.path().join("key");
        private(&key, &[7; 32]);
        let made = ["--store", "versions", "--key-file", text(&key)];
        Self { disk: Disk::made(dir, &[&made[..], args].concat()), key: text(&key).into() }
    }

    /// A disk of 1 MiB, whose epochs close on command.
    pub(crate) fn manual() -> Self {
        Self::new(&["--size", "1M", "--epoch", "manual"])
    }

    pub(crate) fn serve(&self) -> Server {
        self.disk.serve(&["--key-file", &self.key])
    }

    /// A client of the disk, or of `at` behind it, or why it is refused.
    pub(crate) fn connect(&self, at: &str) -> Result<Client<UnixStream>, String> {
        let socket = self.disk.path().join("nbd.sock");
        let mut client = Client::new(UnixStream::connect(socket).expect("a server"));
        client.greet();
        client.agree_on_headers(Style::Structured);
        let replies = client.option(OPT_GO, &info_request(&format!("disk{at}"), &[]));
        match replies.last().expect("a reply") {
            (ACK, _) => Ok(client),
            (_, text) => Err(String::from_utf8_lossy(text).into_owned()),
        }
    }

    pub(crate) fn write(&self, block: u64, byte: u8) {
        let mut client = self.connect("").expect("the disk");
        assert_eq!(client.write(0, block * BLOCK as u64, &[byte; BLOCK]), 0);
    }

    /// The first byte of `block`, as `at` shows it.
    pub(crate) fn byte(&self, at: &str, block: u64) -> u8 {
        let mut client = self.connect(at).expect("it is kept");
        let bytes = client.read(0, block * BLOCK as u64, BLOCK).expect("bytes");
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "{at}, block {block}");
        bytes[0]
    }

    /// The disk's path, and epochs behind it.
    pub(crate) fn target(&self, at: &str) -> String {
        format!("{}@{at}", self.disk.path().display())
    }

    /// Runs `command` for the epochs `at` of the disk.
    pub(crate) fn at(&self, command: &str, at: &str, args: &[&str]) -> Output {
        let output = quietus().args(["--json", command, &self.target(at)]).args(args).output();
        crate::schemas::checked(output.expect("it runs"))
    }

    /// The answer of `command` for the epochs `at` of the disk.
    pub(crate) fn json_at(&self, command: &str, at: &str, args: &[&str]) -> Value {
        let output = self.at(command, at, args);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Forgets epochs; the first and the last of them.
    pub(crate) fn forget(&self, at: &str) -> (u64, u64) {
        let forgotten = self.json_at("forget", at, &["--wait"]);
        assert_eq!(forgotten["done"], true, "{forgotten}");
        let number = |name: &str| forgotten[name].as_u64().expect("a number");
        (number("from"), number("to"))
    }

    /// Closes an epoch; its number and its name.
    pub(crate) fn close(&self, args: &[&str]) -> (u64, Option<String>) {
        let closed = self.disk.json("epoch", args);
        (closed["epoch"].as_u64().expect("a number"), closed["name"].as_str().map(Into::into))
    }

    /// Holds epochs.
    pub(crate) fn hold(&self, at: &str, name: &str) -> Value {
        self.json_at("hold", at, &["--name", name, "--who", "legal", "--why", "subpoena"])
    }

    /// The exit status of `command`, which is refused, and why.
    pub(crate) fn refused(&self, command: &str, at: &str, args: &[&str]) -> (i32, String) {
        let (status, why) = error(&self.at(command, at, args));
        (status.expect("it ends"), why)
    }

    /// Checks that `command` is refused with this exit status, and that its error says `why`.
    #[track_caller]
    pub(crate) fn assert_refused(&self, command: &str, at: &str, args: &[&str], status: i32, why: &str) {
        let (found, said) = self.refused(command, at, args);
        assert!(found == status && said.contains(why), "{command} {at} {args:?}: {found}, {said}");
    }

    /// The kept epochs: number, name, and when each closed.
    fn versions(&self) -> Vec<(u64, Option<String>, u64)> {
        let listed = self.disk.json("versions", &[])["versions"].clone();
        let number = |it: &Value| it.as_u64().expect("a number");
        let all = listed.as_array().expect("a list").iter();
        let closed = |it: &Value| {
            let time = humantime::parse_rfc3339(it["closed"].as_str().expect("it is known")).expect("a time");
            time.duration_since(UNIX_EPOCH).expect("later").as_millis() as u64
        };
        all.map(|it| (number(&it["epoch"]), it["name"].as_str().map(Into::into), closed(it))).collect()
    }

    pub(crate) fn kept(&self) -> Vec<u64> {
        self.versions().into_iter().map(|(epoch, ..)| epoch).collect()
    }

    /// Writes `epochs` epochs: in each, block 0 has the number of the epoch, and so has the block of that number.
    pub(crate) fn fill(&self, epochs: u8) {
        for epoch in 1..=epochs {
            self.write(0, epoch);
            self.write(epoch.into(), epoch);
            assert_eq!(self.close(&[]).0, u64::from(epoch));
        }
    }

    /// Waits until `is_so`.
    pub(crate) fn wait_until(&self, is_so: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed().as_secs() < 60, "{}", self.disk.json("status", &[]));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the audit log says `text`: lines are collected for a moment before they are written.
    fn wait_for_record(&self, text: &str) {
        let log = self.disk.path().join("audit.jsonl");
        self.wait_until(|| std::fs::read_to_string(&log).is_ok_and(|log| log.contains(text)));
    }

    fn owes_no_forget(&self) -> bool {
        self.disk.json("status", &[])["owed"]["forgets"].as_array().is_none_or(Vec::is_empty)
    }
}

#[test]
fn an_epoch_is_closed_named_read_and_exported_by_number_name_and_time() {
    let bench = Bench::manual();
    let _server = bench.serve();
    bench.write(0, 1);
    assert_eq!(bench.close(&["--name", "before-upgrade"]), (1, Some("before-upgrade".into())));
    bench.write(0, 2);
    assert_eq!(bench.close(&[]).0, 2);
    bench.write(0, 3);
    let listed = bench.versions();
    assert_eq!(
        listed.iter().map(|it| (it.0, it.1.as_deref())).collect::<Vec<_>>(),
        [(1, Some("before-upgrade")), (2, None)]
    );
    let time = humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(listed[1].2));
    for (at, byte) in [("", 3), ("@1", 1), ("@before-upgrade", 1), ("@2", 2), (&format!("@{time}"), 2)] {
        assert_eq!(bench.byte(at, 0), byte, "{at:?}");
    }
    let image = bench.disk.beside("image");
    bench.json_at("export", "before-upgrade", &[text(&image)]);
    let bytes = std::fs::read(&image).expect("an image");
    assert!(bytes.len() == 1 << 20 && bytes[..BLOCK] == [1; BLOCK] && is_zeros(&bytes[BLOCK..]));
    let (_, slip) = bench.refused("export", "before-upgarde", &[text(&bench.disk.beside("other"))]);
    let meant = r#"no epoch has the name "before-upgarde"; did you mean "before-upgrade"?"#;
    assert!(slip.contains(meant), "{slip}");
    // The name of a kept epoch is no other's.
    assert_eq!(bench.disk.refused("epoch", &["--name", "before-upgrade"]).0, Some(1));
    assert_eq!(bench.kept(), [1, 2]);
}

#[test]
fn epochs_close_in_time_and_only_if_something_changed() {
    let bench = Bench::new(&["--size", "1M", "--epoch", "1s"]);
    let _server = bench.serve();
    for epoch in 1..=2 {
        bench.write(0, epoch);
        bench.wait_until(|| bench.kept().len() == usize::from(epoch));
        assert_eq!(bench.byte(&format!("@{epoch}"), 0), epoch);
    }
    // Nothing is written: what follows the second epoch stays open, however often the timer looks.
    assert_eq!(bench.disk.json("status", &[])["store"]["open_epoch"], 3);
}

#[test]
fn each_flush_of_a_guest_closes_an_epoch() {
    let bench = Bench::new(&["--size", "1M", "--epoch", "flush"]);
    let _server = bench.serve();
    let mut client = bench.connect("").expect("the disk");
    for epoch in 1..=3 {
        assert_eq!(client.write(0, 0, &[epoch; BLOCK]), 0);
        assert_eq!(client.request(FLUSH, 0, 0, 0), 0);
        assert_eq!(client.request(FLUSH, 0, 0, 0), 0, "nothing has changed: no epoch");
    }
    bench.wait_until(|| bench.kept().len() == 3);
    assert_eq!([1, 2, 3].map(|epoch| bench.byte(&format!("@{epoch}"), 0)), [1, 2, 3]);
}

#[test]
fn one_epoch_a_range_and_all_before_a_time_are_forgotten_and_the_rest_stays() {
    let bench = Bench::manual();
    let _server = bench.serve();
    bench.fill(8);
    let closed = bench.versions();
    assert_eq!((bench.forget("2"), bench.forget("4..5")), ((2, 2), (4, 5)));
    // A time means the last kept epoch that had closed by then.
    let time = humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(closed[5].2));
    assert_eq!(bench.kept(), [1, 3, 6, 7, 8]);
    assert_eq!(bench.forget(&format!("..{time}")), (1, 6));
    assert_eq!(bench.kept(), [7, 8]);
    for block in 1..=8 {
        assert_eq!(u64::from(bench.byte("", block)), block);
        assert_eq!(u64::from(bench.byte("@8", block)), block);
        assert_eq!(u64::from(bench.byte("@7", block)), if block == 8 { 0 } else { block });
    }
    assert_eq!((bench.byte("@7", 0), bench.byte("", 0)), (7, 8));
    for epochs in [r#"{"from":2,"to":2}"#, r#"{"from":4,"to":5}"#, r#"{"from":1,"to":6}"#] {
        bench.wait_for_record(epochs);
    }
}

#[test]
fn what_is_forgotten_is_said_so_by_every_way_to_read_it_and_by_the_exit_status() {
    let bench = Bench::manual();
    let server = bench.serve();
    bench.fill(2);
    let mut client = bench.connect("@1").expect("it is kept");
    assert_eq!(client.read(0, 0, BLOCK).map(|bytes| bytes[0]), Ok(1));
    bench.forget("1");
    // A client that has it open.
    client.say_request(READ, 0, 5, 0, BLOCK as u64);
    let chunk = client.chunk(BLOCK);
    let said = String::from_utf8_lossy(&chunk.payload[6..]).into_owned();
    let forgotten = "epoch 1 is forgotten and cannot be read again";
    assert!(chunk.error == EIO && said.contains(forgotten), "{chunk:?}");
    // The connection is whole, and so is every other epoch.
    assert_eq!(client.read(0, 0, BLOCK), Err(EIO));
    assert_eq!(bench.byte("@2", 0), 2);
    // A client that comes later.
    let refused = bench.connect("@1").map(|_| ()).expect_err("it is gone");
    assert!(refused.contains(forgotten), "{refused}");
    let image = bench.disk.beside("image");
    let image = text(&image);
    let check = || {
        for (command, args) in [
            ("export", &[image, "--key-file", &bench.key][..]),
            ("forget", &[]),
            ("hold", &["--name", "x", "--who", "y", "--why", "z"]),
        ] {
            bench.assert_refused(command, "1", args, 3, forgotten);
        }
        for (at, why) in [
            ("3", "epoch 3 has not closed yet"),
            ("never", "no epoch has the name \"never\"; `quietus versions` lists those that are kept"),
            ("2001-01-01", "no kept epoch had closed by 2001-01-01T00:00:00Z"),
        ] {
            bench.assert_refused("export", at, &[image, "--key-file", &bench.key], 1, why);
        }
    };
    check();
    drop(server);
    check();
    assert!(!std::path::Path::new(image).exists());
}

#[test]
fn forgets_at_once_both_complete_and_of_the_same_epoch_one_may_come_late() {
    let bench = Bench::manual();
    let _server = bench.serve();
    bench.fill(6);
    let forget = |at: &'static str| {
        let bench = &bench;
        move || bench.at("forget", at, &["--wait"])
    };
    std::thread::scope(|scope| {
        let both = ["1..2", "4..5"].map(|at| scope.spawn(forget(at)));
        assert!(both.into_iter().all(|it| it.join().expect("it ran").status.success()));
        assert_eq!(bench.kept(), [3, 6]);
        let both = ["3", "3"].map(|at| scope.spawn(forget(at)));
        let codes = both.map(|it| it.join().expect("it ran").status.code());
        assert!(codes.contains(&Some(0)) && codes.iter().all(|it| matches!(it, Some(0 | 3))), "{codes:?}");
    });
    assert_eq!((bench.kept(), bench.byte("@6", 0), bench.byte("@6", 3)), (vec![6], 6, 3));
    assert!(bench.owes_no_forget());
}

/// Starts `forget --wait` of epoch 1.
fn begin_forget(bench: &Bench) -> Child {
    let mut forget = quietus();
    forget.args(["forget", &bench.target("1"), "--wait"]);
    forget.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs")
}

#[test]
fn who_interrupts_a_wait_is_told_that_the_epochs_are_gone_all_the_same() {
    let bench = Bench::manual();
    // In the place of a server that takes for ever.
    let listener = UnixListener::bind(bench.disk.path().join("control.sock")).expect("a socket");
    let child = begin_forget(&bench);
    let (stream, _) = listener.accept().expect("a call");
    let mut call = String::new();
    BufReader::new(&stream).read_line(&mut call).expect("a line");
    assert!(call.contains(r#""call":"forget""#) && call.contains(r#""wait":true"#), "{call}");
    signal(&child, Signal::INT);
    // The next word of the server, whenever it comes, finds the client gone.
    while (&stream).write_all(b"{\"progress\":[0,1]}\n").is_ok() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().expect("it ends");
    let (status, error) = error(&output);
    assert!(status == Some(130) && error.contains("interrupted: the epochs are forgotten"), "{error}");
}

#[test]
fn a_forget_goes_on_without_the_one_who_asked_for_it() {
    let bench = Bench::manual();
    let _server = bench.serve();
    bench.fill(2);
    let mut child = begin_forget(&bench);
    bench.wait_until(|| bench.kept() == [2]);
    signal(&child, Signal::INT);
    let code = child.wait().expect("it ends").code();
    assert!(matches!(code, Some(0 | 130)), "{code:?}");
    bench.wait_until(|| bench.owes_no_forget());
    assert_eq!((bench.byte("@2", 0), bench.byte("@2", 1)), (2, 1));
}

#[test]
fn a_hold_refuses_every_forget_that_touches_it_until_its_release() {
    let bench = Bench::manual();
    let server = bench.serve();
    bench.fill(5);
    let hold = ["--name", "case-4711", "--who", "legal", "--why", "subpoena"];
    bench.json_at("hold", "2..3", &hold);
    let check = || {
        for at in ["2", "3", "1..2", "3..4", "1..5", "..4"] {
            let said = r#"epochs 2 to 3 are held by "case-4711" (asked for by legal: subpoena)"#;
            bench.assert_refused("forget", at, &[], 1, said);
        }
        assert_eq!(bench.disk.json("versions", &[])["holds"]["case-4711"]["who"], "legal");
    };
    check();
    assert_eq!(bench.refused("hold", "4", &hold).0, 1, "one name, one hold");
    let unsaid = ["--name", "other", "--who", "legal", "--why", " "];
    bench.assert_refused("hold", "4", &unsaid, 1, "--why must not be empty");
    drop(server);
    // A kill of the server does not release it.
    check();
    let _server = bench.serve();
    bench.forget("1");
    bench.forget("4");
    let (_, said) = bench.disk.refused("release", &["case-4171"]);
    assert!(said.contains(r#"no hold has the name "case-4171"; did you mean "case-4711"?"#), "{said}");
    assert_eq!(bench.disk.json("release", &["case-4711"])["hold"]["why"], "subpoena");
    assert_eq!(bench.disk.run("release", &["case-4711"]).status.code(), Some(1));
    bench.forget("2..3");
    assert_eq!((bench.kept(), bench.byte("@5", 2)), (vec![5], 2));
}

#[test]
fn without_its_keys_a_disk_is_not_served_and_says_what_to_do() {
    let bench = Bench::manual();
    let keys = bench.disk.path().join("keys");
    let away = bench.disk.beside("keys-elsewhere");
    std::fs::rename(&keys, &away).expect("it is ours");
    let (code, error) = bench.disk.refused("serve", &["--key-file", &bench.key]);
    assert!(code == Some(1) && error.contains("keys") && error.contains("backup"), "{error}");
    std::fs::rename(&away, &keys).expect("it is ours");
    let _server = bench.serve();
    bench.fill(1);
}

#[test]
fn the_past_of_a_disk_that_is_not_served_needs_the_keys() {
    let bench = Bench::manual();
    let server = bench.serve();
    bench.fill(2);
    drop(server);
    let image = bench.disk.beside("image");
    let image = text(&image);
    bench.assert_refused("export", "1", &[image], 1, "name the credential with --key-file");
    bench.json_at("export", "1", &[image, "--key-file", &bench.key]);
    // To forget needs no credential: it only destroys.
    bench.forget("1");
    assert_eq!(bench.kept(), [2]);
}

#[test]
fn a_disk_that_is_no_multiple_of_a_block_keeps_and_forgets_its_end_too() {
    let size = 16 * BLOCK as u64 + 512;
    let bench = Bench::new(&["--size", &size.to_string(), "--epoch", "manual"]);
    let _server = bench.serve();
    let mut client = bench.connect("").expect("the disk");
    let last = 16 * BLOCK as u64;
    for round in 1..=3 {
        assert_eq!(client.write(0, last, &[round; 512]), 0);
        assert_eq!(client.write(0, last - 100, &[round; 612]), 0);
        assert_eq!(bench.close(&[]).0, u64::from(round));
    }
    assert_eq!(client.request(TRIM, 0, 0, size), 0);
    bench.disk.json("shred", &["--now"]);
    bench.wait_for_record(r#""act":"retired""#);
    let read = |at: &str| {
        let mut client = bench.connect(at).expect("it is kept");
        client.read(0, last - 100, 612)
    };
    assert_eq!([1, 2, 3].map(|round| read(&format!("@{round}")) == Ok(vec![round; 612])), [true; 3]);
    bench.forget("..2");
    assert_eq!((read("@3"), read("")), (Ok(vec![3; 612]), Ok(vec![0; 612])));
    let image = bench.disk.beside("image");
    bench.json_at("export", "3", &[text(&image)]);
    let bytes = std::fs::read(&image).expect("an image");
    assert_eq!((bytes.len() as u64, &bytes[last as usize..]), (size, &[3; 512][..]));
}

#[test]
fn a_dry_run_counts_what_a_forget_then_destroys_and_changes_nothing() {
    let bench = Bench::manual();
    let server = bench.serve();
    bench.write(10, 1);
    bench.fill(3);
    bench.write(10, 2);
    bench.write(0, 4);
    assert_eq!(bench.close(&[]).0, 4);
    let count = |at: &str| bench.json_at("forget", at, &["--dry-run"]);
    // Block 0 has another content in each epoch; block 10 shows the first one up to epoch 3.
    let middle = json!({
        "format": "quietus-weighed-1", "from": 2, "to": 3, "epochs": 2, "dies_blocks": 2, "dies_bytes": 2 * BLOCK, "stays_before_bytes": BLOCK,
        "before": 1, "after": 4, "held": null,
    });
    assert_eq!(count("2..3"), middle);
    let first = json!({
        "format": "quietus-weighed-1", "from": 1, "to": 3, "epochs": 3, "dies_blocks": 4, "dies_bytes": 4 * BLOCK, "stays_before_bytes": 0,
        "before": null, "after": 4, "held": null,
    });
    assert_eq!(count("..3"), first);
    // What the last epoch shows, the current state does: nothing would die but for it.
    assert_eq!((&count("4")["dies_bytes"], &count("4")["after"]), (&json!(0), &Value::Null));
    assert_eq!(bench.kept(), [1, 2, 3, 4]);
    drop(server);
    assert_eq!(count("2..3"), middle, "without a server, and without keys");
    let _server = bench.serve();
    bench.forget("2..3");
    bench.wait_for_record(r#""bytes":8192"#);
    assert_eq!(count("1")["dies_bytes"], 2 * BLOCK, "block 0, and block 10, are only there now");
}

#[test]
fn the_status_says_what_is_kept_held_and_expires_and_the_audit_log_who_did_what() {
    let bench = Bench::new(&["--size", "1M", "--epoch", "manual", "--retention", "all 7d, last 5"]);
    let server = bench.serve();
    let screen = || bench.disk.shown("status", &[]);
    assert!(screen().contains("versions   no epoch is kept; 0 B stored"), "{}", screen());
    bench.fill(3);
    bench.hold("2..3", "case-4711");
    bench.forget("1");
    // The space of what died is given back when the disk is idle.
    bench.wait_until(|| bench.disk.json("status", &[])["store"]["owed_bytes"] == 0);
    let shown = screen();
    for line in [
        "versions   2 epochs are kept, 2 (",
        " stored, 4.00 KiB of it only they show",
        "held       epochs 2 to 3, case-4711, by legal: subpoena",
        "retention  all 1w, last 5; named and held epochs stay",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(shown.lines().count() <= 12, "{shown}");
    bench.disk.json("release", &["case-4711"]);
    assert!(!screen().contains("\nheld "));
    for line in [
        r#""event":"held","name":"case-4711","from":2,"to":3,"who":"legal","why":"subpoena","since_ms":"#,
        r#""event":"forgets","from":1,"to":1,"by_rule":false"#,
        r#""event":"released","name":"case-4711","from":2"#,
    ] {
        bench.wait_for_record(line);
    }
    drop(server);
    let deaths = bench.disk.shown("deaths", &[]);
    assert!(deaths.contains("held     epochs 2 to 3, case-4711, by legal: subpoena"), "{deaths}");
    assert!(deaths.contains("forgets  epochs 1 to 1"), "{deaths}");
    assert_eq!(bench.disk.json("verify", &[])["ok"], true);
}
