//! A disk is restored while its server infers deaths: what lives stays, and what is deleted later is found.

use super::served::{BLOCK, Bench};
use crate::nbd::watched::ext2::{MOUNTS, STATE, SUPERBLOCK, tool};
use crate::program::holds;
use std::path::Path;

/// The state of a file system that is not mounted.
const CLEAN: u8 = 1;

fn text(name: &str) -> String {
    format!("content of {name}. ").repeat(2500)
}

/// Changes the file system in `image`; returns its bytes.
fn debugfs(image: &Path, requests: &[String]) -> Vec<u8> {
    for request in requests {
        tool("debugfs", &["-w", "-R", request, image.to_str().expect("text")]);
    }
    std::fs::read(image).expect("the image")
}

impl Bench {
    /// Writes what differs between two states of a file system, as a guest would that mounts the file system, for the
    /// time that `mounts` says.
    fn becomes(&self, before: &[u8], after: &[u8], mounts: u8) {
        let mut client = self.connect("").expect("the disk");
        let mut head = after[..BLOCK].to_vec();
        (head[SUPERBLOCK + STATE], head[SUPERBLOCK + MOUNTS]) = (0, mounts);
        assert_eq!(client.write(0, 0, &head), 0);
        for (n, block) in after.chunks(BLOCK).enumerate().skip(1) {
            if before[n * BLOCK..][..BLOCK] != *block {
                assert_eq!(client.write(0, (n * BLOCK) as u64, block), 0);
            }
        }
        head[SUPERBLOCK + STATE] = CLEAN;
        assert_eq!(client.write(0, 0, &head), 0);
    }

    /// Waits until a file system is watched, and all of it is known.
    fn wait_for_watcher(&self) {
        self.wait_until(|| {
            let status = self.disk.json("status", &[]);
            status["watch"]["file_system"] == "ext2" && status["watch"]["state"] == "watching it"
        });
    }

    /// The content that the disk shows, in a file.
    fn shown(&self, name: &str) -> std::path::PathBuf {
        let image = self.disk.beside(name);
        let mut client = self.connect("").expect("the disk");
        let pieces = (0..16).map(|n| client.read(0, n << 16, 1 << 16).expect("bytes"));
        std::fs::write(&image, pieces.collect::<Vec<_>>().concat()).expect("an image");
        image
    }
}

#[test]
fn a_restore_below_a_watcher_costs_no_file_and_what_is_deleted_after_it_goes() {
    let bench = Bench::new(&["--size", "1M", "--epoch", "manual", "--idle-after", "50ms"]);
    let image = bench.disk.beside("image");
    let path = image.to_str().expect("text");
    tool("mke2fs", &["-q", "-F", "-b", "1024", path, "1024k"]);
    let write = |name: &str| {
        let file = bench.disk.beside(name);
        std::fs::write(&file, text(name)).expect("a file");
        format!("write {} {name}", file.display())
    };
    let full = debugfs(&image, &["one", "two", "three"].map(write));
    let _server = bench.disk.serve(&["--key-file", &bench.key, "--settle", "1s", "--attached", "direct"]);
    bench.becomes(&vec![0; 1 << 20], &full, 1);
    bench.wait_for_watcher();
    assert_eq!(bench.disk.json("epoch", &[])["epoch"], 1);
    // Other files come to where the deleted ones were, so that the restore finds all of it changed.
    let other = debugfs(&image, &["rm one".into(), "rm two".into(), write("four"), write("five")]);
    bench.becomes(&full, &other, 2);
    bench.json_at("restore", "1", &[]);
    bench.wait_for_watcher();
    bench.disk.json("shred", &["--now"]);
    let assert_shown = |names: &[&str]| {
        let shown = bench.shown("shown");
        let shown = shown.to_str().expect("text");
        for name in names {
            assert_eq!(tool("debugfs", &["-R", &format!("cat {name}"), shown]), text(name));
        }
    };
    assert_shown(&["one", "two", "three"]);
    tool("e2fsck", &["-f", "-n", bench.disk.beside("shown").to_str().expect("text")]);
    std::fs::write(&image, &full).expect("an image");
    let fewer = debugfs(&image, &["rm two".into()]);
    bench.becomes(&full, &fewer, 2);
    let gone = || {
        bench.disk.json("shred", &["--now"]);
        !holds(&bench.shown("after"), &text("two").as_bytes()[..40])
    };
    bench.wait_until(gone);
    assert_shown(&["one", "three"]);
}
