//! Users of a file or block device.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The part of the kernel that uses what is at `path`, in words: a mount or
/// another device above a block device, a loop device, or swap.
pub(crate) fn by_kernel(sys: &Path, proc: &Path, path: &Path) -> io::Result<Option<String>> {
    let here = std::fs::metadata(path)?;
    if here.file_type().is_block_device() && is_claimed(path)? {
        return Ok(Some("a mount, swap or another device".into()));
    }
    let same = |other: &Path| std::fs::metadata(other).is_ok_and(|there| is_same(&here, &there));
    let by_loop = loops(sys).into_iter().find(|(_, backing)| same(backing));
    if let Some((device, _)) = by_loop {
        return Ok(Some(format!("the loop device {device}")));
    }
    Ok(swaps(proc).iter().any(|swap| same(swap)).then(|| "swap".into()))
}

/// The process that holds a lock on `file`, of whatever kind: Quietus's locks, and those that
/// virtual machines take on their images.
pub(crate) fn by_process(proc: &Path, file: &File) -> io::Result<Option<String>> {
    holder_of(proc, file, |_| true)
}

/// The process that holds one of the locks on `file` that count.
fn holder_of(proc: &Path, file: &File, counts: fn(&str) -> bool) -> io::Result<Option<String>> {
    let here = file.metadata()?;
    let (major, minor) = (rustix::fs::major(here.dev()), rustix::fs::minor(here.dev()));
    let here = format!("{major:02x}:{minor:02x}:{}", here.ino());
    let locks = std::fs::read_to_string(proc.join("locks")).unwrap_or_default();
    Ok(locks.lines().filter(|line| counts(line)).find_map(|line| holder(line, &here)))
}

/// The process that holds a lock on `file` by which it may write there.
pub(crate) fn by_writer(proc: &Path, file: &File) -> io::Result<Option<String>> {
    holder_of(proc, file, is_of_writer)
}

/// Virtual machines lock single bytes, shared, for what they may do: byte 101 for
/// writing, byte 103 for another length. A reader may lock other bytes.
fn is_of_writer(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, kind, _, access, _, _, from, to] = words[..] else { return false };
    let (from, to) = (from.parse().unwrap_or(0), to.parse().unwrap_or(u64::MAX));
    let covers = |byte: u64| (from..=to).contains(&byte);
    access == "WRITE" || (kind == "OFDLCK" && (covers(101) || covers(103)))
}

/// A line is `1: FLOCK  ADVISORY  WRITE 708 00:16:15423 0 EOF`; the process of
/// an open file's lock is -1, and `->` marks one that waits.
fn holder(line: &str, file: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, kind, _, _, process, of, ..] = words[..] else { return None };
    if of != file || !matches!(kind, "FLOCK" | "POSIX" | "OFDLCK") {
        return None;
    }
    let known = process.parse::<u32>().is_ok();
    Some(if known { format!("process {process}") } else { "another program".into() })
}

fn is_same(one: &std::fs::Metadata, other: &std::fs::Metadata) -> bool {
    if one.file_type().is_block_device() {
        return other.file_type().is_block_device() && one.rdev() == other.rdev();
    }
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

fn is_claimed(path: &Path) -> io::Result<bool> {
    let exclusive = rustix::fs::OFlags::EXCL.bits().cast_signed();
    match File::options().read(true).custom_flags(exclusive).open(path) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(true),
        opened => opened.map(|_| false),
    }
}

fn loops(sys: &Path) -> Vec<(String, PathBuf)> {
    let devices = std::fs::read_dir(sys.join("block")).into_iter().flatten().flatten();
    let backing = devices.filter_map(|device| {
        let text = std::fs::read_to_string(device.path().join("loop/backing_file")).ok()?;
        Some((device.file_name().to_string_lossy().into_owned(), PathBuf::from(text.trim_end_matches('\n'))))
    });
    backing.collect()
}

fn swaps(proc: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(proc.join("swaps")).unwrap_or_default();
    text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn host() -> (tempfile::TempDir, PathBuf) {
        let host = tempfile::tempdir().expect("a directory");
        let image = host.path().join("image");
        fs::write(&image, [1; 4096]).expect("an image");
        fs::create_dir_all(host.path().join("block/loop3/loop")).expect("a folder");
        (host, image)
    }

    #[test]
    fn an_image_below_a_loop_device_is_in_use_by_whatever_name() {
        let (host, image) = host();
        let alias = host.path().join("alias");
        fs::hard_link(&image, &alias).expect("a link");
        assert_eq!(by_kernel(host.path(), host.path(), &image).expect("an answer"), None);
        let backing = host.path().join("block/loop3/loop/backing_file");
        fs::write(backing, format!("{}\n", alias.display())).expect("an attribute");
        let by = by_kernel(host.path(), host.path(), &image).expect("an answer");
        assert_eq!(by.as_deref(), Some("the loop device loop3"));
    }

    #[test]
    fn a_swap_file_is_in_use() {
        let (host, image) = host();
        fs::write(host.path().join("swaps"), format!("Filename Type\n{} file 1 0 -2\n", image.display()))
            .expect("a file");
        let by = by_kernel(host.path(), host.path(), &image).expect("an answer");
        assert_eq!(by.as_deref(), Some("swap"));
    }

    #[test]
    fn locks_of_every_kind_are_seen_and_those_of_other_files_are_not() {
        let file = "fe:00:42";
        for (line, by) in [
            ("1: FLOCK  ADVISORY  WRITE 708 fe:00:42 0 EOF", Some("process 708")),
            ("2: OFDLCK ADVISORY  READ -1 fe:00:42 100 101", Some("another program")),
            ("3: POSIX  ADVISORY  WRITE 9 fe:00:42 0 EOF", Some("process 9")),
            ("3: FLOCK  ADVISORY  WRITE 9 fe:00:421 0 EOF", None),
            ("4: LEASE  ACTIVE    READ 9 fe:00:42 0 EOF", None),
            ("5: -> FLOCK ADVISORY WRITE 9 fe:00:42 0 EOF", None),
            ("", None),
        ] {
            assert_eq!(holder(line, file).as_deref(), by, "{line}");
        }
    }

    #[test]
    fn who_may_write_is_told_from_who_only_reads() {
        for (line, writes) in [
            ("1: FLOCK  ADVISORY  WRITE 708 fe:00:42 0 EOF", true),
            ("1: FLOCK  ADVISORY  READ 708 fe:00:42 0 EOF", false),
            ("2: OFDLCK ADVISORY  READ -1 fe:00:42 100 101", true),
            ("2: OFDLCK ADVISORY  READ -1 fe:00:42 103 103", true),
            ("2: OFDLCK ADVISORY  READ -1 fe:00:42 100 100", false),
            ("2: OFDLCK ADVISORY  READ -1 fe:00:42 201 203", false),
            ("3: POSIX  ADVISORY  WRITE 9 fe:00:42 0 EOF", true),
            ("", false),
        ] {
            assert_eq!(is_of_writer(line), writes, "{line}");
        }
    }

    #[test]
    fn a_real_lock_is_found_with_its_process() {
        let (_host, image) = host();
        let file = File::open(&image).expect("an image");
        assert_eq!(by_process(Path::new("/proc"), &file).expect("an answer"), None);
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("a lock");
        let by = by_process(Path::new("/proc"), &file).expect("an answer");
        assert_eq!(by, Some(format!("process {}", std::process::id())));
    }
}
