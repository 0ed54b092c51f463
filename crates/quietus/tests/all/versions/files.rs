//! Files in the epochs of a disk: looked at, and brought back, as a user does it.

use super::served::{BLOCK, Bench};
use crate::nbd::client::TRIM;
use crate::nbd::watched::ext2::tool;
use crate::program::{error, quietus, succeeds, told};
use serde_json::Value;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Output;

const SIZE: &str = "8M";

/// A disk, and the file system on it in an image.
pub(super) struct Guest {
    pub(super) bench: Bench,
    image: PathBuf,
    shown: Vec<u8>,
}

impl Guest {
    pub(super) fn new(mkfs: &[&str]) -> Self {
        let bench = Bench::new(&["--size", SIZE, "--epoch", "manual"]);
        let image = bench.disk.beside("image");
        let mut guest = Self { bench, image, shown: Vec::new() };
        guest.format(mkfs);
        guest.shown = vec![0; std::fs::read(&guest.image).expect("an image").len()];
        guest
    }

    /// The same with FAT16.
    pub(super) fn fat() -> Self {
        let bench = Bench::new(&["--size", SIZE, "--epoch", "manual"]);
        let image = bench.disk.beside("image");
        std::fs::write(&image, vec![0; 8 << 20]).expect("an image");
        tool("mkfs.fat", &["-F", "16", "-s", "1", image.to_str().expect("text")]);
        Self { bench, image, shown: vec![0; 8 << 20] }
    }

    /// Puts a file into a FAT.
    pub(super) fn put(&self, name: &str, content: &str) {
        let file = self.bench.disk.beside("content");
        std::fs::write(&file, content).expect("a file");
        let (image, file) = (self.image.to_str().expect("text"), file.to_str().expect("text"));
        tool("mcopy", &["-o", "-i", image, file, &format!("::{name}")]);
    }

    /// Deletes a file of a FAT.
    pub(super) fn take(&self, name: &str) {
        tool("mdel", &["-i", self.image.to_str().expect("text"), &format!("::{name}")]);
    }

    /// Makes the file system anew.
    pub(super) fn format(&self, mkfs: &[&str]) {
        let path = self.image.to_str().expect("text");
        tool("mke2fs", &[&["-q", "-F"], mkfs, &[path, SIZE]].concat());
    }

    /// Changes files by requests of `debugfs`.
    pub(super) fn change(&self, requests: &[&str]) {
        for request in requests {
            tool("debugfs", &["-w", "-R", request, self.image.to_str().expect("text")]);
        }
    }

    /// Makes the file `name` with this content.
    pub(super) fn write(&self, name: &str, content: &str) {
        let file = self.bench.disk.beside("content");
        std::fs::write(&file, content).expect("a file");
        self.change(&[&format!("write {} {name}", file.display())]);
    }

    /// The blocks of the file `name`.
    pub(super) fn blocks(&self, name: &str) -> Vec<u64> {
        let text = tool("debugfs", &["-R", &format!("blocks {name}"), self.image.to_str().expect("text")]);
        text.split_whitespace().map(|it| it.parse().expect("a number")).collect()
    }

    /// The block of the inode table that has the inode of the file `name`.
    pub(super) fn inode_block(&self, name: &str) -> u64 {
        let text = tool("debugfs", &["-R", &format!("imap {name}"), self.image.to_str().expect("text")]);
        let (_, rest) = text.split_once("located at block ").expect("a place");
        rest.split(',').next().expect("a number").parse().expect("a number")
    }

    /// Puts zeros into blocks of the file system, as a trim does once their file is deleted.
    pub(super) fn zero(&self, blocks: &[u64], block_bytes: u64) {
        let image = std::fs::File::options().write(true).open(&self.image).expect("an image");
        for block in blocks {
            image.write_all_at(&vec![0; block_bytes as usize], block * block_bytes).expect("written");
        }
    }

