use super::*;

#[test]
fn a_kept_buffer_is_used_again() {
    let mut kept = Kept::new();
    kept.give(Vec::with_capacity(123_456));
    assert!(kept.take(200_000).is_none());
    assert_eq!(kept.take(123_000).map(|buf| buf.capacity()), Some(123_456));
    assert!(kept.take(123_000).is_none());
}

#[test]
fn a_small_request_does_not_get_a_large_buffer() {
    let mut kept = Kept::new();
    kept.give(Vec::with_capacity(KEPT_BYTES_MAX));
    assert!(kept.take(4096).is_none());
}

#[test]
fn older_buffers_make_room() {
    let mut kept = Kept::new();
    for n in 1..=100 {
        kept.give(Vec::with_capacity(n << 20));
        assert!(kept.bytes <= KEPT_BYTES_MAX);
    }
    assert_eq!(kept.bufs.iter().map(Vec::capacity).collect::<Vec<_>>(), [KEPT_BYTES_MAX]);
    (0..1000).for_each(|_| kept.give(Vec::with_capacity(512)));
    assert_eq!(kept.bufs.len(), KEPT_MAX);
}

#[test]
fn the_process_keeps_no_more_than_its_limit() {
    static ALL: AtomicUsize = AtomicUsize::new(0);
    let mut all: Vec<Kept> = (0..40).map(|_| Kept::counted_in(&ALL)).collect();
    for kept in &mut all {
        kept.give(Vec::with_capacity(KEPT_BYTES_MAX));
    }
    let kept: usize = all.iter().map(|kept| kept.bytes).sum();
    assert_eq!(kept, KEPT_BYTES_ALL_MAX);
    drop(all);
    assert_eq!(ALL.load(Ordering::Relaxed), 0, "what is dropped counts no more");
}
