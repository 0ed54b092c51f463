//! `list` and `doctor`: what lies where, and what a host can promise there.

use crate::program::{Disk, quietus, told};
use rustix::fs::{CWD, FileType, Mode};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs a command line in `dir`. One that hangs ends with 124.
fn run(dir: &Path, line: &str) -> Output {
    let mut quietus = Command::new("timeout");
    quietus.args(["60", env!("CARGO_BIN_EXE_quietus")]).args(line.split_whitespace()).current_dir(dir);
    quietus.stdin(Stdio::null()).env("QUIETUS_LOG", "error").output().expect("it runs")
}

fn said(dir: &Path, line: &str) -> String {
    let output = run(dir, line);
    assert!(output.status.success(), "{line}: {output:?}");
    told(&output)
}

fn listed(dir: &Path, line: &str) -> Value {
    crate::schemas::valid(&said(dir, &format!("--json list {line}")))
}

/// A folder with disks, vaults, damaged ones, and what could be taken for one.
fn bench() -> Disk {
    let disk = Disk::new(&["--size", "1M"]);
    let dir = disk.dir.path();
    let at = |name: &str| dir.join(name);
    std::fs::create_dir_all(at("deep/er")).expect("a directory");
    std::fs::write(at("golden"), vec![7; 1 << 20]).expect("an image");
    for line in [
        "create above --store overlay --base golden",
        "create versions --store versions --seal none --size 2M",
        "create deep/er/vm2 --size 1M",
        "create .hidden --size 1M",
        "create lost --size 1M",
        "create foreign --size 1M",
        "create text --size 1M",
        "create pipe --size 1M",
        "vault init backups --size 64M --container 128K",
        "vault init broken --size 64M --container 128K",
    ] {
        said(dir, line);
    }
    std::fs::remove_file(at("lost/disk.toml")).expect("a file");
    std::fs::remove_file(at("pipe/disk.toml")).expect("a file");
    let pipe = |path: &Path| {
        rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    };
    pipe(&at("pipe/disk.toml"));
    pipe(&at("fifo"));
    std::fs::write(at("foreign/disk.toml"), "version = 99\n").expect("a file");
    std::fs::write(at("text/disk.toml"), "hello\n").expect("a file");
    std::fs::write(at("broken/vault.toml"), "version = 99\n").expect("a file");
    drop(UnixListener::bind(at("sock")).expect("a socket"));
    symlink("disk", at("link")).expect("a link");
    symlink("nowhere", at("dangling")).expect("a link");
    symlink("..", at("deep/up")).expect("a link");
    disk
}

#[test]
fn a_listing_names_disks_and_vaults_and_what_is_wrong_with_them() {
    let bench = bench();
    let told = said(bench.dir.path(), "list");
    let expected = "\
overlay        1.00 MiB  ./above
vault                 -  ./backups
vault                 -  ./broken  UNREADABLE: ./broken/vault.toml: version 99 is unknown to this program, which reads version 3; use a newer program, or, if only a bit was changed, run `quietus vault repair`
in-place       1.00 MiB  ./disk
disk                  -  ./foreign  UNREADABLE: ./foreign/disk.toml: version 99 is unknown to this program, which reads version 1; use a newer program
in-place       1.00 MiB  ./link
disk                  -  ./lost  UNREADABLE: disk.toml is missing; restore it from a backup
disk                  -  ./pipe  UNREADABLE: disk.toml is a pipe; restore it from a backup
disk                  -  ./text  UNREADABLE: ./text/disk.toml: TOML parse error
versions       2.00 MiB  ./versions
";
    // What a parser says of a text goes on.
    let first_lines = |told: &str| {
        let lines = told.lines().filter(|it| it.contains("  ./"));
        lines.map(|it| it.split(" at line").next().unwrap_or_default().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(first_lines(&told), first_lines(expected), "{told}");
}

#[test]
fn a_listing_goes_as_deep_as_it_is_told_and_says_who_is_served() {
    let bench = bench();
    let paths = |it: &Value, kind: &str| -> Vec<String> {
        let all = it["found"].as_array().expect("a list").iter();
        let of_kind = all.filter(|it| it["kind"] == kind);
        of_kind.map(|it| it["path"].as_str().expect("text").into()).collect()
    };
    let dir = bench.dir.path();
    assert_eq!(paths(&listed(dir, "."), "in-place"), ["./disk", "./link"]);
    assert_eq!(paths(&listed(dir, "--depth 2"), "in-place"), ["./disk", "./link"]);
    let deep = listed(dir, "--depth 9");
    assert_eq!(
        paths(&deep, "in-place"),
        ["./deep/er/vm2", "./disk", "./link"],
        "a link is no directory to look into"
    );
    let named = listed(dir, "deep deep/er deep/er/vm2 disk .");
    assert_eq!(
        paths(&named, "in-place"),
        ["./disk", "./link", "deep/er/vm2", "disk"],
        "as it was named, once"
    );
    assert_eq!(listed(dir, "deep"), json!({ "format": "quietus-list-1", "found": [], "unread": [] }));
    assert!(said(dir, "list deep").contains("no disk or vault was found"));
    let server = bench.serve(&[]);
    let served = |it: &Value| it["found"][0]["served"].clone();
    assert_eq!((served(&listed(dir, "disk")), served(&listed(dir, "above"))), (true.into(), false.into()));
    assert!(said(dir, "list disk").ends_with("disk  served\n"));
    drop(server);
    assert_eq!(served(&listed(dir, "disk")), false, "a socket without a server");
}

#[test]
fn a_directory_without_read_permission_is_named_and_no_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    ["open", "closed", "list"].iter().for_each(|it| std::fs::create_dir(at(it)).expect("a directory"));
    std::fs::create_dir(at("list/secret")).expect("a directory");
    let mode = |name: &str, mode| {
        std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(mode)).expect("a mode");
    };
    [("", 0o755), ("open", 0o755), ("closed", 0), ("list/secret", 0), ("list", 0o755)]
        .iter()
        .for_each(|(name, bits)| mode(name, *bits));
    // For a superuser nothing is closed. The program may lie where others may not look.
    // A program that this process has open to write cannot be run.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_quietus")).arg(at("quietus")).status();
    assert!(copied.expect("it runs").success());
    mode("quietus", 0o755);
    let mut quietus = Command::new(at("quietus"));
    quietus.args(["--json", "list", ".", "closed", "--depth", "2"]).current_dir(dir.path());
    if rustix::process::geteuid().is_root() {
        quietus.uid(65534).gid(65534);
    }
    let output = quietus.output().expect("it runs");
    mode("closed", 0o755);
    mode("list/secret", 0o755);
    assert!(output.status.success(), "{output:?}");
    let told = crate::schemas::valid(std::str::from_utf8(&output.stdout).expect("text"));
    let unread = told["unread"].as_array().expect("a list").iter();
    let unread: Vec<_> = unread.map(|it| (it["path"].as_str(), it["why"].as_str())).collect();
    let why = Some("Permission denied (os error 13)");
    assert_eq!(unread, [(Some("./closed"), why), (Some("./list/secret"), why), (Some("closed"), why)]);
}

