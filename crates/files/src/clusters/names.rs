//! Names in UTF-16, as both formats have them.

/// `name`, if it can be that of an entry: not empty, `.` or `..`, and without `/` and NUL.
pub(crate) fn checked(name: String) -> Option<String> {
    let is_name = !matches!(&*name, "" | "." | "..") && !name.contains(['/', '\0']);
    is_name.then_some(name)
}

/// The name that these units of UTF-16 are, if it can be one. A surrogate without its other half becomes U+FFFD.
pub(crate) fn from_units(units: &[u16]) -> Option<String> {
    checked(String::from_utf16_lossy(units))
}