    /// Writes what has changed to the disk, and closes an epoch.
    pub(super) fn close(&mut self) -> u64 {
        let now = std::fs::read(&self.image).expect("an image");
        let mut client = self.bench.connect("").expect("the disk");
        let blocks = now.chunks(BLOCK).zip(self.shown.chunks(BLOCK)).enumerate();
        for (n, (block, _)) in blocks.filter(|(_, (block, before))| block != before) {
            let at = (n * BLOCK) as u64;
            match block.iter().all(|byte| *byte == 0) {
                true => assert_eq!(client.request(TRIM, 0, at, BLOCK as u64), 0),
                false => assert_eq!(client.write(0, at, block), 0),
            }
        }
        self.shown = now;
        self.bench.close(&[]).0
    }

    /// The disk, and what follows its name.
    pub(super) fn target(&self, rest: &str) -> String {
        format!("{}{rest}", self.bench.disk.path().display())
    }

    pub(super) fn run(&self, command: &str, rest: &str, args: &[&str]) -> Output {
        let output = quietus().args([command, &self.target(rest)]).args(args).output();
        output.expect("it runs")
    }

    pub(super) fn json(&self, command: &str, rest: &str, args: &[&str]) -> Vec<Value> {
        let output = quietus().args(["--json", command, &self.target(rest)]).args(args).output();
        let output = crate::schemas::checked(output.expect("it runs"));
        assert!(output.status.success(), "{output:?}");
        let lines = told(&output);
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    pub(super) fn cat(&self, rest: &str, args: &[&str]) -> String {
        succeeds(quietus().args(["cat", &self.target(rest)]).args(args))
    }
}

/// What `find` has listed: path, first and last epoch.
fn listed(lines: &[Value]) -> Vec<(String, Option<u64>, Option<u64>)> {
    let files = lines.iter().filter(|it| it["path"].is_string());
    files
        .map(|it| (it["path"].as_str().expect("text").into(), it["from"].as_u64(), it["to"].as_u64()))
        .collect()
}

#[test]
fn each_epoch_shows_its_files_without_a_mount_served_or_not() {
    let mut guest = Guest::new(&["-t", "ext4", "-b", "1024"]);
    let server = guest.bench.disk.serve(&["--key-file", &guest.bench.key, "--detect", "off"]);
    guest.change(&["mkdir home", "mkdir home/ann"]);
    guest.write("home/ann/tax", "the first version");
    assert_eq!(guest.close(), 1);
    guest.write("home/other", &"x".repeat(9000));
    assert_eq!(guest.close(), 2);
    guest.change(&["rm home/ann/tax"]);
    guest.write("home/ann/tax", &"the second version\n".repeat(500));
    guest.change(&["sif home/ann/tax mode 0100640", "sif home/ann/tax mtime 1700000000"]);
    assert_eq!(guest.close(), 3);
    guest.change(&["rm home/ann/tax"]);
    assert_eq!(guest.close(), 4);

    assert_eq!(guest.cat("@1:/home/ann/tax", &[]), "the first version");
    assert_eq!(guest.cat("@3:/home/ann/tax", &[]), "the second version\n".repeat(500));
    let (status, why) = error(&guest.run("cat", ":/home/ann/tax", &[]));
    assert!(status == Some(1) && why.contains("no such file"), "{why}");

    let history = guest.json("history", ":/home/ann/tax", &[]);
    let versions = history[0]["versions"].as_array().expect("versions").clone();
    let spans: Vec<_> =
        versions.iter().map(|it| (it["version"].as_u64(), it["from"].as_u64(), it["to"].as_u64())).collect();
    assert_eq!(spans, [(Some(2), Some(3), Some(3)), (Some(1), Some(1), Some(2))], "{history:?}");
    assert_eq!((&versions[0]["bytes"], &versions[1]["bytes"]), (&9500.into(), &17.into()));

    assert_eq!(
        listed(&guest.json("find", "@2:/home", &["*t*"])),
        [("/home/ann/tax".into(), Some(2), Some(2)), ("/home/other".into(), Some(2), Some(2))]
    );
    let all = guest.json("find", "", &["tax", "--epochs"]);
    assert_eq!(
        listed(&all),
        [("/home/ann/tax".into(), Some(1), Some(2)), ("/home/ann/tax".into(), Some(3), Some(3))]
    );
    let compared = guest.json("diff", "@2:/home", &[&guest.target("@3")]);
    let changes: Vec<_> =
        compared.iter().filter_map(|it| Some((it["path"].as_str()?, it["change"].as_str()?))).collect();
    assert_eq!(changes, [("/home/ann/tax", "changed")], "{compared:?}");
    let compared = guest.json("diff", "@3:/", &[]);
    let changes: Vec<_> =
        compared.iter().filter_map(|it| Some((it["path"].as_str()?, it["change"].as_str()?))).collect();
    assert_eq!(changes, [("/home/ann/tax", "removed")], "{compared:?}");
    drop(server);
    assert_eq!(guest.cat("@1:/home/ann/tax", &["--key-file", &guest.bench.key]), "the first version");
}

#[test]
fn a_history_has_what_each_epoch_shows_whatever_the_epochs_between_have_changed() {
    let mut guest = Guest::new(&["-t", "ext4", "-b", "1024"]);
    let server = guest.bench.disk.serve(&["--key-file", &guest.bench.key, "--detect", "off"]);
    assert_eq!(guest.close(), 1);
    let contents = ["one", "one", "two two", "two two", "two two", "one", ""];
    let mut before = "";
    for (epoch, content) in (2..).zip(contents) {
        if content != before && !before.is_empty() {
            guest.change(&["rm file"]);
        }
        if content != before && !content.is_empty() {
            guest.write("file", content);
        }
        before = content;
        // The folder on the way to the file changes, or content elsewhere.
        guest.write(&format!("other{epoch}"), &"x".repeat(1 << (2 * epoch)));
        assert_eq!(guest.close(), epoch);
    }
    let check = |args: &[&str]| {
        for (epoch, content) in (2..).zip(contents).filter(|(_, content)| !content.is_empty()) {
            assert_eq!(guest.cat(&format!("@{epoch}:/file"), args), content);
        }
        let history = guest.json("history", ":/file", args);
        let versions = history[0]["versions"].as_array().expect("versions");
        let spans: Vec<_> = versions.iter().map(|it| (it["from"].as_u64(), it["to"].as_u64())).collect();
        let epochs = [(7, 7), (4, 6), (2, 3)].map(|(from, to)| (Some(from), Some(to)));
        assert_eq!(spans, epochs, "{history:?}");
        let changed: Vec<_> = versions.iter().map(|it| it["changed_bytes"].as_u64()).collect();
        assert_eq!(changed, [Some(3), Some(7), Some(3)], "{history:?}");
        let other = guest.json("history", ":/other5", args);
        let versions = other[0]["versions"].as_array().expect("versions");
        assert_eq!((versions.len(), &versions[0]["from"], &versions[0]["to"]), (1, &5.into(), &Value::Null));
    };
    check(&[]);
    drop(server);
    check(&["--key-file", &guest.bench.key]);
}

#[test]
fn files_are_brought_back_with_what_they_had_and_nothing_is_replaced() {
    let mut guest = Guest::new(&["-t", "ext4", "-b", "1024"]);
    let _server = guest.bench.disk.serve(&["--key-file", &guest.bench.key, "--detect", "off"]);
    guest.change(&["mkdir d", "symlink d/link ../somewhere"]);
    guest.write("d/file", &"content\n".repeat(3000));
    guest.change(&["sif d/file mode 0100750", "sif d/file mtime 1700000000", "ln d/file d/twin"]);
    guest.change(&["sif d/file links_count 2"]);
    guest.close();
    let into = guest.bench.disk.beside("back");
    let into = into.to_str().expect("text");
    let done = guest.json("restore", "@1:/d", &["--into", into]);
    assert_eq!(
        (&done[0]["files"], &done[0]["folders"], &done[0]["epoch"]),
        (&3.into(), &1.into(), &1.into()),
        "{done:?}"
    );
    let at = |name: &str| Path::new(into).join(name);
    assert_eq!(std::fs::read_to_string(at("d/file")).expect("a file"), "content\n".repeat(3000));
    let about = std::fs::metadata(at("d/file")).expect("a file");
    assert_eq!(
        (about.permissions().mode() & 0o7777, about.mtime(), about.nlink()),
        (0o750, 1_700_000_000, 2)
    );
    assert_eq!(std::fs::read_link(at("d/link")).expect("a link"), Path::new("../somewhere"));

    std::fs::write(at("d/file"), "mine").expect("a file");
    let again =
        guest.run("restore", "@1:/d/file", &["--into", Path::new(into).join("d").to_str().expect("text")]);
    assert!(again.status.code() == Some(3) && told(&again).contains("file"), "{again:?}");
    assert_eq!(std::fs::read_to_string(at("d/file")).expect("a file"), "mine");
}

#[test]
fn what_cannot_be_read_is_an_error_that_says_why() {
    let guest = Guest::new(&["-t", "ext2", "-b", "1024"]);
    let _server = guest.bench.disk.serve(&["--key-file", &guest.bench.key, "--detect", "off"]);
    guest.bench.write(0, 7);
    guest.bench.close(&[]);
    let refused = |command: &str, rest: &str, args: &[&str], status: i32, why: &str| {
        let (found, said) = error(&guest.run(command, rest, args));
        assert!(found == Some(status) && said.contains(why), "{command} {rest}: {found:?} {said}");
    };
    refused("cat", "@1", &[], 2, "no file is named");
    refused("cat", "@9:/a", &[], 1, "epoch 9 has not closed yet");
    refused("cat", "@1:/a", &[], 1, "file system");
    refused("history", "@1:/a", &[], 2, "a history is of all epochs");
    refused("restore", "@1:/a", &[], 2, "--into");
    refused("find", "@1", &["*", "--epochs"], 2, "leave out");
}

#[test]
fn where_one_version_of_a_file_is_forgotten_its_others_and_its_neighbours_are_read() {
    let mut guest = Guest::new(&["-t", "ext4", "-b", "4096"]);
    let server = guest.bench.disk.serve(&["--key-file", &guest.bench.key, "--detect", "off"]);
    guest.write("letter", &"the first version\n".repeat(200));
    guest.write("other", "another file");
    assert_eq!(guest.close(), 1);
    let image = guest.image.to_str().expect("text").to_string();
    let block: usize = tool("debugfs", &["-R", "blocks letter", &image]).trim().parse().expect("one block");
    // The block is freed, and has other content from epoch 2 on.
    guest.change(&["rm letter", &format!("zap_block -p 7 {block}")]);
    guest.write("letter2", "the second version");
    assert_eq!(guest.close(), 2);

    let range = format!("{}+{BLOCK}", block * BLOCK);
    let run =
        |rest: &str| quietus().args(["forget", &guest.target(rest), "--range", &range, "--wait"]).output();
    let (status, why) = error(&run("@2").expect("it runs"));
    assert!(status == Some(1) && why.contains("current state"), "{why}");
    assert!(run("@1").expect("it runs").status.success());

    assert_eq!(guest.cat("@1:/other", &[]), "another file");
    assert_eq!(guest.cat("@2:/letter2", &[]), "the second version");
    let (status, why) = error(&guest.run("cat", "@1:/letter", &[]));
    assert!(status.is_some_and(|it| it != 0) && why.contains("forgotten in epoch 1"), "{why}");
    let history = guest.json("history", ":/other", &[]);
    assert_eq!(history[0]["versions"].as_array().map(Vec::len), Some(1), "{history:?}");
    let history = guest.json("history", ":/letter", &[]);
    assert_eq!(history[0]["versions"].as_array().map(Vec::len), Some(1), "{history:?}");
    drop(server);
}
