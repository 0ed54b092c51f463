//! A restore that was killed, or is repeated, goes on; what is newer stays; and no file is there in part.

use crate::program::{quietus, told};
use crate::vault::program::{Vault, assert_same, noise, report};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The names of files that are not whole.
fn partial(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(".quietus-get-")).collect()
}

#[test]
fn a_repeated_restore_makes_what_is_missing_and_replaces_only_what_it_is_told_to() {
    let vault = Vault::new(&[]);
    let top = vault.folder("a", &[1, 2, 3, 4]);
    fs::hard_link(top.join("file 4"), top.join("other name")).expect("a link");
    symlink("file 1", top.join("link")).expect("a link");
    vault.json("put", &["some", "a"]);
    let get = |args: &[&str]| {
        let output = vault.run("get", &[&["some", "--into", "into"], args].concat());
        let said = report(&output);
        (output.status.code(), said["there_already"].as_u64(), said["refused_count"].as_u64(), said)
    };
    let (code, there, ..) = get(&[]);
    assert_eq!((code, there), (Some(0), Some(0)));
    let into = vault.beside("into/a");
    let numbers = |name: &str| fs::metadata(into.join(name)).expect("a file").ino();
    let untouched = numbers("file 3");
    fs::write(into.join("file 1"), b"newer, and precious").expect("a file");
    fs::remove_file(into.join("file 2")).expect("a file");
    fs::remove_file(into.join("other name")).expect("a file");
    fs::write(into.join(".quietus-get-0123456789abcdef"), b"left by a kill").expect("a file");
    fs::write(into.join(".quietus-get-own"), b"another name").expect("a file");
    let (code, there, refused, said) = get(&[]);
    assert_eq!((code, there, refused), (Some(3), Some(3), Some(1)), "{said}");
    assert!(said["refused"][0].as_str().is_some_and(|it| it.contains("--overwrite if-changed")), "{said}");
    assert_eq!(fs::read(into.join("file 1")).expect("a file"), b"newer, and precious");
    assert_eq!((partial(&into), numbers("file 3")), (vec![".quietus-get-own".into()], untouched));
    assert_eq!(numbers("file 4"), numbers("other name"));
    fs::remove_file(into.join(".quietus-get-own")).expect("a file");
    // The same length and time: only `always` looks at more.
    let about = fs::metadata(into.join("file 3")).expect("a file");
    fs::write(into.join("file 3"), vec![7; about.len() as usize]).expect("a file");
    let file = fs::File::options().write(true).open(into.join("file 3")).expect("a file");
    file.set_modified(about.modified().expect("a time")).expect("a time");
    let (code, there, ..) = get(&["--overwrite", "if-changed"]);
    assert_eq!((code, there), (Some(0), Some(4)));
    assert_eq!(fs::read(into.join("file 3")).expect("a file")[..9], [7; 9]);
    fs::remove_file(into.join("other name")).expect("a file");
    fs::write(into.join("other name"), b"no link any more").expect("a file");
    let (code, there, ..) = get(&["--overwrite", "always"]);
    assert_eq!((code, there), (Some(0), Some(0)));
    assert_same(&top, &into);
    assert_eq!(numbers("file 4"), numbers("other name"));
    // A folder is never removed for a file, nor the reverse.
    fs::remove_file(into.join("file 2")).expect("a file");
    fs::create_dir(into.join("file 2")).expect("a folder");
    let (code, _, refused, said) = get(&["--overwrite", "always"]);
    let is_named = said.to_string().contains("a folder of that name");
    assert!((code, refused) == (Some(3), Some(1)) && is_named, "{said}");
}

/// Waits until a file is being restored, or the command has ended.
fn wait_for_partial(child: &mut Child, folder: &Path) {
    while partial(folder).is_empty() && child.try_wait().expect("a child").is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_restore_that_is_killed_or_interrupted_leaves_no_part_of_a_file_under_its_name() {
    let vault = Vault::new(&["--compress", "none"]);
    let top = vault.folder("a", &[1]);
    fs::write(top.join("big"), noise(7, 30 << 20)).expect("a file");
    vault.json("put", &["some", "a"]);
    let (into, big) = (vault.beside("into/a"), vault.beside("into/a/big"));
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let mut command = vault.command("get");
        command.args(["some", "--into", "into"]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it runs");
        wait_for_partial(&mut child, &into);
        let _ = kill_process(Pid::from_child(&child), signal);
        let ended = child.wait().expect("it ends");
        let is_whole = fs::metadata(&big).is_ok_and(|about| about.len() == 30 << 20);
        assert!(is_whole || !big.exists(), "a part of the file has its name");
        if signal != Signal::KILL {
            assert!(partial(&into).is_empty(), "{signal:?}: {:?}", partial(&into));
            assert!(is_whole || !ended.success(), "{ended:?}");
        }
        let _ = fs::remove_file(&big);
    }
    vault.json("get", &["some", "--into", "into"]);
    assert_same(&top, &into);
    assert_eq!(partial(&into), Vec::<String>::new());
}

#[test]
fn a_normal_user_restores_what_it_may_and_hears_of_owners_once() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root puts the files of others");
    }
    const USER: u32 = 65_534;
    let vault = Vault::new(&[]);
    let top = vault.folder("a", &[1, 2, 3]);
    fs::create_dir(top.join("sub")).expect("a folder");
    fs::set_permissions(top.join("file 1"), fs::Permissions::from_mode(0o4755)).expect("a mode");
    let value = b"\x01\0\0\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let flags = rustix::fs::XattrFlags::empty();
    let _ = rustix::fs::setxattr(top.join("file 2"), "security.capability", value, flags);
    vault.json("put", &["some", "a"]);
    fs::create_dir(vault.beside("into")).expect("a folder");
    let chown = Command::new("chown").args(["-R", &USER.to_string()]).arg(vault.dir.path()).status();
    assert!(chown.expect("it runs").success());
    let text = |json: &[&str]| {
        let mut quietus = quietus();
        quietus.args(json).args(["vault", "get"]).arg(vault.path()).args(["some", "--into", "into"]);
        quietus.current_dir(vault.dir.path()).uid(USER).gid(USER).output().expect("it runs")
    };
    let output = text(&[]);
    let said = told(&output);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(said.contains("5 entries belong to you now"), "{said}");
    assert_same(&top, &vault.beside("into/a"));
    let about = fs::metadata(vault.beside("into/a/file 1")).expect("a file");
    assert_eq!((about.mode() & 0o7777, about.uid()), (0o755, USER), "a program that acts for its owner");
    let again = text(&["--json"]);
    assert!(again.status.success(), "{again:?}");
    assert_eq!(report(&again)["there_already"], 3);
}
