//! The system's own tools, and what they make.

use quietus_core::base::units::{Addr, Extent};
use quietus_detect::formats::format::{Contents, Format, Probe, Prober};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a tool, and gives what it prints.
pub fn run(program: &str, args: &[&str]) -> String {
    let (code, printed) = exit(program, args);
    assert_eq!(code, Some(0), "{program} {args:?}: {printed}");
    printed
}

/// Runs a tool, and gives its exit status and what it prints.
pub fn exit(program: &str, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(program);
    command.args(args).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").env("MKE2FS_CONFIG", "/dev/null");
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A file of `kib`, of which a tool makes a file system.
pub fn made(program: &str, name: &str, kib: u64, args: &[&str]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    std::fs::File::create(&path).unwrap().set_len(kib << 10).unwrap();
    run(program, &[args, &[path.to_str().unwrap()]].concat());
    path
}

/// What `prober` says of a disk of `bytes`, once it has read all that it asks for.
pub fn probed(prober: Prober, bytes: u64, read: impl Fn(Extent<Addr>) -> Vec<u8>) -> Probe {
    let mut contents = Contents::default();
    loop {
        match prober(bytes, &contents) {
            Probe::Needs(extents) => {
                assert!(extents.iter().all(|it| contents.get(*it).is_none()), "asked for twice");
                extents.iter().for_each(|it| contents.insert(it.start, read(*it)));
            }
            found => return found,
        }
    }
}

pub fn figure(format: &dyn Format, name: &str) -> u64 {
    format.figures().into_iter().find(|it| it.0 == name).unwrap().1
}
