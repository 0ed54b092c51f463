//! Published answers of the building blocks that other crates make. Those of the counter mode and of
//! XTS stand beside their code.

use aegis::aegis256x4::Aegis256X4;
use argon2::{Algorithm, Argon2, AssociatedData, ParamsBuilder, Version};
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn array<const N: usize>(hex: &str) -> [u8; N] {
    bytes(hex).try_into().unwrap()
}

/// draft-irtf-cfrg-aegis-aead, AEGIS-256X4, test vectors 1 and 2.
#[test]
fn aegis_agrees_with_its_draft() {
    let key = array("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
    let nonce = array("101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f");
    let aegis = Aegis256X4::<32>::new(&key, &nonce);
    assert_eq!(
        aegis.encrypt_in_place(&mut [], &[]),
        array("6093a1a8aab20ec635dc1ca71745b01b5bec4fc444c9ffbebd710d4a34d20eaf")
    );
    let mut message = bytes("04050607").repeat(30);
    let tag = aegis.encrypt_in_place(&mut message, &bytes("0102030401020304"));
    let ciphertext = concat!(
        "bfc2085b7e8017da99b0b6d646ae4d01f4ba8f2e7dfca1d759ae48a135139b9aaac6b4f5db810d426be1fdaff4e14541",
        "53a34b11da78ed7e418ee2ee9853042e95536aecbb694cea1b16a478eb0d4d1bf6509b1ce652a45af58e0e46ffccfa2d",
        "0426e702391d2ff5813808b81748a490dd656465fed61f09"
    );
    assert_eq!(message, bytes(ciphertext));
    assert_eq!(tag, array("7847eace74409ee56c8f4cf63a9c2841ce7c8bd567d7c0ca514c879a190b978c"));
}

/// RFC 4231, test case 2.
#[test]
fn hmac_agrees_with_its_rfc() {
    let mut mac = Hmac::<Sha256>::new_from_slice(b"Jefe").unwrap();
    mac.update(b"what do ya want for nothing?");
    let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    assert_eq!(mac.finalize().into_bytes()[..], bytes(expected));
}

/// RFC 5869, test case 1.
#[test]
fn hkdf_agrees_with_its_rfc() {
    let salt = bytes("000102030405060708090a0b0c");
    let mut key = [0; 42];
    Hkdf::<Sha256>::new(Some(&salt), &[0x0b; 22]).expand(&bytes("f0f1f2f3f4f5f6f7f8f9"), &mut key).unwrap();
    let expected = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";
    assert_eq!(key[..], bytes(expected));
}

/// RFC 9106, section 5.3.
#[test]
fn argon2id_agrees_with_its_rfc() {
    let mut params = ParamsBuilder::new();
    params.m_cost(32).t_cost(3).p_cost(4).data(AssociatedData::new(&[4; 12]).unwrap());
    let params = params.build().unwrap();
    let argon2 = Argon2::new_with_secret(&[3; 8], Algorithm::Argon2id, Version::V0x13, params).unwrap();
    let mut tag = [0; 32];
    argon2.hash_password_into(&[1; 32], &[2; 16], &mut tag).unwrap();
    assert_eq!(tag, array("0d640df58d78766c08c037a34a8b53c9d01ef0452d75b65eb52520e96b01e659"));
}
