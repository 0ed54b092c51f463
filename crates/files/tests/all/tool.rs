//! The system's own tools: a test fails if they are not installed.

use crate::image::Image;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs a tool; fails with what it prints if its exit status is not 0.
pub fn run(program: &str, args: &[&str], input: &str) -> Vec<u8> {
    let mut command = Command::new(program);
    command.args(args).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{program}: {error}"));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{program} {args:?}: {printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// Where a test may write.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// A disk of `kib`, of which a tool makes a file system.
pub fn made(program: &str, name: &str, kib: u64, args: &[&str]) -> Image {
    changed(name, kib, |path| drop(run(program, &[args, &[path]].concat(), "")))
}

/// A disk of `kib`, of which sfdisk makes what `script` says.
pub fn labelled(name: &str, kib: u64, script: &str) -> Image {
    changed(name, kib, |path| drop(run("sfdisk", &[path], script)))
}

/// A disk of `kib` that a tool changed.
fn changed(name: &str, kib: u64, change: impl Fn(&str)) -> Image {
    let path = path(name);
    let _ = std::fs::remove_file(&path);
    std::fs::File::create(&path).unwrap().set_len(kib << 10).unwrap();
    change(path.to_str().unwrap());
    taken(&path)
}

/// The disk in a file, which is removed.
fn taken(path: &Path) -> Image {
    let bytes = std::fs::read(path).unwrap();
    std::fs::remove_file(path).unwrap();
    Image::new(bytes)
}

/// What `work` returns for a disk in a file, and what it leaves there.
pub fn worked<T>(name: &str, image: &mut Image, work: impl FnOnce(&str) -> T) -> T {
    let path = path(name);
    std::fs::write(&path, &image.bytes).unwrap();
    let result = work(path.to_str().unwrap());
    image.bytes = taken(&path).bytes;
    result
}

/// Has a tool check a disk, which it must find without a fault.
pub fn check(program: &str, name: &str, image: &Image) {
    let path = path(name);
    std::fs::write(&path, &image.bytes).unwrap();
    run(program, &["-n", path.to_str().unwrap()], "");
    std::fs::remove_file(&path).unwrap();
}
