//! What may be a name: of an epoch, of a hold, and of a disk.
//!
//! People and NBD clients say `DISK@EPOCH`, and commands take `DISK@A..B` and options before and behind. So a name is nothing that
//! could be read as another part of that.

/// Most bytes of the name of an epoch or of a hold.
const BYTES_MAX: usize = 100;
/// Words that mean an epoch, or the current state, by themselves.
const RESERVED: [&str; 6] = ["first", "last", "now", "current", "open", "all"];

/// Why a text cannot be a name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{name:?} cannot be the name of {what}: {why}")]
pub struct NoName {
    name: String,
    what: &'static str,
    why: &'static str,
}

/// Checks the name of an epoch or of a hold.
///
/// # Errors
/// [`NoName`].
pub fn check(name: &str) -> Result<(), NoName> {
    let why = if name.is_empty() || name.len() > BYTES_MAX {
        "use 1 to 100 bytes"
    } else if RESERVED.iter().any(|word| name.eq_ignore_ascii_case(word)) {
        "this word means an epoch, or the current state, by itself; choose another one"
    } else if name.starts_with(|it: char| !it.is_alphabetic() && it != '_') {
        "it could be read as a number, a time or an option; let it begin with a letter or _"
    } else if name.contains("..") || name.ends_with('.') {
        "it could be read as a range of epochs; use single dots, and none at the end"
    } else if !name.chars().all(|it| it.is_alphanumeric() || "-_.".contains(it)) {
        "use letters, digits, - _ and ."
    } else {
        return Ok(());
    };
    Err(NoName { name: name.into(), what: "an epoch or a hold", why })
}

/// Checks the name of a disk, which is that of its directory, and of its NBD export.
///
/// # Errors
/// [`NoName`].
pub fn check_disk(name: &str) -> Result<(), NoName> {
    let why = if name.contains('@') {
        "an NBD client could not tell it from an epoch DISK@EPOCH; use a name without @"
    } else if name.chars().any(char::is_control) {
        "it has a control character; use a name without"
    } else if name.starts_with('-') {
        "it could be read as an option; let it begin with something other than -"
    } else if name.contains("..") {
        "it could be read as a range of epochs; use single dots"
    } else {
        return Ok(());
    };
    Err(NoName { name: name.into(), what: "a disk", why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_nothing_that_a_command_could_read_otherwise() {
        for name in ["x", "before-upgrade_2", "v1.2", "_17", "Zürich", "firsts", "lastly", "case-4711"] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        let long = "x".repeat(BYTES_MAX + 1);
        for name in [
            "",
            "first",
            "last",
            "now",
            "Last",
            "17",
            "+17",
            "-1",
            "1x",
            "2026-11-20",
            "2026-11-20T10:00",
            "x..y",
            "..",
            "x.",
            ".x",
            "a@b",
            "@",
            "a/b",
            "../x",
            "a b",
            "a\nb",
            "a\0",
            "-x",
            "٣",
            long.as_str(),
        ] {
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
