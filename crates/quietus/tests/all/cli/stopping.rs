//! Commands that go on until they are stopped.

use crate::cli::program::Disk;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// `command` on a disk of its own, which has said something.
fn begun(disk: &Disk, args: &[&str]) -> Child {
    let mut quietus = Command::new(env!("CARGO_BIN_EXE_quietus"));
    let quietus = quietus.arg(args[0]).arg(disk.path()).args(&args[1..]);
    let mut child = quietus.stdout(Stdio::piped()).spawn().expect("it runs");
    let out = child.stdout.take().expect("a pipe");
    let mut lines = BufReader::new(out).lines();
    lines.next().expect("a line").expect("text");
    // Whatever else it says is read, so that it never waits for a reader.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

fn ends(child: &mut Child) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        if child.try_wait().expect("it is ours").is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
    false
}

#[test]
fn one_signal_ends_what_goes_on_until_it_is_stopped() {
    let disk = Disk::new(&["--size", "1M"]);
    for command in [["status", "--watch"], ["deaths", "--follow"]] {
        for signal in [Signal::INT, Signal::TERM] {
            let mut child = begun(&disk, &command);
            kill_process(Pid::from_child(&child), signal).expect("it lives");
            assert!(ends(&mut child), "{command:?} ignores {signal:?}");
            assert!(child.wait().expect("it has ended").success(), "{command:?}, {signal:?}");
        }
    }
}
