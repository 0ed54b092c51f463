//! Whether a cache may be between a client and the disk, as `status` says.

use crate::nbd::client::*;
use crate::nbd::program::{Disk, quietus};
use serde_json::Value;

fn disk() -> Disk {
    Disk::made(tempfile::tempdir().unwrap(), &["--size", "1M"])
}

fn attached(disk: &Disk) -> Value {
    let status =
        crate::schemas::checked(quietus().args(["--json", "status"]).arg(disk.path()).output().unwrap());
    assert!(status.status.success(), "{status:?}");
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    status["attached"].clone()
}

#[test]
fn an_unknown_client_is_cached_also_after_a_crash_of_the_server() {
    let disk = disk();
    let served = disk.serve(&[]);
    assert_eq!(attached(&disk)["cached"], false);
    let mut client = served.connect();
    client.agree(Style::Structured);
    assert_eq!(client.write(0, 0, &[1; 4096]), 0);
    let found = attached(&disk);
    assert_eq!(found["cached"], true);
    assert!(found["why"].as_str().unwrap().contains("is not known"), "{found}");
    drop(served);
    let _served = disk.serve(&[]);
    assert_eq!(attached(&disk)["cached"], true);
}

#[test]
fn the_owner_says_how_clients_are_attached() {
    let disk = disk();
    for (said, cached) in [("cached", true), ("direct", false)] {
        let served = disk.serve(&["--attached", said]);
        let mut client = served.connect();
        client.agree(Style::Structured);
        assert_eq!(client.write(0, 0, &[1; 4096]), 0);
        let found = attached(&disk);
        assert_eq!(found["cached"], cached);
        assert_eq!(found["why"], format!("--attached {said}"));
        let screen = quietus().arg("status").arg(disk.path()).output().unwrap().stdout;
        let screen = String::from_utf8(screen).unwrap();
        assert!(screen.contains(&format!("\nattached   {said}")), "{screen}");
    }
}

#[test]
fn without_detection_no_process_is_asked() {
    let disk = disk();
    let _served = disk.serve(&["--detect", "off"]);
    assert_eq!(attached(&disk), Value::Null);
}
