//! The program as a user runs it.

mod completing;
mod consent;
mod idle;
mod keys;
mod killed;
mod overlay;
mod places;
mod private;
pub(crate) mod program;
pub(crate) mod read_only;
mod status;
mod stopping;
mod usage;

use program::Disk;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn fill(path: &Path, at: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("the image");
    file.write_all_at(bytes, at).expect("a write");
}

fn adopted(secret: &[u8]) -> (tempfile::TempDir, PathBuf, Disk) {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image");
    std::fs::write(&image, vec![1; 1 << 20]).expect("an image");
    fill(&image, 300_000, secret);
    let disk = Disk::new(&["--adopt", image.to_str().expect("text"), "--deadline", "1h"]);
    (dir, image, disk)
}

fn holds(path: &Path, needle: &[u8]) -> bool {
    let bytes = std::fs::read(path).expect("a file");
    bytes.windows(needle.len()).any(|window| window == needle)
}

#[test]
fn what_is_purged_is_gone_from_the_medium_and_the_proof_says_so() {
    let secret = b"the combination is 4711";
    let (_dir, image, disk) = adopted(secret);
    assert!(holds(&image, secret));
    let purged = disk.json("purge", &["262144+65536"]);
    assert_eq!(purged["newly_dead_bytes"], 65536);
    let shredded = disk.json("shred", &["--now"]);
    assert_eq!((&shredded["done"], holds(&image, secret)), (&Value::Bool(true), false));
    let receipt = disk.beside("receipt.json");
    let proof = disk.json("prove", &["-o", receipt.to_str().expect("text")]);
    assert_eq!(proof["statement"]["bytes"]["dead"], 65536);
    assert_eq!(proof["statement"]["violations"], Value::Array(Vec::new()));
    let ways = proof["statement"]["read_ways"].as_object().expect("how it was read");
    let known = ["around-cache", "after-eviction", "from-cache"];
    assert!(ways.keys().all(|way| known.contains(&way.as_str())), "{ways:?}");
    let read: u64 = ways.values().filter_map(Value::as_u64).sum();
    assert_eq!(Some(read), proof["statement"]["read_bytes"].as_u64());

    let key = disk.path().join("key.pub");
    let check = |path: &Path| {
        let mut quietus = Command::new(env!("CARGO_BIN_EXE_quietus"));
        quietus.args(["prove", "--key"]).arg(&key).arg("--check").arg(path).output().expect("it runs")
    };
    assert!(check(&receipt).status.success());
    let forged = std::fs::read_to_string(&receipt).expect("text").replace("65536", "65537");
    std::fs::write(&receipt, forged).expect("a write");
    assert_eq!(check(&receipt).status.code(), Some(1));
}

#[test]
fn dead_content_that_comes_back_fails_the_proof() {
    let (_dir, image, disk) = adopted(b"x");
    disk.json("purge", &["0+65536"]);
    disk.json("shred", &["--now"]);
    fill(&image, 4096, b"an operator put this back behind our back");
    let output = disk.run("prove", &[]);
    assert_eq!(output.status.code(), Some(3));
    let receipt: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(receipt["statement"]["violations"], serde_json::json!([{ "start": 4096, "len": 4096 }]));
}

#[test]
fn a_running_server_answers_and_keeps_a_second_one_out() {
    let disk = Disk::new(&["--size", "64M"]);
    let mut server = disk.serve(&[]);
    assert_eq!(disk.json("status", &[])["served"], true);
    assert_eq!(disk.json("verify", &[])["ok"], true);
    let second = disk.run("serve", &[]);
    assert_eq!(second.status.code(), Some(1));
    let error = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(error.contains(&format!("in use by process {}", server.0.id())), "{error}");
    // A crash leaves neither a lock nor a socket in the way.
    server.0.kill().expect("it lives");
    server.0.wait().expect("it ends");
    let again = disk.serve(&[]);
    drop(again);
    assert_eq!(disk.json("status", &[])["served"], false);
}

#[test]
fn a_medium_that_was_cut_off_while_it_is_served_is_named() {
    let disk = Disk::new(&["--size", "1M"]);
    let _server = disk.serve(&[]);
    let medium = std::fs::File::options().write(true).open(disk.path().join("data"));
    medium.and_then(|it| it.set_len(4096)).expect("it is ours");
    let verified = disk.run("verify", &[]);
    let text = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(verified.status.code() == Some(3) && text.contains("truncated from 1048576 to 4096"), "{text}");
    let latched = disk.json("status", &[])["latched"].clone();
    assert!(latched.as_str().is_some_and(|it| it.contains("truncated")), "{latched}");
}

#[test]
fn a_conservative_overwrite_keeps_the_content() {
    let secret = b"this stays";
    let (_dir, image, disk) = adopted(secret);
    disk.json("purge", &["--conservative", "262144+65536"]);
    let done = disk.json("shred", &["--now"]);
    assert_eq!(done["rewritten_bytes"], 65536);
    assert!(holds(&image, secret));
    assert_eq!(disk.json("status", &[])["owed"]["suspicious_bytes"], 65536);
}

