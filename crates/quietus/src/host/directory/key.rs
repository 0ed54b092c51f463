//! The signing key of a directory: the secret in `key`, the public part in `key.pub`.

use super::files::write_new;
use super::{DirectoryError, DirectoryErrorKind};
use crate::base::hex::hex;
use crate::base::signed::SigningKey;
use std::io;
use std::path::Path;

/// Makes a new key in `dir`.
pub fn make_key(dir: &Path) -> io::Result<()> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    write_new(dir, "key", &seed)?;
    write_new(dir, "key.pub", hex(&SigningKey::from_seed(&seed).public()).as_bytes())
}

pub(super) fn read_key(dir: &Path) -> Result<SigningKey, DirectoryError> {
    let path = dir.join("key");
    let seed =
        std::fs::read(&path).map_err(|error| DirectoryErrorKind::unreadable(&error).of(&path, error))?;
    let seed: [u8; 32] =
        seed.try_into().map_err(|_| DirectoryErrorKind::Damaged("the length is not 32 bytes").at(&path))?;
    let key = SigningKey::from_seed(&seed);
    match std::fs::read(dir.join("key.pub")) {
        Ok(public) if public != hex(&key.public()).as_bytes() => {
            Err(DirectoryErrorKind::Damaged("the key does not match the file key.pub").at(&path))
        }
        _ => Ok(key),
    }
}

/// What `key.pub` holds beside such a `key`.
pub(crate) fn public_key_of(seed: &[u8]) -> Option<String> {
    let seed: [u8; 32] = seed.try_into().ok()?;
    Some(hex(&SigningKey::from_seed(&seed).public()))
}
