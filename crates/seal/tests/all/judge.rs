//! The judge: who has every key, and tries every path to a block.

use crate::common::{DISK, GENERATION, SESSION, Scripted, context, sealer};
use aegis::aegis256x4::Aegis256X4;
use aes::cipher::{BlockCipherEncrypt, BlockSizeUser, KeyInit, consts::U16};
use aes::{Aes128, Aes256};
use hkdf::Hkdf;
use quietus_seal::Seal;
use sha2::Sha256;

/// What a search of the media brings to light.
pub struct Evidence {
    pub seal: Seal,
    pub data: Vec<u8>,
    /// What lies where the stub was.
    pub stub: Vec<u8>,
}

/// How many parts of 16 bytes the judge can restore, by the best of all paths.
pub fn parts_found(evidence: &Evidence, plain: &[u8]) -> usize {
    let opened = open(evidence).map(|data| same(&data, plain));
    opened.unwrap_or(0).max(parts_found_by_hand(evidence, plain))
}

/// The same without the product's code, and so whatever the tags say.
pub fn parts_found_by_hand(evidence: &Evidence, plain: &[u8]) -> usize {
    let tries = candidates(evidence);
    let restored = tries.iter().flat_map(|secret| restore(evidence, secret));
    restored.map(|data| same(&data, plain)).max().unwrap_or(0)
}

fn same(data: &[u8], plain: &[u8]) -> usize {
    data.chunks(16).zip(plain.chunks(16)).filter(|(one, two)| one == two).count()
}

/// Whether some path turns the guess into the ciphertext that was found.
pub fn confirms(evidence: &Evidence, guess: &[u8]) -> bool {
    let keys = sealer(evidence.seal);
    candidates(evidence).iter().any(|secret| {
        let mut data = guess.to_vec();
        let mut random = Scripted(secret);
        keys.close(&context(), &mut data, &mut random).unwrap();
        data == evidence.data
    })
}

/// The seal's own way, with the remains of the stub.
fn open(evidence: &Evidence) -> Option<Vec<u8>> {
    let mut data = evidence.data.clone();
    sealer(evidence.seal).open(&context(), &mut data, &evidence.stub).ok().map(|()| data)
}

/// Secrets of 32 bytes that the seal may have drawn, or made of the block: each part of the stub as
/// it is and unmasked, with and without the sums of the ciphertext.
fn candidates(evidence: &Evidence) -> Vec<[u8; 32]> {
    let stub = &evidence.stub;
    let mut bases = vec![vec![0; 32], stub[..stub.len().min(32)].to_vec(), stub[..16].to_vec()];
    bases.push(stub[stub.len().saturating_sub(32)..].to_vec());
    bases.push(stub[stub.len() - 16..].to_vec());
    if evidence.seal == Seal::Aon {
        bases.push(postfix(evidence));
    }
    let sums = [vec![0; 32], fold(&evidence.data, 32), fold(&evidence.data, 16)];
    let mut all = Vec::new();
    for base in &bases {
        for sum in &sums {
            all.push(add(base, sum));
            // The sum of an all-or-nothing seal counts the postfix too.
            all.push(add(&add(base, sum), &stub[..16]));
        }
    }
    all
}

/// The data, if `secret` is what hides it: the block's key, as it is or wrapped, or t.
fn restore(evidence: &Evidence, secret: &[u8; 32]) -> Vec<Vec<u8>> {
    let mut data = evidence.data.clone();
    match evidence.seal {
        Seal::RandomKey | Seal::RAon => {
            return [*secret, unwrapped(evidence.seal, secret)].map(|key| without_tag(&key, &data)).into();
        }
        Seal::Aon2005 => {
            let keys: [u8; 48] = expand(evidence.seal);
            counter_mode(&Aes128::new_from_slice(&secret[..16]).unwrap(), counter(1), &mut data);
            counter_mode(&Aes128::new_from_slice(&keys[..16]).unwrap(), counter(0), &mut data);
        }
        Seal::Aon => {
            let keys: [u8; 80] = expand(evidence.seal);
            let second = [&secret[..16], &keys[32..48]].concat();
            counter_mode(&Aes256::new_from_slice(&second).unwrap(), counter(1), &mut data);
            counter_mode(&Aes256::new_from_slice(&keys[..32]).unwrap(), counter(0), &mut data);
        }
        Seal::None | Seal::AesXts => unreachable!("nothing hides these from one who has the keys"),
    }
    vec![data]
}

