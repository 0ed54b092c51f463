//! How often a block is overwritten, and with what.

use crate::base::zeros::is_zeros;
use chacha20::ChaCha8;
use chacha20::cipher::{KeyIvInit, StreamCipher};
use std::fmt;
use std::str::FromStr;

/// Most passes that a policy may have.
pub const PASSES_MAX: usize = 100;

/// The content that one pass writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// These bytes, over and over, from the start of the extent.
    Bytes(Vec<u8>),
    /// Secret random bytes.
    Random,
}

impl Pattern {
    /// Zeros.
    #[must_use]
    pub fn zeros() -> Self {
        Self::Bytes(vec![0])
    }

    /// Whether the pass leaves zeros.
    #[must_use]
    pub fn is_zeros(&self) -> bool {
        matches!(self, Self::Bytes(bytes) if is_zeros(bytes))
    }

    /// Fills `into`; `seed` makes random bytes differ between calls.
    pub fn fill(&self, seed: Seed, into: &mut [u8]) {
        match self {
            Self::Bytes(bytes) => repeat(bytes, into),
            Self::Random => {
                let mut nonce = [0; 12];
                nonce[..8].copy_from_slice(&seed.nonce.to_le_bytes());
                into.fill(0);
                // The limit of ChaCha is 256 GiB, far above the size of any buffer.
                ChaCha8::new(&seed.entropy.into(), &nonce.into()).apply_keystream(into);
            }
        }
    }
}

/// Memory for the content of passes. The memory grows to the longest pass, and a pattern in it is
/// reused.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    memory: Vec<u8>,
    /// The pattern in the memory, from its first aligned byte on.
    holds: Option<Pattern>,
}

impl Scratch {
    /// The alignment of the bytes: a page, as writes around the host's cache require.
    const ALIGN_BYTES: usize = 4096;

    /// `len` bytes of a pass.
    pub fn pass(&mut self, pattern: &Pattern, seed: Seed, len: usize) -> &[u8] {
        if self.memory.len() < len + Self::ALIGN_BYTES {
            self.memory = vec![0; len + Self::ALIGN_BYTES];
            self.holds = None;
        }
        let from = self.memory.as_ptr().align_offset(Self::ALIGN_BYTES);
        assert!(from < Self::ALIGN_BYTES, "an aligned byte is among the first ones");
        let all = &mut self.memory[from..];
        if *pattern == Pattern::Random {
            pattern.fill(seed, &mut all[..len]);
            self.holds = None;
        } else if self.holds.as_ref() != Some(pattern) {
            pattern.fill(seed, all);
            self.holds = Some(pattern.clone());
        }
        &all[..len]
    }
}

/// Fills `into` with `bytes`, over and over. Each copy doubles the filled part.
fn repeat(bytes: &[u8], into: &mut [u8]) {
    assert!(!bytes.is_empty(), "a pattern has a byte");
    let mut done = bytes.len().min(into.len());
    into[..done].copy_from_slice(&bytes[..done]);
    while done < into.len() {
        let more = done.min(into.len() - done);
        into.copy_within(..more, done);
        done += more;
    }
}

/// The source of random patterns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed {
    /// Drawn once each time a disk is opened.
    pub entropy: [u8; 32],
    /// Different for each run of each pass.
    pub nonce: u64,
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seed({})", self.nonce)
    }
}

/// The passes that destroy a block, in order; each is durable before the next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    name: String,
    passes: Vec<Pattern>,
}

impl Policy {
    /// No passes: content is freed, and not destroyed.
    #[must_use]
    pub fn none() -> Self {
        Self { name: "none".into(), passes: Vec::new() }
    }

    /// The passes, at most [`PASSES_MAX`]. Without passes, dead content is
    /// freed and not destroyed, which only a store whose content has no fixed place can do.
    #[must_use]
    pub fn passes(&self) -> &[Pattern] {
        &self.passes
    }

    /// Whether bytes read as zeros after the passes.
    #[must_use]
    pub fn leaves_zeros(&self) -> bool {
        self.passes.last().is_some_and(Pattern::is_zeros)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A policy that is not valid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown policy {0:?}; expected clear, purge-2, 4, 6, dod-3, gutmann-35, a list of at most {PASSES_MAX} passes \
     such as random,ff,zero or 924924 (hexadecimal bytes that repeat), or, with an overlay, none"
)]
pub struct BadPolicy(String);