fn diagnosed(dir: &Path, line: &str) -> Value {
    let output = run(dir, &format!("--json doctor {line}"));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{line}: {output:?}");
    let found = crate::schemas::valid(std::str::from_utf8(&output.stdout).expect("text"));
    assert_eq!(output.status.success(), found["most"] == "clear", "{found}");
    found
}

#[test]
fn the_doctor_examines_what_is_there_or_where_it_would_be() {
    let bench = bench();
    let dir = bench.dir.path();
    let here = diagnosed(dir, ".");
    for line in ["disk", "golden", "new", "./new.img", "deep/new", dir.to_str().expect("text")] {
        let found = diagnosed(dir, line);
        assert_eq!((&found["most"], &found["promises"]), (&here["most"], &here["promises"]), "{line}");
    }
    assert_eq!(diagnosed(dir, "")["promises"], here["promises"], "the current directory by default");
    let stores: Vec<_> =
        here["promises"].as_array().expect("a list").iter().map(|it| it["store"].clone()).collect();
    assert_eq!(stores, ["in-place", "overlay", "versions", "sealed"]);
    let status = bench.json("status", &[]);
    assert_eq!(here["promises"][0]["level"], status["guarantees"]["level"], "as the disk itself says");
}

#[test]
fn the_doctor_says_what_another_place_of_the_root_changes() {
    let bench = bench();
    let dir = bench.dir.path();
    if !rustix::fs::statfs("/dev/shm").is_ok_and(|it| it.f_type == 0x0102_1994) {
        return println!("skipped: there is no memory at /dev/shm");
    }
    let (here, memory) = (diagnosed(dir, "."), diagnosed(dir, "/dev/shm"));
    let both = diagnosed(dir, ". --root /dev/shm/root");
    let level = |it: &Value, n: usize| it["promises"][n]["level"].clone();
    assert_eq!((level(&both, 0), level(&both, 2)), (level(&here, 0), level(&memory, 2)));
    assert_eq!(both["root"]["findings"], memory["here"]["findings"]);
    assert_eq!(here["root"], Value::Null);
    let told = told(&run(dir, "doctor . --root /dev/shm/root"));
    assert!(told.starts_with("at best      overwriting ") && told.contains("\nroot         "), "{told}");
}

#[test]
fn a_path_that_is_no_text_is_shown_as_far_as_it_is() {
    use std::os::unix::ffi::OsStrExt;
    let disk = Disk::new(&["--size", "1M"]);
    let dir = disk.dir.path();
    let strange = |name: &[u8]| dir.join(std::ffi::OsStr::from_bytes(name));
    std::fs::rename(disk.path(), strange(b"vm\xff")).expect("a disk");
    let found = listed(dir, ".");
    assert_eq!(found["found"][0]["path"], "./vm\u{fffd}", "{found}");
    let mut quietus = quietus();
    let export = quietus.args(["--json", "export"]).arg(strange(b"vm\xff")).arg(strange(b"image\xff"));
    let output = crate::schemas::checked(export.output().expect("it runs"));
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_wrong_command_line_is_a_report_too() {
    let dir = tempfile::tempdir().expect("a directory");
    for (line, said) in [
        ("--json nonsense", "unrecognized subcommand 'nonsense'"),
        ("list --depth 0 --json", "invalid value '0' for '--depth <LEVELS>'"),
        ("--json shred vm1", "shred: --now is missing"),
    ] {
        let output = run(dir.path(), line);
        let error = crate::schemas::valid(std::str::from_utf8(&output.stdout).expect("text"));
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(error["error"].as_str().is_some_and(|it| it.starts_with(said)), "{line}: {error}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(said), "{line}: {output:?}");
    }
    let help = run(dir.path(), "--json list --help");
    assert!(help.status.success() && help.stdout.starts_with(b"List the disks"), "{help:?}");
}
