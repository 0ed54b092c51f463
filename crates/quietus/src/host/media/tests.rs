use super::*;
use std::os::unix::fs::MetadataExt;

fn medium(bytes: u64) -> (tempfile::NamedTempFile, FileMedium) {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.as_file().set_len(bytes).expect("room");
    let medium = FileMedium::open(file.path(), false).expect("it opens");
    (file, medium)
}

fn read(medium: &FileMedium, at: u64, len: usize) -> Vec<u8> {
    let mut buf = vec![0xee; len];
    medium.read(Pos(at), &mut buf).expect("a read");
    buf
}

#[test]
fn what_is_written_is_read_durable_or_not() {
    let (_file, medium) = medium(1 << 20);
    for (at, durable) in [(0, false), (300_000, true)] {
        medium.write(Pos(at), &[7; 200_000], durable).expect("a write");
        assert_eq!(read(&medium, at, 200_000), [7; 200_000]);
    }
    medium.sync().expect("a sync");
}

#[test]
fn punched_and_zeroed_bytes_read_as_zeros_and_their_neighbours_do_not() {
    let (_file, medium) = medium(1 << 20);
    medium.write(Pos(0), &[7; 1 << 20], false).expect("a write");
    medium.zero(Extent::new(5000, 3000)).expect("zeros");
    if medium.capabilities().punch {
        medium.punch(Extent::new(65536, 65536)).expect("a punch");
        assert_eq!(read(&medium, 65535, 65538), [&[7][..], &[0; 65536], &[7]].concat());
        assert_eq!(medium.holes().collect::<Vec<_>>(), [Extent::new(65536, 65536)]);
    }
    assert_eq!(read(&medium, 4999, 3002), [&[7][..], &[0; 3000], &[7]].concat());
}

#[test]
fn space_is_known_also_where_nothing_was_written_yet() {
    let (_file, medium) = medium(16 << 20);
    let whole = Extent::new(0, 16 << 20);
    let is_known = medium.allocated(whole).is_empty();
    medium.reserve(Extent::new(4 << 20, 1 << 20)).expect("space");
    medium.write(Pos(8 << 20), &[7; 1 << 20], false).expect("a write");
    let found = medium.allocated(whole);
    let has = |at: u64| found.iter().any(|it| it.start.0 <= at && at < it.end());
    assert!(has(8 << 20) && has((9 << 20) - 1), "{found:?}");
    if is_known {
        assert!(!has(0) && !has(12 << 20), "{found:?}");
        assert!(has(4 << 20) || allocated::is_in_memory(&medium.file), "{found:?}");
    }
    assert!(
        medium.allocated(Extent::new(8 << 20, 4096)).iter().all(|it| it.start.0 == 8 << 20 && it.len == 4096)
    );
}

#[test]
fn a_read_beyond_the_end_is_an_error_and_not_zeros() {
    let (_file, medium) = medium(4096);
    let error = medium.read(Pos(4000), &mut [0; 200]).expect_err("beyond the end");
    assert_eq!(error.kind, MediumErrorKind::Io);
    assert!(error.message.contains("reading 200 bytes at 4000"), "{error}");
}

#[test]
fn a_sparse_file_is_one_hole() {
    let (_file, medium) = medium(1 << 30);
    assert_eq!(medium.holes().map(|hole| hole.len).sum::<u64>(), 1 << 30);
}

#[test]
fn a_directory_is_no_medium() {
    let dir = tempfile::tempdir().expect("a directory");
    assert!(FileMedium::open(dir.path(), true).is_err());
}

#[test]
fn nothing_is_done_beyond_the_end() {
    let (file, medium) = medium(4096);
    let beyond = Extent::new(4000, 200);
    let refused = [
        medium.write(Pos(4000), &[7; 200], false),
        medium.write(Pos(4000), &[7; 200], true),
        medium.write(Pos(u64::MAX), &[7; 200], true),
        medium.zero(beyond),
        medium.punch(beyond),
    ];
    for result in refused {
        let error = result.expect_err("beyond the end");
        assert_eq!(error.kind, MediumErrorKind::Io);
        assert!(error.message.contains("the medium has 4096 bytes"), "{error}");
    }
    assert_eq!(read(&medium, 0, 4096), [0; 4096]);
    assert_eq!(file.as_file().metadata().expect("a file").len(), 4096);
}

