//! Directories of disks and vaults: what a path is instead, and which name was meant.

use super::{Kind, unfit};
use crate::directory::{DirectoryError, DirectoryErrorKind, parent_of};
use std::fmt;
use std::path::Path;

/// Entries of a directory that are looked at for a name that was meant.
const ENTRIES_MAX: usize = 1000;

/// What has a directory of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Subject {
    /// A disk.
    Disk,
    /// A vault.
    Vault,
}

impl Subject {
    const ALL: [Self; 2] = [Self::Disk, Self::Vault];

    /// The file that only such a directory has.
    fn marker(self) -> &'static str {
        match self {
            Self::Disk => "disk.toml",
            Self::Vault => "vault.toml",
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Vault => "vault",
        }
    }

    /// How to use a directory of this kind.
    fn commands(self) -> &'static str {
        match self {
            Self::Disk => "use the commands outside of `quietus vault`",
            Self::Vault => "use the commands of `quietus vault`",
        }
    }

    fn maker(self) -> &'static str {
        match self {
            Self::Disk => "quietus create",
            Self::Vault => "quietus vault init",
        }
    }

    /// Other files of such a directory: where one is, the marker was lost.
    fn others(self) -> &'static [&'static str] {
        match self {
            Self::Disk => &["journal", "key.pub"],
            Self::Vault => &["catalog", "secret"],
        }
    }

    pub(crate) fn is_at(self, path: &Path) -> bool {
        path.join(self.marker()).is_file()
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.noun())
    }
}

/// The error for `path`, which is to be the directory of a `wanted` and has no file that says so.
pub(crate) fn absent(wanted: Subject, path: &Path) -> DirectoryError {
    let noun = wanted.noun();
    if let Some(other) = Subject::ALL.into_iter().find(|it| *it != wanted && it.is_at(path)) {
        return unfit(path, format_args!("a {}, and not a {noun}; {}", other.noun(), other.commands()));
    }
    match Kind::of(path).unwrap_or(Kind::Nothing) {
        Kind::Directory if wanted.others().iter().any(|it| path.join(it).exists()) => {
            DirectoryErrorKind::Missing(wanted.marker()).at(path)
        }
        Kind::Directory => unfit(
            path,
            format_args!(
                "a directory, and not a {noun}: it has no {}; make one with `{}`",
                wanted.marker(),
                wanted.maker()
            ),
        ),
        Kind::Nothing | Kind::DanglingLink => unfit(path, missing(wanted, path)),
        found => {
            let parent = parent_of(path);
            let instead = match wanted {
                _ if wanted.is_at(parent) => format!("name its directory, {}", parent.display()),
                Subject::Disk => "make a disk of it with `quietus create DISK --adopt`".into(),
                Subject::Vault => "make a vault with `quietus vault init`".into(),
            };
            unfit(path, format_args!("{found}, and not the directory of a {noun}; {instead}"))
        }
    }
}

/// What to say where nothing is.
fn missing(wanted: Subject, path: &Path) -> String {
    let noun = wanted.noun();
    let text = path.to_string_lossy();
    if let Some((disk, epoch)) = text.rsplit_once('@').filter(|(disk, _)| wanted.is_at(Path::new(disk))) {
        return format!(
            "no such {noun}; this command takes no epoch: leave out \"@{epoch}\", and name {disk}"
        );
    }
    match meant(wanted, path) {
        Some(name) => format!("no such {noun}; did you mean {}?", path.with_file_name(name).display()),
        None => format!("no such {noun}; check the name, or make one with `{}`", wanted.maker()),
    }
}

/// The name beside `path` that is most like its own, and is that of a `wanted`.
fn meant(wanted: Subject, path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let entries = std::fs::read_dir(parent_of(path)).ok()?.flatten().take(ENTRIES_MAX);
    let all = entries.filter(|entry| wanted.is_at(&entry.path()));
    let near = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let near = near.map(|other| (distance(&name, &other), other));
    let most = (name.chars().count() / 3).clamp(1, 3);
    near.filter(|(distance, _)| *distance <= most).min().map(|(_, other)| other)
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
    use super::distance;

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
}
