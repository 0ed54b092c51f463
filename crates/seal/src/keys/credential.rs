//! Credentials that open a slot, and the keys made of them.

use crate::ciphers::mac::derive;
use crate::ciphers::siv;
use crate::ciphers::siv::Siv;
use argon2::{Algorithm, Argon2, Params, Version};
use zeroize::Zeroizing;

/// Fewest bytes of a secret that is not a passphrase.
pub const SECRET_BYTES_MIN: usize = 32;
/// Most memory that a slot may demand: 4 GiB, so that a forged file cannot take all of it.
pub const STRETCH_MEMORY_KIB_MAX: u32 = 4 << 20;
/// Most passes over that memory.
pub const STRETCH_PASSES_MAX: u32 = 64;
/// Most lanes.
pub const STRETCH_LANES_MAX: u32 = 64;

/// A credential for the keys of a disk.
#[derive(Clone, Copy)]
pub enum Credential<'a> {
    /// A passphrase, stretched by Argon2id.
    Passphrase(&'a [u8]),
    /// The bytes of a key file: at least 32, random.
    KeyFile(&'a [u8]),
    /// The output of a command, of a key server or a TPM: at least 32 bytes, random.
    Command(&'a [u8]),
}

/// The kind of credential that opens a slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CredentialKind {
    /// A passphrase.
    Passphrase,
    /// A key file.
    KeyFile,
    /// The output of a command.
    Command,
}

/// How hard Argon2id works on a passphrase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// Memory, in KiB.
    pub memory_kib: u32,
    /// Passes over it.
    pub passes: u32,
    /// Lanes.
    pub lanes: u32,
}

/// A credential that opens no slot anywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadCredential {
    /// The passphrase is empty.
    #[error("the passphrase is empty")]
    Empty,
    /// The secret is too short to be random.
    #[error(
        "the {kind} gives {found} bytes; expected at least {SECRET_BYTES_MIN} random ones, or use a passphrase",
        kind = .kind.name()
    )]
    Short {
        /// Where it comes from.
        kind: CredentialKind,
        /// Its bytes.
        found: usize,
    },
    /// No Argon2id has these parameters, or this program does not allow them.
    #[error(
        "cannot stretch a passphrase with {} KiB of memory, {} passes and {} lanes; expected at least 8 KiB a \
         lane and at most {STRETCH_MEMORY_KIB_MAX} KiB, 1 to {STRETCH_PASSES_MAX} passes, 1 to \
         {STRETCH_LANES_MAX} lanes",
        .0.memory_kib, .0.passes, .0.lanes
    )]
    Stretch(Stretch),
    /// There is not enough memory for Argon2id.
    #[error("stretching the passphrase needs {} KiB of memory, which this machine does not give", .0.memory_kib)]
    Memory(Stretch),
}

impl Default for Stretch {
    /// The second recommendation of RFC 9106, section 4: 64 MiB, 3 passes, 4 lanes.
    fn default() -> Stretch {
        Stretch { memory_kib: 64 << 10, passes: 3, lanes: 4 }
    }
}

impl CredentialKind {
    pub(super) const ALL: [CredentialKind; 3] =
        [CredentialKind::Passphrase, CredentialKind::KeyFile, CredentialKind::Command];

    /// The number in a slot.
    pub(super) fn number(self) -> u8 {
        match self {
            CredentialKind::Passphrase => 1,
            CredentialKind::KeyFile => 2,
            CredentialKind::Command => 3,
        }
    }

    /// The name in messages, and in the derivation of keys.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CredentialKind::Passphrase => "passphrase",
            CredentialKind::KeyFile => "key file",
            CredentialKind::Command => "command",
        }
    }
}

impl Credential<'_> {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> CredentialKind {
        match self {
            Credential::Passphrase(_) => CredentialKind::Passphrase,
            Credential::KeyFile(_) => CredentialKind::KeyFile,
            Credential::Command(_) => CredentialKind::Command,
        }
    }

    /// The keys that wrap the root key in a slot with this salt.
    pub(super) fn keys(&self, salt: &[u8; 32], stretch: Stretch) -> Result<Siv, BadCredential> {
        let kind = self.kind();
        let secret = match *self {
            Credential::Passphrase(phrase) => stretched(phrase, salt, stretch)?,
            Credential::KeyFile(secret) | Credential::Command(secret) => random(kind, secret)?,
        };
        let purpose: [&[u8]; 2] = [b"quietus key slot 1 ", kind.name().as_bytes()];
        Ok(Siv::new(&derive::<{ siv::KEY_BYTES }>(&[&secret], salt, &purpose)))
    }
}

fn random(kind: CredentialKind, secret: &[u8]) -> Result<Zeroizing<Vec<u8>>, BadCredential> {
    if secret.len() < SECRET_BYTES_MIN {
        return Err(BadCredential::Short { kind, found: secret.len() });
    }
    Ok(Zeroizing::new(secret.to_vec()))
}

fn stretched(phrase: &[u8], salt: &[u8; 32], stretch: Stretch) -> Result<Zeroizing<Vec<u8>>, BadCredential> {
    if phrase.is_empty() {
        return Err(BadCredential::Empty);
    }
    let is_allowed = stretch.memory_kib <= STRETCH_MEMORY_KIB_MAX
        && stretch.passes <= STRETCH_PASSES_MAX
        && stretch.lanes <= STRETCH_LANES_MAX;
    let params = Params::new(stretch.memory_kib, stretch.passes, stretch.lanes, Some(32));
    let params = params.ok().filter(|_| is_allowed).ok_or(BadCredential::Stretch(stretch))?;
    let mut secret = Zeroizing::new(vec![0; 32]);
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon2.hash_password_into(phrase, salt, &mut secret).map_err(|error| match error {
        argon2::Error::OutOfMemory => BadCredential::Memory(stretch),
        _ => BadCredential::Stretch(stretch),
    })?;
    Ok(secret)
}
