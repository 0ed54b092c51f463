//! The guarantees of a whole disk: overwriting must reach each of its parts that may hold content.

use super::judge::level;
use super::{Code, Finding, Guarantees, Layer, Level, Severity, inspect_or_doubt, name_of};
use crate::base::locked;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// A part of a disk that lies in a file or on a device of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The medium of content.
    Medium,
    /// The journal.
    Journal,
    /// The map of an overlay, the index of versions, or the key tree of a sealed disk.
    Map,
    /// The stubs of versions, without which their content is lost.
    Stubs,
    /// The root: the keys above the stubs, or above the keys of blocks.
    Root,
}

/// What a part of a disk holds, and so whether it has to be overwritten when content dies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Holds {
    /// Content, all of the time.
    Content,
    /// Content in flight, as during a conservative overwrite.
    ContentInFlight,
    /// Keys, with which sealed content dies.
    Keys,
    /// Content in its place, each block under a key that lasts until the block dies: lost with the keys.
    Ciphertext,
    /// Sealed content, and what hides it: lost with the keys.
    Sealed,
    /// Addresses and times.
    Addresses,
    /// Nothing that tells of content.
    Nothing,
}

impl Holds {
    /// Whether deletion is no better than overwriting is there.
    #[must_use]
    pub fn decides(self) -> bool {
        match self {
            Self::Content | Self::ContentInFlight | Self::Keys => true,
            Self::Ciphertext | Self::Sealed | Self::Addresses | Self::Nothing => false,
        }
    }
}

/// A part: what it holds, and the effect of overwriting there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PartFound {
    /// What the part holds.
    pub holds: Holds,
    /// The effect of overwriting.
    #[serde(flatten)]
    pub found: Guarantees,
}

/// The effect of overwriting on a whole disk.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DiskGuarantees {
    /// Level of the weakest part among those that decide.
    pub level: Level,
    /// The weakest part; `None` if all that decide are alike.
    pub weaker: Option<Part>,
    /// The grade of each part.
    #[serde(flatten)]
    pub parts: BTreeMap<Part, PartFound>,
}

/// Finds out what this host guarantees for something with these files. A file that cannot be examined
/// is a finding.
#[must_use]
pub fn inspect_disk(parts: impl IntoIterator<Item = (Part, Holds, PathBuf)>) -> DiskGuarantees {
    let parts = parts.into_iter().map(|(part, holds, path)| {
        let mut found = inspect_or_doubt(&path);
        if holds == Holds::Keys && locked::is_locked() == Some(false) {
            found.add_unlocked();
        }
        (part, holds, found)
    });
    DiskGuarantees::of(parts)
}

impl Guarantees {
    /// Adds the finding that the keys, which are destroyed here, are in memory that may be swapped out, too.
    fn add_unlocked(&mut self) {
        let is_known = |it: &Finding| it.code == Code::MemorySwapped;
        if !self.findings.iter().any(is_known) {
            let what = "the host does not let the server lock its keys in memory".into();
            self.findings.push(Code::MemorySwapped.found("memory of the server", what));
            self.level = level(&self.findings);
        }
    }
}

impl DiskGuarantees {
    /// The finding on a root in the memory of the server; `None` if the root lasts.
    #[must_use]
    pub fn root_in_memory(&self) -> Option<&Finding> {
        let root = self.parts.get(&Part::Root)?;
        root.found.findings.iter().find(|it| it.at == super::root::MEMORY)
    }

    /// The guarantees of all parts together.
    #[must_use]
    pub fn of(parts: impl IntoIterator<Item = (Part, Holds, Guarantees)>) -> Self {
        let parts = parts.into_iter().map(|(part, holds, found)| (part, PartFound { holds, found }));
        let mut all = Self { level: Level::NotAssured, weaker: None, parts: parts.collect() };
        let level = all.deciding().map(|(_, it)| it.level).max().unwrap_or(Level::NotAssured);
        let is_weak = |it: &Guarantees| it.level == level;
        let differ = !all.deciding().all(|(_, it)| is_weak(it));
        let weaker = all.deciding().find(|(_, it)| differ && is_weak(it)).map(|(part, _)| part);
        (all.level, all.weaker) = (level, weaker);
        all
    }

    /// The parts that have to be overwritten when content dies.
    fn deciding(&self) -> impl Iterator<Item = (Part, &Guarantees)> {
        let deciding = self.parts.iter().filter(|(_, it)| it.holds.decides());
        deciding.map(|(part, it)| (*part, &it.found))
    }

