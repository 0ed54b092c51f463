//! Overlays, as a user runs them.

use crate::program::{Disk, text};

const SIZE: usize = 2 << 20;

/// A disk above an image of 2 MiB.
fn overlay(args: &[&str]) -> Disk {
    Disk::on(&[7; SIZE], &[args, &["--store", "overlay", "--base"]].concat())
}

#[test]
fn a_served_overlay_says_how_large_it_is_and_packs_and_is_locked() {
    let bench = overlay(&["--mode", "packed"]);
    let server = bench.serve(&[]);
    let status = bench.json("status", &[]);
    let space = &status["space"];
    assert_eq!((&space["live_bytes"], &status["store"]["mode"]), (&0.into(), &"packed".into()), "{status}");
    assert_eq!(space["before"].as_array().map(Vec::len), Some(1), "{status}");
    assert_eq!(bench.json("compact", &[])["done"], true);
    assert_eq!(bench.json("verify", &[])["ok"], true);
    let out = bench.beside("out");
    for (command, args) in [("rebase", vec!["--base", text(&out)]), ("commit", vec![])] {
        bench.assert_refused(command, &args, 1, "in use by process");
    }
    for (command, args) in [("export", vec![text(&out)]), ("commit", vec!["--to", text(&out)])] {
        assert_eq!(bench.json(command, &args)["live_bytes"], SIZE);
        assert!(std::fs::read(&out).expect("the image") == vec![7; SIZE]);
        std::fs::remove_file(&out).expect("it is there");
    }
    drop(server);
    let shown = bench.shown("status", &["--verbose"]);
    assert!(shown.contains("overlay      packed, above ") && shown.contains("on the host, for"), "{shown}");
}

#[test]
fn what_is_free_on_the_medium_is_read_for_a_proof() {
    let bench = overlay(&["--mode", "punch"]);
    bench.json("purge", &["0+65536"]);
    bench.json("shred", &["--now"]);
    let proof = bench.json("prove", &[]);
    assert_eq!(
        (&proof["statement"]["bytes"]["dead"], &proof["statement"]["bytes"]["queued"]),
        (&65536.into(), &0.into())
    );
    let bench = overlay(&["--policy", "none"]);
    bench.assert_refused("prove", &[], 1, "only frees what dies");
}
