//! The end of a server whose disk failed.

use crate::nbd::client::*;
use crate::nbd::program::logged;
use crate::program::{Disk, private, signal, text, wait_until};
use rustix::process::Signal;
use std::path::Path;

/// How a file of a disk is spoilt.
type Harm = (&'static str, fn(&Path));

const HARMS: [Harm; 2] = [
    ("removed", |file| std::fs::remove_file(file).unwrap()),
    ("cut off", |file| std::fs::File::options().write(true).open(file).unwrap().set_len(512).unwrap()),
];

/// One signal, some time after requests failed, and what the server says at its end.
fn ends(disk: &Disk, args: &[&str], file: &str, (how, harm): Harm) {
    let (mut served, log) = logged(disk, &[&["--detect", "off"], args].concat());
    let mut client = served.connect();
    client.agree(Style::Structured);
    assert_eq!(client.write(0, 0, &vec![7; 1 << 20]), 0);
    assert_eq!(client.request(TRIM, 0, 0, 1 << 19), 0);
    harm(&disk.path().join(file));
    let _ = client.write(0, 0, &[8; 4096]);
    assert_ne!(client.request(FLUSH, 0, 0, 0), 0, "{file} {how}: a flush succeeds");
    signal(&served.child, Signal::TERM);
    println!("{file} {how}");
    let mut status = None;
    wait_until(|| {
        status = served.child.try_wait().unwrap();
        status.is_some()
    });
    let said: String = log.map(|line| line.unwrap() + "\n").collect();
    assert_eq!(status.unwrap().code(), Some(1), "{said}");
    assert!(said.contains(file) && said.contains("stay on the medium"), "{file} {how}: {said}");
}

#[test]
fn one_signal_ends_a_server_whose_disk_lost_a_file_and_it_says_what_stays() {
    for (store, files) in [
        ("in-place", &["data", "journal"][..]),
        ("overlay", &["data", "journal", "map"]),
        ("versions", &["data", "journal", "root"]),
    ] {
        for (file, how) in files.iter().flat_map(|it| HARMS.map(|how| (it, how))) {
            let dir = tempfile::tempdir().unwrap();
            let [base, key] = ["base", "key"].map(|name| dir.path().join(name));
            std::fs::write(&base, vec![1; 4 << 20]).unwrap();
            private(&key, &[7; 32]);
            let (base, key) = (["--base", text(&base)], ["--key-file", text(&key)]);
            let (more, serve) = match store {
                "overlay" => (&base[..], &[][..]),
                "versions" => (&key[..], &key[..]),
                _ => (&[][..], &[][..]),
            };
            let disk = Disk::made(dir, &[&["--size", "4M", "--store", store], more].concat());
            ends(&disk, serve, file, how);
        }
    }
}
