use crate::ciphers::random::*;

fn bytes<const N: usize>(generator: &mut Generator) -> [u8; N] {
    let mut out = [0; N];
    generator.fill(&mut out);
    out
}

#[test]
fn sizes_of_requests_do_not_change_the_bytes() {
    let whole = bytes::<3024>(&mut Generator::new(&[1; 32]));
    let mut generator = Generator::new(&[1; 32]);
    let mut parts = Vec::new();
    for size in [1, 31, 0, 992, 993, 7, 1000] {
        let mut part = vec![0; size];
        generator.fill(&mut part);
        parts.extend(part);
    }
    assert_eq!(parts, whole);
}

#[test]
fn memory_holds_nothing_that_was_given_out() {
    let mut generator = Generator::new(&[2; 32]);
    for given in [bytes::<32>(&mut generator), bytes::<32>(&mut generator)] {
        assert!(!generator.pool.windows(8).any(|window| given.windows(8).any(|gone| gone == window)));
    }
    assert_eq!(generator.pool[..64], [0; 64]);
    assert_ne!(generator.key, [2; 32], "the seed is gone");
}

#[test]
fn reseeding_wipes_what_was_not_given_out() {
    let mut generator = Generator::new(&[6; 32]);
    let _ = bytes::<32>(&mut generator);
    generator.reseed(&[7; 32]);
    assert_eq!(generator.pool, [0; POOL_BYTES]);
}
