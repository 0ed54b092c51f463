//! Wrong usage, as people and scripts come to it: what each is told, and its exit status. No command hangs, takes much memory, or
//! leaves anything behind.

use crate::program::Disk;
use rustix::fs::{CWD, FileType, Mode};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An exit status, a command line, and the first line that it prints to standard error. 2 is a command line that is wrong whatever the
/// host is like; 1 is what the host refuses.
const USAGES: &str = r#"
1 create d --adopt dir --size 1M => dir: --adopt names a directory; name a raw image or a block device
1 create d --adopt fifo => fifo: --adopt names a pipe; name a raw image or a block device
1 create d --adopt sock => sock: --adopt names a socket; name a raw image or a block device
1 create d --adopt /dev/zero => /dev/zero: --adopt names a character device; name a raw image or a block device
1 create d --adopt nope => nope: the image is missing; check the name, or restore the file from a backup
1 create d --adopt empty => empty: --adopt names an image of 0 bytes; the smallest disk has 512
1 create d --adopt qcow2 => qcow2: --adopt takes raw images only, and this image is qcow2; convert the image (`qemu-img convert -O raw`), or lay a disk over it (`quietus create --store overlay --base`)
1 create d --adopt vhdx => vhdx: --adopt takes raw images only, and this image is vhdx; convert the image (`qemu-img convert -O raw`), or lay a disk over it (`quietus create --store overlay --base`)
1 create d --adopt qed => qed: --adopt takes raw images only, and this image is qed; convert the image (`qemu-img convert -O raw`), or lay a disk over it (`quietus create --store overlay --base`)
1 create d --adopt raw --size 2M => raw: --size is 2097152 bytes, and the medium has 1048576; use 1048576 or less
2 create d --adopt raw --medium m => error: the argument '--adopt <ADOPT>' cannot be used with '--medium <MEDIUM>'
1 create d --medium dir --size 1M => dir: --medium names a directory; name a file to make in it, or a block device
1 create d --medium fifo --size 1M => fifo: --medium names a pipe; name a file to make, or a block device
1 create d --medium text --size 1M => text: --medium names a file that already exists; name one to make, or remove it, or keep its content with --adopt
1 create d --medium dangling --size 1M => dangling: --medium names a symbolic link to nothing; name a file to make, or a block device
1 create d --medium no/m --size 1M => no/m: the directory no does not exist; make it first
1 create d --medium /dev/typo --size 1M => /dev/typo: there is no device typo, and /dev takes no files; check the name
1 create d --medium /dev/null --size 1M => /dev/null: --medium names a character device; name a file to make, or a block device
1 create d --medium /dev/shm/quietus-usage --size 1M => /dev/shm/quietus-usage: --medium names a place in memory (tmpfs), gone when the machine stops, and the disk would be lost with it; name one on a disk
1 create d --store versions --seal none --size 1M --root /dev/shm/quietus-usage => /dev/shm/quietus-usage: --root names a place in memory (tmpfs), gone when the machine stops, and the disk would be lost with it; name one on a disk
1 create d --store versions --seal none --size 1M --root dir => dir: --root names a directory; name a file to make in it, or a block device
1 create d --store versions --seal none --size 1M --stub-medium text => text: --stub-medium names a file that already exists; name one to make, or remove it
1 create d --store versions --size 1M --key-file fifo => keys: the new disk: the key file gives 0 bytes; expected at least 32 random ones, or use a passphrase
1 create d --store versions --size 1M --key-file dir => keys: dir: the credential is a directory; name a file
1 create d --store versions --size 1M --key-file /dev/zero => keys: cannot read /dev/zero: more than 16384 bytes, the limit of a secret
1 create d --store versions --size 1M --passphrase-file nope => keys: nope: the credential does not exist; check the path
1 create d --store versions --seal none --from qcow2 => qcow2: --from takes raw images only, and this image is qcow2; convert the image (`qemu-img convert -O raw`), or lay a disk over it (`quietus create --store overlay --base`)
1 create d --store versions --seal none --from nope => nope: the image is missing; check the name, or restore the file from a backup
1 create d --store versions --seal none --from raw --size 512K => raw: --size is 524288 bytes, and the image has 1048576; use 1048576 or a larger size
1 create d --store versions --seal none --from fifo => fifo: --from names a pipe; name a raw image or a block device
2 create d --from raw => d: --from needs --store sealed or versions; use --adopt for an image in place, or --base for one below an overlay
2 create d --store sealed => d: --size is missing; give the size of the disk, such as --size 20G
2 create d --store sealed --adopt raw => d: --adopt cannot be used with --store sealed, whose content is encrypted; copy the image with --from
2 create d --store sealed --size 1M --seal random-key => d: --seal, --epoch, --retention and --stub-medium need --store versions
2 create d --store sealed --size 1M --epoch 1h => d: --seal, --epoch, --retention and --stub-medium need --store versions
2 create d --store sealed --size 1M --base raw => d: --base needs --store overlay
2 create d --store sealed --size 1M --mode lazy => d: --mode needs --store overlay
2 create d --store sealed --size 1M --policy none => d: --policy none destroys nothing, and is for overlays only; choose clear, or another policy
2 create d --store sealed --size 1M --no-credential --key-file nope => error: the argument '--no-credential' cannot be used with '--key-file <PATH>'
1 create d --store sealed --size 1M --no-credential --root dir => dir: --root names a directory; name a file to make in it, or a block device
1 create d --store sealed --size 1M --no-credential --root text => text: --root names a file that already exists; name one to make, or remove it
1 create d --store sealed --size 1M --no-credential --medium text => text: --medium names a file that already exists; name one to make, or remove it, or keep its content with --adopt
1 create d --store sealed --size 1M --no-credential --root /dev/shm/quietus-usage => /dev/shm/quietus-usage: --root names a place in memory (tmpfs), gone when the machine stops, and the disk would be lost with it; name one on a disk
1 create d --store sealed --size 1M --key-file fifo => keys: the new disk: the key file gives 0 bytes; expected at least 32 random ones, or use a passphrase
1 create d --store sealed --no-credential --from raw --size 512K => raw: --size is 524288 bytes, and the image has 1048576; use 1048576 or a larger size
2 create d --size 1M --no-credential => d: --no-credential needs --store sealed; a disk that keeps versions has no keys with --seal none
2 create d --size 1M --root r => d: --root and credentials need --store sealed or versions
2 create d --size 1M --key-file text => d: --root and credentials need --store sealed or versions
2 create d --size 1M --epoch 1h => d: --seal, --epoch, --retention and --stub-medium need --store versions
2 create d --store versions --seal none --size 1M --root memory => d: --root tpm:, mtd: and memory need --store sealed; any other root is a file or a block device
2 create d --store sealed --root memory --no-credential --from raw => d: --from cannot be used with --root memory, whose disk is empty at each start of its server; leave out --from, and copy the image in over NBD
2 create d --store sealed --size 1M --root tpm:1 => create: --root: invalid root "tpm:1": the index "1" is not from 0x01800000 to 0x01bffffe; write tpm:INDEX, tpm:/dev/tpmrm1:INDEX or tpm:socket:/PATH:INDEX, and ,auth=/FILE behind it if the owner of the TPM has an authorisation value
2 create d --store overlay => d: --base is missing; name the image below the overlay
1 create d --store overlay --base fifo => fifo: --base names a pipe; copy the image to a regular file, so that a change of it can be noticed
1 create d --store overlay --base dir => dir: --base names a directory; copy the image to a regular file, so that a change of it can be noticed
1 create d --store overlay --base nope => nope: the base image is missing; check the name, or restore the file from a backup
2 create d --store overlay --base raw --adopt raw => d: --adopt cannot be used with --store overlay; name the image with --base
2 create d --store overlay --base raw --medium m => d: --medium cannot be used with --store overlay, whose content is in its own directory; leave it out
1 create d --store overlay --base raw --size 512K => raw: --size is 524288 bytes, and the base image has 1048576; use 1048576 or a larger size
2 create d --base raw => d: --base needs --store overlay
2 create d --mode lazy --size 1M => d: --mode needs --store overlay
2 create d => d: --size is missing; give the size of the disk, such as --size 20G
2 create d --size 0 => error: invalid value '0' for '--size <SIZE>': the size is 0; expected 512 bytes or more, such as 20G
2 create d --store sealed --no-credential --size 5P => d: --size is 5629499534213120 bytes, and a disk with --store sealed has at most 4503599627370496; use 4503599627370496 or less
2 create d --store versions --seal none --size 5P => d: --size is 5629499534213120 bytes, and a disk with --store versions has at most 4503599627370496; use 4503599627370496 or less
2 create d --store overlay --base raw --size 1P => d: --size is 1125899906842624 bytes, and a disk with --store overlay has at most 17592186036224; use 17592186036224 or less
2 create d --size 8192P => d: --size is 9223372036854775808 bytes, and a disk with --store in-place has at most 9223372036854775296; use 9223372036854775296 or less
2 create d --size 1Z => error: invalid value '1Z' for '--size <SIZE>': invalid size "1Z"; use 512, 64M, 20G or 1.5T, less than 16 EiB
1 create d --size 8191P => ./.d.new/data: cannot make the medium: File too large (os error 27)
2 create d --size 1M --policy polish => error: invalid value 'polish' for '--policy <POLICY>': unknown policy "polish"; expected clear, purge-2, 4, 6, dod-3, gutmann-35, a list of at most 100 passes such as random,ff,zero or 924924 (hexadecimal bytes that repeat), or, with an overlay, none
2 create d --size 1M --policy none => d: --policy none destroys nothing, and is for overlays only; choose clear, or another policy
1 create vm1 --size 1M => vm1: already exists; choose another name, or remove it
1 create no/d --size 1M => no/d: the directory no does not exist; make it first
1 create text/d --size 1M => text/d: text is a regular file, and not a directory; check the path
1 create /dev/d --size 1M => /dev/d: there is no device d, and /dev takes no files; check the name
1 serve nope => nope: no such disk; check the name, or make one with `quietus create`
1 serve text => text: a regular file, and not the directory of a disk; make a disk of it with `quietus create DISK --adopt`
1 serve vault1 => vault1: a vault, and not a disk; use the commands of `quietus vault`
2 serve vm1 vm1 => vm1: another disk has the name vm1; serve a disk once, and rename the directory of one of two
2 serve vm1 --nbd localhost:10809 => error: invalid value 'localhost:10809' for '--nbd <ADDRESS>': use unix:PATH, tcp:ADDRESS:PORT or stdio, such as tcp:127.0.0.1:10809
1 serve vm1 --nbd unix:text => text: --nbd names a regular file; name a socket to make
1 serve vm1 --nbd unix:no/socket => no/socket: the directory no does not exist; make it first
1 serve vm1 --nbd unix:LONG => LONG: the path of a socket has 136 bytes, and at most 107 are possible; name a shorter one, such as --nbd unix:/run/vm1.sock
1 serve vm1 --pidfile text => text: --pidfile names a file with other content; name one to make, or remove it
1 serve vm1 --pidfile dir => dir: --pidfile names a directory; name a file to make
2 serve vm1 --tls-cert text => error: the following required arguments were not provided:  --tls-key <TLS_KEY>
1 serve vm1 --tls-cert fifo --tls-key fifo => fifo: no certificate or private key can be read: no items found; expected PEM
1 serve vm1 --tls-cert dir --tls-key dir => dir: --tls-key is a directory; name a file
1 serve vm1 --tls-cert text --tls-key text => text: no certificate or private key can be read: no items found; expected PEM
2 serve vm1 --detect off --sensitive marked => serve: cannot follow marks with --detect off: all content would be sensitive; use --detect auto or ext2, or leave out --sensitive marked
2 serve vm1 --detect fat --sensitive marked => serve: cannot follow marks with --detect fat: all content would be sensitive; use --detect auto or ext2, or leave out --sensitive marked
2 serve vm1 --detect exfat --sensitive marked => serve: cannot follow marks with --detect exfat: all content would be sensitive; use --detect auto or ext2, or leave out --sensitive marked
2 serve vm1 --detect ntfs --sensitive marked => serve: cannot follow marks with --detect ntfs: all content would be sensitive; use --detect auto or ext2, or leave out --sensitive marked
2 serve vm1 --memory 1 => error: invalid value '1' for '--memory <SIZE>': 1 bytes are too few for the largest request; expected 64M or more, such as 256M
1 status vn1 => vn1: no such disk; did you mean vm1?
1 status vm1@17 => vm1@17: no such disk; this command takes no epoch: leave out "@17", and name vm1
1 status vm1/data => vm1/data: a regular file, and not the directory of a disk; name its directory, vm1
1 status raw => raw: a regular file, and not the directory of a disk; make a disk of it with `quietus create DISK --adopt`
1 status dir => dir: a directory, and not a disk: it has no disk.toml; make one with `quietus create`
1 status vault1 => vault1: a vault, and not a disk; use the commands of `quietus vault`
2 status vm1 --require most => error: invalid value 'most' for '--require <REQUIRE>'
2 shred vm1 => shred: --now is missing; without --now, queued content is destroyed when the disk is idle
2 purge vm1 => error: the following required arguments were not provided:  <RANGES>...
2 purge vm1 x => error: invalid value 'x' for '<RANGES>...': invalid range "x"; use OFFSET+LENGTH or FIRST-LAST, such as 1G+64K
1 purge vm1 1M+1 => range 1048576+1 is not within the disk, which has 1048576 bytes
1 export vm1 text => text: already exists; choose another name, or remove it
1 export vm1 dir => dir: already exists; choose another name, or remove it
1 export vm1 no/image => no/image: the directory no does not exist; make it first
1 export vm1 /dev/image => /dev/image: there is no device image, and /dev takes no files; check the name
1 export vm1@1 image => not supported: the disk keeps no epochs: that takes a store of versions
1 commit vm1 => vm1: not an overlay; only a disk made with --store overlay has a base image
1 commit vm1 --to text => text: already exists; choose another name, or remove it
1 rebase vm1 --base dir => vm1: not an overlay; only a disk made with --store overlay has a base image
1 compact vm1 => cannot compact vm1: it is not an overlay
1 epoch vm1 => not supported: the disk keeps no epochs: that takes a store of versions
2 forget ver1 => ver1: no epochs are named; use ver1@17, ver1@17..20, ver1@17.. or ver1@NAME
1 forget ver1@1 => epoch 1 has not closed yet; `quietus epoch` closes the open one
2 forget ver1@1 --chain 0+4096 => --chain forgets blocks in all epochs, but "@1" names some; use --range for these alone, or leave out "@1"
2 forget ver1 --range 0+4096 => ver1: no epochs are named; use ver1@17, ver1@17..20, ver1@17.. or ver1@NAME
2 restore ver1 => ver1: no epoch is named; use ver1@17, ver1@NAME or ver1@2026-11-20T10:00
2 diff ver1 => ver1: no epoch is named; use ver1@17, ver1@NAME or ver1@2026-11-20T10:00
1 diff ver1@2 => epoch 2 has not closed yet; `quietus epoch` closes the open one
2 diff ver1@1 vm1@1 => ver1 and vm1 are two disks; name two epochs of one disk
1 key ver1 list => ver1: the disk has no keys; only a disk with `--store versions` and a seal other than `none`, or a sealed disk with a credential, has keys
1 key vm1 list => vm1: the disk has no keys; only a disk with `--store versions` and a seal other than `none`, or a sealed disk with a credential, has keys
2 prove => error: the following required arguments were not provided:  <DISK>
1 prove vm1 -o vm1/journal => vm1/journal: --output names a file with other content; name one to make, or remove it
2 create a..b --size 1M => a..b: invalid name "a..b" for a disk: two dots would be read as a range of epochs; use single dots
2 epoch vm1 --name first => error: invalid value 'first' for '--name <NAME>': invalid name "first" for an epoch or a hold: the word is reserved; choose another name
2 hold vm1@1 --who me --why law --name 4711 => error: invalid value '4711' for '--name <NAME>': invalid name "4711" for an epoch or a hold: expected a letter or _ at the beginning, which tells a name from a number, a time or an option
2 vault put vault1 5 raw => invalid name of a snapshot "5": the name would be taken for the number of a snapshot; choose another one
1 prove vm1 -o dir => dir: --output names a directory; name a file to make
2 prove vm1 --check text => error: the argument '[DISK]' cannot be used with '--check <CHECK>'
1 prove --check fifo => fifo: cannot read the signed statement: EOF while parsing a value at line 1 column 0; check that this is the file that was written
1 prove --check /dev/zero => /dev/zero: --check has more than 16777216 bytes; name the right file
1 prove --check text => text: cannot read the signed statement: expected value at line 1 column 1; check that this is the file that was written
1 prove --check text --key nope => nope: --key does not exist; check the path
2 prove vm1 --key text => prove: --key needs --check; a new receipt is signed by the key of the disk or vault
1 vault init vault1 => vault1: already exists; choose another name, or remove it
1 vault init v --medium dir => dir: vault init --medium names a directory; name a file to make in it, or a block device
1 vault init v --medium text => text: vault init --medium names a file that already exists; name one to make, or remove it
1 vault init v --medium fifo => fifo: vault init --medium names a pipe; name a file to make, or a block device
1 vault init v --medium /dev/typo => /dev/typo: there is no device typo, and /dev takes no files; check the name
2 vault init v --policy none => --policy none destroys nothing, and cannot be a vault's; use clear, purge-2, 4, 6, dod-3, gutmann-35, or a list
2 vault init v --container 10K => --container is 10240 bytes; use a multiple of 4K, 72K to 4.5M
2 vault init v --size 1K => --size is 1024 bytes, and a vault has 37748736 at least
1 vault status vm1 => vm1: a disk, and not a vault; use the commands outside of `quietus vault`
1 vault list vault2 => vault2: no such vault; did you mean vault1?
2 vault put vault1 daily => error: the following required arguments were not provided:  <PATHS>...
1 vault put vault1 daily --tar dir => dir: --tar is a directory; name a file
1 vault put vault1 daily --tar nope => nope: --tar does not exist; check the path
1 vault put vault1 daily --disk vault1 => vault1: a vault, and not a disk; use the commands of `quietus vault`
1 vault get vault1 daily --into text => text: --into names a regular file; name a folder
1 vault get vault1 odl => unknown snapshot "odl"; did you mean "old"?
1 vault get vault1 daily => unknown snapshot "daily"; `quietus vault list` names all
1 vault mount vault1 text => text: not a folder; name an empty one to mount the vault there
1 vault mount vault1 nope => nope: cannot mount the vault there: No such file or directory (os error 2)
2 vault forget vault1 => forget: name snapshots, paths with --path, or a rule such as --keep-last 7
1 vault sanitize vault1 -o vm1/journal => vm1/journal: --output names a file with other content; name one to make, or remove it
1 vault prove --check text => text: cannot read the signed statement: expected value at line 1 column 1; check that this is the file that was written
1 list nope => nope: no such directory; check the path
1 list text => text: a regular file, and not a directory; check the path
1 list fifo => fifo: a pipe, and not a directory; check the path
1 list dangling => dangling: a symbolic link to nothing, and not a directory; check the path
2 list --depth 0 => error: invalid value '0' for '--depth <LEVELS>': 0 is not in 1..=4294967295
1 doctor fifo => fifo: PATH names a pipe; name a directory, a file or a block device
1 doctor sock => sock: PATH names a socket; name a directory, a file or a block device
1 doctor /dev/null => /dev/null: PATH names a character device; name a directory, a file or a block device
1 doctor dangling => dangling: PATH names a symbolic link to nothing; name a directory, a file or a block device
1 doctor no/d => no/d: the directory no does not exist; make it first
1 doctor text/d => text/d: text is a regular file, and not a directory; check the path
1 doctor /dev/typo => /dev/typo: there is no device typo, and /dev takes no files; check the name
1 doctor dir --root fifo => fifo: --root names a pipe; name a directory, a file or a block device
1 mount ver1 text => text: not a folder; name an empty one to mount the disk there
1 mount ver1 nope => nope: cannot mount the disk there: No such file or directory (os error 2)
2 mount ver1@1 dir => ver1@1: all epochs are mounted; name the disk alone, ver1
1 release ver1 case => no hold has the name "case"; `quietus versions` lists the holds
2 nonsense => error: unrecognized subcommand 'nonsense'
"#;

