//! `qemu-img`, which converts images of other formats.

use super::{DiskError, DiskErrorKind, Step};
use crate::host::directory::DirectoryErrorKind;
use serde::Deserialize;
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Converts `image` of format `from` to `into` of format `to`, which only its owner may read.
///
/// # Errors
/// [`DiskError`]: there is no `qemu-img`, it fails, or `step` says to stop.
pub(crate) fn convert(image: (&Path, &str), into: (&Path, &str), step: Step<'_>) -> Result<(), DiskError> {
    let ((image, from), (into, to)) = (image, into);
    let bytes = virtual_bytes(image, from)?;
    // `qemu-img` keeps the mode of an existing file.
    let made = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(into);
    made.map_err(|error| DirectoryErrorKind::Io("make the image").of(into, error))?;
    let mut command = Command::new("qemu-img");
    command.args(["convert", "-p", "-f", from, "-O", to]).arg(image).arg(into);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| not_run(image, error))?;
    let said = child.stdout.take().map(BufReader::new);
    let go_on = said.is_none_or(|said| follow(said, bytes, step));
    if !go_on {
        // The process may have ended by itself.
        let _ = child.kill();
    }
    let ended = child.wait_with_output().map_err(|error| not_run(image, error))?;
    if !go_on {
        return Err(DirectoryErrorKind::Interrupted.at(image).into());
    }
    check(image, &ended)
}

/// What `qemu-img info` says.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Info {
    virtual_size: u64,
}

/// Size of `image` as a guest would see it, bytes.
fn virtual_bytes(image: &Path, format: &str) -> Result<u64, DiskError> {
    let mut command = Command::new("qemu-img");
    let info = command.args(["info", "--output=json", "-f", format]).arg(image).output();
    let info = info.map_err(|error| not_run(image, error))?;
    check(image, &info)?;
    let info: Info = serde_json::from_slice(&info.stdout).unwrap_or_default();
    Ok(info.virtual_size)
}

/// Tells `step` what `qemu-img` says of its progress: `    (12.34/100%)`, and a
/// carriage return.
fn follow(mut said: impl BufRead, bytes: u64, step: Step<'_>) -> bool {
    let mut word = Vec::new();
    loop {
        word.clear();
        match said.by_ref().take(1 << 10).read_until(b'\r', &mut word) {
            Ok(0) | Err(_) => return true,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&word);
        let percent = text.trim().strip_prefix('(').and_then(|it| it.split_once('/'));
        let percent: f64 = percent.and_then(|(it, _)| it.parse().ok()).unwrap_or(0.0);
        if !step((bytes as f64 * percent / 100.0) as u64, bytes) {
            return false;
        }
    }
}

fn check(image: &Path, ended: &Output) -> Result<(), DiskError> {
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr).trim().to_string();
    Err(DirectoryErrorKind::Io("convert the image").of(image, io::Error::other(said)).into())
}

fn not_run(image: &Path, error: io::Error) -> DiskError {
    if error.kind() != io::ErrorKind::NotFound {
        return DirectoryErrorKind::Io("run qemu-img").of(image, error).into();
    }
    let what = "cannot convert the image without qemu-img; install the package qemu-utils (Debian) or qemu-img \
                (Fedora), or convert the image to a raw one by hand";
    DiskErrorKind::Invalid(what.into()).at(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_followed_until_told_to_stop() {
        let said = &b"    (0.00/100%)\r    (50.00/100%)\r    (100.00/100%)\r\n"[..];
        let mut steps = Vec::new();
        assert!(follow(said, 200, &mut |done, _| {
            steps.push(done);
            true
        }));
        assert_eq!(steps[..3], [0, 100, 200]);
        assert!(!follow(said, 200, &mut |done, _| done < 100));
    }
}
