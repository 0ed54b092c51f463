//! The program as a user runs it, on a vault of its own.

use crate::program::{overwrite, quietus, succeeds, text, tree};
use memchr::memmem;
use rustix::fs::SeekFrom;
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A vault in a directory of its own.
pub struct Vault {
    pub dir: tempfile::TempDir,
}

impl Vault {
    /// A vault made with `args`, of small containers.
    pub fn new(args: &[&str]) -> Self {
        let vault = Self { dir: tempfile::tempdir().expect("a directory") };
        vault.json("init", &[&["--size", "64M", "--container", "128K"], args].concat());
        vault
    }

    pub fn path(&self) -> PathBuf {
        self.beside("vault")
    }

    /// The path with this name beside the vault.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A folder beside the vault with this name, of files of noise.
    pub fn folder(&self, name: &str, seeds: &[u64]) -> PathBuf {
        let path = self.beside(name);
        folder(&path, seeds);
        path
    }

    pub fn command(&self, command: &str) -> Command {
        let mut quietus = self.command_plain(command);
        quietus.arg("--json").env("QUIETUS_LOG", "error");
        quietus
    }

    /// A command that reports to people.
    pub fn command_plain(&self, command: &str) -> Command {
        let mut quietus = quietus();
        quietus.args(["vault", command]).arg(self.path()).current_dir(self.dir.path()).stdin(Stdio::null());
        quietus
    }

    /// The report of a command, as text.
    pub fn plain(&self, command: &str, args: &[&str]) -> String {
        succeeds(self.command_plain(command).args(args))
    }

    pub fn run(&self, command: &str, args: &[&str]) -> Output {
        self.command(command).args(args).output().expect("it runs")
    }

    pub fn json(&self, command: &str, args: &[&str]) -> Value {
        let output = self.run(command, args);
        assert!(output.status.success(), "{command} {args:?}: {output:?}");
        report(&output)
    }

    /// The report of a command that ends with findings.
    pub fn findings(&self, command: &str, args: &[&str]) -> Value {
        let output = self.run(command, args);
        assert_eq!(output.status.code(), Some(3), "{command} {args:?}: {output:?}");
        report(&output)
    }

    /// How many snapshots there are.
    pub fn snapshots(&self) -> usize {
        self.json("list", &[])["snapshots"].as_array().expect("a list").len()
    }

    /// How many forgets are owed.
    pub fn owed(&self) -> usize {
        self.json("status", &[])["owed"].as_array().expect("a list").len()
    }

    /// Checks that `verify` finds no fault.
    #[track_caller]
    pub fn assert_whole(&self) {
        assert_eq!(self.json("verify", &[])["ok"], true);
    }

    /// Where `needle` lies in the pool.
    pub fn find(&self, needle: &[u8]) -> u64 {
        let pool = std::fs::read(self.path().join("pool")).expect("a file");
        memmem::find(&pool, needle).expect("stored as it is") as u64
    }

    /// Writes to the pool behind the vault's back.
    pub fn write(&self, at: u64, bytes: &[u8]) {
        overwrite(&self.path().join("pool"), at, bytes);
    }

    /// Changes a byte of the pool, so far behind the beginning of `needle`.
    pub fn damage(&self, needle: &[u8], offset: u64) {
        self.write(self.find(needle) + offset, b"?");
    }

    /// The error of a command that fails.
    pub fn refused(&self, command: &str, args: &[&str]) -> String {
        let output = self.run(command, args);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{command} {args:?}: {output:?}");
        String::from_utf8(output.stderr).expect("text")
    }

    /// Checks that a command fails, and that its error says `why`.
    #[track_caller]
    pub fn assert_refused(&self, command: &str, args: &[&str], why: &str) {
        let said = self.refused(command, args);
        assert!(said.contains(why), "{command} {args:?}: {said}");
    }

    pub fn spawn(&self, command: &str, args: &[&str]) -> Child {
        let mut quietus = self.command(command);
        quietus.args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs")
    }

    /// The number of the snapshot that a put made.
    pub fn put(&self, name: &str, path: &Path) -> String {
        self.json("put", &[name, text(path)])["snapshot"].to_string()
    }

    /// Checks that the folder `path` comes back from a snapshot as it is.
    #[track_caller]
    pub fn assert_back(&self, snapshot: &str, path: &Path) {
        let (_into, there) = self.get(snapshot, path);
        assert_same(path, &there);
    }

    /// Restores a snapshot into a new folder; where the folder `path` is there.
    pub fn get(&self, snapshot: &str, path: &Path) -> (tempfile::TempDir, PathBuf) {
        let into = tempfile::tempdir_in(self.dir.path()).expect("a directory");
        self.json("get", &[snapshot, "--into", text(into.path())]);
        let there = into.path().join(path.strip_prefix("/").expect("an absolute path"));
        (into, there)
    }

    /// How often `needle` is in any file of the vault.
    pub fn count(&self, needle: &[u8]) -> usize {
        self.data().iter().map(|data| memmem::find_iter(data, needle).count()).sum()
    }

    /// How many of the needles are in no file of the vault.
    pub fn missing(&self, needles: &[Vec<u8>]) -> usize {
        let data = self.data();
        let is_nowhere = |needle: &&Vec<u8>| data.iter().all(|data| memmem::find(data, needle).is_none());
        needles.iter().filter(is_nowhere).count()
    }

    /// All that is in the files of the vault, but for holes.
    fn data(&self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let entries = std::fs::read_dir(self.path()).expect("a directory").flatten();
        for file in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file())) {
            let file = File::open(file.path()).expect("a file");
            let mut at = 0;
            while let Ok(data) = rustix::fs::seek(&file, SeekFrom::Data(at)) {
                at = rustix::fs::seek(&file, SeekFrom::Hole(data)).expect("an end");
                let mut bytes = vec![0; (at - data) as usize];
                file.read_exact_at(&mut bytes, data).expect("the data");
                all.push(bytes);
            }
        }
        all
    }

    /// Sanitizes the vault, and proves that nothing dead is left.
    pub fn sanitize(&self) -> Value {
        let receipt = self.json("sanitize", &[]);
        let proof = self.json("prove", &[]);
        assert_eq!(proof["statement"]["violations_count"], 0, "{proof}");
        receipt
    }
}

/// What a command has reported, in one line.
pub fn report(output: &Output) -> Value {
    crate::schemas::valid(std::str::from_utf8(&output.stdout).expect("text"))
}

/// The numbers of the snapshots in a report.
pub fn numbers(list: &Value) -> Vec<u64> {
    let all = list["snapshots"].as_array().expect("a list");
    all.iter().map(|line| line["snapshot"].as_u64().expect("a number")).collect()
}

/// Content that does not compress, and is nowhere else: SplitMix64.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = state;
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ (value >> 31)
    };
    (0..length.div_ceil(8)).flat_map(|_| next().to_le_bytes()).take(length).collect()
}

/// What is looked for of files of noise.
pub fn needles(seeds: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    seeds.map(|seed| noise(seed, 64)).collect()
}

/// A folder of files of noise, one for each seed.
pub fn folder(path: &Path, seeds: &[u64]) {
    std::fs::create_dir_all(path).expect("a directory");
    for seed in seeds {
        let length = 1000 + (seed * 7919 % 90_000) as usize;
        std::fs::write(path.join(format!("file {seed}")), noise(*seed, length)).expect("a file");
    }
}

/// Checks that two folders have the same files.
pub fn assert_same(one: &Path, other: &Path) {
    let (one, other) = (tree(one), tree(other));
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
    for (path, content) in &one {
        assert!(other[path] == *content, "{path:?}");
    }
}
