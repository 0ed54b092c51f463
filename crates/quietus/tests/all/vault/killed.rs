//! Puts and sanitizations that are killed at any instant.

use crate::vault::program::{Vault, assert_same, folder, needles};
use std::path::Path;
use std::time::{Duration, Instant};

const KILLS: u32 = 8;

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Begins `command` and kills it within the time that it took last; whether it came to its end all the same.
/// A run that did corrects `whole`: the first one may have been slow for other reasons.
fn kill(vault: &Vault, n: u32, whole: &mut Duration, command: &str, args: &[&str]) -> bool {
    let begun = Instant::now();
    let mut child = vault.spawn(command, args);
    // Neither in step with the machine nor in order of time.
    let end = *whole * (n * 7 % KILLS + 1) / (KILLS + 1);
    while begun.elapsed() < end {
        if let Some(status) = child.try_wait().expect("a state") {
            *whole = begun.elapsed();
            return status.success();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = child.kill();
    child.wait().expect("it has ended").success()
}

#[test]
fn a_put_that_is_killed_vanishes_and_leaves_nothing_behind() {
    let vault = Vault::new(&["--compress", "none"]);
    let (kept, doomed) = (vault.beside("kept"), vault.beside("doomed"));
    folder(&kept, &[1, 2, 3]);
    folder(&doomed, &(100..160).collect::<Vec<_>>());
    vault.put("kept", &kept);
    let begun = Instant::now();
    let snapshot = vault.put("doomed", &doomed);
    let mut whole = begun.elapsed();
    vault.json("forget", &[&snapshot]);
    vault.sanitize();
    let mut interrupted = 0;
    for n in 0..KILLS {
        let has_ended = kill(&vault, n, &mut whole, "put", &["doomed", text(&doomed)]);
        let list = vault.json("list", &[]);
        let all = list["snapshots"].as_array().expect("a list");
        // A kill may also come between the commit and the program's end.
        match all.iter().find(|it| it["name"] == "doomed") {
            Some(it) => drop(vault.json("forget", &[&it["snapshot"].to_string()])),
            None => {
                assert!(!has_ended, "kill {n}: a put that has ended left no snapshot");
                interrupted += 1;
            }
        }
        assert_eq!(vault.json("verify", &[])["ok"], true);
        let (_into, there) = vault.get("kept", &kept);
        assert_same(&kept, &there);
        vault.sanitize();
        assert_eq!(vault.missing(&needles(100..160)), 60, "kill {n}");
    }
    assert!(interrupted > 0, "no put was cut short");
}

#[test]
fn a_sanitization_that_is_killed_goes_on_and_live_snapshots_stay() {
    let vault = Vault::new(&["--compress", "none", "--policy", "random,ff,zero"]);
    let kept = vault.beside("kept");
    folder(&kept, &(1..40).collect::<Vec<_>>());
    vault.put("kept", &kept);
    let mut interrupted = 0;
    let mut whole = Duration::from_millis(200);
    for n in 0..KILLS {
        let doomed = vault.beside(&format!("doomed {n}"));
        let seeds = 1000 * u64::from(n + 1)..1000 * u64::from(n + 1) + 20;
        folder(&doomed, &seeds.clone().collect::<Vec<_>>());
        folder(&doomed, &[1, 2, 3]);
        let snapshot = vault.put("doomed", &doomed);
        vault.json("forget", &[&snapshot]);
        if n == 0 {
            let begun = Instant::now();
            vault.sanitize();
            whole = begun.elapsed();
            continue;
        }
        interrupted += u32::from(!kill(&vault, n, &mut whole, "sanitize", &[]));
        assert_eq!(vault.json("verify", &[])["ok"], true);
        let (_into, there) = vault.get("kept", &kept);
        assert_same(&kept, &there);
        let receipt = vault.sanitize();
        assert_eq!(receipt["statement"]["owed"].as_array().map(Vec::len), Some(0), "{receipt}");
        assert_eq!(vault.missing(&needles(seeds)), 20, "kill {n}");
    }
    assert!(interrupted > 0, "no sanitization was cut short");
    let log = std::fs::read_to_string(vault.path().join("audit.jsonl")).expect("a log");
    for forget in 0..u64::from(KILLS) {
        let receipts =
            log.lines().filter(|line| line.contains(&format!("\"event\":\"receipt\",\"forget\":{forget},")));
        assert_eq!(receipts.count(), 1, "forget {forget} has one receipt in the log: {log}");
    }
}

#[test]
fn a_put_that_is_asked_to_stop_ends_in_good_order() {
    let vault = Vault::new(&["--compress", "none"]);
    let doomed = vault.beside("doomed");
    folder(&doomed, &(100..200).collect::<Vec<_>>());
    let child = vault.spawn("put", &["doomed", text(&doomed)]);
    std::thread::sleep(Duration::from_millis(60));
    let asked =
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT);
    asked.expect("it runs");
    let output = child.wait_with_output().expect("it has ended");
    if output.status.success() {
        return;
    }
    assert_eq!(vault.json("list", &[])["snapshots"].as_array().map(Vec::len), Some(0));
    vault.sanitize();
    assert_eq!(vault.missing(&needles(100..200)), 100);
}
