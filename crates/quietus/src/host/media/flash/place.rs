//! How a flash chip is written.

use super::kinds::KindName;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The beginning of each place.
const PREFIX: &str = "nand:";

/// Where a flash chip is: a character device of the kernel's MTD layer, or a file that stands for a chip.
///
/// `nand:/dev/mtd4`, or `nand:PATH,chip=slc-2k,blocks=4096`. A path has no comma. Which of the two a path names is decided by what
/// is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlashPlace {
    /// The device or the file.
    pub path: PathBuf,
    /// The kind of chip that a new file stands for.
    pub chip: Option<KindName>,
    /// Number of erase blocks of a new file.
    pub blocks: Option<u32>,
    /// For tests: the number of changes of the chip, counted from its opening, after which the next one is torn and the process aborts.
    pub cut: Option<u64>,
    /// For tests: blocks of the file are bad, weak and dying, as this seed decides.
    pub nature: Option<u64>,
}

impl FlashPlace {
    /// The place that a path names; `None` if the path names no flash chip. A file whose name begins with `nand:` is written with `./`.
    #[must_use]
    pub fn of(path: &Path) -> Option<Result<Self, String>> {
        path.as_os_str().as_bytes().starts_with(PREFIX.as_bytes()).then(|| match path.to_str() {
            Some(text) => text.parse(),
            None => Err(refused(&path.display().to_string(), "the path is not UTF-8")),
        })
    }

    /// The place as a disk remembers it: without what only matters when the chip is created.
    #[must_use]
    pub fn stored(&self) -> Self {
        Self { chip: None, blocks: None, ..self.clone() }
    }

    /// The place with a path that is relative to `folder`, if it is not absolute.
    #[must_use]
    pub fn within(&self, folder: &Path) -> Self {
        Self { path: folder.join(&self.path), ..self.clone() }
    }

    /// Whether a character device is there.
    #[must_use]
    pub fn is_device(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|it| it.file_type().is_char_device())
    }

    /// Whether the place has an option, which only a file takes.
    pub(super) fn has_options(&self) -> bool {
        self.chip.is_some() || self.blocks.is_some() || self.cut.is_some() || self.nature.is_some()
    }
}

fn refused(text: &str, what: &str) -> String {
    format!(
        "invalid flash chip {text:?}: {what}; write nand:/dev/mtd4 for a device, nand:PATH for a file that stands for a chip, or \
         nand:PATH,chip=slc-2k,blocks=4096 to create one"
    )
}

impl FromStr for FlashPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = |what: &str| refused(text, what);
        let rest = text.strip_prefix(PREFIX).ok_or_else(|| refused("it does not begin with nand:"))?;
        let mut parts = rest.split(',');
        let path =
            parts.next().filter(|path| !path.is_empty()).ok_or_else(|| refused("the path is missing"))?;
        let mut place = Self { path: path.into(), chip: None, blocks: None, cut: None, nature: None };
        for part in parts {
            let (name, value) =
                part.split_once('=').ok_or_else(|| refused(&format!("the option {part:?} has no value")))?;
            let is_new = match name {
                "chip" => place.chip.replace(value.parse().map_err(|what: String| refused(&what))?).is_none(),
                "blocks" => {
                    place.blocks.replace(number(name, value).map_err(|what| refused(&what))?).is_none()
                }
                "cut" => place.cut.replace(number(name, value).map_err(|what| refused(&what))?).is_none(),
                "nature" => {
                    place.nature.replace(number(name, value).map_err(|what| refused(&what))?).is_none()
                }
                _ => return Err(refused(&format!("unknown option {name:?}; expected chip or blocks"))),
            };
            if !is_new {
                return Err(refused(&format!("the option {name} occurs twice")));
            }
        }
        Ok(place)
    }
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("the option {name} is {value:?}, which is not a number"))
}

impl fmt::Display for FlashPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, chip, blocks, cut, nature } = self;
        write!(f, "{PREFIX}{}", path.display())?;
        chip.iter().try_for_each(|chip| write!(f, ",chip={chip}"))?;
        blocks.iter().try_for_each(|blocks| write!(f, ",blocks={blocks}"))?;
        cut.iter().try_for_each(|cut| write!(f, ",cut={cut}"))?;
        nature.iter().try_for_each(|nature| write!(f, ",nature={nature}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_written_as_it_is_read() {
        for text in [
            "nand:/dev/mtd4",
            "nand:chip.bin",
            "nand:/srv/chip,chip=slc-2k,blocks=4096",
            "nand:chip,chip=./own.toml,blocks=64",
            "nand:chip,cut=100,nature=7",
        ] {
            let place: FlashPlace = text.parse().expect(text);
            assert_eq!(place.to_string(), text);
            assert_eq!(FlashPlace::of(Path::new(text)), Some(Ok(place)));
        }
        let place: FlashPlace = "nand:a,blocks=8,chip=mlc-16k,nature=3".parse().expect("a place");
        assert_eq!(place.stored().to_string(), "nand:a,nature=3");
        assert_eq!(place.within(Path::new("/srv")).path, Path::new("/srv/a"));
    }

    #[test]
    fn paths_without_the_prefix_name_no_chip() {
        for path in ["/dev/mtd4", "./nand:chip", "nand", "mtd:/dev/mtd4", ""] {
            assert_eq!(FlashPlace::of(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn a_place_that_cannot_be_is_refused_with_what_is_right() {
        for (text, what) in [
            ("nand:", "the path is missing"),
            ("nand:,chip=slc-2k", "the path is missing"),
            ("nand:a,", "has no value"),
            ("nand:a,chip", "has no value"),
            ("nand:a,chip=slc", "slc-2k"),
            ("nand:a,blocks=-1", "not a number"),
            ("nand:a,blocks=5000000000", "not a number"),
            ("nand:a,size=5", "unknown option"),
            ("nand:a,blocks=8,blocks=9", "twice"),
        ] {
            let error = FlashPlace::of(Path::new(text)).expect(text).expect_err(text);
            assert!(error.contains(what) && error.contains("nand:/dev/mtd4"), "{error}");
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
        let bytes = std::ffi::OsStr::from_bytes(b"nand:\xff");
        assert!(FlashPlace::of(Path::new(bytes)).expect("a chip").expect_err("no text").contains("UTF-8"));
    }
}
