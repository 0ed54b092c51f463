//! Patterns of paths in a snapshot.

use super::Error;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Patterns: one without a slash is of names, wherever they are; one with a slash is of whole paths. `*` and `?` do not match
/// a slash, `**` does.
#[derive(Clone, Debug, Default)]
pub struct Globs(GlobSet);

impl Globs {
    /// The patterns that `option` was given.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the pattern that is none.
    pub fn new(option: &str, patterns: &[String]) -> Result<Self, Error> {
        let mut set = GlobSetBuilder::new();
        let wrong = |pattern: &str, why: &dyn std::fmt::Display| {
            Error::Invalid(format!("{option} {pattern:?} is no pattern: {why}"))
        };
        for pattern in patterns {
            let text = pattern.trim_matches('/');
            if text.is_empty() {
                return Err(wrong(
                    pattern,
                    &"it matches nothing, or everything; use `*.log` or `home/*/cache`",
                ));
            }
            let is_anchored = pattern.trim_end_matches('/').contains('/');
            let text = if is_anchored { text.into() } else { format!("**/{text}") };
            let glob = GlobBuilder::new(&text).literal_separator(true).backslash_escape(true).build();
            set.add(glob.map_err(|error| wrong(pattern, error.kind()))?);
        }
        set.build().map(Self).map_err(|error| wrong(&patterns.join(" "), error.kind()))
    }

    /// Whether one of the patterns is of this path.
    pub fn have(&self, path: &[u8]) -> bool {
        self.0.is_match(Path::new(OsStr::from_bytes(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_without_a_slash_is_of_names_and_one_with_a_slash_of_paths() {
        let globs = |text: &str| Globs::new("--exclude", &[text.to_string()]).expect("a pattern");
        let of = |text: &str, path: &str| globs(text).have(path.as_bytes());
        assert!(of("*.log", "a.log") && of("*.log", "var/x/a.log") && !of("*.log", "a.log.gz"));
        assert!(
            of("/etc/*", "etc/passwd") && !of("/etc/*", "etc/ssl/key") && !of("/etc/*", "usr/etc/passwd")
        );
        assert!(of("home/**/cache", "home/a/b/cache") && of("/top", "top") && !of("/top", "a/top"));
        assert!(globs("\\[x]").have(b"[x]") && globs("?").have(b"\xff"));
        for bad in ["", "/", "[a", "{a"] {
            let error = Globs::new("--path", &[bad.to_string()]).expect_err("no pattern").to_string();
            assert!(error.contains("--path") && error.contains(bad), "{error}");
        }
    }
}
