//! Patterns of paths in a snapshot, and of paths of this host.

use crate::vault::Error;
use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Patterns: one without a slash is of names, wherever they are; one with a slash is of whole paths. `*` and `?` do not match
/// a slash, `**` does.
#[derive(Clone, Debug, Default)]
pub struct Globs {
    /// Of paths as a snapshot has them, a glob for each pattern.
    inside: GlobSet,
    /// Of absolute paths of the host, a glob for each pattern; empty if only paths of a snapshot are meant.
    host: GlobSet,
    /// The folder from which on relative paths are meant.
    base: PathBuf,
    patterns: Arc<[Pattern]>,
}

#[derive(Debug)]
struct Pattern {
    text: String,
    has_matched: AtomicBool,
}

impl Globs {
    /// The patterns that `option` was given, of paths as a snapshot has them.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the invalid pattern.
    pub fn new(option: &str, patterns: &[String]) -> Result<Self, Error> {
        let globs = patterns.iter().map(|pattern| glob(option, pattern, None));
        let inside = set(option, globs)?;
        let pattern = |text: &String| Pattern { text: text.clone(), has_matched: AtomicBool::new(false) };
        let patterns = patterns.iter().map(pattern).collect();
        Ok(Self { inside, host: GlobSet::empty(), base: PathBuf::new(), patterns })
    }

    /// The same patterns, which besides are of paths of the host: relative ones from the folder `base` on.
    ///
    /// # Errors
    /// As [`new`](Globs::new).
    pub fn of_host(option: &str, patterns: &[String], base: &Path) -> Result<Self, Error> {
        let globs = patterns.iter().map(|pattern| glob(option, pattern, Some(base)));
        Ok(Self { host: set(option, globs)?, base: base.into(), ..Self::new(option, patterns)? })
    }

    /// Whether one of the patterns is of this path of a snapshot.
    pub fn have(&self, inside: &[u8]) -> bool {
        self.any(&self.inside, Path::new(OsStr::from_bytes(inside)))
    }

    /// Whether one of the patterns is of what lies at `path`, and is to be at `inside` in a snapshot.
    pub fn have_at(&self, inside: &[u8], path: &Path) -> bool {
        self.have(inside) || (!self.host.is_empty() && self.any(&self.host, &self.absolute(path)))
    }

    /// The patterns that were of nothing so far.
    pub fn unmatched(&self) -> Vec<String> {
        let unmatched = self.patterns.iter().filter(|pattern| !pattern.has_matched.load(Ordering::Relaxed));
        unmatched.map(|pattern| pattern.text.clone()).collect()
    }

    fn any(&self, globs: &GlobSet, path: &Path) -> bool {
        // Most paths match nothing, and that takes no memory.
        if !globs.is_match(path) {
            return false;
        }
        for pattern in globs.matches(path) {
            self.patterns[pattern].has_matched.store(true, Ordering::Relaxed);
        }
        true
    }

    /// The absolute path, without the first slash.
    fn absolute(&self, path: &Path) -> PathBuf {
        let all = self.base.join(path);
        all.components().filter(|part| matches!(part, Component::Normal(_))).collect()
    }
}

fn wrong(option: &str, pattern: &str, why: &dyn std::fmt::Display) -> Error {
    Error::Invalid(format!("{option} {pattern:?} is not a valid pattern: {why}"))
}

fn set(option: &str, globs: impl Iterator<Item = Result<Glob, Error>>) -> Result<GlobSet, Error> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(glob?);
    }
    set.build().map_err(|error| wrong(option, "all together", error.kind()))
}

/// The glob of a pattern: of paths of a snapshot, or of paths of the host, which has the folder `base`.
fn glob(option: &str, pattern: &str, base: Option<&Path>) -> Result<Glob, Error> {
    let text = pattern.strip_prefix("./").unwrap_or(pattern).trim_matches('/');
    if text.is_empty() {
        let why = "expected a name such as `*.log`, or a path such as `home/*/cache`";
        return Err(wrong(option, pattern, &why));
    }
    let is_anchored = pattern.trim_end_matches('/').contains('/');
    let text = match base {
        _ if !is_anchored => format!("**/{text}"),
        Some(base) if !pattern.starts_with('/') => {
            let base = globset::escape(base.to_string_lossy().trim_matches('/'));
            if base.is_empty() { text.into() } else { format!("{base}/{text}") }
        }
        _ => text.into(),
    };
    let glob = GlobBuilder::new(&text).literal_separator(true).backslash_escape(true).build();
    glob.map_err(|error| wrong(option, pattern, error.kind()))
}

#[cfg(test)]
mod tests {
    use crate::vault::choose::glob::*;

    #[test]
    fn a_pattern_of_the_host_is_of_paths_however_they_are_named() {
        let base = Path::new("/home/[ann] b");
        let all = ["/home/\\[ann] b/docs/tmp", "docs/cache", "*.o", "./top", "never/*"].map(String::from);
        let globs = Globs::of_host("--exclude", &all, base).expect("patterns");
        let have = |inside: &str, path: &str| globs.have_at(inside.as_bytes(), Path::new(path));
        assert!(have("docs/tmp", "docs/tmp") && have("docs/tmp", "./docs/tmp"));
        assert!(have("home/[ann] b/docs/tmp", "/home/[ann] b/docs/tmp"));
        assert!(have("docs/cache", "docs/cache"));
        assert!(have("home/[ann] b/docs/cache", "/home/[ann] b/docs/cache"));
        assert!(
            !have("srv/docs/cache", "/srv/docs/cache") && !have("home/a b/docs/tmp", "/home/a b/docs/tmp")
        );
        assert!(have("x/a.o", "x/a.o") && have("top", "top") && !have("x/top", "x/top"));
        assert_eq!(globs.unmatched(), ["never/*"]);
        assert!(Globs::default().unmatched().is_empty() && !Globs::default().have_at(b"a", Path::new("a")));
    }

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
