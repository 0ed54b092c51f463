//! Which units have content.

use super::*;

#[test]
fn what_is_written_is_present_before_and_after_it_is_durable() {
    let mut flash = new(geometry(2048, 16));
    let all = Extent::new(0, 40 * UNIT);
    assert_eq!((flash.present(all), flash.end_of_data(all)), (vec![], Pos(0)));
    flash.write(Pos(UNIT), &[1; 3 * UNIT_BYTES]).unwrap();
    flash.write(Pos(9 * UNIT + 5), &[1; 5]).unwrap();
    flash.trim(Extent::new(2 * UNIT, UNIT)).unwrap();
    let expected = [Extent::new(UNIT, UNIT), Extent::new(3 * UNIT, UNIT), Extent::new(9 * UNIT, UNIT)];
    assert_eq!((&flash.present(all)[..], flash.end_of_data(all)), (&expected[..], Pos(10 * UNIT)));
    flash.sync().unwrap();
    let flash = Flash::open(flash.into_nand()).unwrap();
    assert_eq!((&flash.present(all)[..], flash.end_of_data(all)), (&expected[..], Pos(10 * UNIT)));
}

#[test]
fn neighbours_are_joined_and_cut_at_the_ends_of_the_extent() {
    let mut flash = new(geometry(4096, 8));
    flash.write(Pos(2 * UNIT), &[1; 6 * UNIT_BYTES]).unwrap();
    let within = Extent::between(3 * UNIT + 7, 5 * UNIT + 9);
    assert_eq!((flash.present(within), flash.end_of_data(within)), (vec![within], Pos(5 * UNIT + 9)));
    let behind = Extent::between(8 * UNIT, 20 * UNIT);
    assert_eq!((flash.present(behind), flash.end_of_data(behind)), (vec![], Pos(8 * UNIT)));
    assert_eq!(flash.end_of_data(Extent::new(40 * UNIT, 0)), Pos(40 * UNIT));
}
