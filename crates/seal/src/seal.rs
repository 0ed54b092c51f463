//! The ways of sealing a block.

use std::fmt;
use std::str::FromStr;

/// How blocks are sealed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Seal {
    /// No encryption, no stub: forgetting a block overwrites it.
    None,
    /// AES-256-XTS, no stub: what disk encryption does. For comparison; forgetting a block
    /// overwrites it.
    AesXts,
    /// Figure 1 of the paper as printed, with SHA-256 in place of SHA-1. For comparison: with the
    /// keys known, a guess of a destroyed block can be confirmed.
    Aon2005,
    /// Figure 1 with a random postfix, AES-256 and HMAC-SHA-256. As with all package transforms,
    /// no proof reduces it to its parts (section 3.4 of the paper).
    Aon,
    /// Figure 2: a fresh key for each block, wrapped in its stub.
    #[default]
    RandomKey,
    /// `random-key` whose wrapped key is added to the sum of the ciphertext, so that 16 bytes of it
    /// kill the block too. A construction of this project, which no cryptographer has reviewed.
    RAon,
}

/// A name that no seal has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown seal {name:?}; expected {}", names())]
pub struct UnknownSeal {
    /// The name.
    pub name: String,
}

impl Seal {
    /// Every seal.
    pub const ALL: [Seal; 6] =
        [Seal::None, Seal::AesXts, Seal::Aon2005, Seal::Aon, Seal::RandomKey, Seal::RAon];

    /// Bytes of each block's stub.
    #[must_use]
    pub fn stub_bytes(self) -> usize {
        match self {
            Seal::None | Seal::AesXts => 0,
            Seal::Aon2005 => 16,
            Seal::Aon => 32,
            Seal::RandomKey | Seal::RAon => 64,
        }
    }

    /// Whether there is a key to keep: `none` has none.
    #[must_use]
    pub fn has_keys(self) -> bool {
        self != Seal::None
    }

    /// Whether destroying the stub destroys the block, also for one who gets every key afterwards. These seals authenticate:
    /// opening refuses whatever differs from what was sealed.
    #[must_use]
    pub fn dies_with_stub(self) -> bool {
        self.stub_bytes() > 0
    }

    /// The name in settings and commands.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Seal::None => "none",
            Seal::AesXts => "aes-xts",
            Seal::Aon2005 => "aon-2005",
            Seal::Aon => "aon",
            Seal::RandomKey => "random-key",
            Seal::RAon => "r-aon",
        }
    }

    /// One line for `--help`.
    #[must_use]
    pub fn help(self) -> &'static str {
        match self {
            Seal::None => "no encryption; a block is forgotten by overwriting it",
            Seal::AesXts => "AES-256-XTS, for comparison; a block is forgotten by overwriting it",
            Seal::Aon2005 => {
                "all-or-nothing as published in 2005, for comparison: guesses of destroyed blocks can be confirmed"
            }
            Seal::Aon => "all-or-nothing with a random postfix; 32 bytes a block",
            Seal::RandomKey => "a fresh key for each block; 64 bytes a block [default]",
            Seal::RAon => {
                "random-key that any 16 lost bytes of ciphertext kill too; 64 bytes a block; our own, not reviewed"
            }
        }
    }
}

impl fmt::Display for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Seal {
    type Err = UnknownSeal;

    fn from_str(name: &str) -> Result<Seal, UnknownSeal> {
        let found = Seal::ALL.into_iter().find(|seal| seal.name() == name);
        found.ok_or_else(|| UnknownSeal { name: name.into() })
    }
}

fn names() -> String {
    Seal::ALL.map(Seal::name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_means_its_seal() {
        for seal in Seal::ALL {
            assert_eq!(seal.to_string().parse(), Ok(seal));
        }
    }

    #[test]
    fn unknown_name_is_refused_with_those_that_exist() {
        let error = "rsa".parse::<Seal>().unwrap_err().to_string();
        assert_eq!(error, "unknown seal \"rsa\"; expected none, aes-xts, aon-2005, aon, random-key, r-aon");
    }
}
