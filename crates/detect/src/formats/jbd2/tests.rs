use crate::formats::jbd2::Tid;

#[test]
fn numbers_of_transactions_go_round() {
    assert!(Tid(5).is_before(Tid(6)));
    assert!(!Tid(6).is_before(Tid(6)) && !Tid(7).is_before(Tid(6)));
    assert_eq!(Tid(u32::MAX).next(), Tid(0));
    assert!(Tid(u32::MAX - 3).is_before(Tid(2)) && !Tid(2).is_before(Tid(u32::MAX - 3)));
}
