use super::*;
use std::fs::File;
use std::os::unix::fs::FileExt;

fn image(bytes: u64, written: &[(u64, &[u8])]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("base");
    make(&path, bytes, written);
    (dir, path)
}

fn make(path: &Path, bytes: u64, written: &[(u64, &[u8])]) {
    let file = File::create(path).expect("a file");
    file.set_len(bytes).expect("room");
    written.iter().for_each(|(at, bytes)| file.write_all_at(bytes, *at).expect("a write"));
}

fn open(path: &Path) -> Arc<Base> {
    Base::open(path).expect("it opens")
}

fn hash(path: &Path) -> String {
    open(path).hash(&mut |_, _| true).expect("it can be read")
}

#[test]
fn beyond_its_end_a_base_reads_as_zeros() {
    let (_dir, path) = image(5000, &[(4990, &[7; 10])]);
    let base = open(&path);
    let mut buf = [1; 20];
    base.read(Pos(4995), &mut buf).expect("a read");
    assert_eq!(buf, *[[7; 5].as_slice(), &[0; 15]].concat());
    buf = [1; 20];
    base.read(Pos(1 << 40), &mut buf).expect("a read");
    assert_eq!(buf, [0; 20]);
    buf = [1; 20];
    if let Some(read) = base.read_cached(Pos(4995), &mut [IoSliceMut::new(&mut buf)]) {
        read.expect("a read");
        assert_eq!(buf, *[[7; 5].as_slice(), &[0; 15]].concat());
    }
    assert!(base.data().first_run(Extent::new(4096, 4096)).is_some());
}

#[test]
fn a_base_that_is_cut_short_while_it_is_open_is_an_error() {
    let (_dir, path) = image(8192, &[(0, &[7; 8192])]);
    let base = open(&path);
    File::options().write(true).open(&path).and_then(|file| file.set_len(4096)).expect("it is cut");
    base.read(Pos(4096), &mut [0; 10]).expect_err("it was there");
}

#[test]
fn nothing_is_written_to_a_base() {
    let (_dir, path) = image(8192, &[]);
    let base = open(&path);
    base.write(Pos(0), &[1], true).expect_err("it never changes");
    base.zero(Extent::new(0, 1)).expect_err("it never changes");
    base.punch(Extent::new(0, 1)).expect_err("it never changes");
}

#[test]
fn the_hash_is_of_the_content_and_not_of_its_holes() {
    let size = 3 << 20;
    let data: &[(u64, &[u8])] = &[(70_000, &[7; 100]), (2 << 20, &[8; 70_000])];
    let (dir, path) = image(size, data);
    let full = dir.path().join("full");
    std::fs::write(&full, std::fs::read(&path).expect("it can be read")).expect("a copy without holes");
    assert_eq!(hash(&path), hash(&full));
    let other = dir.path().join("other");
    for change in [(0, &[1][..]), (70_000, &[8]), (70_099, &[0]), (size - 1, &[1])] {
        make(&other, size, &[data, &[change]].concat());
        assert_ne!(hash(&other), hash(&path), "{change:?}");
        std::fs::remove_file(&other).expect("it is there");
    }
    make(&other, size + 1, data);
    assert_ne!(hash(&other), hash(&path), "another length");
    let moved = dir.path().join("moved");
    make(&moved, size, &[(70_000 + 65_536, &[7; 100]), (2 << 20, &[8; 70_000])]);
    assert_ne!(hash(&moved), hash(&path), "at another place");
}

#[test]
fn overlays_of_one_process_share_their_base() {
    let (dir, path) = image(1 << 20, &[(0, &[7; 100])]);
    let alias = dir.path().join("alias");
    std::fs::hard_link(&path, &alias).expect("a link");
    let (one, other) = (open(&path), open(&alias));
    assert!(Arc::ptr_eq(&one, &other));
    drop((one, other));
    assert!(Base::open(dir.path()).is_err(), "a directory is no base");
    let missing = Base::open(&dir.path().join("missing")).expect_err("there is none");
    assert_eq!(missing.kind, DiskErrorKind::BaseMissing);
}

#[test]
fn who_may_write_to_a_base_keeps_it_from_being_one() {
    let (_dir, path) = image(1 << 20, &[]);
    let writer = File::open(&path).expect("it opens");
    rustix::fs::flock(&writer, FlockOperation::LockExclusive).expect("a lock");
    let error = Base::open(&path).expect_err("it is in use");
    assert_eq!(error.kind, DirectoryErrorKind::Locked(format!("process {}", std::process::id())).into());
    rustix::fs::flock(&writer, FlockOperation::Unlock).expect("it was locked");
    let _reader = open(&path);
    rustix::fs::flock(&writer, FlockOperation::NonBlockingLockShared).expect("readers may share it");
    rustix::fs::flock(&writer, FlockOperation::NonBlockingLockExclusive).expect_err("it is a base");
}