#[test]
fn the_journal_counts_in_what_is_guaranteed() {
    let (_dir, image, disk) = adopted(b"x");
    let (image, journal) = (image.to_str().expect("text").to_string(), disk.path().join("journal"));
    let journal = journal.to_str().expect("text").to_string();
    let proof = disk.json("prove", &[]);
    for guarantees in [&disk.json("status", &[])["guarantees"], &proof["statement"]["guarantees"]] {
        assert_eq!(guarantees["medium"]["facts"]["path"], image);
        assert_eq!(guarantees["journal"]["facts"]["path"], journal);
        let levels = [&guarantees["medium"]["level"], &guarantees["journal"]["level"]];
        assert!(levels.contains(&&guarantees["level"]), "{guarantees}");
    }
}

#[test]
fn a_proof_of_another_version_is_checked_and_shown() {
    let (_dir, _image, disk) = adopted(b"x");
    let mut receipt: quietus::proof::Receipt =
        serde_json::from_value(disk.json("prove", &[])).expect("a receipt");
    let otherwise = serde_json::json!({ "level": "clear", "told": "otherwise" });
    receipt.statement.guarantees = serde_json::from_value(otherwise).expect("as it was signed");
    let key = quietus::disk::DiskDir::open(&disk.path()).and_then(|dir| dir.key()).expect("a key");
    let receipt = quietus::base::signed::Signed::sign(receipt.statement, &key);
    let path = disk.beside("receipt.json");
    std::fs::write(&path, serde_json::to_string(&receipt).expect("plain data")).expect("a write");
    let mut quietus = Command::new(env!("CARGO_BIN_EXE_quietus"));
    let output = quietus.args(["prove", "--check"]).arg(&path).output().expect("it runs");
    let screen = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && screen.contains("of another version of Quietus"), "{screen}");
}

#[test]
fn errors_say_what_to_do() {
    let disk = Disk::new(&["--size", "1M"]);
    let missing = Disk { dir: tempfile::tempdir().expect("a directory") };
    for (disk, command, args, status, words) in [
        (&missing, "status", &[][..], 1, "no such disk"),
        (&disk, "create", &["--size", "1M"], 1, "already exists"),
        (&disk, "purge", &["1M+1"], 1, "not within the disk"),
        (&disk, "shred", &[], 2, "--now"),
    ] {
        let output = disk.run(command, args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(status) && error.contains(words), "{command}: {error}");
    }
    assert_eq!(disk.run("purge", &["backwards"]).status.code(), Some(2));
}

#[test]
fn a_size_that_is_no_number_of_sectors_is_rounded_up_and_said_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let create = |name: &str, args: &[&str]| {
        let mut quietus = Command::new(env!("CARGO_BIN_EXE_quietus"));
        let output = quietus.arg("create").arg(dir.path().join(name)).args(args).output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    // 1.1 GiB are 1181116006.4 bytes.
    let said = create("a", &["--size", "1.1G"]);
    assert!(said.contains("rounded up from 1181116006 to 1181118464 bytes"), "{said}");
    assert_eq!(std::fs::metadata(dir.path().join("a/data")).expect("a medium").len(), 1_181_118_464);
    let said = crate::schemas::valid(&create("b", &["--json", "--size", "1000"]));
    assert_eq!((&said["disk"]["size_bytes"], &said["rounded_up_from_bytes"]), (&4096.into(), &1000.into()));
    let said = crate::schemas::valid(&create("c", &["--json", "--size", "1536"]));
    assert_eq!((&said["disk"]["size_bytes"], &said["rounded_up_from_bytes"]), (&1536.into(), &Value::Null));
}

#[test]
fn completions_are_printed_for_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let output = Command::new(env!("CARGO_BIN_EXE_quietus")).args(["completions", shell]).output();
        let text = output.expect("it runs").stdout;
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(text.contains("COMPLETE") && text.contains("quietus"), "{shell}: {text}");
    }
}

/// Runs a tool of the system; `None` if it is not installed.
fn tool(program: &str, args: &[&str], input: &str) -> Option<String> {
    use std::io::Write;
    let mut command = Command::new(program);
    command.args(args).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").env("MKE2FS_CONFIG", "/dev/null");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        spawned => spawned.expect("it runs"),
    };
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A file system of 1 MiB with a file of 30 blocks that is kept, and one that is deleted.
fn ext2(dir: &Path, name: &str) -> Vec<u8> {
    let image = dir.join(name);
    let text = image.to_str().expect("text");
    tool("mke2fs", &["-q", "-F", "-b", "1024", text, "1024k"], "").expect("mke2fs is there");
    for what in ["kept", "deleted"] {
        let file = dir.join(what);
        std::fs::write(&file, format!("{name} {what}. ").repeat(2500)).expect("a file");
        let write = format!("write {} {what}", file.display());
        tool("debugfs", &["-w", "-R", &write, text], "").expect("debugfs is there");
    }
    tool("debugfs", &["-w", "-R", "rm deleted", text], "");
    std::fs::read(&image).expect("the image")
}

