//! What may be a name: of an epoch, of a hold, and of a disk.
//!
//! People and clients say `DISK@EPOCH`, and commands take `DISK@A..B` and options before and behind. So a name is nothing that
//! could be read as another part of that.

/// Most bytes of the name of an epoch or of a hold.
const BYTES_MAX: usize = 100;
/// Words that mean an epoch, or the current state, by themselves.
const RESERVED: [&str; 6] = ["first", "last", "now", "current", "open", "all"];

/// Why a text cannot be a name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("invalid name {name:?} for {what}: {why}")]
pub struct NoName {
    name: String,
    what: &'static str,
    why: &'static str,
}

/// Checks the name of an epoch or of a hold.
pub fn check(name: &str) -> Result<(), NoName> {
    let why = if name.is_empty() || name.len() > BYTES_MAX {
        "expected 1 to 100 bytes"
    } else if RESERVED.iter().any(|word| name.eq_ignore_ascii_case(word)) {
        "the word is reserved; choose another name"
    } else if name.starts_with(|it: char| !it.is_alphabetic() && it != '_') {
        "expected a letter or _ at the beginning, which tells a name from a number, a time or an option"
    } else if name.contains("..") || name.ends_with('.') {
        "two dots, or a dot at the end, would be read as a range of epochs; use single dots within the name"
    } else if !name.chars().all(|it| it.is_alphanumeric() || "-_.".contains(it)) {
        "expected letters, digits, - _ and ."
    } else {
        return Ok(());
    };
    Err(NoName { name: name.into(), what: "an epoch or a hold", why })
}

/// Checks the name of a disk, which is that of its directory, and of its export.
pub fn check_disk(name: &str) -> Result<(), NoName> {
    let why = if name.contains('@') {
        "clients would take a name with @ for an epoch, DISK@EPOCH"
    } else if name.chars().any(char::is_control) {
        "control characters are not allowed"
    } else if name.starts_with('-') {
        "a - at the beginning would be read as an option"
    } else if name.contains("..") {
        "two dots would be read as a range of epochs; use single dots"
    } else {
        return Ok(());
    };
    Err(NoName { name: name.into(), what: "a disk", why })
}

/// The one of `others` that is most like `name`, if a hand may have slipped.
#[must_use]
pub fn meant<T: AsRef<str> + Ord>(name: &str, others: impl Iterator<Item = T>) -> Option<String> {
    let most = (name.chars().count() / 3).clamp(1, 3);
    // Lengths that differ by more are no slip of a hand, and need no count.
    let near = others.filter(|other| other.as_ref().len().abs_diff(name.len()) <= 4 * most);
    let near = near.map(|other| (distance(name, other.as_ref()), other));
    let nearest = near.filter(|(distance, _)| *distance <= most).min();
    nearest.map(|(_, other)| other.as_ref().into())
}

/// The end of an error about a name that nothing has: the one that was `meant`, or what to do `else`.
#[must_use]
pub(crate) fn meant_or(meant: &Option<String>, otherwise: &str) -> String {
    meant.as_ref().map_or_else(|| otherwise.into(), |meant| format!("did you mean {meant:?}?"))
}

/// Characters to insert, remove, replace or swap with the next one, until `one` is `other`.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows = vec![(0..=other.len()).collect::<Vec<usize>>()];
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(!a.eq_ignore_ascii_case(b));
            let mut least = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_of_two_names_counts_slips_of_a_hand() {
        for (one, other, slips) in [
            ("vm1", "vm1", 0),
            ("vm1", "vm2", 1),
            ("vm1", "mv1", 1),
            ("VM1", "vm1", 0),
            ("", "abc", 3),
            ("disk", "dik", 1),
        ] {
            assert_eq!(distance(one, other), slips, "{one}, {other}");
        }
    }

    #[test]
    fn the_nearest_name_is_meant_and_one_that_is_far_from_all_is_none() {
        let names = || ["before-upgrade", "after-upgrade", "x"].into_iter();
        assert_eq!(meant("before-upgarde", names()).as_deref(), Some("before-upgrade"));
        assert_eq!(meant("y", names()).as_deref(), Some("x"));
        assert_eq!(meant("christmas", names()), None);
    }

    #[test]
    fn a_name_is_nothing_that_a_command_could_read_otherwise() {
        for name in ["x", "before-upgrade_2", "v1.2", "_17", "Zürich", "firsts", "lastly", "case-4711"] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        let long = "x".repeat(BYTES_MAX + 1);
        let words = "first last now Last 17 +17 -1 1x 2026-11-20 2026-11-20T10:00 -x ٣".split(' ');
        let signs = "x..y .. x. .x a@b @ a/b ../x".split(' ');
        for name in words.chain(signs).chain(["", "a b", "a\nb", "a\0", long.as_str()]) {
            assert!(check(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn the_name_of_a_disk_is_no_epoch_of_another_one() {
        for name in ["vm1", "my disk", "disk.img", "Zürich", "17"] {
            assert_eq!(check_disk(name), Ok(()), "{name}");
        }
        for name in ["vm@17", "@", "a\nb", "a\u{7f}", "-vm", "a..b"] {
            assert!(check_disk(name).is_err(), "{name:?}");
        }
    }
}
