//! A server of idle disks.

use crate::program::Disk;
use std::path::Path;
use std::time::Duration;

/// How often the threads of process `pid` have gone to sleep so far.
fn sleeps(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it lives").flatten();
    let count = |task: &Path| {
        let status = std::fs::read_to_string(task.join("status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    tasks.map(|task| count(&task.path())).sum()
}

/// A count and no time: with a timeout in one loop each window has too many, however slow the
/// machine is. Other windows are given a chance, as what comes after the start may last.
fn comes_to_rest(disk: &Disk) {
    let server = disk.serve(&[]);
    let pid = server.child.id();
    let windows: Vec<u64> = std::iter::repeat_with(|| {
        let before = sleeps(pid);
        std::thread::sleep(Duration::from_secs(2));
        sleeps(pid).saturating_sub(before)
    })
    .take(10)
    .scan(false, |over, woken| (!std::mem::replace(over, woken <= 2)).then_some(woken))
    .collect();
    assert!(windows.iter().any(|woken| *woken <= 2), "woken so often in 2 s each: {windows:?}");
}

#[test]
fn an_idle_disk_wakes_no_thread() {
    comes_to_rest(&Disk::new(&["--size", "64M"]));
}

#[test]
fn an_idle_overlay_wakes_no_thread() {
    comes_to_rest(&Disk::on(&[7; 1 << 20], &["--store", "overlay", "--base"]));
}
