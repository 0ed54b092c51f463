//! Commands that go on until they are stopped.

use crate::program::{Disk, quietus, signal, wait_until};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

/// `command` on a disk of its own, which has said something.
fn begun(disk: &Disk, args: &[&str]) -> Child {
    let mut quietus = quietus();
    let quietus = quietus.arg(args[0]).arg(disk.path()).args(&args[1..]);
    let mut child = quietus.stdout(Stdio::piped()).spawn().expect("it runs");
    let out = child.stdout.take().expect("a pipe");
    let mut lines = BufReader::new(out).lines();
    lines.next().expect("a line").expect("text");
    // Whatever else it says is read, so that it never waits for a reader.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

#[test]
fn one_signal_ends_what_goes_on_until_it_is_stopped() {
    let disk = Disk::new(&["--size", "1M"]);
    for command in [["status", "--watch"], ["deaths", "--follow"]] {
        for asked in [Signal::INT, Signal::TERM] {
            println!("{command:?}, {asked:?}");
            let mut child = begun(&disk, &command);
            signal(&child, asked);
            wait_until(|| child.try_wait().expect("it is ours").is_some());
            assert!(child.wait().expect("it has ended").success(), "{command:?}, {asked:?}");
        }
    }
}
