//! Files with holes: the maps of GNU tar's old format, and of its formats 0.0, 0.1 and 1.0 in extended headers.

use crate::vault::transfer::tar::header::{BLOCK_BYTES, number};

/// Most runs of content between holes; each has 16 bytes in memory.
pub(super) const RUNS_MAX: usize = 1 << 20;
/// The keywords of extended headers begin with it.
pub(super) const PREFIX: &str = "GNU.sparse.";
/// Longest number of a map, in decimal digits.
const DIGITS_MAX: usize = 20;
/// Longest file that a host can have.
const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// Where a run of content begins, and its length.
pub(super) type Run = (u64, u64);

/// The content of a file: runs in order, holes between them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Map {
    /// Bytes of the file, holes included.
    pub(super) bytes: u64,
    pub(super) runs: Vec<Run>,
}

impl Map {
    /// A file without holes.
    pub(super) fn whole(bytes: u64) -> Map {
        Map { bytes, runs: if bytes == 0 { Vec::new() } else { vec![(0, bytes)] } }
    }

    /// A map that an archive has, with this number of bytes of content behind it.
    ///
    /// # Errors
    /// Runs that overlap, end behind the file, or have more or less content than there is.
    pub(super) fn new(bytes: u64, mut runs: Vec<Run>, stored: u64) -> Result<Map, String> {
        runs.retain(|(_, length)| *length > 0);
        let mut at = 0;
        for &(start, length) in &runs {
            let end = start.checked_add(length).filter(|end| start >= at && *end <= bytes);
            at = end.ok_or_else(|| {
                format!("the map of a file of {bytes} bytes has {length} bytes at {start}, behind {at}")
            })?;
        }
        // No sum overflows: the runs lie apart, and end before the file does.
        let mapped: u64 = runs.iter().map(|(_, length)| length).sum();
        if mapped != stored || bytes > FILE_BYTES_MAX {
            return Err(format!(
                "the map of a file of {bytes} bytes has {mapped} of content, and {stored} follow"
            ));
        }
        Ok(Map { bytes, runs })
    }
}

/// What extended headers say of a map.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Records {
    major: Option<u64>,
    minor: Option<u64>,
    /// The file's path in the formats 0.1 and 1.0.
    pub(super) name: Option<Vec<u8>>,
    bytes: Option<u64>,
    runs: Vec<Run>,
    start: Option<u64>,
}

/// Where a map is.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Format {
    /// In the extended header: the file's bytes, and its runs.
    Known(u64, Vec<Run>),
    /// Before the content of a file of this length in bytes.
    Ahead(u64),
}

impl Records {
    /// Takes a record; `None` for a value that cannot be.
    pub(super) fn take(&mut self, keyword: &str, value: &[u8]) -> Option<()> {
        let number = || decimal(value);
        match keyword.strip_prefix(PREFIX)? {
            "major" => self.major = Some(number()?),
            "minor" => self.minor = Some(number()?),
            "name" => self.name = Some(value.into()),
            "size" | "realsize" => self.bytes = Some(number()?),
            "offset" => self.start = Some(number()?),
            "numbytes" => self.push(number()?)?,
            "map" => {
                let mut numbers = value.split(|byte| *byte == b',');
                while let Some(start) = numbers.next().filter(|it| !it.is_empty()) {
                    self.start = Some(decimal(start)?);
                    self.push(decimal(numbers.next()?)?)?;
                }
            }
            _ => {}
        }
        Some(())
    }

    /// Adds a run that begins where was said.
    fn push(&mut self, length: u64) -> Option<()> {
        self.runs.push((self.start.take()?, length));
        (self.runs.len() <= RUNS_MAX).then_some(())
    }

    /// Where the map is; `None` if the file has no map.
    ///
    /// # Errors
    /// A format that this program does not know, or without the file's size.
    pub(super) fn format(&mut self) -> Result<Option<Format>, String> {
        let version = (self.major.unwrap_or(0), self.minor.unwrap_or(0));
        match (version, self.bytes) {
            ((0, 0 | 1), None) if self.runs.is_empty() && self.name.is_none() => Ok(None),
            ((0, 0 | 1), Some(bytes)) => Ok(Some(Format::Known(bytes, std::mem::take(&mut self.runs)))),
            ((1, 0), Some(bytes)) => Ok(Some(Format::Ahead(bytes))),
            ((0, 0 | 1) | (1, 0), None) => Err("a sparse file without `GNU.sparse.realsize`".into()),
            ((major, minor), _) => Err(format!(
                "a sparse file of the unknown format {major}.{minor}; known are 0.0, 0.1 and 1.0"
            )),
        }
    }
}