/// AEGIS without its tag, which its crate does not offer: a state that has absorbed the parts
/// restored so far encrypts zeros to the next mask.
fn without_tag(key: &[u8; 32], sealed: &[u8]) -> Vec<u8> {
    const STEP: usize = 64;
    let mut data = sealed.to_vec();
    for at in (0..data.len()).step_by(STEP) {
        let mut state = Aegis256X4::<32>::new(key, &nonce()).encryptor(&[]);
        state.update_in_place(&mut data[..at].to_vec());
        let mut mask = [0; STEP];
        state.update_in_place(&mut mask);
        data[at..].iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    }
    data
}

/// The context, as the nonce that it is.
fn nonce() -> [u8; 32] {
    let it = context();
    let words = [it.block.0, it.born.0, it.slot.0].map(u64::to_le_bytes);
    let ends = [it.sequence.0, GENERATION.0].map(u32::to_le_bytes);
    [words.as_flattened(), ends.as_flattened()].concat().try_into().unwrap()
}

/// The key that wrapped bytes stand for under the keys of the session.
fn unwrapped(seal: Seal, wrapped: &[u8; 32]) -> [u8; 32] {
    let keys: [u8; 64] = expand(seal);
    let aes = Aes256::new_from_slice(&keys[..32]).unwrap();
    let cipher = |block: &[u8]| {
        let mut block = block.try_into().unwrap();
        aes.encrypt_block(&mut block);
        block
    };
    let (left, right) = wrapped.split_at(16);
    let mixed = &add(&cipher(left), right)[..16];
    let [first, second] = [32, 48].map(|at| cipher(&add(mixed, &keys[at..at + 16])[..16]));
    [&add(&first, left)[..16], &second].concat().try_into().unwrap()
}

/// The random postfix of an all-or-nothing seal, if the stub is what it was.
fn postfix(evidence: &Evidence) -> Vec<u8> {
    let keys: [u8; 80] = expand(evidence.seal);
    let mut all = [&evidence.data, &evidence.stub[..16]].concat();
    let tag = add(&evidence.stub[16..], &fold(&all, 16));
    let second = [&tag[..16], &keys[32..48]].concat();
    counter_mode(&Aes256::new_from_slice(&second).unwrap(), counter(1), &mut all);
    counter_mode(&Aes256::new_from_slice(&keys[..32]).unwrap(), counter(0), &mut all);
    all[evidence.data.len()..].to_vec()
}

/// The session's keys, as the owner of the master key derives them.
fn expand<const N: usize>(seal: Seal) -> [u8; N] {
    let mut keys = [0; N];
    let info = format!("quietus seal 1 {seal}");
    let salt = [DISK.0, SESSION.0].concat();
    Hkdf::<Sha256>::new(Some(&salt), &[0x4b; 32]).expand(info.as_bytes(), &mut keys).unwrap();
    keys
}

fn counter(pass: u8) -> [u8; 16] {
    let context = context();
    let mut counter = [0; 16];
    counter[..8].copy_from_slice(&context.slot.0.to_be_bytes());
    counter[8..12].copy_from_slice(&context.sequence.0.to_be_bytes());
    counter[12] = pass;
    counter
}

fn counter_mode<C>(cipher: &C, start: [u8; 16], data: &mut [u8])
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    let start = u128::from_be_bytes(start);
    for (number, part) in (0..).zip(data.chunks_mut(16)) {
        let mut mask = start.wrapping_add(number).to_be_bytes().into();
        cipher.encrypt_block(&mut mask);
        part.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    }
}

/// The sum of all columns of `width` bytes, 32 bytes long.
fn fold(data: &[u8], width: usize) -> Vec<u8> {
    let mut sum = vec![0; 32];
    for (at, byte) in data.iter().enumerate() {
        sum[at % width] ^= byte;
    }
    sum
}

fn add(one: &[u8], two: &[u8]) -> [u8; 32] {
    std::array::from_fn(|at| one.get(at).unwrap_or(&0) ^ two.get(at).unwrap_or(&0))
}
