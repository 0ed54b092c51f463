//! A host that is full below a vault.

use crate::vault::program::noise;
use std::fs;
use std::process::Command;

/// On a file system of 100 MB: three puts, one that does not fit, and what becomes of the vault then. Each command's exit status, the
/// bytes that are in use, and whether all that was kept comes back.
const SCRIPT: &str = r#"
mount -t tmpfs -o size=100M none host || exit 125
run() { "$QUIETUS" vault "$@" >/dev/null 2>>said; echo "$1 $? $(df --output=used -k host | tail -1)"; }
run init host/v
for name in a b c; do run put host/v $name $name; done
for round in 1 2 3; do run put host/v large large; done
run forget host/v 0 1
for round in 1 2; do run sanitize host/v; done
run put host/v a a
run put host/v b b
run get host/v c --into back
cmp c/file back/c/file && echo same 0 0
run verify host/v
"#;

#[test]
fn a_vault_on_a_full_host_is_sanitized_in_the_space_that_it_has() {
    let dir = tempfile::tempdir().expect("a directory");
    for (seed, (name, mib)) in (0..).zip([("a", 12), ("b", 12), ("c", 12), ("large", 60)]) {
        fs::create_dir(dir.path().join(name)).expect("a directory");
        fs::write(dir.path().join(name).join("file"), noise(seed, mib << 20)).expect("a file");
    }
    fs::create_dir(dir.path().join("host")).expect("a directory");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--user", "--map-root-user", "sh", "-c", SCRIPT]);
    command.env("QUIETUS", env!("CARGO_BIN_EXE_quietus")).env("QUIETUS_LOG", "error").current_dir(dir.path());
    let output = command.output().expect("it runs");
    let said = String::from_utf8(output.stdout).expect("text");
    if said.is_empty() {
        let why = String::from_utf8_lossy(&output.stderr);
        return eprintln!("skipped: this host does not let us mount a file system: {why}");
    }
    let lines: Vec<Vec<&str>> =
        said.lines().map(|line| line.split(' ').filter(|it| !it.is_empty()).collect()).collect();
    let statuses: Vec<(&str, &str)> = lines.iter().map(|line| (line[0], line[1])).collect();
    let refused = fs::read_to_string(dir.path().join("said")).unwrap_or_default();
    let wanted = [
        [("init", "0"), ("put", "0"), ("put", "0"), ("put", "0")].as_slice(),
        &[("put", "1"), ("put", "1"), ("put", "1"), ("forget", "0"), ("sanitize", "0"), ("sanitize", "0")],
        &[("put", "0"), ("put", "0"), ("get", "0"), ("same", "0"), ("verify", "0")],
    ];
    assert_eq!(statuses, wanted.concat(), "{said}{refused}");
    assert!(refused.contains("free space on the host, or forget snapshots"), "{refused}");
    let used = |line: usize| lines[line][2].parse::<u64>().expect("a number");
    assert!(used(6) <= used(4) + 512, "each failed try takes more: {said}");
    assert!(
        used(8) < used(6) - (36 << 10),
        "what was forgotten, and what a failed put left, is given back: {said}"
    );
}
