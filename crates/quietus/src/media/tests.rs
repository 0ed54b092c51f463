use super::*;

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
fn a_full_host_is_told_from_a_broken_one() {
    let full = Path::new("/dev/full");
    let file = OpenOptions::new().write(true).open(full).expect("/dev/full");
    let error = io::Write::write_all(&mut &file, b"x").expect_err("it is full");
    let (_file, medium) = medium(4096);
    assert_eq!(medium.failed("writing", 0, 1, &error).kind, MediumErrorKind::NoSpace);
}
