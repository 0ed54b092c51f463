//! Wrong usage, as people and scripts come to it: what each is told, and its exit status. No command hangs, takes much memory, or
//! leaves anything behind.

use crate::cli::program::Disk;
use rustix::fs::{CWD, FileType, Mode};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A command line, its exit status, and the first line that it prints to standard error. 2 is a command line that is wrong whatever the
/// host is like; 1 is what the host refuses.
const USAGES: &[(&str, i32, &str)] = &[
    (
        "create d --adopt dir --size 1M",
        1,
        "dir: --adopt names a directory; name a raw image or a block device",
    ),
    ("create d --adopt fifo", 1, "fifo: --adopt names a pipe; name a raw image or a block device"),
    ("create d --adopt sock", 1, "sock: --adopt names a socket; name a raw image or a block device"),
    (
        "create d --adopt /dev/zero",
        1,
        "/dev/zero: --adopt names a character device; name a raw image or a block device",
    ),
    (
        "create d --adopt nope",
        1,
        "nope: the image is missing; check the name, or restore the file from a backup",
    ),
    ("create d --adopt empty", 1, "empty: --adopt names an image of 0 bytes; the smallest disk has 512"),
    (
        "create d --adopt qcow2",
        1,
        "qcow2: --adopt takes raw images only, and this image is qcow2; convert the image (`qemu-img convert -O raw`), or lay a disk over it (`quietus create --store overlay --base`)",
    ),
    (
        "create d --adopt vmdk",
        1,
        "vmdk: --adopt takes raw images only, and this image is vmdk; convert the image (`qemu-img convert -O raw`), or lay a disk over it (`quietus create --store overlay --base`)",
    ),
    (
        "create d --adopt vhdx",
        1,
        "vhdx: --adopt takes raw images only, and this image is vhdx; convert the image (`qemu-img convert -O raw`), or lay a disk over it (`quietus create --store overlay --base`)",
    ),
    (
        "create d --adopt vdi",
        1,
        "vdi: --adopt takes raw images only, and this image is vdi; convert the image (`qemu-img convert -O raw`), or lay a disk over it (`quietus create --store overlay --base`)",
    ),
    (
        "create d --adopt qed",
        1,
        "qed: --adopt takes raw images only, and this image is qed; convert the image (`qemu-img convert -O raw`), or lay a disk over it (`quietus create --store overlay --base`)",
    ),
    (
        "create d --adopt raw --size 2M",
        1,
        "raw: --size is 2097152 bytes, and the medium has 1048576; use 1048576 or less",
    ),
    (
        "create d --adopt raw --medium m",
        2,
        "error: the argument '--adopt <ADOPT>' cannot be used with '--medium <MEDIUM>'",
    ),
    (
        "create d --medium dir --size 1M",
        1,
        "dir: --medium names a directory; name a file to make in it, or a block device",
    ),
    (
        "create d --medium fifo --size 1M",
        1,
        "fifo: --medium names a pipe; name a file to make, or a block device",
    ),
    (
        "create d --medium text --size 1M",
        1,
        "text: --medium names a file that already exists; name one to make, or remove it, or keep its content with --adopt",
    ),
    (
        "create d --medium dangling --size 1M",
        1,
        "dangling: --medium names a symbolic link to nothing; name a file to make, or a block device",
    ),
    ("create d --medium no/m --size 1M", 1, "no/m: the directory no does not exist; make it first"),
    (
        "create d --medium /dev/typo --size 1M",
        1,
        "/dev/typo: there is no device typo, and /dev takes no files; check the name",
    ),
    (
        "create d --medium /dev/null --size 1M",
        1,
        "/dev/null: --medium names a character device; name a file to make, or a block device",
    ),
    (
        "create d --medium /dev/shm/quietus-usage --size 1M",
        1,
        "/dev/shm/quietus-usage: --medium names a place in memory (tmpfs), gone when the machine stops, and the disk would be lost with it; name one on a disk",
    ),
    (
        "create d --store versions --seal none --size 1M --root /dev/shm/quietus-usage",
        1,
        "/dev/shm/quietus-usage: --root names a place in memory (tmpfs), gone when the machine stops, and the disk would be lost with it; name one on a disk",
    ),
    (
        "create d --store versions --seal none --size 1M --root dir",
        1,
        "dir: --root names a directory; name a file to make in it, or a block device",
    ),
    (
        "create d --store versions --seal none --size 1M --stub-medium text",
        1,
        "text: --stub-medium names a file that already exists; name one to make, or remove it",
    ),
    (
        "create d --store versions --size 1M --key-file fifo",
        1,
        "keys: the new disk: the key file gives 0 bytes; expected at least 32 random ones, or use a passphrase",
    ),
    (
        "create d --store versions --size 1M --key-file dir",
        1,
        "keys: dir: the credential is a directory; name a file",
    ),
    (
        "create d --store versions --size 1M --key-file /dev/zero",
        1,
        "keys: cannot read /dev/zero: more than 16384 bytes, the limit of a secret",
    ),
    (
        "create d --store versions --size 1M --passphrase-file nope",
        1,
        "keys: nope: the credential does not exist; check the path",
    ),
    (
        "create d --store versions --seal none --from qcow2",
        1,
        "qcow2: --from takes raw images only, and this image is qcow2; convert the image (`qemu-img convert -O raw`), or lay a disk over it (`quietus create --store overlay --base`)",
    ),
    (
        "create d --store versions --seal none --from fifo",
        1,
        "fifo: --from names a pipe; name a raw image or a block device",
    ),
    (
        "create d --from raw",
        2,
        "--from needs --store versions; use --adopt for an image in place, or --base for one below an overlay",
    ),
    ("create d --store overlay", 2, "d: --base is missing; name the image below the overlay"),
    (
        "create d --store overlay --base fifo",
        1,
        "fifo: --base names a pipe; copy the image to a regular file, so that a change of it can be noticed",
    ),
    (
        "create d --store overlay --base dir",
        1,
        "dir: --base names a directory; copy the image to a regular file, so that a change of it can be noticed",
    ),
    (
        "create d --store overlay --base nope",
        1,
        "nope: the base image is missing; check the name, or restore the file from a backup",
    ),
    ("create d --base raw", 2, "d: --base needs --store overlay"),
    ("create d", 2, "d: --size is missing; give the size of the disk, such as --size 20G"),
    (
        "create d --size 0",
        2,
        "error: invalid value '0' for '--size <SIZE>': the size is 0; expected 512 bytes or more, such as 20G",
    ),
    (
        "create d --size 1Z",
        2,
        "error: invalid value '1Z' for '--size <SIZE>': invalid size \"1Z\"; use 512, 64M, 20G or 1.5T, less than 16 EiB",
    ),
    ("create d --size 8191P", 1, "./.d.new/data: cannot make the medium: File too large (os error 27)"),
    (
        "create d --size 1M --policy polish",
        2,
        "error: invalid value 'polish' for '--policy <POLICY>': unknown policy \"polish\"; expected clear, purge-2, 4, 6, dod-3, gutmann-35, a list of at most 100 passes such as random,ff,zero or 924924 (hexadecimal bytes that repeat), or, with an overlay, none",
    ),
    (
        "create d --size 1M --policy none",
        2,
        "d: --policy none destroys nothing, and is for overlays only; choose clear, or another policy",
    ),
    ("create vm1 --size 1M", 1, "vm1: already exists; choose another name, or remove it"),
    ("create no/d --size 1M", 1, "no/d: the directory no does not exist; make it first"),
    ("create text/d --size 1M", 1, "text/d: text is a regular file, and not a directory; check the path"),
    ("create /dev/d --size 1M", 1, "/dev/d: there is no device d, and /dev takes no files; check the name"),
    ("serve nope", 1, "nope: no such disk; check the name, or make one with `quietus create`"),
    (
        "serve text",
        1,
        "text: a regular file, and not the directory of a disk; make a disk of it with `quietus create DISK --adopt`",
    ),
    ("serve vault1", 1, "vault1: a vault, and not a disk; use the commands of `quietus vault`"),
    (
        "serve vm1 vm1",
        2,
        "vm1: another disk has the name vm1; serve a disk once, and rename the directory of one of two",
    ),
    (
        "serve vm1 --nbd localhost:10809",
        2,
        "error: invalid value 'localhost:10809' for '--nbd <ADDRESS>': use unix:PATH, tcp:ADDRESS:PORT or stdio, such as tcp:127.0.0.1:10809",
    ),
    ("serve vm1 --nbd unix:text", 1, "text: --nbd names a regular file; name a socket to make"),
    ("serve vm1 --nbd unix:no/socket", 1, "no/socket: the directory no does not exist; make it first"),
    (
        "serve vm1 --nbd unix:LONG",
        1,
        "LONG: the path of a socket has 136 bytes, and at most 107 are possible; name a shorter one, such as --nbd unix:/run/vm1.sock",
    ),
    (
        "serve vm1 --pidfile text",
        1,
        "text: --pidfile names a file with other content; name one to make, or remove it",
    ),
    ("serve vm1 --pidfile dir", 1, "dir: --pidfile names a directory; name a file to make"),
    (
        "serve vm1 --tls-cert text",
        2,
        "error: the following required arguments were not provided:  --tls-key <TLS_KEY>",
    ),
    (
        "serve vm1 --tls-cert fifo --tls-key fifo",
        1,
        "fifo: no certificate or private key can be read: no items found; expected PEM",
    ),
    ("serve vm1 --tls-cert dir --tls-key dir", 1, "dir: --tls-key is a directory; name a file"),
    (
        "serve vm1 --tls-cert text --tls-key text",
        1,
        "text: no certificate or private key can be read: no items found; expected PEM",
    ),
    (
        "serve vm1 --detect fat --sensitive marked",
        2,
        "serve: cannot follow marks with --detect fat: all content would be sensitive; use --detect auto or ext2, or leave out --sensitive marked",
    ),
    (
        "serve vm1 --memory 1",
        2,
        "error: invalid value '1' for '--memory <SIZE>': 1 bytes are too few for the largest request; expected 64M or more, such as 256M",
    ),
    ("status vn1", 1, "vn1: no such disk; did you mean vm1?"),
    (
        "status vm1@17",
        1,
        "vm1@17: no such disk; this command takes no epoch: leave out \"@17\", and name vm1",
    ),
    (
        "status vm1/data",
        1,
        "vm1/data: a regular file, and not the directory of a disk; name its directory, vm1",
    ),
    (
        "status raw",
        1,
        "raw: a regular file, and not the directory of a disk; make a disk of it with `quietus create DISK --adopt`",
    ),
    (
        "status dir",
        1,
        "dir: a directory, and not a disk: it has no disk.toml; make one with `quietus create`",
    ),
    ("status vault1", 1, "vault1: a vault, and not a disk; use the commands of `quietus vault`"),
    ("status vm1 --require most", 2, "error: invalid value 'most' for '--require <REQUIRE>'"),
    (
        "shred vm1",
        2,
        "shred: --now is missing; without --now, queued content is destroyed when the disk is idle",
    ),
    ("purge vm1", 2, "error: the following required arguments were not provided:  <RANGES>..."),
    (
        "purge vm1 x",
        2,
        "error: invalid value 'x' for '<RANGES>...': invalid range \"x\"; use OFFSET+LENGTH or FIRST-LAST, such as 1G+64K",
    ),
    ("purge vm1 1M+1", 1, "range 1048576+1 is not within the disk, which has 1048576 bytes"),
    ("export vm1 text", 1, "text: already exists; choose another name, or remove it"),
    ("export vm1 dir", 1, "dir: already exists; choose another name, or remove it"),
    ("export vm1 no/image", 1, "no/image: the directory no does not exist; make it first"),
    (
        "export vm1 /dev/image",
        1,
        "/dev/image: there is no device image, and /dev takes no files; check the name",
    ),
    ("export vm1@1 image", 1, "not supported: the disk keeps no epochs: that takes a store of versions"),
    ("commit vm1", 1, "vm1: not an overlay; only a disk made with --store overlay has a base image"),
    ("commit vm1 --to text", 1, "text: already exists; choose another name, or remove it"),
    (
        "rebase vm1 --base dir",
        1,
        "vm1: not an overlay; only a disk made with --store overlay has a base image",
    ),
    ("compact vm1", 1, "cannot compact vm1: it is not an overlay"),
    ("epoch vm1", 1, "not supported: the disk keeps no epochs: that takes a store of versions"),
    ("forget ver1", 2, "ver1: no epochs are named; use ver1@17, ver1@17..20, ver1@17.. or ver1@NAME"),
    ("forget ver1@1", 1, "epoch 1 has not closed yet; `quietus epoch` closes the open one"),
    (
        "forget ver1@1 --chain 0+4096",
        2,
        "--chain forgets blocks in all epochs, but \"@1\" names some; leave out \"@1\" or --chain",
    ),
    ("restore ver1", 2, "ver1: no epoch is named; use ver1@17, ver1@NAME or ver1@2026-11-20T10:00"),
    ("diff ver1@1 vm1@1", 2, "ver1 and vm1 are two disks; name two epochs of one disk"),
    (
        "key ver1 list",
        1,
        "ver1: the disk has no keys; only a disk with `--store versions` and a seal other than `none` has keys",
    ),
    ("prove", 2, "error: the following required arguments were not provided:  <DISK>"),
    (
        "prove vm1 -o vm1/journal",
        1,
        "vm1/journal: --output names a file with other content; name one to make, or remove it",
    ),
    (
        "create a..b --size 1M",
        2,
        "a..b: invalid name \"a..b\" for a disk: two dots would be read as a range of epochs; use single dots",
    ),
    (
        "epoch vm1 --name first",
        2,
        "error: invalid value 'first' for '--name <NAME>': invalid name \"first\" for an epoch or a hold: the word is reserved; choose another name",
    ),
    (
        "hold vm1@1 --who me --why law --name 4711",
        2,
        "error: invalid value '4711' for '--name <NAME>': invalid name \"4711\" for an epoch or a hold: expected a letter or _ at the beginning, which tells a name from a number, a time or an option",
    ),
    (
        "vault put vault1 5 raw",
        2,
        "invalid name of a snapshot \"5\": the name would be taken for the number of a snapshot; choose another one",
    ),
    ("prove vm1 -o dir", 1, "dir: --output names a directory; name a file to make"),
    ("prove vm1 --check text", 2, "error: the argument '[DISK]' cannot be used with '--check <CHECK>'"),
    (
        "prove --check fifo",
        1,
        "fifo: cannot read the signed statement: EOF while parsing a value at line 1 column 0; check that this is the file that was written",
    ),
    ("prove --check /dev/zero", 1, "/dev/zero: --check has more than 16777216 bytes; name the right file"),
    (
        "prove --check text",
        1,
        "text: cannot read the signed statement: expected value at line 1 column 1; check that this is the file that was written",
    ),
    ("prove --check text --key nope", 1, "nope: --key does not exist; check the path"),
    (
        "prove vm1 --key text",
        2,
        "prove: --key needs --check; a new receipt is signed by the key of the disk or vault",
    ),
    ("vault init vault1", 1, "vault1: already exists; choose another name, or remove it"),
    (
        "vault init v --medium dir",
        1,
        "dir: vault init --medium names a directory; name a file to make in it, or a block device",
    ),
    (
        "vault init v --medium text",
        1,
        "text: vault init --medium names a file that already exists; name one to make, or remove it",
    ),
    (
        "vault init v --medium fifo",
        1,
        "fifo: vault init --medium names a pipe; name a file to make, or a block device",
    ),
    (
        "vault init v --medium /dev/typo",
        1,
        "/dev/typo: there is no device typo, and /dev takes no files; check the name",
    ),
    (
        "vault init v --policy none",
        2,
        "--policy none destroys nothing, and cannot be a vault's; use clear, purge-2, 4, 6, dod-3, gutmann-35, or a list",
    ),
    ("vault init v --size 1K", 2, "--size is 1024 bytes, and a vault has 37748736 at least"),
    ("vault status vm1", 1, "vm1: a disk, and not a vault; use the commands outside of `quietus vault`"),
    ("vault list vault2", 1, "vault2: no such vault; did you mean vault1?"),
    ("vault put vault1 daily", 2, "error: the following required arguments were not provided:  <PATHS>..."),
    ("vault put vault1 daily --tar dir", 1, "dir: --tar is a directory; name a file"),
    ("vault put vault1 daily --tar nope", 1, "nope: --tar does not exist; check the path"),
    (
        "vault put vault1 daily --disk vault1",
        1,
        "vault1: a vault, and not a disk; use the commands of `quietus vault`",
    ),
    ("vault get vault1 daily --into text", 1, "text: --into names a regular file; name a folder"),
    ("vault get vault1 odl", 1, "unknown snapshot \"odl\"; did you mean \"old\"?"),
    ("vault get vault1 daily", 1, "unknown snapshot \"daily\"; `quietus vault list` names all"),
    ("vault mount vault1 text", 1, "text: not a folder; name an empty one to mount the vault there"),
    (
        "vault mount vault1 nope",
        1,
        "nope: cannot mount the vault there: No such file or directory (os error 2)",
    ),
    ("vault forget vault1", 2, "forget: name snapshots, paths with --path, or a rule such as --keep-last 7"),
    (
        "vault sanitize vault1 -o vm1/journal",
        1,
        "vm1/journal: --output names a file with other content; name one to make, or remove it",
    ),
    (
        "vault prove --check text",
        1,
        "text: cannot read the signed statement: expected value at line 1 column 1; check that this is the file that was written",
    ),
    ("list nope", 1, "nope: no such directory; check the path"),
    ("list text", 1, "text: a regular file, and not a directory; check the path"),
    ("list fifo", 1, "fifo: a pipe, and not a directory; check the path"),
    ("list dangling", 1, "dangling: a symbolic link to nothing, and not a directory; check the path"),
    ("list --depth 0", 2, "error: invalid value '0' for '--depth <LEVELS>': 0 is not in 1..=4294967295"),
    ("doctor fifo", 1, "fifo: PATH names a pipe; name a directory, a file or a block device"),
    ("doctor sock", 1, "sock: PATH names a socket; name a directory, a file or a block device"),
    (
        "doctor /dev/null",
        1,
        "/dev/null: PATH names a character device; name a directory, a file or a block device",
    ),
    (
        "doctor dangling",
        1,
        "dangling: PATH names a symbolic link to nothing; name a directory, a file or a block device",
    ),
    ("doctor no/d", 1, "no/d: the directory no does not exist; make it first"),
    ("doctor text/d", 1, "text/d: text is a regular file, and not a directory; check the path"),
    ("doctor /dev/typo", 1, "/dev/typo: there is no device typo, and /dev takes no files; check the name"),
    ("doctor dir --root fifo", 1, "fifo: --root names a pipe; name a directory, a file or a block device"),
    ("release ver1 case", 1, "no hold has the name \"case\"; `quietus versions` lists the holds"),
    ("nonsense", 2, "error: unrecognized subcommand 'nonsense'"),
];