    /// Whether content dies with keys of a few bytes, so that all else may lie anywhere.
    #[must_use]
    pub fn dies_with_keys(&self) -> bool {
        self.parts.values().any(|it| it.holds == Holds::Keys)
    }

    /// A limit of deletion that no medium has: what can be read of content that was overwritten and is not dead.
    #[must_use]
    pub fn while_live(&self) -> Option<&'static str> {
        let lies_under_keys = self.parts.values().any(|it| it.holds == Holds::Ciphertext);
        lies_under_keys.then_some(
            "overwritten content can be read until its block dies: an older copy that the medium keeps opens under the block's present key",
        )
    }

    /// Whether the root, which overwriting does not reach for certain, lies on the device that holds the content.
    #[must_use]
    pub fn root_lies_beside_content(&self) -> bool {
        let device = |part: Part| {
            self.parts.get(&part)?.found.facts.layers.iter().rev().find_map(|layer| match layer {
                Layer::Device(device) => Some(&*device.name),
                Layer::File(_) => None,
            })
        };
        let root = device(Part::Root).filter(|_| self.level != Level::Clear);
        root.is_some() && root == device(Part::Medium)
    }

    /// What keeps overwriting from reaching every copy, as a noun; `None` if nothing does.
    #[must_use]
    pub fn limit(&self) -> Option<&'static str> {
        let worst = self.deciding().flat_map(|(_, it)| &it.findings).max_by_key(|it| it.severity);
        match self.level {
            Level::Clear => None,
            _ => Some(worst.map_or("storage", Finding::limit)),
        }
    }

    /// The layout of a disk that assures deletion on such a host, if this one does not.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self.level {
            Level::Clear => None,
            _ if self.dies_with_keys() => Some(
                "deletion is assured with --root PATH on a medium that overwrites in place, such as a magnetic disk",
            ),
            _ => Some(
                "deletion is assured with `create --store sealed --root PATH`, or `--store versions` to keep the past too, PATH on a \
                 medium that overwrites in place, such as a magnetic disk; the rest may stay here",
            ),
        }
    }

    /// The findings of all parts that weaken a guarantee, the worst first, each with its part.
    #[must_use]
    pub fn doubts(&self) -> Vec<String> {
        let doubts = self.findings().into_iter().filter(|(severity, _)| *severity > Severity::Note);
        doubts.map(|(_, line)| line).collect()
    }

    /// The findings of all parts that decide, the worst first, each with the parts that have it: those that more parts
    /// have come before the parts of one.
    fn findings(&self) -> Vec<(Severity, String)> {
        let mut found: Vec<(Vec<Part>, &Guarantees, &Finding)> = Vec::new();
        for (part, it) in self.deciding() {
            for finding in &it.findings {
                let known = found.iter().position(|(parts, other, known)| {
                    !parts.contains(&part) && are_same((other, known), (it, finding))
                });
                match known {
                    Some(known) => found[known].0.push(part),
                    None => found.push((vec![part], it, finding)),
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
            Self::Map => "map",
            Self::Stubs => "stubs",
            Self::Root => "root",
        })
    }
}

impl fmt::Display for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Content => "content",
            Self::ContentInFlight => "content in flight",
            Self::Keys => "keys that content dies with",
            Self::Ciphertext => "ciphertext, lost with the key of its block",
            Self::Sealed => "sealed, lost with the keys",
            Self::Addresses => "addresses, no content",
            Self::Nothing => "no content",
        })
    }
}

impl fmt::Display for DiskGuarantees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.level)?;
        if let Some(part) = self.weaker {
            write!(f, "; the weaker part is the {part}")?;
        }
        for (part, PartFound { holds, found }) in &self.parts {
            let grade = if holds.decides() { found.level.to_string() } else { "may lie anywhere".into() };
            write!(f, "\n- {part} ({holds}): {grade}")?;
        }
        self.findings().iter().try_for_each(|(_, line)| write!(f, "\n- {line}"))?;
        self.while_live().map_or(Ok(()), |limit| write!(f, "\n- {limit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::guarantees::Facts;

    #[test]
    fn keys_in_memory_that_is_not_locked_are_a_doubt_that_is_told_once() {
        let mut found = Guarantees { level: Level::Clear, findings: Vec::new(), facts: Facts::default() };
        found.add_unlocked();
        found.add_unlocked();
        assert_eq!((found.level, found.findings.len()), (Level::NotAssured, 1));
        assert!(found.findings[0].to_string().contains("lock its keys in memory"));
    }
}
