//! The programs of e2fsprogs, in a folder of their own that is removed in the end.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder for the files of one test.
pub(super) struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("quietus-ext-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn output(program: &str, args: &[&str]) -> Output {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let started =
        Command::new(program).args(args).env("PATH", path).env("MKE2FS_CONFIG", "/dev/null").output();
    started.unwrap_or_else(|error| panic!("{program} (e2fsprogs) cannot be started: {error}"))
}

/// Runs `program`, and returns what it writes; it must end with one of `codes`.
pub(super) fn run(program: &str, args: &[&str], codes: &[i32]) -> String {
    let output = output(program, args);
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(codes.contains(&output.status.code().unwrap_or(-1)), "{program} {args:?}: {text}");
    text
}

/// Makes a file system of `size` with the options of `mke2fs`, separated by spaces, and the files of `from`.
pub(super) fn mkfs(image: &Path, size: &str, options: &str, from: Option<&Path>) {
    let from = from.map(|it| it.display().to_string());
    let mut args = vec!["-q", "-F"];
    args.extend(options.split(' ').filter(|it| !it.is_empty()));
    args.extend(from.iter().flat_map(|from| ["-d", from]));
    let image = image.display().to_string();
    args.extend([image.as_str(), size]);
    run("mke2fs", &args, &[0]);
}

/// Runs commands of debugfs, a line each, that may write.
pub(super) fn debugfs(folder: &Folder, image: &Path, commands: &str) -> String {
    let script = folder.path("script");
    std::fs::write(&script, commands).unwrap();
    let (script, image) = (script.display().to_string(), image.display().to_string());
    let text = run("debugfs", &["-w", "-f", &script, &image], &[0]);
    let is_refused =
        |line: &&str| line.contains("nvalid") || line.contains("sage:") || line.contains("not found");
    assert_eq!(text.lines().find(is_refused), None, "{text}");
    text
}
