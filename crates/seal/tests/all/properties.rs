//! What holds for every seal, every length, every place of a change.

use crate::common::{DISK, GENERATION, SESSION, authentic, block, context, master, sealer};
use quietus_seal::{
    BLOCK_BYTES_MAX, BadLength, Block, Context, DiskId, Epoch, Generation, Generator, MasterKey, OpenError,
    Random, Seal, Sealer, Sequence, Session, Slot, Stub,
};

const LENGTHS: [usize; 9] = [16, 32, 48, 512, 1024, 1040, 4096, 4112, BLOCK_BYTES_MAX];

fn random() -> Generator {
    Generator::new(&[0xaa; 32])
}

/// A sealed block of this length, and its stub.
fn sealed(seal: Seal, length: usize) -> (Vec<u8>, Stub) {
    let mut data = block(length);
    let stub = sealer(seal).close(&context(), &mut data, &mut random()).unwrap();
    (data, stub)
}

fn flipped(bytes: &[u8], bit: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes
}

#[test]
fn what_was_sealed_opens_and_ciphertext_is_as_long_as_data() {
    for seal in Seal::ALL {
        for length in LENGTHS {
            let (mut data, stub) = sealed(seal, length);
            assert_eq!(stub.len(), seal.stub_bytes());
            assert_eq!(data == block(length), seal == Seal::None, "{seal} of {length} bytes hides them");
            sealer(seal).open(&context(), &mut data, &stub).unwrap();
            assert_eq!(data, block(length), "{seal} of {length} bytes");
        }
    }
}

#[test]
fn every_flipped_bit_of_ciphertext_or_stub_is_refused_and_gives_no_data() {
    for seal in authentic() {
        // All bits of a small block, some of a large one.
        for (length, step) in [(272, 1), (4096, 97)] {
            let (sealed, stub) = sealed(seal, length);
            let refused = |data, stub: &[u8], what: &str| {
                assert_refused(seal, &sealer(seal), &context(), data, stub, what);
            };
            for bit in (0..8 * length).step_by(step) {
                refused(flipped(&sealed, bit), &stub, &format!("bit {bit} of {length} bytes"));
            }
            for bit in 0..8 * stub.len() {
                refused(sealed.clone(), &flipped(&stub, bit), &format!("bit {bit} of the stub"));
            }
        }
    }
}

#[test]
fn every_other_context_is_refused() {
    for seal in authentic() {
        let (sealed, stub) = sealed(seal, 64);
        for (what, other) in other_contexts() {
            assert_refused(seal, &sealer(seal), &other, sealed.clone(), &stub, what);
        }
        for (what, other) in other_keys(seal) {
            assert_refused(seal, &other, &context(), sealed.clone(), &stub, what);
        }
    }
}

/// Each bit of each field, once.
fn other_contexts() -> Vec<(&'static str, Context)> {
    let c = context();
    let mut all = Vec::new();
    for bit in 0..64 {
        all.push(("block", Context { block: Block(c.block.0 ^ 1 << bit), ..c }));
        all.push(("born", Context { born: Epoch(c.born.0 ^ 1 << bit), ..c }));
        all.push(("slot", Context { slot: Slot(c.slot.0 ^ 1 << bit), ..c }));
        all.push(("sequence", Context { sequence: Sequence(c.sequence.0 ^ 1 << (bit % 32)), ..c }));
    }
    all
}

/// Each bit of the disk and of the session, and other master keys.
fn other_keys(seal: Seal) -> Vec<(&'static str, Sealer)> {
    let next = Generation(GENERATION.0 + 1);
    let mut all = vec![
        ("generation", Sealer::new(seal, &master(), next, DISK, SESSION)),
        ("master key", Sealer::new(seal, &MasterKey::new(&[0x4c; 32]), GENERATION, DISK, SESSION)),
        ("order", Sealer::new(seal, &master(), GENERATION, DiskId(SESSION.0), Session(DISK.0))),
    ];
    for bit in 0..128 {
        let (mut disk, mut session) = (DISK, SESSION);
        disk.0[bit / 8] ^= 1 << (bit % 8);
        session.0[bit / 8] ^= 1 << (bit % 8);
        all.push(("disk", Sealer::new(seal, &master(), GENERATION, disk, SESSION)));
        all.push(("session", Sealer::new(seal, &master(), GENERATION, DISK, session)));
    }
    all
}

