//! The system's own tools: a test fails if they are not installed.

use crate::image::Image;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a tool; fails with what it prints if its exit status is not 0.
pub fn run(program: &str, args: &[&str]) {
    let mut command = Command::new(program);
    command.args(args).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{program} {args:?}: {printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// A disk of `kib`, of which a tool makes a file system.
pub fn made(program: &str, name: &str, kib: u64, args: &[&str]) -> Image {
    let path = path(name);
    let _ = std::fs::remove_file(&path);
    std::fs::File::create(&path).unwrap().set_len(kib << 10).unwrap();
    run(program, &[args, &[path.to_str().unwrap()]].concat());
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    Image::new(bytes)
}

/// Has a tool check a disk, which it must find without a fault.
pub fn check(program: &str, name: &str, image: &Image) {
    let path = path(name);
    std::fs::write(&path, &image.bytes).unwrap();
    run(program, &["-n", path.to_str().unwrap()]);
    std::fs::remove_file(&path).unwrap();
}
