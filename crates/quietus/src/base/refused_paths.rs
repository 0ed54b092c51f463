//! Paths that a command could not read, write or bring back.

use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Display;

/// Most paths that are named one by one.
const NAMED_MAX: usize = 1000;

/// Paths that were refused, as a report has them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct RefusedPaths {
    /// The first thousand paths that were refused, or done only in part: the path, a colon and the reason.
    #[serde(rename = "refused")]
    pub named: Vec<String>,
    /// How many paths were refused, or done only in part.
    #[serde(rename = "refused_count")]
    pub count: u64,
}

impl RefusedPaths {
    /// Notes a path, and the reason.
    pub fn note(&mut self, path: &[u8], why: &dyn Display) {
        self.add(Self { named: vec![format!("{}: {why}", String::from_utf8_lossy(path))], count: 1 });
    }

    /// Adds the paths of another part of the work.
    pub fn add(&mut self, other: Self) {
        self.count += other.count;
        let room = NAMED_MAX.saturating_sub(self.named.len());
        self.named.extend(other.named.into_iter().take(room));
    }

    /// Whether no path was refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many paths are not named.
    #[must_use]
    pub fn unnamed(&self) -> u64 {
        self.count - self.named.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_refused_paths_are_counted_and_the_first_thousand_are_named() {
        let mut refused = RefusedPaths::default();
        assert!(refused.is_empty());
        for n in 0..NAMED_MAX + 2 {
            refused.note(format!("a/{n}").as_bytes(), &"too deep");
        }
        assert_eq!((refused.named.len(), refused.count, refused.unnamed()), (NAMED_MAX, 1002, 2));
        assert_eq!(refused.named[0], "a/0: too deep");
        let mut other = RefusedPaths::default();
        other.note(b"b", &"gone");
        other.add(refused);
        assert_eq!((other.named.len(), other.count, other.unnamed()), (NAMED_MAX, 1003, 3));
        assert_eq!((&*other.named[0], &*other.named[1]), ("b: gone", "a/0: too deep"));
    }
}
