//! Which content of a disk is sensitive: how far marks are followed, and what counts as sensitive as a whole.

use crate::epochs::{self, Listed};
use crate::open_disk::OpenDisk;
use quietus_core::base::named::{Named, pairs};
use quietus_core::watch::WatchStatus;
use quietus_detect::rules::options::Sensitive;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Words in the names of the watcher's figures that are about marks.
const FIGURES: [&str; 3] = ["marked", "sensitive", "unsettled"];
/// Content that nothing below a file system can destroy, wherever marks are followed.
const LIMITS: [&str; 3] = [
    "names of deleted files in live folders: below the ext2 driver they stay until another name takes their place",
    "values of extended attributes that were taken out of an inode that is live",
    "copies of content from before its mark was set, where no metadata names them any more",
];
/// The same on a disk that keeps versions.
const LIMIT_OF_VERSIONS: &str = "epochs that are kept show what they showed, marked or not, until they are forgotten: see `quietus versions`";

/// Which content of a disk is sensitive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Sensitivity {
    /// The choice at `quietus serve --sensitive`.
    pub mode: Sensitive,
    /// Each place of the disk, and whether marks are followed there; empty unless the mode is `marked`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<Coverage>,
    /// The limits of marks, a sentence each; empty unless marks are followed somewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
    /// The kept epochs that still show content which has died since and was not plain, or may: after a crash of the server, all
    /// that had closed before. The first ones; empty unless the mode is `marked` and the disk keeps versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub epochs: Vec<ShowingDead>,
}

/// A kept epoch that still shows content which was not plain and has died since, or may.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShowingDead {
    /// The epoch.
    #[serde(flatten)]
    pub epoch: Listed,
    /// The name of the epoch, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Whether marks are followed in a place of the disk.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// `the disk`, or a partition: `partition 2`.
    pub place: String,
    /// The file system, if one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<String>,
    /// Why all content there is sensitive; `None` if marks are followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub everything: Option<String>,
    /// Figures about marks, by name: blocks, unless the name says otherwise.
    #[serde(with = "pairs")]
    #[schemars(with = "Vec<Named<u64>>")]
    pub figures: Vec<(String, u64)>,
}

impl OpenDisk {
    /// Which content is sensitive; `None` while the disk is not served, since no watcher follows marks.
    pub(crate) fn sensitivity(&self) -> Option<Sensitivity> {
        let status = self.served.then(|| self.engine.status())?;
        let sensitivity = Sensitivity::of(self.sensitive, status.watch.as_ref(), self.keeps_epochs());
        Some(Sensitivity { epochs: self.epochs_showing_dead(), ..sensitivity })
    }

    /// See [`Sensitivity::epochs`].
    fn epochs_showing_dead(&self) -> Vec<ShowingDead> {
        if self.sensitive == Sensitive::All || !self.keeps_epochs() {
            return Vec::new();
        }
        // A disk that cannot answer says why in its status.
        let found = epochs::showing_dead(&self.engine).unwrap_or_default();
        let mut names = self.names.by_epoch();
        found.into_iter().map(|it| ShowingDead { name: names.remove(&it.epoch), epoch: it }).collect()
    }
}

impl Sensitivity {
    /// The sensitivity below a watcher of this status, if there is one.
    fn of(mode: Sensitive, watch: Option<&WatchStatus>, keeps_epochs: bool) -> Self {
        if mode == Sensitive::All {
            return Self { mode, places: Vec::new(), limits: Vec::new(), epochs: Vec::new() };
        }
        let places = match watch {
            None => vec![Coverage::nowhere("detection is off")],
            Some(watch) if watch.parts.is_empty() => vec![Coverage::of("the disk".into(), watch)],
            Some(watch) => {
                let parts = watch.parts.iter();
                parts.map(|it| Coverage::of(format!("partition {}", it.number), &it.watch)).collect()
            }
        };
        let follows = places.iter().any(|it| it.everything.is_none());
        let limits = LIMITS.into_iter().chain(Some(LIMIT_OF_VERSIONS).filter(|_| keeps_epochs));
        let limits = limits.filter(|_| follows).map(String::from).collect();
        Self { mode, places, limits, epochs: Vec::new() }
    }
}

impl Coverage {
    /// All of a disk without a watcher, and why.
    fn nowhere(why: &str) -> Self {
        let everything = Some(why.to_string());
        Self { place: "the disk".into(), file_system: None, everything, figures: Vec::new() }
    }

    fn of(place: String, watch: &WatchStatus) -> Self {
        let file_system = watch.file_system.clone();
        let everything = match (&file_system, watch.progress) {
            (None, _) => Some(format!("no file system is known: {}", watch.state)),
            (Some(_), Some(_)) => Some("the file system is still being searched".into()),
            (Some(_), None) => watch.all_sensitive.clone(),
        };
        let is_about_marks = |name: &str| FIGURES.iter().any(|word| name.contains(word));
        let figures = watch.figures.iter().filter(|(name, _)| is_about_marks(name)).cloned().collect();
        Self { place, file_system, everything, figures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quietus_core::watch::PartStatus;

    fn watch(name: Option<&str>, figures: &[(&str, u64)]) -> WatchStatus {
        let figures = figures.iter().map(|(name, count)| ((*name).to_string(), *count)).collect();
        let state = "a state".into();
        WatchStatus { file_system: name.map(String::from), state, figures, ..WatchStatus::default() }
    }

    #[test]
    fn where_all_is_sensitive_nothing_is_said_of_marks() {
        let found = Sensitivity::of(Sensitive::All, Some(&watch(Some("ext4"), &[("marked", 7)])), false);
        assert!(found.places.is_empty() && found.limits.is_empty());
    }

    #[test]
    fn marks_are_followed_below_ext_and_elsewhere_everything_is_sensitive() {
        let part = |number, watch| PartStatus { number, start_bytes: 0, len_bytes: 4096, watch };
        let parts = vec![
            part(1, watch(Some("ext3"), &[("live", 3), ("marked inodes", 2), ("unsettled", 1)])),
            part(
                2,
                WatchStatus { all_sensitive: Some("ntfs has no marks".into()), ..watch(Some("ntfs"), &[]) },
            ),
            part(3, watch(None, &[])),
            part(4, WatchStatus { progress: Some((1, 2)), ..watch(Some("ext4"), &[]) }),
        ];
        let found =
            Sensitivity::of(Sensitive::Marked, Some(&WatchStatus { parts, ..watch(None, &[]) }), false);
        let why: Vec<_> = found.places.iter().map(|it| it.everything.as_deref().unwrap_or("")).collect();
        let [followed, ntfs, unknown, searched] = why[..] else { panic!("{why:?}") };
        assert_eq!(followed, "");
        assert_eq!(ntfs, "ntfs has no marks");
        assert!(unknown.starts_with("no file system is known") && searched.contains("searched"));
        let figures = [("marked inodes".to_string(), 2), ("unsettled".to_string(), 1)];
        assert_eq!(found.places[0].figures, figures);
        assert_eq!(found.limits.len(), LIMITS.len());
    }

    #[test]
    fn what_epochs_show_is_not_covered_and_without_detection_nothing_is_a_mark() {
        let ext4 = watch(Some("ext4"), &[]);
        let found = Sensitivity::of(Sensitive::Marked, Some(&ext4), true);
        assert!(found.limits.last().is_some_and(|it| it.contains("quietus versions")));
        let found = Sensitivity::of(Sensitive::Marked, None, false);
        assert_eq!(found.places[0].everything.as_deref(), Some("detection is off"));
        assert!(found.limits.is_empty());
    }
}