/// A command line, its exit status, and what it says.
fn usages() -> impl Iterator<Item = (&'static str, i32, &'static str)> {
    USAGES.trim().lines().map(|row| {
        let (status, row) = row.split_once(' ').expect("a status");
        let (line, said) = row.split_once(" => ").expect("a command, and what it says");
        (line, status.parse().expect("a number"), said)
    })
}

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
    for (name, magic) in
        [("raw", &b""[..]), ("qcow2", b"QFI\xfb\0\0\0\x03"), ("vhdx", b"vhdxfile"), ("qed", b"QED\0")]
    {
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
    let wrong: Vec<String> = usages()
        .filter(|(line, ..)| has_memory || !line.contains("/dev/shm"))
        .filter_map(|(line, status, said)| {
            let line = line.replace("LONG", &"a".repeat(120));
            let before = listed(dir.path());
            let here = format!("{}/", dir.path().canonicalize().expect("a path").display());
            let (found, told) = run(dir.path(), &line);
            let told = told.replace(&here, "").replace(&"a".repeat(120), "LONG");
            let told = told.strip_prefix("quietus: ").unwrap_or(&told).to_string();
            let after = listed(dir.path());
            let is_right = found == status && told == said && before == after;
            let new: Vec<_> = after.iter().filter(|path| !before.contains(path)).collect();
            (!is_right).then(|| format!("(\"{line}\", {found}, {told:?}), {new:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), usages().count(), wrong.join("\n"));
}
