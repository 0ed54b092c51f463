//! The guarantees of a whole disk: overwriting must reach each of its parts that may hold content.

use super::{Finding, Guarantees, Level, Severity, inspect_or_doubt, name_of};
use serde::{Deserialize, Serialize};
use std::cmp::{Ordering, Reverse};
use std::fmt;
use std::path::Path;

/// A part of a disk that may hold content.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The medium, which holds content all of the time.
    Medium,
    /// The journal, which holds content in flight, as during a conservative overwrite.
    Journal,
}

/// The effect of overwriting on a whole disk.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DiskGuarantees {
    /// Level of the weaker part.
    pub level: Level,
    /// The weaker part; none if both are alike.
    pub weaker: Option<Part>,
    /// Guarantees of the medium.
    pub medium: Guarantees,
    /// Guarantees of the journal.
    pub journal: Guarantees,
}

/// Finds out what this host guarantees for a disk with these files. A file that cannot be examined
/// is a finding.
#[must_use]
pub fn inspect_disk(medium: &Path, journal: &Path) -> DiskGuarantees {
    DiskGuarantees::of(inspect_or_doubt(medium), inspect_or_doubt(journal))
}

impl DiskGuarantees {
    /// The guarantees of both parts together.
    #[must_use]
    pub fn of(medium: Guarantees, journal: Guarantees) -> Self {
        let weaker = match medium.level.cmp(&journal.level) {
            Ordering::Equal => None,
            Ordering::Greater => Some(Part::Medium),
            Ordering::Less => Some(Part::Journal),
        };
        Self { level: Guarantees::level_of_all([&medium, &journal]), weaker, medium, journal }
    }

    /// The findings of both parts that weaken a guarantee, the worst first, each with its part.
    #[must_use]
    pub fn doubts(&self) -> Vec<String> {
        let doubts = self.findings().into_iter().filter(|(severity, _)| *severity > Severity::Note);
        doubts.map(|(_, line)| line).collect()
    }

    /// The findings of both parts, the worst first, each with its part.
    fn findings(&self) -> Vec<(Severity, String)> {
        let common = |one: &&Finding| self.journal.findings.iter().any(|other| self.are_same(one, other));
        let (both, medium): (Vec<_>, Vec<_>) = self.medium.findings.iter().partition(common);
        let journal = self.journal.findings.iter();
        let journal = journal.filter(|other| !both.iter().any(|one| self.are_same(one, other)));
        let lines = both.iter().map(|finding| (finding.severity, format!("medium, journal: {finding}")));
        let lines = lines.chain(medium.iter().map(|it| (it.severity, format!("medium: {it}"))));
        let mut lines: Vec<_> =
            lines.chain(journal.map(|it| (it.severity, format!("journal: {it}")))).collect();
        lines.sort_by_key(|(severity, _)| Reverse(*severity));
        lines
    }

    /// Whether the medium and the journal have the same finding.
    fn are_same(&self, of_medium: &Finding, of_journal: &Finding) -> bool {
        let own = |all: &Guarantees, at: &str| at == name_of(&all.facts.path);
        let same_place = of_medium.at == of_journal.at
            || (own(&self.medium, &of_medium.at) && own(&self.journal, &of_journal.at));
        same_place && of_medium.code == of_journal.code && of_medium.what == of_journal.what
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Medium => "medium",
            Self::Journal => "journal",
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
