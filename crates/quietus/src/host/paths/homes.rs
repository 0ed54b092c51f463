//! Directories of disks and vaults: what a path is instead, and which name was meant.

use super::Kind;
use crate::base::naming;
use crate::host::directory::{DirectoryError, DirectoryErrorKind, parent_of};
use std::fmt;
use std::io;
use std::path::Path;

/// Entries of a directory that are looked at for a name that was meant.
const ENTRIES_MAX: usize = 1000;
/// Longest marker that is read.
const MARKER_BYTES_MAX: u64 = 1 << 20;

/// Kinds of things that have a directory of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Subject {
    Disk,
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
        f.write_str(match self {
            Self::Disk => "disk",
            Self::Vault => "vault",
        })
    }
}

/// The file that marks a directory as a disk or a vault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) subject: Subject,
    /// Why its marker cannot be read, if that is known.
    pub(crate) fault: Option<String>,
}

impl Found {
    /// The kind of thing at `path`. Nothing is opened.
    ///
    /// # Errors
    /// The host does not let this user look into the directory.
    pub(crate) fn at(path: &Path) -> io::Result<Option<Self>> {
        for subject in Subject::ALL {
            let marker = path.join(subject.marker());
            let has = |name: &&str| path.join(name).symlink_metadata().is_ok();
            let fault = match Kind::of(&marker)? {
                Kind::File if std::fs::metadata(&marker).is_ok_and(|it| it.len() <= MARKER_BYTES_MAX) => None,
                Kind::File => Some(format!("{} has more than {MARKER_BYTES_MAX} bytes", subject.marker())),
                Kind::Nothing if subject.others().iter().all(has) => {
                    Some(format!("{} is missing; restore it from a backup", subject.marker()))
                }
                Kind::Nothing => continue,
                other => Some(format!("{} is {other}; restore it from a backup", subject.marker())),
            };
            return Ok(Some(Self { subject, fault }));
        }
        Ok(None)
    }
}

/// The error for `path`, which is to be the directory of a `wanted` and lacks the file that marks one.
pub(crate) fn absent(wanted: Subject, path: &Path) -> DirectoryError {
    if let Some(other) = Subject::ALL.into_iter().find(|it| *it != wanted && it.is_at(path)) {
        return unfit!(path, "a {other}, and not a {wanted}; {}", other.commands());
    }
    match Kind::of(path).unwrap_or(Kind::Nothing) {
        Kind::Directory if wanted.others().iter().any(|it| path.join(it).exists()) => {
            DirectoryErrorKind::Missing(wanted.marker()).at(path)
        }
        Kind::Directory => unfit!(
            path,
            "a directory, and not a {wanted}: it has no {}; make one with `{}`",
            wanted.marker(),
            wanted.maker()
        ),
        Kind::Nothing | Kind::DanglingLink => unfit!(path, "{}", missing(wanted, path)),
        found => {
            let parent = parent_of(path);
            let instead = match wanted {
                _ if wanted.is_at(parent) => format!("name its directory, {}", parent.display()),
                Subject::Disk => "make a disk of it with `quietus create DISK --adopt`".into(),
                Subject::Vault => "make a vault with `quietus vault init`".into(),
            };
            unfit!(path, "{found}, and not the directory of a {wanted}; {instead}")
        }
    }
}

/// The error for a path where nothing is.
fn missing(wanted: Subject, path: &Path) -> String {
    let text = path.to_string_lossy();
    if let Some((disk, epoch)) = text.rsplit_once('@').filter(|(disk, _)| wanted.is_at(Path::new(disk))) {
        return format!(
            "no such {wanted}; this command takes no epoch: leave out \"@{epoch}\", and name {disk}"
        );
    }
    match meant(wanted, path) {
        Some(name) => format!("no such {wanted}; did you mean {}?", path.with_file_name(name).display()),
        None => format!("no such {wanted}; check the name, or make one with `{}`", wanted.maker()),
    }
}

/// The name beside `path` that is most like its own, and is that of a `wanted`.
fn meant(wanted: Subject, path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let entries = std::fs::read_dir(parent_of(path)).ok()?.flatten().take(ENTRIES_MAX);
    let all = entries.filter(|entry| wanted.is_at(&entry.path()));
    naming::meant(&name, all.map(|entry| entry.file_name().to_string_lossy().into_owned()))
}
