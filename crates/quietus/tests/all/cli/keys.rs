//! The keys of a disk that keeps versions, as a user handles them.

use crate::program::{Disk, error, holds, private, text};
use quietus::disk::DiskDir;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const PASSPHRASE: &str = "correct horse battery staple";
const KEY: &[u8] = b"0123456789 these are forty random bytes.";

/// A directory with a disk that a passphrase opens, and with other credentials.
struct Bench(Disk);

impl Bench {
    fn new(args: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, bytes) in
            [("phrase", [PASSPHRASE, "\n"].concat().as_bytes()), ("wrong", b"incorrect\n"), ("key", KEY)]
        {
            private(&dir.path().join(name), bytes);
        }
        let phrase = dir.path().join("phrase");
        let made = ["--store", "versions", "--size", "1M", "--passphrase-file", text(&phrase)];
        Self(Disk::made(dir, &[&made[..], args].concat()))
    }

    /// `option` and the path of the file `name`.
    fn file(&self, option: &str, name: &str) -> [String; 2] {
        [option.into(), text(&self.0.beside(name)).into()]
    }

    fn key(&self, action: &[&str], credentials: &[&[String; 2]]) -> serde_json::Value {
        self.0.json("key", &all(action, credentials))
    }

    #[track_caller]
    fn assert_refused(&self, action: &[&str], credentials: &[&[String; 2]], why: &str) {
        self.0.assert_refused("key", &all(action, credentials), 1, why);
    }

    fn kinds(&self) -> Vec<(u64, String)> {
        let list = self.key(&["list"], &[]);
        let slots = list["slots"].as_array().expect("slots").iter();
        let text = |it: &serde_json::Value| it["kind"].as_str().expect("text").into();
        slots.map(|it| (it["slot"].as_u64().expect("a number"), text(it))).collect()
    }
}

/// The arguments of an action with these credentials.
fn all<'a>(action: &[&'a str], credentials: &[&'a [String; 2]]) -> Vec<&'a str> {
    action.iter().copied().chain(credentials.iter().copied().flatten().map(String::as_str)).collect()
}

#[test]
fn each_kind_of_credential_opens_a_disk_until_its_slot_is_removed() {
    let bench = Bench::new(&["--policy", "purge-2"]);
    let phrase = bench.file("--passphrase-file", "phrase");
    let key = bench.file("--key-file", "key");
    let command = ["--key-command".to_string(), format!("head -c 33 {}", bench.file("", "key")[1])];
    let added = |slot: u64| serde_json::json!({ "format": "quietus-key-added-1", "added": slot });
    let new = |[option, value]: &[String; 2]| [option.replacen("--", "--new-", 1), value.clone()];
    assert_eq!(bench.key(&["add"], &[&phrase, &new(&key)]), added(1));
    assert_eq!(bench.key(&["add"], &[&key, &new(&command)]), added(2));
    let [one, two, three] = ["passphrase", "key file", "command"].map(String::from);
    assert_eq!(bench.kinds(), [(0, one), (1, two.clone()), (2, three)]);
    for (credential, generation) in [(&phrase, 1), (&key, 2), (&command, 3)] {
        assert_eq!(bench.key(&["rotate"], &[credential])["generation"], generation);
    }
    // Only a credential that opens the disk afterwards takes a slot away.
    let no_other = "the credential given opens no other slot; give one that does";
    bench.assert_refused(&["remove", "0"], &[&phrase], no_other);
    let removed = bench.key(&["remove", "0"], &[&command]);
    assert_eq!((&removed["removed"], &removed["passes"]), (&0.into(), &2.into()));
    bench.assert_refused(&["rotate"], &[&phrase], "no key slot is for a passphrase; give the right one");
    bench.key(&["remove", "2"], &[&key]);
    assert_eq!(bench.kinds(), [(1, two)]);
    let last = "key slot 1 is the last one, and the disk would be lost with it";
    bench.assert_refused(&["remove", "1"], &[&key], last);
}

#[test]
fn a_wrong_credential_is_an_error_that_says_what_to_do_also_for_serve() {
    let bench = Bench::new(&[]);
    let wrong = bench.file("--passphrase-file", "wrong");
    let before = std::fs::read(bench.0.path().join("keys")).expect("keys");
    let advice = "wrong passphrase: it opens none of 1 key slots; give the right one, or another credential";
    bench.assert_refused(&["rotate"], &[&wrong], advice);
    bench.0.assert_refused("serve", &[&wrong[0], &wrong[1]], 1, advice);
    assert_eq!(std::fs::read(bench.0.path().join("keys")).expect("keys"), before);
}

#[test]
fn no_secret_is_in_a_file_of_the_disk_and_only_the_owner_may_read_the_keys() {
    let bench = Bench::new(&[]);
    let (phrase, key) = (bench.file("--passphrase-file", "phrase"), bench.file("--new-key-file", "key"));
    bench.key(&["add"], &[&phrase, &key]);
    for entry in std::fs::read_dir(bench.0.path()).expect("a directory") {
        let path = entry.expect("a file").path();
        assert!(!holds(&path, PASSPHRASE.as_bytes()) && !holds(&path, KEY), "{}", path.display());
    }
    let keys = std::fs::metadata(bench.0.path().join("keys")).expect("keys");
    assert_eq!(keys.permissions().mode() & 0o777, 0o600);
}

#[test]
fn keys_are_not_changed_while_another_has_the_disk() {
    let bench = Bench::new(&[]);
    let _open = DiskDir::open(&bench.0.path()).expect("it opens");
    for action in [&["list"][..], &["rotate"], &["add"], &["remove", "0"]] {
        bench.assert_refused(action, &[], "in use by process");
    }
}

#[test]
fn without_a_terminal_no_command_waits_for_a_passphrase() {
    let bench = Bench::new(&[]);
    let mut alone = Command::new("setsid");
    let quietus = alone.arg("--wait").arg(env!("CARGO_BIN_EXE_quietus")).arg("key").arg(bench.0.path());
    let (_, error) = error(&quietus.arg("rotate").output().expect("it runs"));
    let advice = "name a credential with --passphrase-file, --key-file or --key-command";
    assert!(error.contains(advice), "{error}");
}
