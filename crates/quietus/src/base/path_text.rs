//! Paths in reports.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A path as text. Bytes that are not UTF-8 are shown as U+FFFD, so that two paths may look the same.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct PathText(String);

impl From<&[u8]> for PathText {
    fn from(path: &[u8]) -> Self {
        Self(String::from_utf8_lossy(path).into_owned())
    }
}

impl From<&Path> for PathText {
    fn from(path: &Path) -> Self {
        path.as_os_str().as_bytes().into()
    }
}

impl fmt::Display for PathText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Writes a path as its [`PathText`].
pub(crate) fn path_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    PathText::from(path).serialize(serializer)
}