/// Longest time for a command, seconds, on a machine that is busy with other tests.
const SECONDS_MAX: &str = "60";
/// Most memory that a command may write to, KiB.
const MEMORY_KIB_MAX: &str = "65536";

/// A folder with one of everything.
fn bench() -> tempfile::TempDir {
    let disk = Disk::new(&["--size", "1M"]);
    let dir = disk.dir;
    let at = |name: &str| dir.path().join(name);
    std::fs::rename(at("disk"), at("vm1")).expect("a disk");
    // Opened once, so that each has its lock and its audit log.
    for line in [
        "create ver1 --store versions --seal none --size 1M",
        "vault init vault1 --size 64M --container 128K",
        "shred vm1 --now",
        "shred ver1 --now",
        "vault put vault1 old vm1/key.pub",
    ] {
        let (status, said) = run(dir.path(), line);
        assert_eq!(status, 0, "{line}: {said}");
    }
    let mut vdi = vec![0; 0x40];
    vdi.extend(b"\x7f\x10\xda\xbe");
    for (name, magic) in [
        ("raw", &b""[..]),
        ("qcow2", b"QFI\xfb\0\0\0\x03"),
        ("vmdk", b"KDMV"),
        ("vhdx", b"vhdxfile"),
        ("vdi", &vdi),
        ("qed", b"QED\0"),
    ] {
        let mut image = vec![7; 1 << 20];
        image[..magic.len()].copy_from_slice(magic);
        std::fs::write(at(name), image).expect("an image");
    }
    std::fs::write(at("empty"), "").expect("a file");
    std::fs::write(at("text"), "hello\n").expect("a file");
    std::fs::create_dir(at("dir")).expect("a directory");
    std::os::unix::fs::symlink("nowhere", at("dangling")).expect("a link");
    rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    drop(UnixListener::bind(at("sock")).expect("a socket"));
    dir
}

