//! The end of a server whose disk failed.

use crate::nbd::client::*;
use crate::nbd::program::Disk;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How a file of a disk is spoilt.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Removed,
    CutOff,
}

fn harm(file: &Path, harm: Harm) {
    match harm {
        Harm::Removed => std::fs::remove_file(file).unwrap(),
        Harm::CutOff => std::fs::File::options().write(true).open(file).unwrap().set_len(512).unwrap(),
    }
}

/// One signal, some time after requests failed, and what the server says at its end.
fn ends(disk: &Disk, args: &[&str], file: &str, how: Harm) {
    let mut served = disk.serve(&[&["--detect", "off"], args].concat());
    let mut client = served.connect();
    client.agree(Style::Structured);
    assert_eq!(client.write(0, 0, &vec![7; 1 << 20]), 0);
    client.say_request(TRIM, 0, 9, 0, 1 << 19);
    assert_eq!(client.outcome(9), 0);
    harm(&disk.path().join(file), how);
    client.say_request(WRITE, 0, 1, 0, 4096);
    client.say(&[8; 4096]);
    let _ = client.outcome(1);
    client.say_request(FLUSH, 0, 2, 0, 0);
    assert_ne!(client.outcome(2), 0, "{file} {how:?}: a flush succeeds");
    let pid = rustix::process::Pid::from_child(&served.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let status = loop {
        match served.child.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(Instant::now() < until, "{file} {how:?}: it does not end"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let said = served.rest();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains(file) && said.contains("stay on the medium"), "{file} {how:?}: {said}");
}

#[test]
fn one_signal_ends_a_server_whose_disk_lost_a_file_and_it_says_what_stays() {
    let stores: [(&[&str], &[&str]); 3] = [
        (&["--size", "4M"], &["data", "journal"]),
        (&["--store", "overlay", "--base", "base"], &["data", "journal", "map"]),
        (&["--size", "4M", "--store", "versions", "--key-file", "key"], &["data", "journal", "root"]),
    ];
    for (args, files) in stores {
        for (file, how) in files.iter().flat_map(|it| [(it, Harm::Removed), (it, Harm::CutOff)]) {
            let dir = tempfile::tempdir().unwrap();
            let base = dir.path().join("base");
            std::fs::write(&base, vec![1; 4 << 20]).unwrap();
            let key = dir.path().join("key");
            std::fs::write(&key, [7; 32]).unwrap();
            std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
            let paths = [("base", base.to_str().unwrap()), ("key", key.to_str().unwrap())];
            let path =
                |name: &&str| paths.iter().find(|it| it.0 == *name).map_or(*name, |it| it.1).to_string();
            let args: Vec<_> = args.iter().map(path).collect();
            let args: Vec<_> = args.iter().map(String::as_str).collect();
            let serve =
                args.iter().position(|it| *it == "--key-file").map_or(&[][..], |it| &args[it..it + 2]);
            ends(&Disk::made(dir, &args), serve, file, how);
        }
    }
}
