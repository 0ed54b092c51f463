//! The up-case table: which letters are one when names are compared (exFAT specification, section 7.2).

use crate::Error;
use crate::names::{UNITS, Upcase};

/// Most bytes of a table: every unit is in it.
pub(super) const TABLE_BYTES_MAX: u64 = 2 * UNITS as u64;
/// A unit before a number of units that are their own upper case.
const IDENTITY: u16 = 0xFFFF;

/// The checksum of a table (section 7.2.2).
fn checksum(table: &[u8]) -> u32 {
    table.iter().fold(0_u32, |sum, byte| sum.rotate_right(1).wrapping_add((*byte).into()))
}

/// The table in `bytes`, if they have this checksum.
pub(super) fn from_bytes(bytes: &[u8], table_checksum: u32) -> Result<Upcase, Error> {
    let found = checksum(bytes);
    if found != table_checksum {
        let text = format!("TableChecksum of the up-case table is {table_checksum:#x}, and not {found:#x}");
        return Err(Error::Damaged(text));
    }
    let mut upper: Vec<u16> = (0..=u16::MAX).collect();
    let mut units = bytes.chunks_exact(2).map(|it| u16::from_le_bytes([it[0], it[1]]));
    let mut at = 0;
    while let Some(unit) = units.next().filter(|_| at < UNITS) {
        if unit == IDENTITY {
            at += units.next().map_or(1, usize::from);
        } else {
            upper[at] = unit;
            at += 1;
        }
    }
    Ok(Upcase::new(upper).expect("there is one for each unit"))
}

#[cfg(test)]
mod tests;
