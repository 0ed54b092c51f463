use super::*;
use std::os::unix::fs::FileExt;

/// Memory as a pass is made in: its first whole page on.
fn aligned(memory: &mut Vec<u8>, byte: u8, len: usize) -> &[u8] {
    memory.resize(len + PAGE_BYTES, byte);
    memory.fill(byte);
    let from = memory.as_ptr().align_offset(PAGE_BYTES);
    &memory[from..from + len]
}

fn file(windows: u64) -> File {
    let file = tempfile::tempfile().expect("a temporary file");
    file.set_len(windows * WINDOW_BYTES as u64).expect("room");
    file
}

#[test]
fn whole_windows_are_written_beside_what_is_in_the_cache() {
    let file = file(3);
    let Some(direct) = Direct::open(&file, false) else { return println!("skipped: not on this host") };
    let window = WINDOW_BYTES as u64;
    file.write_all_at(&vec![1; 3 * WINDOW_BYTES], 0).expect("room");
    let mut memory = Vec::new();
    let pass = aligned(&mut memory, 2, WINDOW_BYTES);
    assert_eq!(direct.write(Pos(window), pass).expect("a pass"), WINDOW_BYTES);
    file.write_all_at(&[3], window - 1).expect("a neighbour");
    file.sync_data().expect("a sync");
    let mut found = vec![0; 3 * WINDOW_BYTES];
    file.read_exact_at(&mut found, 0).expect("it is there");
    let (before, rest) = found.split_at(WINDOW_BYTES);
    assert_eq!((before[0], before[WINDOW_BYTES - 1]), (1, 3));
    assert!(rest[..WINDOW_BYTES].iter().all(|byte| *byte == 2));
    assert!(rest[WINDOW_BYTES..].iter().all(|byte| *byte == 1));
}

#[test]
fn what_is_no_whole_window_is_left_to_the_cache() {
    let mut memory = Vec::new();
    let pass = aligned(&mut memory, 2, 2 * WINDOW_BYTES);
    let window = WINDOW_BYTES as u64;
    assert!(is_whole(Pos(0), pass) && is_whole(Pos(window), &pass[..WINDOW_BYTES]));
    for (at, part) in [
        (0, &pass[..0]),
        (0, &pass[..4096]),
        (0, &pass[..WINDOW_BYTES + 4096]),
        (0, &pass[1..=WINDOW_BYTES]),
        (4096, &pass[..WINDOW_BYTES]),
    ] {
        assert!(!is_whole(Pos(at), part), "{at}, {} bytes", part.len());
    }
}

#[test]
fn only_a_host_that_refuses_is_asked_no_more() {
    let file = file(1);
    let Some(direct) = Direct::open(&file, false) else { return println!("skipped: not on this host") };
    let mut memory = Vec::new();
    let pass = aligned(&mut memory, 2, WINDOW_BYTES);
    let read_only = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("it can be read");
    let broken = Direct { file: read_only, ..direct };
    assert_eq!(
        broken.write(Pos(0), pass).expect_err("it is read only").raw_os_error(),
        Some(Errno::BADF.raw_os_error())
    );
    assert!(!broken.is_refused.load(Ordering::Relaxed));
    for errno in [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOSYS] {
        assert!(is_refusal(&errno.into()));
    }
    for errno in [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::BADF] {
        assert!(!is_refusal(&errno.into()));
    }
}
