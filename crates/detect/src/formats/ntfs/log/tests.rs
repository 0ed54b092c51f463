use crate::formats::ntfs::log::*;
use crate::formats::ntfs::tests::{put, restart_page};

const IN_USE: u16 = 0;

fn at_rest(pages: [Vec<u8>; 2]) -> bool {
    is_at_rest(&pages.concat())
}

#[test]
fn an_empty_log_undoes_nothing() {
    assert!(is_at_rest(&[0xFF; 8192]));
    assert!(!is_at_rest(&[0; 8192]));
    assert!(!is_at_rest(&[0xFF; 4096]));
}

#[test]
fn the_newest_page_counts() {
    let (clean, busy) = (|lsn| restart_page(lsn, NO_CLIENT, 0), |lsn| restart_page(lsn, IN_USE, 0));
    assert!(at_rest([clean(2), busy(1)]) && at_rest([busy(1), clean(2)]));
    assert!(!at_rest([clean(1), busy(2)]) && !at_rest([busy(2), clean(1)]));
    assert!(at_rest([restart_page(1, IN_USE, VOLUME_IS_CLEAN), vec![0; 4096]]));
}

#[test]
fn what_is_not_understood_may_undo_anything() {
    let mut torn = restart_page(3, NO_CLIENT, 0);
    torn[511] ^= 1;
    assert!(!at_rest([torn, restart_page(2, IN_USE, 0)]));
    let mut newer = restart_page(3, NO_CLIENT, 0);
    put(&mut newer, 0x1C, &[2]);
    assert!(!at_rest([newer.clone(), newer]));
    let mut of_chkdsk = restart_page(3, NO_CLIENT, 0);
    put(&mut of_chkdsk, 0, b"CHKD");
    assert!(!at_rest([of_chkdsk.clone(), of_chkdsk]));
    let mut far = restart_page(3, NO_CLIENT, 0);
    put(&mut far, 0x18, &[0xF8, 0x0F]);
    assert!(!at_rest([far, vec![0; 4096]]));
    let mut small = restart_page(3, NO_CLIENT, 0);
    put(&mut small, 0x10, &[0, 8]);
    assert!(!at_rest([small, vec![0; 4096]]));
}