/// Serves an image in which `script` makes partitions (by sfdisk) at these
/// sectors, each with a file system: what was deleted goes, the rest stays.
fn deleted_files_go_from_partitions(script: &str, sectors: &[u64]) {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image");
    let text = image.to_str().expect("text");
    std::fs::write(&image, vec![0; 8 << 20]).expect("an image");
    if tool("sfdisk", &["-q", text], script).is_none() {
        eprintln!("skipped: no sfdisk");
        return;
    }
    for sector in sectors {
        fill(&image, sector * 512, &ext2(dir.path(), &format!("fs{sector}")));
    }
    let names =
        |what: &str| sectors.iter().map(|it| format!("fs{it} {what}. ").repeat(2)).collect::<Vec<_>>();
    assert!(names("deleted").iter().all(|it| holds(&image, it.as_bytes())));
    let disk = Disk::new(&["--adopt", text, "--idle-after", "100ms"]);
    let server = disk.serve(&[]);
    let gone = || names("deleted").iter().all(|it| !holds(&image, it.as_bytes()));
    let start = std::time::Instant::now();
    while !gone() && start.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let status = disk.json("status", &[]);
    assert!(gone(), "{status}");
    let parts = status["watch"]["parts"].as_array().expect("partitions").clone();
    assert_eq!(parts.len(), sectors.len(), "{status}");
    for (part, sector) in parts.iter().zip(sectors) {
        assert_eq!((&part["file_system"], &part["start_bytes"]), (&"ext2".into(), &(sector * 512).into()));
    }
    drop(server);
    let bytes = std::fs::read(&image).expect("the image");
    for sector in sectors {
        let part = dir.path().join("part");
        let start = (sector * 512) as usize;
        std::fs::write(&part, &bytes[start..start + (1 << 20)]).expect("a partition");
        tool("e2fsck", &["-f", "-n", part.to_str().expect("text")], "");
        let kept = tool("debugfs", &["-R", "cat kept", part.to_str().expect("text")], "");
        assert_eq!(kept, Some(format!("fs{sector} kept. ").repeat(2500)));
    }
}

#[test]
fn deleted_files_go_from_partitions_of_an_mbr_wherever_they_begin() {
    let script = "label: dos\nstart=63, size=2048, type=83\nstart=2112, size=12000, type=5\n\
                  start=4096, size=2048, type=83\nstart=7001, size=2048, type=83\n";
    deleted_files_go_from_partitions(script, &[63, 4096, 7001]);
}

#[test]
fn deleted_files_go_from_partitions_of_a_gpt() {
    let script = "label: gpt\nstart=2048, size=2048\nstart=4096, size=2048\n";
    deleted_files_go_from_partitions(script, &[2048, 4096]);
}

/// What `status` calls the file system on `image` when it is served with `--detect detect`.
fn detected(image: &Path, detect: &str) -> Value {
    let disk =
        Disk::new(&["--adopt", image.to_str().expect("text"), "--deadline", "1h", "--idle-after", "1h"]);
    let _server = disk.serve(&["--detect", detect]);
    let start = std::time::Instant::now();
    loop {
        let status = disk.json("status", &[]);
        let watch = &status["watch"];
        let is_decided = !watch["file_system"].is_null()
            || watch.is_null()
            || watch["state"].as_str().is_some_and(|it| it.starts_with("no known file system"));
        if is_decided {
            return watch["file_system"].clone();
        }
        assert!(start.elapsed().as_secs() < 60, "{status}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn what_is_watched_can_be_chosen() {
    let made = [
        ("ext4", "ext2", "mke2fs", &["-q", "-F", "-O", "has_journal,extent"][..]),
        ("fat16", "fat", "mkfs.vfat", &[]),
        ("exfat", "exfat", "mkfs.exfat", &[]),
        ("ntfs", "ntfs", "mkntfs", &["-q", "-F"]),
    ];
    for (name, detect, mkfs, options) in made {
        let dir = tempfile::tempdir().expect("a directory");
        let image = dir.path().join("image");
        std::fs::File::create(&image).and_then(|it| it.set_len(32 << 20)).expect("an image");
        let args: Vec<&str> = options.iter().copied().chain(image.to_str()).collect();
        if tool(mkfs, &args, "").is_none() {
            eprintln!("skipped: no {mkfs}");
            continue;
        }
        let others = ["ext2", "fat", "exfat", "ntfs", "off"].into_iter().filter(|it| *it != detect);
        assert_eq!([detected(&image, "auto"), detected(&image, detect)], [name, name]);
        others.for_each(|other| assert_eq!(detected(&image, other), Value::Null, "{name}, {other}"));
    }
}
