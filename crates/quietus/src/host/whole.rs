//! The guarantees of a whole disk: overwriting must reach each of its parts that may hold content.

use super::{Finding, Guarantees, Level, Severity, inspect_or_doubt, name_of};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// A part of a disk that may hold content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The medium, which holds content all of the time.
    Medium,
    /// The journal, which holds content in flight, as during a conservative overwrite.
    Journal,
    /// The stubs of versions, without which their content is lost.
    Stubs,
    /// The root: the keys above the stubs.
    Root,
}

/// The effect of overwriting on a whole disk.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DiskGuarantees {
    /// Level of the weakest part.
    pub level: Level,
    /// The weakest part; none if all are alike.
    pub weaker: Option<Part>,
    /// Guarantees of each part.
    #[serde(flatten)]
    pub parts: BTreeMap<Part, Guarantees>,
}

/// Finds out what this host guarantees for a disk with these files. A file that cannot be examined
/// is a finding.
#[must_use]
pub fn inspect_disk(parts: impl IntoIterator<Item = (Part, PathBuf)>) -> DiskGuarantees {
    DiskGuarantees::of(parts.into_iter().map(|(part, path)| (part, inspect_or_doubt(&path))))
}

impl DiskGuarantees {
    /// The guarantees of all parts together.
    #[must_use]
    pub fn of(parts: impl IntoIterator<Item = (Part, Guarantees)>) -> Self {
        let parts: BTreeMap<_, _> = parts.into_iter().collect();
        let level = Guarantees::level_of_all(parts.values());
        let is_weak = |it: &Guarantees| it.level == level;
        let differ = !parts.values().all(is_weak);
        let weaker = parts.iter().find(|(_, it)| differ && is_weak(it)).map(|(part, _)| *part);
        Self { level, weaker, parts }
    }

    /// The findings of all parts that weaken a guarantee, the worst first, each with its part.
    #[must_use]
    pub fn doubts(&self) -> Vec<String> {
        let doubts = self.findings().into_iter().filter(|(severity, _)| *severity > Severity::Note);
        doubts.map(|(_, line)| line).collect()
    }

    /// The findings of all parts, the worst first, each with the parts that have it: those that more parts
    /// have come before those of one.
    fn findings(&self) -> Vec<(Severity, String)> {
        let mut found: Vec<(Vec<Part>, &Guarantees, &Finding)> = Vec::new();
        for (part, it) in &self.parts {
            for finding in &it.findings {
                let known = found.iter().position(|(parts, other, known)| {
                    !parts.contains(part) && are_same((other, known), (it, finding))
                });
                match known {
                    Some(known) => found[known].0.push(*part),
                    None => found.push((vec![*part], it, finding)),
                }
            }
        }
        found.sort_by_key(|(parts, _, finding)| (Reverse(finding.severity), Reverse(parts.len())));
        let names = |parts: &[Part]| parts.iter().map(Part::to_string).collect::<Vec<_>>().join(", ");
        found.iter().map(|(parts, _, it)| (it.severity, format!("{}: {it}", names(parts)))).collect()
    }
}

/// Whether two parts have the same finding.
fn are_same((of, one): (&Guarantees, &Finding), (of_other, other): (&Guarantees, &Finding)) -> bool {
    let own = |all: &Guarantees, at: &str| at == name_of(&all.facts.path);
    let same_place = one.at == other.at || (own(of, &one.at) && own(of_other, &other.at));
    same_place && one.code == other.code && one.what == other.what
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Medium => "medium",
            Self::Journal => "journal",
            Self::Stubs => "stubs",
            Self::Root => "root",
        })
    }
}

impl fmt::Display for DiskGuarantees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.level)?;
        if let Some(part) = self.weaker {
            write!(f, "; the weaker part is the {part}")?;
        }
        self.findings().iter().try_for_each(|(_, line)| write!(f, "\n- {line}"))
    }
}
