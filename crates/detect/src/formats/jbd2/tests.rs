use crate::formats::jbd2::{MAGIC, Tid};

pub(crate) fn put(block: &mut [u8], at: usize, value: u32) {
    block[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// A block of 1 KiB that is one of the log's own.
pub(crate) fn header(kind: u32, tid: u32) -> Vec<u8> {
    let mut block = vec![0; 1024];
    for (at, value) in [(0, MAGIC), (4, kind), (8, tid)] {
        put(&mut block, at, value);
    }
    block
}

#[test]
fn numbers_of_transactions_go_round() {
    assert!(Tid(5).is_before(Tid(6)));
    assert!(!Tid(6).is_before(Tid(6)) && !Tid(7).is_before(Tid(6)));
    assert_eq!(Tid(u32::MAX).next(), Tid(0));
    assert!(Tid(u32::MAX - 3).is_before(Tid(2)) && !Tid(2).is_before(Tid(u32::MAX - 3)));
}