fn assert_refused(seal: Seal, keys: &Sealer, context: &Context, mut data: Vec<u8>, stub: &[u8], what: &str) {
    let refused = Err(OpenError::Unauthentic { block: context.block, born: context.born });
    assert_eq!(keys.open(context, &mut data, stub), refused, "{seal}: another {what}");
    assert!(data.iter().all(|byte| *byte == 0), "{seal}: another {what} leaves bytes behind");
}

#[test]
fn stubs_and_blocks_of_one_seal_are_refused_by_another() {
    for seal in authentic() {
        let (sealed, stub) = sealed(seal, 64);
        for other in authentic().filter(|other| *other != seal) {
            let mut data = sealed.clone();
            assert!(sealer(other).open(&context(), &mut data, &stub).is_err(), "{seal} as {other}");
            assert_ne!(data, block(64), "{seal} as {other}");
        }
    }
}

#[test]
fn equal_blocks_give_other_ciphertext_under_every_sequence() {
    for seal in Seal::ALL.into_iter().filter(|seal| *seal != Seal::None) {
        let mut random = random();
        let [mut one, mut two] = [block(64), block(64)];
        sealer(seal).close(&context(), &mut one, &mut random).unwrap();
        let next = Context { sequence: Sequence(10), ..context() };
        sealer(seal).close(&next, &mut two, &mut random).unwrap();
        assert!(one.chunks(16).all(|part| two.chunks(16).all(|other| other != part)), "{seal}");
    }
}

#[test]
fn no_block_has_a_length_of_0_of_half_a_cipher_block_or_above_the_limit() {
    for seal in Seal::ALL {
        for bytes in [0, 8, 17, 4095, BLOCK_BYTES_MAX + 16] {
            let mut data = block(bytes);
            let error = BadLength { bytes };
            assert_eq!(sealer(seal).close(&context(), &mut data, &mut random()), Err(error), "{seal}");
            let stub = vec![0; seal.stub_bytes()];
            assert_eq!(sealer(seal).open(&context(), &mut data, &stub), Err(error.into()), "{seal}");
            assert_eq!(data, block(bytes), "{seal} left it as it was");
        }
    }
}

#[test]
fn stub_of_a_wrong_length_is_refused_by_name() {
    for seal in Seal::ALL {
        for length in (0..=65).filter(|length| *length != seal.stub_bytes()) {
            let error = sealer(seal).open(&context(), &mut block(64), &vec![0; length]).unwrap_err();
            assert_eq!(error, OpenError::Stub { seal, found: length });
        }
    }
}

#[test]
fn nothing_that_holds_a_key_prints_it() {
    let keys = format!("{:?} {:?}", master(), sealer(Seal::Aon));
    assert!(!keys.contains("75, 75") && !keys.to_lowercase().contains("4b4b"), "{keys}");
    let mut key = [0; 32];
    random().fill(&mut key);
    assert!(!keys.contains(&format!("{}, {}", key[0], key[1])), "{keys}");
}

/// What holds a key is wiped by its own type, or by the types of its parts: HMAC is two hashes.
#[test]
fn keys_are_wiped_when_they_are_dropped() {
    fn wipes<T: zeroize::ZeroizeOnDrop>() {}
    wipes::<MasterKey>();
    wipes::<Generator>();
    wipes::<aes::Aes128>();
    wipes::<aes::Aes256>();
    wipes::<sha2::Sha256>();
}
