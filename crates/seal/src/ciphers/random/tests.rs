use crate::ciphers::random::*;

fn bytes<const N: usize>(generator: &mut Generator) -> [u8; N] {
    let mut out = [0; N];
    generator.fill(&mut out);
    out
}

/// The definition, written out with the cipher alone.
fn first_pool(seed: [u8; SEED_BYTES]) -> [u8; SEED_BYTES + POOL_BYTES] {
    let mut stream = [0; SEED_BYTES + POOL_BYTES];
    ctr::apply(&aes::Aes256Enc::new(&seed.into()), [0; 16], &mut stream);
    stream
}

#[test]
fn each_pool_follows_from_a_key_that_the_pool_before_it_did_not_give_out() {
    let mut generator = Generator::new(&[9; 32]);
    let first = first_pool([9; 32]);
    assert_eq!(bytes::<POOL_BYTES>(&mut generator), first[SEED_BYTES..]);
    let second = first_pool(*first.first_chunk().unwrap());
    assert_eq!(bytes::<POOL_BYTES>(&mut generator), second[SEED_BYTES..]);
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
fn seed_changes_what_follows_and_so_does_the_state_before_it() {
    let mut reseeded = Generator::new(&[3; 32]);
    let mut plain = Generator::new(&[3; 32]);
    let mut other = Generator::new(&[4; 32]);
    reseeded.reseed(&[5; 32]);
    other.reseed(&[5; 32]);
    let found = [bytes::<32>(&mut reseeded), bytes::<32>(&mut plain), bytes::<32>(&mut other)];
    assert!(found[0] != found[1] && found[0] != found[2] && found[1] != found[2]);
}

#[test]
fn reseeding_wipes_what_was_not_given_out() {
    let mut generator = Generator::new(&[6; 32]);
    let _ = bytes::<32>(&mut generator);
    generator.reseed(&[7; 32]);
    assert_eq!(generator.pool, [0; POOL_BYTES]);
}