fn decimal(text: &[u8]) -> Option<u64> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The runs of a header of GNU tar's old format or of a block behind it, and whether another block follows.
///
/// # Errors
/// A field that is not a number.
pub(super) fn old_runs(block: &[u8; BLOCK_BYTES], is_header: bool) -> Result<(Vec<Run>, bool), String> {
    const ENTRY_BYTES: usize = 24;
    let (entries, more) =
        if is_header { (&block[386..482], block[482]) } else { (&block[..504], block[504]) };
    let mut runs = Vec::new();
    for entry in entries.chunks(ENTRY_BYTES) {
        let (start, length) = entry.split_at(ENTRY_BYTES / 2);
        if length[0] == 0 {
            break;
        }
        let read = |field| number(field).and_then(|it| u64::try_from(it).ok());
        runs.push(
            read(start)
                .zip(read(length))
                .ok_or("the map of a sparse file has a field that is not a number")?,
        );
    }
    Ok((runs, more != 0))
}

/// The bytes of a file whose header is of GNU tar's old format.
pub(super) fn old_bytes(header: &[u8; BLOCK_BYTES]) -> Result<u64, String> {
    let bytes = number(&header[483..495]).and_then(|it| u64::try_from(it).ok());
    bytes.ok_or_else(|| "the field `realsize` of a sparse file is not a number".into())
}

/// A map before the content, format 1.0: decimal numbers, each with a line's end.
#[derive(Default, Debug)]
pub(super) struct Ahead {
    digits: Vec<u8>,
    count: Option<u64>,
    start: Option<u64>,
    pub(super) runs: Vec<Run>,
}

impl Ahead {
    /// Takes a block; whether the map is whole. Behind its end a block is filled up.
    ///
    /// # Errors
    /// A field that is not a number; too many runs.
    pub(super) fn take(&mut self, block: &[u8]) -> Result<bool, String> {
        for byte in block {
            if *byte != b'\n' {
                self.digits.push(*byte);
                if self.digits.len() > DIGITS_MAX {
                    return Err("the map of a sparse file has a field that is not a number".into());
                }
                continue;
            }
            let number = decimal(&std::mem::take(&mut self.digits));
            let number = number.ok_or("the map of a sparse file has a field that is not a number")?;
            match (self.count, self.start.take()) {
                (None, _) if number > RUNS_MAX as u64 => {
                    return Err(format!("the map of a sparse file has {number} runs, of at most {RUNS_MAX}"));
                }
                (None, _) => self.count = Some(number),
                (Some(_), None) => self.start = Some(number),
                (Some(_), Some(start)) => self.runs.push((start, number)),
            }
            if self.count == Some(self.runs.len() as u64) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use crate::vault::transfer::tar::sparse::*;

    #[test]
    fn a_map_has_as_much_content_as_follows_and_no_run_over_another() {
        let map = |bytes, runs: &[Run], stored| Map::new(bytes, runs.to_vec(), stored);
        assert_eq!(map(100, &[(0, 0), (10, 5), (20, 5), (100, 0)], 10).map(|it| it.runs.len()), Ok(2));
        for (bytes, runs, stored) in [
            (100, &[(10, 5), (12, 5)][..], 10),
            (100, &[(99, 2)], 2),
            (100, &[(u64::MAX, 2)], 2),
            (100, &[(10, 5)], 6),
            (100, &[], 1),
            (u64::MAX, &[], 0),
        ] {
            assert!(map(bytes, runs, stored).is_err(), "{bytes} {runs:?} {stored}");
        }
    }

    #[test]
    fn maps_are_read_in_all_three_formats() {
        let take = |all: &[(&str, &str)]| {
            let mut records = Records::default();
            all.iter()
                .try_for_each(|(key, value)| records.take(&format!("{PREFIX}{key}"), value.as_bytes()))?;
            Some(records)
        };
        let format = |all: &[(&str, &str)]| take(all).expect("records").format();
        let known = Ok(Some(Format::Known(100, vec![(0, 5), (50, 7)])));
        let old = [("size", "100"), ("offset", "0"), ("numbytes", "5"), ("offset", "50"), ("numbytes", "7")];
        assert_eq!(format(&old), known);
        assert_eq!(format(&[("size", "100"), ("map", "0,5,50,7"), ("name", "x")]), known);
        let newest = [("major", "1"), ("minor", "0"), ("realsize", "100"), ("name", "x")];
        assert_eq!(format(&newest), Ok(Some(Format::Ahead(100))));
        assert_eq!(format(&[]), Ok(None));
        assert!(format(&[("major", "2"), ("realsize", "1")]).is_err() && format(&[("major", "1")]).is_err());
        for bad in [("map", "1"), ("map", "1,2,3"), ("map", "a,b"), ("numbytes", "5"), ("size", "-1")] {
            assert!(take(&[bad]).is_none(), "{bad:?}");
        }
        let mut ahead = Ahead::default();
        assert_eq!(ahead.take(b"2\n0\n5"), Ok(false));
        assert_eq!(ahead.take(b"\n50\n7\n\0\0"), Ok(true));
        assert_eq!(ahead.runs, [(0, 5), (50, 7)]);
        for bad in [&b"x\n"[..], b"\n", b"99999999\n", b"111111111111111111111\n"] {
            assert!(Ahead::default().take(bad).is_err(), "{bad:?}");
        }
    }
}
