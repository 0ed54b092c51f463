//! The times of a file (`$STANDARD_INFORMATION`).

use crate::ntfs::disk::{Disk, damaged};
use crate::ntfs::node::Node;
use crate::{Error, Time};
use std::mem::offset_of;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Type of the attribute.
const STANDARD_INFORMATION: u32 = 0x10;
/// Most bytes of it that are read: versions before 3.0 have fewer.
const BYTES_MAX: u64 = 4096;
/// Units of a time in a second: 100 ns.
const UNITS: i64 = 10_000_000;
/// Seconds from 1601 to 1970.
const EPOCH_SECONDS: i64 = 11_644_473_600;

/// The times, as they lie on the disk.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
struct RawTimes {
    creation_time: U64,
    last_data_change_time: U64,
    last_mft_change_time: U64,
    last_access_time: U64,
}

const _: () = assert!(offset_of!(RawTimes, last_access_time) == 24);

/// The times of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Times {
    pub born: Time,
    pub modified: Time,
    pub changed: Time,
    pub accessed: Time,
}

/// A time in units of 100 ns since 1601, as Windows counts them: a signed number.
fn time(units: U64) -> Time {
    let units = units.get().cast_signed();
    let nanoseconds = (units.rem_euclid(UNITS) * 100) as u32;
    Time { seconds: units.div_euclid(UNITS) - EPOCH_SECONDS, nanoseconds }
}

impl Times {
    pub(super) fn of(disk: &mut Disk, node: &Node) -> Result<Self, Error> {
        let lack = || damaged(node.number, "it has no $STANDARD_INFORMATION");
        let stream = node.stream(disk, STANDARD_INFORMATION, &[])?.ok_or_else(lack)?;
        let value = stream.whole(disk, BYTES_MAX)?;
        let (raw, _) = RawTimes::read_from_prefix(&value).map_err(|_| lack())?;
        Ok(Self {
            born: time(raw.creation_time),
            modified: time(raw.last_data_change_time),
            changed: time(raw.last_mft_change_time),
            accessed: time(raw.last_access_time),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_from_1601_in_steps_of_100_nanoseconds() {
        for (units, seconds, nanoseconds) in [
            (0, -11_644_473_600, 0),
            (116_444_736_000_000_001, 0, 100),
            (116_444_735_999_999_999, -1, 999_999_900),
            (u64::MAX, -11_644_473_601, 999_999_900),
        ] {
            assert_eq!(time(U64::new(units)), Time { seconds, nanoseconds });
        }
    }
}