impl FromStr for Policy {
    type Err = BadPolicy;

    /// `clear` is NIST SP 800-88's Clear; `purge-2`, `4` and `6` are the passes
    /// of "Life or Death at Block-Level", tables 9 to 11; `dod-3` is DoD
    /// 5220.22-M's; `gutmann-35` is table 1 of "Secure Deletion of Data from
    /// Magnetic and Solid-State Memory".
    fn from_str(name: &str) -> Result<Self, BadPolicy> {
        let passes = match name {
            "clear" => "zero",
            "purge-2" => "random,zero",
            "4" => "random,ff,random,zero",
            "6" => "random,ff,00,random,ff,zero",
            "dod-3" => "00,ff,random",
            "gutmann-35" => GUTMANN,
            patterns => patterns,
        };
        if name == "none" {
            return Ok(Self::none());
        }
        let passes: Option<Vec<Pattern>> = passes.split(',').map(pattern).collect();
        match passes {
            Some(passes) if passes.len() <= PASSES_MAX => Ok(Self { name: name.into(), passes }),
            _ => Err(BadPolicy(name.chars().take(200).collect())),
        }
    }
}

const GUTMANN: &str = "random,random,random,random,55,aa,924924,492492,249249,\
    00,11,22,33,44,55,66,77,88,99,aa,bb,cc,dd,ee,ff,\
    924924,492492,249249,6db6db,b6db6d,db6db6,random,random,random,random";

fn pattern(word: &str) -> Option<Pattern> {
    match word {
        "zero" | "zeros" => Some(Pattern::zeros()),
        "one" | "ones" => Some(Pattern::Bytes(vec![0xff])),
        "random" => Some(Pattern::Random),
        hex => hexadecimal(hex).map(Pattern::Bytes),
    }
}

fn hexadecimal(word: &str) -> Option<Vec<u8>> {
    let digits = word.as_bytes();
    if digits.is_empty() || digits.len() > 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).ok().filter(|p| p.len() == 2));
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use crate::erase::policy::*;

    fn passes(name: &str) -> usize {
        name.parse::<Policy>().expect("a policy").passes().len()
    }

    #[test]
    fn named_policies_have_the_passes_of_their_names() {
        let counts = ["none", "clear", "purge-2", "4", "6", "dod-3", "gutmann-35"].map(passes);
        assert_eq!(counts, [0, 1, 2, 4, 6, 3, 35]);
    }

    #[test]
    fn nonsense_is_refused() {
        let long = vec!["ff"; PASSES_MAX + 1].join(",");
        for name in ["", "clear,", "purge-3", "f", "fff", "g0", "zero random", "+f", &long] {
            assert!(name.parse::<Policy>().is_err(), "{name:?} was taken");
        }
    }

    #[test]
    fn a_pattern_repeats_from_the_start_and_random_differs_by_nonce() {
        let seed = |nonce| Seed { entropy: [7; 32], nonce };
        let mut buf = [0; 5];
        Pattern::Bytes(vec![0x92, 0x49, 0x24]).fill(seed(0), &mut buf);
        assert_eq!(buf, [0x92, 0x49, 0x24, 0x92, 0x49]);
        for len in [0, 1, 2, 3, 100] {
            let mut buf = vec![0; len];
            Pattern::Bytes(vec![1, 2, 3]).fill(seed(0), &mut buf);
            assert!(buf.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 3 + 1));
        }
        let (mut one, mut two) = ([0; 64], [0; 64]);
        Pattern::Random.fill(seed(1), &mut one);
        Pattern::Random.fill(seed(2), &mut two);
        assert_ne!(one, two);
    }

    #[test]
    fn scratch_that_is_used_again_holds_what_each_pass_wants() {
        let seed = Seed { entropy: [7; 32], nonce: 1 };
        let patterns = [Pattern::Random, Pattern::zeros(), Pattern::Bytes(vec![1, 2, 3])];
        let mut scratch = Scratch::default();
        for len in [5000, 100, 9001, 0, 9001, 12_000] {
            for pattern in patterns.iter().chain(patterns.iter().rev()) {
                let mut wanted = vec![9; len];
                pattern.fill(seed, &mut wanted);
                let pass = scratch.pass(pattern, seed, len);
                assert_eq!(pass, wanted);
                assert_eq!(pass.as_ptr() as usize % Scratch::ALIGN_BYTES, 0);
            }
        }
    }
}
