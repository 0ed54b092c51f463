//! Which content is sensitive, for people.

use super::waiting::waiting;
use crate::control::{Coverage, Sensitivity, StatusAnswer};
use quietus_detect::options::Sensitive;
use std::fmt::{self, Write};

/// One line for the status.
pub(super) fn summary(sensitivity: &Sensitivity) -> String {
    match sensitivity.mode {
        Sensitive::All => "all content".into(),
        Sensitive::Marked => {
            let places: Vec<_> = sensitivity.places.iter().map(covered).collect();
            format!("marked content (`chattr +s`): {}; `quietus sensitive` says more", places.join("; "))
        }
    }
}

/// The sensitive content in one place of the disk.
fn covered(it: &Coverage) -> String {
    let name = it.file_system.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
    let found = match &it.everything {
        Some(why) => format!("everything, as {why}"),
        None if it.figures.is_empty() => "marks are followed".into(),
        None => {
            let figures: Vec<_> = it.figures.iter().map(|(name, count)| format!("{count} {name}")).collect();
            figures.join(", ")
        }
    };
    format!("{}{name}: {found}", it.place)
}

/// Prints what is marked, what awaits its destruction, what is not covered and why.
pub(super) fn report(out: &mut String, now: &StatusAnswer) -> fmt::Result {
    let Some(sensitivity) = &now.sensitive else {
        return writeln!(
            out,
            "sensitive  all content: {} is not served, and only `quietus serve --sensitive marked` follows marks",
            now.name
        );
    };
    match sensitivity.mode {
        Sensitive::All => {
            writeln!(out, "sensitive  all content; to follow marks: `quietus serve --sensitive marked`")?
        }
        Sensitive::Marked => writeln!(out, "sensitive  content of files marked with `chattr +s`")?,
    }
    for place in &sensitivity.places {
        writeln!(out, "marked     {}", covered(place))?;
    }
    waiting(out, now)?;
    for limit in &sensitivity.limits {
        writeln!(out, "uncovered  {limit}")?;
    }
    Ok(())
}