#[test]
fn a_file_that_is_cut_short_while_it_is_open_is_an_error() {
    let (file, medium) = medium(8192);
    file.as_file().set_len(4096).expect("it is cut");
    let error = medium.read(Pos(4000), &mut [0; 200]).expect_err("cut short");
    assert_eq!(error.kind, MediumErrorKind::Io);
    assert_ne!(medium.read_cached(Pos(4000), &mut [IoSliceMut::new(&mut [0; 200])]), Some(Ok(())));
}

#[test]
fn several_buffers_get_what_follows_each_other_and_a_file_that_is_cut_short_is_an_error() {
    let (file, medium) = medium(8192);
    let bytes: Vec<u8> = (0..8192).map(|n| (n / 100) as u8).collect();
    medium.write(Pos(0), &bytes, false).expect("a write");
    let (mut one, mut other) = ([0; 3000], [0; 2000]);
    let mut both = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut other)];
    medium.read_vectored(Pos(1000), &mut both).expect("a read");
    assert_eq!([&one[..], &other[..]].concat(), bytes[1000..6000]);
    file.as_file().set_len(4096).expect("it is cut");
    let mut both = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut other)];
    let error = medium.read_vectored(Pos(1000), &mut both).expect_err("cut short");
    assert_eq!(error.kind, MediumErrorKind::Io);
}

#[test]
fn acts_on_nothing_do_nothing() {
    let (_file, medium) = medium(4096);
    medium.write(Pos(0), &[7; 4096], true).expect("a write");
    let nothing = Extent::new(4096, 0);
    medium.zero(nothing).expect("nothing");
    medium.punch(nothing).expect("nothing");
    medium.prefetch(nothing);
    assert_eq!(read(&medium, 0, 4096), [7; 4096]);
}

#[test]
fn data_and_holes_are_each_others_complement() {
    let (_file, medium) = medium(1 << 20);
    for at in [131_072, 524_288] {
        medium.write(Pos(at), &[7; 65536], true).expect("a write");
    }
    let data: Vec<_> = medium.data_within(Extent::new(0, 1 << 20)).collect();
    let holes: Vec<_> = medium.holes().collect();
    assert_eq!(data.iter().chain(&holes).map(|part| part.len).sum::<u64>(), 1 << 20);
    assert!(data.iter().all(|data| holes.iter().all(|hole| !hole.overlaps(*data))));
    let within: Vec<_> = medium.data_within(Extent::new(140_000, 1000)).collect();
    assert_eq!(within, [Extent::new(140_000, 1000)]);
}

#[test]
fn what_is_in_the_cache_is_read_at_once() {
    let (_file, medium) = medium(1 << 20);
    medium.write(Pos(0), &[7; 4096], false).expect("a write");
    let mut buf = [0; 4096];
    match medium.read_cached(Pos(0), &mut [IoSliceMut::new(&mut buf)]) {
        Some(read) => {
            read.expect("a read");
            assert_eq!(buf, [7; 4096]);
        }
        None => println!("skipped: this host cannot tell what is in its cache"),
    }
}

#[test]
fn a_full_host_is_told_from_a_broken_one_and_a_failed_sync_is_never_only_a_lack_of_space() {
    let (_file, medium) = medium(4096);
    for (errno, kind) in [
        (Errno::NOSPC, MediumErrorKind::NoSpace),
        (Errno::DQUOT, MediumErrorKind::NoSpace),
        (Errno::IO, MediumErrorKind::Io),
    ] {
        assert_eq!(medium.failed("writing", 0, 0, &errno.into()).kind, kind, "{errno}");
        assert_eq!(medium.failed("syncing", 0, 0, &lost(&errno.into())).kind, MediumErrorKind::Io, "{errno}");
    }
}

