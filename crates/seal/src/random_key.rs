//! Random keys: figure 2 of the paper. Each block has a key of its own, which the stub holds,
//! wrapped. With `r-aon`, which is ours, the stub holds the key plus the sum of the ciphertext.

use crate::ctr;
use crate::random::Random;
use crate::siv::{Siv, Unauthentic};
use crate::units::Bound;
use aegis::aegis256x4::Aegis256X4;
use zerocopy::IntoBytes;
use zeroize::Zeroizing;

/// A fresh key, in which the ciphertext may be folded.
type BlockKey = Zeroizing<[u8; KEY_BYTES]>;

/// Bytes of a block's key.
const KEY_BYTES: usize = 32;
/// Bytes of the data's tag.
const TAG_BYTES: usize = 16;
/// Bytes of a stub: wrapped key, tag of the wrap, tag of the data.
pub(crate) const STUB_BYTES: usize = KEY_BYTES + TAG_BYTES + TAG_BYTES;

/// Whether the ciphertext is folded into the wrapped key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Folded {
    /// `random-key`: no; only the stub destroys.
    No,
    /// `r-aon`: yes; 16 missing bytes of ciphertext hide 128 bits of the key.
    Yes,
}

/// Seals `data` in place under a fresh key, and returns the stub.
pub(crate) fn seal(
    wrap: &Siv,
    folded: Folded,
    bound: &Bound,
    data: &mut [u8],
    random: &mut impl Random,
) -> [u8; STUB_BYTES] {
    let mut key: BlockKey = Zeroizing::new([0; KEY_BYTES]);
    random.fill(&mut *key);
    let tag = cipher(&key).encrypt_in_place(data, &[]);
    fold(folded, &mut key, data);
    let wrap_tag = wrap.seal(&header(bound, &tag), &mut *key);
    join(&key, &wrap_tag, &tag)
}

/// Opens `data` in place. Whatever is not authentic becomes zeros.
pub(crate) fn open(
    wrap: &Siv,
    folded: Folded,
    bound: &Bound,
    data: &mut [u8],
    stub: &[u8; STUB_BYTES],
) -> Result<(), Unauthentic> {
    let opened = unwrap(wrap, bound, stub).and_then(|(mut key, tag)| {
        fold(folded, &mut key, data);
        cipher(&key).decrypt_in_place(data, &tag, &[]).map_err(|_| Unauthentic)
    });
    opened.inspect_err(|_| data.fill(0))
}

/// The same key wrapped anew, for another context or by other keys. The ciphertext stays as it is.
pub(crate) fn rewrap(
    from: (&Siv, &Bound),
    to: (&Siv, &Bound),
    stub: &[u8; STUB_BYTES],
) -> Result<[u8; STUB_BYTES], Unauthentic> {
    let (mut key, tag) = unwrap(from.0, from.1, stub)?;
    let wrap_tag = to.0.seal(&header(to.1, &tag), &mut *key);
    Ok(join(&key, &wrap_tag, &tag))
}

/// Each key encrypts one message, so that its nonce is constant. The wrap binds the context, and no
/// associated data is left through which AEGIS could be made to agree with two keys.
fn cipher(key: &BlockKey) -> Aegis256X4<TAG_BYTES> {
    Aegis256X4::new(key, &[0; 32])
}

fn fold(folded: Folded, key: &mut BlockKey, ciphertext: &[u8]) {
    if folded == Folded::Yes {
        ctr::xor(&mut **key, &ctr::fold::<KEY_BYTES>(ciphertext));
    }
}

fn unwrap(
    wrap: &Siv,
    bound: &Bound,
    stub: &[u8; STUB_BYTES],
) -> Result<(BlockKey, [u8; TAG_BYTES]), Unauthentic> {
    let (key, tags) = stub.split_at(KEY_BYTES);
    let (wrap_tag, tag) = tags.split_at(TAG_BYTES);
    let mut key: BlockKey = Zeroizing::new(key.try_into().expect("32 bytes"));
    let tag = tag.try_into().expect("16 bytes");
    wrap.open(&header(bound, &tag), &mut *key, wrap_tag.try_into().expect("16 bytes"))?;
    Ok((key, tag))
}

/// The data that the wrap authenticates besides the key: the context, and the data by its tag.
fn header(bound: &Bound, tag: &[u8; TAG_BYTES]) -> [u8; 64 + TAG_BYTES] {
    let mut header = [0; 64 + TAG_BYTES];
    header[..64].copy_from_slice(bound.as_bytes());
    header[64..].copy_from_slice(tag);
    header
}

fn join(key: &[u8; KEY_BYTES], wrap_tag: &[u8; TAG_BYTES], tag: &[u8; TAG_BYTES]) -> [u8; STUB_BYTES] {
    let mut stub = [0; STUB_BYTES];
    stub[..32].copy_from_slice(key);
    stub[32..48].copy_from_slice(wrap_tag);
    stub[48..].copy_from_slice(tag);
    stub
}
