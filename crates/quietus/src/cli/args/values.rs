//! What the values of options must be. A wrong one is a wrong command line, whatever the host is like.

use super::Range;
use crate::base::naming::{self, NoName};
use crate::disk::parse_size;
use quietus_core::erase::policy::Policy;
use std::ops::RangeInclusive;

/// Least memory for payloads, bytes: a smaller number is one whose unit was forgotten.
const MEMORY_BYTES_MIN: u64 = 64 << 20;

/// The name of an epoch or of a hold.
pub(super) fn parse_name(text: &str) -> Result<String, NoName> {
    naming::check(text).map(|()| text.into())
}

pub(super) fn parse_memory(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        bytes if bytes < MEMORY_BYTES_MIN => Err(format!(
            "{bytes} bytes are too few for the largest request; expected 64M or more, such as 256M"
        )),
        bytes => Ok(bytes),
    }
}

pub(super) fn parse_range(text: &str) -> Result<Range, String> {
    let wrong = || format!("invalid range {text:?}; use OFFSET+LENGTH or FIRST-LAST, such as 1G+64K");
    if let Some((start, len)) = text.split_once('+') {
        let (start, len) = (parse_size(start)?, parse_size(len)?);
        return start.checked_add(len).map(|_| Range { start, len }).ok_or_else(wrong);
    }
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    let (start, last) = (parse_size(first)?, parse_size(last)?);
    let len = last.checked_sub(start).and_then(|len| len.checked_add(1)).ok_or_else(wrong)?;
    Ok(Range { start, len })
}

/// Numbers from 1 on: `3`, `1..3`, `..3`, `2..`.
pub(super) fn parse_numbers(text: &str) -> Result<RangeInclusive<usize>, String> {
    let wrong =
        || format!("invalid numbers {text:?}; use a number, or the first and the last one, such as 1..3");
    let number = |text: &str, absent: usize| match text {
        "" => Ok(absent),
        text => text.parse().map_err(|_| wrong()),
    };
    let (from, to) = match text.split_once("..") {
        Some((from, to)) => (number(from, 1)?, number(to, usize::MAX)?),
        None => text.parse().map(|only| (only, only)).map_err(|_| wrong())?,
    };
    if from == 0 || from > to { Err(wrong()) } else { Ok(from..=to) }
}

pub(super) fn parse_disk_size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err("the size is 0; expected 512 bytes or more, such as 20G".into()),
        bytes => Ok(bytes),
    }
}

/// The policy, as it was written.
pub(super) fn parse_policy(text: &str) -> Result<String, String> {
    text.parse::<Policy>().map(|_| text.into()).map_err(|error| error.to_string())
}