/// A file system of 1 MiB.
struct Small(tempfile::TempDir);

impl Small {
    /// One with a sparse medium of 8 MiB; `None`, with a message, where nothing can be mounted.
    fn with_medium() -> Option<(Self, FileMedium)> {
        let dir = tempfile::tempdir().expect("a directory");
        let mut mount = std::process::Command::new("mount");
        let mount = mount.args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(dir.path()).output();
        if !mount.as_ref().is_ok_and(|it| it.status.success()) {
            println!("skipped: {mount:?}");
            return None;
        }
        let path = dir.path().join("data");
        let small = Self(dir);
        File::create(&path).and_then(|file| file.set_len(8 << 20)).expect("a file");
        Some((small, FileMedium::open(&path, false).expect("it opens")))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let unmounted = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "it was mounted");
    }
}

#[test]
fn a_full_host_refuses_a_write_and_keeps_what_was_there() {
    let Some((_small, medium)) = Small::with_medium() else { return };
    medium.write(Pos(0), &[7; 4096], true).expect("room");
    for durable in [false, true] {
        let error = medium.write(Pos(1 << 20), &vec![8; 2 << 20], durable).expect_err("no room");
        assert_eq!(error.kind, MediumErrorKind::NoSpace, "{error}");
    }
    assert_eq!(read(&medium, 0, 4096), [7; 4096]);
}

#[test]
fn what_has_taken_its_space_is_written_on_a_full_host() {
    let Some((small, medium)) = Small::with_medium() else { return };
    medium.write(Pos(4096), &[7; 4096], false).expect("room");
    medium.reserve(Extent::new(0, 12_288)).expect("room");
    assert_eq!(read(&medium, 0, 12_288), [[0; 4096], [7; 4096], [0; 4096]].concat(), "it reads as before");
    let ballast = small.0.path().join("ballast");
    let full = std::fs::write(&ballast, vec![1; 2 << 20]).expect_err("no room");
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    let error = medium.reserve(Extent::new(12_288, 4096)).expect_err("no room");
    assert_eq!(error.kind, MediumErrorKind::NoSpace, "{error}");
    medium.write(Pos(0), &[8; 12_288], true).expect("it has its space");
    assert_eq!(medium.size(), 8 << 20);
}

#[test]
fn a_medium_that_grows_takes_space_beyond_its_end_in_advance() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("map");
    File::create(&path).expect("a file");
    let medium = FileMedium::open_growing(&path, false).expect("it opens");
    medium.reserve(Extent::new(4096, 8192)).expect("room");
    assert_eq!(medium.size(), 0);
    assert!(std::fs::metadata(&path).expect("it is there").blocks() >= 16, "no space was taken");
    medium.write(Pos(4096), &[7; 4096], true).expect("it grows");
    assert_eq!(medium.size(), 8192);
}

/// A loop device.
struct Loop(tempfile::NamedTempFile, PathBuf);

