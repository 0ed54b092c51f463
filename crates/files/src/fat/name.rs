//! Names: short ones of 8 and 3 bytes, and the long ones before them.
//!
//! 1. A long name counts only if all of its parts lie before its short entry, in order, with that entry's checksum.
//! 2. No name is empty, `.` or `..`, or holds `/` or NUL: a long name that does gives way to the short one, and a short one gets `_` for
//!    each such byte.

use crate::fat::entry::{RawLong, RawShort};
use crate::names::{checked, from_units};

/// LDIR_Ord: the part that lies first, and ends the name.
const LAST_LONG_ENTRY: u8 = 0x40;
/// Most parts of a name.
const PARTS_MAX: u8 = 20;
/// Units of UTF-16 in a part.
const PART_UNITS: usize = 13;
/// Most units of a name.
const NAME_UNITS_MAX: usize = 255;
/// First byte of DIR_Name in place of 0xE5, which would be a free entry.
const KANJI: u8 = 0x05;
/// DIR_NTRes: letters of the base, of the extension, are lower case.
const LOWER_BASE: u8 = 0x08;
const LOWER_EXTENSION: u8 = 0x10;

/// The characters of code page 437 from 0x80 on. The code page of a volume is not written in it: this one is the default of Linux.
const CODE_PAGE_437: &str = concat!(
    "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐",
    "└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{A0}",
);

/// The checksum of a short name, which each part of its long name repeats.
fn checksum(dir_name: &[u8; 11]) -> u8 {
    dir_name.iter().fold(0_u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte))
}

fn character(byte: u8, is_lower: bool) -> char {
    let character = match byte {
        b'/' | 0..0x20 | 0x7F => '_',
        0x80.. => CODE_PAGE_437.chars().nth(usize::from(byte - 0x80)).unwrap_or('_'),
        _ => char::from(byte),
    };
    if is_lower { single(character.to_lowercase()).unwrap_or(character) } else { character }
}

/// The one character of a change of case; `None` if there are more.
fn single(mut changed: impl ExactSizeIterator<Item = char>) -> Option<char> {
    if changed.len() == 1 { changed.next() } else { None }
}

fn trimmed(bytes: &[u8]) -> &[u8] {
    let len = bytes.iter().rposition(|it| *it != b' ').map_or(0, |last| last + 1);
    &bytes[..len]
}

/// The short name of an entry; `None` if it has none.
pub(super) fn short(entry: &RawShort) -> Option<String> {
    let mut dir_name = entry.dir_name;
    if dir_name[0] == KANJI {
        dir_name[0] = 0xE5;
    }
    let (base, extension) = dir_name.split_at(8);
    let (base, extension) = (trimmed(base), trimmed(extension));
    let is_lower = |bit: u8| entry.dir_nt_res & bit != 0;
    let mut name: String = base.iter().map(|it| character(*it, is_lower(LOWER_BASE))).collect();
    if !extension.is_empty() {
        name.push('.');
        name.extend(extension.iter().map(|it| character(*it, is_lower(LOWER_EXTENSION))));
    }
    checked(name)
}

/// A long name of which some parts were seen.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Parts {
    checksum: u8,
    /// Number of the part that was seen last; the first part is number 1, and lies last.
    seen: u8,
    units: Vec<u16>,
}

/// The long name that the next short entry may have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Long(Option<Parts>);

impl Long {
    /// Adds a part. One that does not follow the part before it makes the whole name void.
    pub(super) fn push(&mut self, part: &RawLong) {
        let number = part.ldir_ord & !LAST_LONG_ENTRY;
        let parts = if part.ldir_ord & LAST_LONG_ENTRY != 0 {
            let units = vec![0; usize::from(number) * PART_UNITS];
            (1..=PARTS_MAX).contains(&number).then_some(Parts {
                checksum: part.ldir_chksum,
                seen: number,
                units,
            })
        } else {
            self.0.take().filter(|it| it.checksum == part.ldir_chksum && number > 0 && it.seen == number + 1)
        };
        self.0 = parts.map(|mut it| {
            let at = usize::from(number - 1) * PART_UNITS;
            it.units.iter_mut().skip(at).zip(part.units()).for_each(|(to, unit)| *to = unit);
            Parts { seen: number, ..it }
        });
    }

    /// Forgets the parts: an entry follows that is not theirs.
    pub(super) fn clear(&mut self) {
        self.0 = None;
    }

    /// The name, if it is that of the short entry `dir_name`.
    pub(super) fn take(&mut self, dir_name: &[u8; 11]) -> Option<String> {
        let parts = self.0.take().filter(|it| it.seen == 1 && it.checksum == checksum(dir_name))?;
        let units = parts.units.split(|it| *it == 0).next()?;
        from_units(units).filter(|_| units.len() <= NAME_UNITS_MAX)
    }
}

/// Whether two names are one: letters of ASCII and of Latin (up to U+024F) do not differ by case.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    one.chars().map(folded).eq(other.chars().map(folded))
}

fn folded(it: char) -> char {
    if it <= '\u{24F}' { single(it.to_uppercase()).unwrap_or(it) } else { it }
}

#[cfg(test)]
mod tests;
