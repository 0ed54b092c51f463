//! Only its owner can read a disk or a vault.

use crate::program::succeeds;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the program without a mask of its own, so that each file has the mode that it was given.
fn run(dir: &Path, line: &str) {
    let mut shell = Command::new("/bin/sh");
    let shell = shell.args(["-c", "umask 0 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_quietus")]);
    succeeds(shell.args(line.split(' ')).current_dir(dir).stdin(Stdio::null()));
}

#[test]
fn files_of_disks_and_vaults_are_for_their_owner_only() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("golden"), vec![7; 1 << 20]).expect("an image");
    std::fs::create_dir(dir.path().join("media")).expect("a directory");
    for line in [
        "create a --size 1M",
        "create b --store overlay --base golden",
        "create c --from golden --store versions --seal none --root media/root --stub-medium media/stubs --medium media/data",
        "vault init v --size 64M --container 128K",
        "vault put v x golden",
        "vault forget v x",
        "vault sanitize v",
    ] {
        run(dir.path(), line);
    }
    for disk in ["a", "b", "c"] {
        // The server stops when the command ends.
        run(dir.path(), &format!("serve {disk} --run true"));
        run(dir.path(), &format!("purge {disk} 0+4096 --now"));
        run(dir.path(), &format!("verify {disk}"));
    }
    run(dir.path(), "epoch c --name monday");
    run(dir.path(), "rebase b --base golden");
    for folder in ["a", "b", "c", "v", "media"] {
        let folder = dir.path().join(folder);
        let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        if !folder.ends_with("media") {
            assert_eq!(mode(&folder), 0o700, "{}", folder.display());
        }
        for entry in std::fs::read_dir(&folder).expect("a directory").flatten() {
            assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
        }
    }
}