impl Loop {
    /// `None`, with a message, where no loop device can be made.
    fn new(bytes: u64) -> Option<Self> {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.as_file().set_len(bytes).expect("room");
        match std::process::Command::new("losetup").args(["-f", "--show"]).arg(file.path()).output() {
            Ok(made) if made.status.success() => {
                Some(Self(file, String::from_utf8_lossy(&made.stdout).trim().into()))
            }
            failed => {
                println!("skipped: {failed:?}");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let freed = std::process::Command::new("losetup").arg("-d").arg(&self.1).status();
        assert!(freed.is_ok_and(|status| status.success()), "it was made");
    }
}

#[test]
fn a_block_device_is_claimed_and_written_through_and_never_punched() {
    let Some(device) = Loop::new(1 << 20) else { return };
    let medium = FileMedium::open(&device.1, false).expect("it opens");
    assert_eq!((medium.size(), medium.is_device(), medium.capabilities().punch), (1 << 20, true, false));
    assert!(FileMedium::open(&device.1, false).is_err(), "it was claimed twice");
    medium.write(Pos(5000), &[7; 10_000], true).expect("a write");
    let mut below = [0; 10_000];
    device.0.as_file().read_exact_at(&mut below, 5000).expect("a read");
    assert_eq!(below, [7; 10_000]);
    medium.zero(Extent::new(5001, 9998)).expect("zeros");
    assert_eq!(read(&medium, 5000, 10_000), [&[7][..], &[0; 9998], &[7]].concat());
    medium.zero(Extent::new(4096, 8192)).expect("zeros");
    assert_eq!(medium.holes().count(), 0);
    let whole = Extent::new(0, 1 << 20);
    assert_eq!(medium.data_within(whole).collect::<Vec<_>>(), [whole]);
}

#[test]
fn what_was_lost_once_fails_every_later_sync() {
    let (_file, medium) = medium(4096);
    let error = MediumError { kind: MediumErrorKind::Io, message: "lost".into() };
    assert_eq!(medium.alone(|| Err(error.clone())), Err(error.clone()));
    assert_eq!(medium.sync(), Err(error.clone()));
    assert_eq!(medium.write(Pos(0), &[1], true), Err(error));
    medium.write(Pos(0), &[1], false).expect("only what is to be durable fails");
}

fn growing() -> (tempfile::NamedTempFile, FileMedium) {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let medium = FileMedium::open_growing(file.path(), false).expect("it opens");
    (file, medium)
}

#[test]
fn a_medium_that_grows_has_what_was_written_and_no_more() {
    let (file, medium) = growing();
    assert_eq!(medium.size(), 0);
    medium.read(Pos(0), &mut [0]).expect_err("there is nothing");
    medium.write(Pos(8192), &[7; 4096], false).expect("a write beyond the end");
    medium.write(Pos(4096), &[8; 4096], true).expect("a write within");
    medium.overwrite(Pos(12_288), &[9; 4096]).expect("a pass beyond the end");
    assert_eq!((medium.size(), file.as_file().metadata().expect("a file").len()), (16_384, 16_384));
    assert_eq!(read(&medium, 0, 16_384), [[0; 4096], [8; 4096], [7; 4096], [9; 4096]].concat());
    medium.read(Pos(16_000), &mut [0; 400]).expect_err("beyond the end");
    medium.write(Pos(u64::MAX - 1), &[1; 8], false).expect_err("no file is so long");
    if medium.capabilities().punch {
        medium.punch(Extent::new(12_288, 1 << 20)).expect("there is nothing more");
        medium.punch(Extent::new(1 << 20, 1 << 20)).expect("there is nothing");
        assert_eq!(read(&medium, 12_288, 4096), [0; 4096]);
    }
    assert_eq!(medium.size(), 16_384);
}

#[test]
fn what_was_cut_off_is_gone_and_reads_as_zeros_when_the_medium_grows_again() {
    let (file, medium) = growing();
    medium.write(Pos(0), &[7; 1 << 20], false).expect("a write");
    medium.shrink(8192).expect("a cut");
    medium.sync().expect("a sync");
    assert_eq!((medium.size(), file.as_file().metadata().expect("a file").len()), (8192, 8192));
    medium.read(Pos(8000), &mut [0; 400]).expect_err("beyond the end");
    let whole = Extent::new(0, 1 << 20);
    assert_eq!(medium.data_within(whole).collect::<Vec<_>>(), [Extent::new(0, 8192)]);
    medium.shrink(16_384).expect("it is shorter");
    assert_eq!(medium.size(), 8192);
    medium.write(Pos(65_536), &[1], false).expect("a write");
    assert_eq!(read(&medium, 8191, 57_346), [&[7][..], &[0; 57_344], &[1]].concat());
}

#[test]
fn a_medium_of_fixed_size_is_not_cut() {
    let (_file, medium) = medium(8192);
    let error = medium.shrink(4096).expect_err("it is refused");
    assert!(error.message.contains("the size is fixed"), "{error}");
    assert_eq!(medium.size(), 8192);
}
