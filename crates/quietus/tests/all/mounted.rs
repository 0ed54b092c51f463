//! What the program mounts, until a test ends.

use crate::program::signal;
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Whether this host lets FUSE be tested; says so if not.
pub fn has_fuse() -> bool {
    let found = fs::File::options().read(true).write(true).open("/dev/fuse");
    found.map_err(|error| eprintln!("SKIPPED: /dev/fuse: {error}")).is_ok()
}

/// A folder that the program mounts at.
pub struct Mounted {
    program: Child,
    pub at: PathBuf,
}

impl Mounted {
    /// Runs `command`, which mounts at `at`, and waits until it has.
    pub fn new(command: &mut Command, at: PathBuf) -> Self {
        let mut program = command.stdout(Stdio::piped()).spawn().expect("it runs");
        let mut line = String::new();
        BufReader::new(program.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
        assert_eq!(crate::schemas::valid(&line)["mounted"].as_str(), at.to_str());
        Self { program, at }
    }

    pub fn is_mounted(&self) -> bool {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("a list");
        mounts.lines().any(|line| line.split(' ').nth(1) == self.at.to_str())
    }

    /// Ctrl-C; the exit status.
    pub fn interrupt(&mut self) -> Option<i32> {
        signal(&self.program, Signal::INT);
        self.program.wait().expect("it ends").code()
    }

    /// The names in a folder of it, sorted.
    #[track_caller]
    pub fn names(&self, folder: impl AsRef<Path>) -> Vec<String> {
        let entries = fs::read_dir(self.at.join(folder)).expect("a folder");
        let mut names: Vec<_> = entries.map(|it| it.expect("an entry").file_name()).collect();
        names.sort();
        names.into_iter().map(|it| it.into_string().expect("text")).collect()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
        if self.is_mounted() {
            let _ = rustix::mount::unmount(&self.at, rustix::mount::UnmountFlags::DETACH);
        }
    }
}
