//! Files of a disk that vanish while it is served, and files that were cut short.

use crate::versions::judge::{Bench, ask, bring_home, filled, stop, try_ask, write};
use quietus::front::control::{Call, StatusAnswer};
use quietus::open_disk::OpenDisk;
use quietus_core::request::Op;
use quietus_seal::Seal;

const FILES: [&str; 6] = ["data", "journal", "map", "stubs", "root", "keys"];

/// Why the disk takes no more writes.
fn latched(disk: &OpenDisk) -> String {
    let status: StatusAnswer = disk.answer(&Call::Status, None, &mut |_, _| true).expect("an answer");
    status.status.latched.expect("it is latched")
}

#[test]
fn a_file_that_vanishes_is_noticed_at_the_next_flush_and_in_the_status() {
    for file in FILES {
        for moves in [false, true] {
            let bench = Bench::new(Seal::RandomKey);
            let disk = bench.open();
            write(&disk, 0..4, 1);
            ask(&disk, Op::Flush, 0, 0);
            let path = bench.path().join(file);
            match moves {
                true => std::fs::rename(&path, bench.path().join("elsewhere")).expect("it is there"),
                false => std::fs::remove_file(&path).expect("it is there"),
            }
            let refused = try_ask(&disk, Op::Flush, 0, 0).expect_err("nothing is durable").to_string();
            for why in [refused, latched(&disk)] {
                let what = if moves { "moved away while in use" } else { "deleted while in use" };
                assert!(why.contains(&format!("/{file}: {what}")), "{file}: {why}");
            }
            disk.close(false, |_| true);
        }
    }
}

#[test]
fn a_file_that_was_cut_short_is_named_with_both_lengths_and_the_remedy() {
    let bench = Bench::new(Seal::RandomKey);
    let (disk, _) = filled(&bench);
    bring_home(&disk);
    stop(disk, true);
    for file in ["root", "stubs", "map"] {
        let whole = bench.file(file);
        let used = whole.len() - whole.iter().rev().take_while(|byte| **byte == 0).count();
        let last = if file == "map" { 8192 } else { used / 4096 * 4096 };
        for len in [0, 100, 5000, last] {
            bench.put(file, &whole[..len]);
            let why = bench.refusal();
            let named = why.contains(&format!("/{file}: {len} bytes long, and at least "));
            assert!(
                named && why.contains("cut short") && why.contains("restore it"),
                "{file} of {len} bytes: {why}"
            );
        }
        bench.put(file, &whole);
    }
    bench.open().close(true, |_| true);
}