/// The exit status, and the first line on standard error. A command that hangs ends with 124, and one that wants too much memory otherwise
/// than it should.
fn run(dir: &Path, line: &str) -> (i32, String) {
    let limited = "ulimit -d \"$1\" && shift && exec timeout -k 5 \"$@\"";
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", limited, "sh", MEMORY_KIB_MAX, SECONDS_MAX, env!("CARGO_BIN_EXE_quietus")]);
    shell.args(line.split(' ')).current_dir(dir).stdin(Stdio::null()).env("QUIETUS_LOG", "error");
    let output = shell.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut lines = said.lines();
    let first = lines.next().unwrap_or_default();
    // What is missing stands on the next line.
    let more = if first.ends_with(':') { lines.next().unwrap_or_default() } else { "" };
    (output.status.code().unwrap_or(-1), format!("{first}{more}"))
}

/// Everything below `dir`, and what a command might make elsewhere.
fn listed(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a directory").flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
            all.push(entry.path());
        }
    }
    let elsewhere = ["/dev/typo", "/dev/d", "/dev/image", "/dev/shm/quietus-usage"];
    all.extend(elsewhere.iter().map(PathBuf::from).filter(|path| path.symlink_metadata().is_ok()));
    all.sort();
    all
}

#[test]
fn wrong_usage_is_told_what_to_do_and_leaves_nothing() {
    let dir = bench();
    let has_memory = rustix::fs::statfs("/dev/shm").is_ok_and(|it| it.f_type == 0x0102_1994);
    let wrong: Vec<String> = USAGES
        .iter()
        .filter(|(line, ..)| has_memory || !line.contains("/dev/shm"))
        .filter_map(|(line, status, said)| {
            let line = line.replace("LONG", &"a".repeat(120));
            let before = listed(dir.path());
            let here = format!("{}/", dir.path().canonicalize().expect("a path").display());
            let (found, told) = run(dir.path(), &line);
            let told = told.replace(&here, "").replace(&"a".repeat(120), "LONG");
            let told = told.strip_prefix("quietus: ").unwrap_or(&told).to_string();
            let after = listed(dir.path());
            let is_right = found == *status && told == *said && before == after;
            let new: Vec<_> = after.iter().filter(|path| !before.contains(path)).collect();
            (!is_right).then(|| format!("(\"{line}\", {found}, {told:?}), {new:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), USAGES.len(), wrong.join("\n"));
}

#[test]
fn wrong_usages_are_many_and_each_is_another() {
    let mut lines: Vec<&str> = USAGES.iter().map(|(line, ..)| *line).collect();
    lines.sort_unstable();
    lines.dedup();
    assert!(lines.len() == USAGES.len() && lines.len() >= 60, "{}", lines.len());
}
