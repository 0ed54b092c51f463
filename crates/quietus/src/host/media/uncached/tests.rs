use super::*;

const SIZE: usize = (3 << 20) + 1000;

/// A file with content, all of it on the medium and in the host's cache.
fn file() -> (File, Vec<u8>) {
    let bytes: Vec<u8> = (0..SIZE).map(|n| (n % 251) as u8 + 1).collect();
    let file = tempfile::tempfile().expect("a temporary file");
    file.write_all_at(&bytes, 0).expect("room");
    file.sync_all().expect("a sync");
    file.read_exact_at(&mut vec![0; SIZE], 0).expect("it is there");
    (file, bytes)
}

/// Bytes that this thread has fetched from devices so far.
fn fetched() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.parse().ok()
}

/// Both ways to read `file`, as far as this host has them.
fn ways(file: &File) -> Vec<Uncached> {
    let open = || Uncached::open(file).expect("it is open");
    vec![open(), Uncached { direct: None, ..open() }]
}

#[test]
fn what_is_in_the_cache_is_fetched_from_the_medium() {
    let (file, bytes) = file();
    for uncached in ways(&file) {
        let mut found = vec![0; SIZE];
        // So that it is there for each of them.
        file.read_exact_at(&mut found, 0).expect("it is there");
        let Some(before) = fetched() else { return println!("skipped: the host counts nothing") };
        file.read_exact_at(&mut found, 0).expect("it is there");
        assert_eq!(fetched(), Some(before), "a plain read is from the cache");
        found.fill(0);
        let way = uncached.read(Pos(0), &mut found).expect("a read");
        assert!(found == bytes);
        if way == Way::FromCache {
            println!("skipped: this file stays in memory");
            continue;
        }
        let more = fetched().expect("a count") - before;
        assert!(more >= SIZE as u64, "{way:?}: {more} bytes of {SIZE}");
    }
}

#[test]
fn bytes_that_were_just_written_are_read_wherever_they_begin_and_end() {
    let (file, mut bytes) = file();
    for uncached in ways(&file) {
        for (at, len) in
            [(0, 1), (100, 5000), (4095, 2), (4096, 4096), (SIZE - 1, 1), (SIZE - 70_000, 70_000)]
        {
            bytes[at] ^= 255;
            file.write_all_at(&bytes[at..=at], at as u64).expect("a write");
            let mut found = vec![0; len];
            uncached.read(Pos(at as u64), &mut found).expect("a read");
            assert!(found == bytes[at..at + len], "{len} bytes at {at}");
        }
        for (at, len) in [(SIZE - 1, 2), (SIZE + 4096, 1)] {
            let beyond = uncached.read(Pos(at as u64), &mut vec![0; len]).expect_err("there is no such byte");
            assert_eq!(beyond.kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}

#[test]
fn pages_that_stay_in_the_cache_are_told_of() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return println!("skipped: no /dev/shm") };
    let path = dir.path().join("file");
    std::fs::write(&path, [7; 8192]).expect("room");
    let file = File::open(path).expect("it is there");
    if !crate::host::media::allocated::is_in_memory(&file) {
        return println!("skipped: /dev/shm is not in memory");
    }
    let mut found = vec![0; 8192];
    let way = Uncached::open(&file).and_then(|it| it.read(Pos(0), &mut found)).expect("a read");
    assert_eq!((way, found), (Way::FromCache, vec![7; 8192]));
}
