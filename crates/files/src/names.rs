//! Names in UTF-16, as exFAT, NTFS and the long names of FAT are.

/// Number of units of UTF-16.
pub(crate) const UNITS: usize = 1 << 16;

/// The upper case of each unit of UTF-16, as a volume defines it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Upcase(Vec<u16>);

impl Upcase {
    /// The table with these upper cases; `None` if they are not one for each unit.
    pub(crate) fn new(units: Vec<u16>) -> Option<Self> {
        (units.len() == UNITS).then_some(Self(units))
    }

    /// The table of a volume whose own is damaged: the letters of ASCII.
    pub(crate) fn ascii() -> Self {
        let upper = |it: u16| u8::try_from(it).map_or(it, |it| it.to_ascii_uppercase().into());
        Self((0..=u16::MAX).map(upper).collect())
    }

    /// The upper case of a unit.
    pub(crate) fn upper(&self, unit: u16) -> u16 {
        self.0[usize::from(unit)]
    }

    /// Whether two names are one.
    pub(crate) fn is_same(&self, one: &str, other: &str) -> bool {
        let upper = |unit| self.upper(unit);
        one.encode_utf16().map(upper).eq(other.encode_utf16().map(upper))
    }
}

/// `name`, if it can be that of an entry: not empty, `.` or `..`, and without `/` and NUL.
pub(crate) fn checked(name: String) -> Option<String> {
    let is_name = !matches!(&*name, "" | "." | "..") && !name.contains(['/', '\0']);
    is_name.then_some(name)
}

/// The name that these units of UTF-16 are, if it can be one. A surrogate without its other half becomes U+FFFD.
pub(crate) fn from_units(units: &[u16]) -> Option<String> {
    checked(String::from_utf16_lossy(units))
}
