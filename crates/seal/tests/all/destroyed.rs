//! What is left of a destroyed block for one who is given every key afterwards.
//!
//! The judge has the master key, the session, the context, the ciphertext and whatever remains of
//! the stub. It rebuilds the ciphers from their own crates, by the text of `docs/formats/sealing.md`.

use crate::common::{authentic, block, context, sealer};
use crate::judge::{self, Evidence};
use quietus_seal::{Generator, Seal};

/// A sealed block, and its stub.
fn sealed(seal: Seal) -> Evidence {
    let mut data = block(4096);
    let stub = sealer(seal).close(&context(), &mut data, &mut Generator::new(&[0x31; 32])).unwrap();
    Evidence { seal, data, stub: stub.to_vec() }
}

/// What may stand where bytes were: patterns of the policies, and other content.
fn remains(length: usize) -> [Vec<u8>; 4] {
    let other = (0..length).map(|at| u8::try_from(at % 249).unwrap() ^ 0x5c).collect();
    [vec![0; length], vec![0xff; length], vec![0x55; length], other]
}

#[test]
fn judge_finds_a_block_that_was_not_destroyed() {
    for seal in authentic() {
        assert_eq!(judge::parts_found(&sealed(seal), &block(4096)), 256, "{seal}");
        assert_eq!(judge::parts_found_by_hand(&sealed(seal), &block(4096)), 256, "{seal} by hand");
    }
}

#[test]
fn nothing_is_left_of_a_block_whose_stub_was_destroyed() {
    for seal in authentic() {
        for pattern in remains(seal.stub_bytes()) {
            let evidence = Evidence { stub: pattern, ..sealed(seal) };
            assert_eq!(judge::parts_found(&evidence, &block(4096)), 0, "{seal}");
        }
    }
}

/// Figure 2: "only c₀ need be erased". The tags may stay.
#[test]
fn nothing_is_left_of_a_block_whose_wrapped_key_alone_was_destroyed() {
    for seal in [Seal::RandomKey, Seal::RAon] {
        for pattern in remains(32) {
            let mut evidence = sealed(seal);
            evidence.stub[..32].copy_from_slice(&pattern);
            assert_eq!(judge::parts_found(&evidence, &block(4096)), 0, "{seal}");
        }
    }
}

#[test]
fn any_16_destroyed_bytes_of_ciphertext_kill_what_they_are_said_to_kill() {
    for seal in authentic() {
        for at in [0, 1, 16, 2041, 2048, 4079, 4080] {
            for pattern in remains(16) {
                let mut evidence = sealed(seal);
                evidence.data[at..at + 16].copy_from_slice(&pattern);
                let found = judge::parts_found(&evidence, &block(4096));
                if seal != Seal::RandomKey {
                    assert_eq!(found, 0, "{seal} without bytes {at} and on");
                } else {
                    assert!(found >= at / 64 * 4, "{seal} keeps what lies before the hole");
                }
            }
        }
    }
}

/// Section 3.1 of the paper admits it for figure 1 as printed: with the keys disclosed, a guess of
/// the whole block gives the same ciphertext.
#[test]
fn guess_of_a_destroyed_block_is_confirmed_for_aon_2005_alone() {
    for seal in authentic() {
        let mut wrong = block(4096);
        wrong[4095] ^= 1;
        for pattern in remains(seal.stub_bytes()) {
            let evidence = Evidence { stub: pattern, ..sealed(seal) };
            let confirmed = judge::confirms(&evidence, &block(4096));
            assert_eq!(confirmed, seal == Seal::Aon2005, "{seal}");
            assert!(!judge::confirms(&evidence, &wrong), "{seal}: a wrong guess");
        }
        assert!(judge::confirms(&sealed(seal), &block(4096)), "{seal}: the judge is blind");
    }
}
