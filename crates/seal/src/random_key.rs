//! Random keys: figure 2 of the paper. Each block has a key of its own, which the stub holds,
//! wrapped. With `r-aon`, which is ours, the stub holds the wrapped key plus the sum of the ciphertext.

use crate::ciphers::ctr;
use crate::ciphers::ctr::wipe;
use crate::ciphers::random::Random;
use crate::ciphers::wrap::{KEY_BYTES, Wrap};
use crate::units::Bound;
use aegis::aegis256x4::Aegis256X4;

/// Bytes of the tag: as many as make it commit to the key (2¹²⁸ steps).
const TAG_BYTES: usize = 32;
/// Bytes of a stub: wrapped key, tag.
const STUB_BYTES: usize = KEY_BYTES + TAG_BYTES;

/// Whether the ciphertext is folded into the wrapped key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Folded {
    /// `random-key`: no; only the stub destroys.
    No,
    /// `r-aon`: yes; 16 missing bytes of ciphertext hide 128 bits of the wrapped key.
    Yes,
}

/// Seals `data` in place under a fresh key, and returns the stub.
pub(crate) fn seal(
    wrap: &Wrap,
    folded: Folded,
    bound: &Bound,
    data: &mut [u8],
    random: &mut impl Random,
) -> [u8; STUB_BYTES] {
    let mut wrapped = [0; KEY_BYTES];
    random.fill(&mut wrapped);
    let tag: [u8; TAG_BYTES] = with_cipher(wrap, &wrapped, bound, |it| it.encrypt_in_place(data, &[]));
    fold(folded, &mut wrapped, data);
    let mut stub = [0; STUB_BYTES];
    stub[..KEY_BYTES].copy_from_slice(&wrapped);
    stub[KEY_BYTES..].copy_from_slice(&tag);
    stub
}

/// Opens `data` in place. Whatever is not authentic becomes zeros.
pub(crate) fn open(
    wrap: &Wrap,
    folded: Folded,
    bound: &Bound,
    data: &mut [u8],
    stub: &[u8; STUB_BYTES],
) -> bool {
    let mut wrapped = *stub.first_chunk().expect("a stub is longer");
    let tag = stub.last_chunk().expect("a stub is longer");
    fold(folded, &mut wrapped, data);
    let opened = with_cipher(wrap, &wrapped, bound, |it| it.decrypt_in_place(data, tag, &[]));
    if opened.is_err() {
        data.fill(0);
    }
    opened.is_ok()
}

/// Calls `run` with the cipher under the key that `wrapped` stands for. The context is its nonce: AEGIS commits to the
/// key and the nonce, but not to associated data.
fn with_cipher<T>(
    wrap: &Wrap,
    wrapped: &[u8; KEY_BYTES],
    bound: &Bound,
    run: impl FnOnce(Aegis256X4<TAG_BYTES>) -> T,
) -> T {
    let mut key = wrap.open(wrapped);
    let done = run(Aegis256X4::new(&key, bound.bytes()));
    wipe(&mut key);
    done
}

fn fold(folded: Folded, wrapped: &mut [u8; KEY_BYTES], ciphertext: &[u8]) {
    if folded == Folded::Yes {
        ctr::xor(wrapped, &ctr::fold::<KEY_BYTES>(ciphertext));
    }
}
