//! Whether a cache may be between a client and the disk, as `status` says.

use crate::nbd::client::*;
use crate::program::Disk;
use serde_json::Value;

fn attached(disk: &Disk) -> Value {
    disk.json("status", &[])["attached"].clone()
}

#[test]
fn an_unknown_client_is_cached_also_after_a_crash_of_the_server() {
    let disk = Disk::new(&["--size", "1M"]);
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
    let disk = Disk::new(&["--size", "1M"]);
    for (said, cached) in [("cached", true), ("direct", false)] {
        let served = disk.serve(&["--attached", said]);
        let mut client = served.connect();
        client.agree(Style::Structured);
        assert_eq!(client.write(0, 0, &[1; 4096]), 0);
        let found = attached(&disk);
        assert_eq!(found["cached"], cached);
        assert_eq!(found["why"], format!("--attached {said}"));
        let screen = disk.shown("status", &[]);
        assert!(screen.contains(&format!("\nattached   {said}")), "{screen}");
    }
}

#[test]
fn without_detection_no_process_is_asked() {
    let disk = Disk::new(&["--size", "1M"]);
    let _served = disk.serve(&["--detect", "off"]);
    assert_eq!(attached(&disk), Value::Null);
}
